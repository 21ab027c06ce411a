"""Errors of any kind in one of several processes: one line that names the process and what failed, and all end."""

import os
import re
import signal
import threading
from collections.abc import Callable
from multiprocessing import Pipe, active_children
from typing import Any

import pytest

from plinth.errors import UserError
from plinth.runtime.processes import _carry, run_processes
from plinth.runtime.transports import Left, Letter, QueueTransport
from plinth_sim.golden.transport import PeerLostError, Transport

PROCESSES = ((0, 2), (1,))


def no_samples(transport: Transport) -> None:
    """An error in the code of process 1; the other one waits for a message of it."""
    if transport.own == 1:
        raise KeyError("samples")
    while transport.receive(60):
        pass


def no_memory(transport: Transport) -> None:
    if transport.own == 1:
        raise MemoryError
    while transport.receive(60):
        pass


def noted(transport: Transport) -> None:
    if transport.own == 1:
        raise UserError("net.yaml: two faults; mend them", ["layer 'fc': no outputs"])


def local_result(transport: Transport) -> Callable[[], None]:
    """What this returns cannot be pickled."""
    return lambda: None


def result_of_one(transport: Transport) -> Any:
    return Unreadable() if transport.own == 1 else transport.own


def stopped(transport: Transport) -> None:
    if transport.own == 1:
        # A background job of a shell starts with it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
    while transport.receive(60):
        pass


class Unreadable:
    """What can be written and not be read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _broken, ()


def _broken() -> None:
    raise RuntimeError("no such version")


@pytest.mark.parametrize(("work", "message"), [
    (no_samples, r"process 1 \(dies 1\): KeyError: 'samples' \(test_process_errors\.py, line \d+\)"),
    (no_memory, r"process 1 \(dies 1\): MemoryError \(test_process_errors\.py, line \d+\)"),
    (noted, r"process 1 \(dies 1\): net\.yaml: two faults; mend them"),
    (local_result, r"process 0 \(dies 0, 2\): .*pickle.* \(reduction\.py, line \d+\)"),
    (result_of_one, r"process 1 \(dies 1\): its result cannot be read: RuntimeError: no such version \(.*\)"),
    (stopped, r"process 1 \(dies 1\): ended without a result, with exit code 130")],
    ids=lambda argument: getattr(argument, "__name__", None))
def test_an_error_of_any_kind_ends_in_a_line(work: Callable[[Transport], Any], message: str,
                                             capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is lost on the way, no process lives on, and none says anything itself."""
    with pytest.raises(UserError) as error:
        run_processes(PROCESSES, work)
    assert re.fullmatch(message, str(error.value)), error.value
    assert error.value.notes == (("layer 'fc': no outputs",) if work is noted else ())
    assert capfd.readouterr().err == "" and not active_children()


def test_work_that_cannot_be_handed_over_is_refused() -> None:
    with pytest.raises(UserError, match=r"^work for processes cannot be pickled: .*; give a function of a module"):
        run_processes(PROCESSES, lambda transport: None)
    assert not active_children()


def test_a_message_that_cannot_be_read_says_so() -> None:
    ours, theirs = Pipe()
    transport = QueueTransport(PROCESSES, 0)
    carrying = threading.Thread(target=_carry, args=(transport, 1, ours))
    carrying.start()
    theirs.send(Unreadable())
    carrying.join(60)
    with pytest.raises(PeerLostError, match=r"die 1 lost: .* of it cannot be read: RuntimeError: no such version"):
        transport.receive(60)


def test_others_hear_of_what_kind_an_error_is() -> None:
    transport = QueueTransport(PROCESSES, 0)
    posted: list[Letter] = []
    transport.carriers[1] = posted.append
    with pytest.raises(ZeroDivisionError), transport:
        1 / 0  # noqa: B018
    (left,) = posted
    assert isinstance(left, Left) and left.why is not None
    assert left.why.startswith("ZeroDivisionError: division by zero (test_process_errors.py, line ")
