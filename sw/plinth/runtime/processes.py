"""Several processes of one machine that share the dies of a golden array, joined by pipes.

With a function of a module that makes an executor of the dies that its process owns::

    def work(transport: Transport, program: Program) -> Parameters:
        array = golden_array(program.parameters, program.dies, WORDS, transport)
        executor = Driver(array, program, memory_words=WORDS)
        ...

    results = run_processes(split_dies(program.dies, 3), work, program)
"""

import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from plinth.driver.driver import RemoteDieError
from plinth.errors import UserError, cause
from plinth.runtime.transports import Left, ProcessTransport, QueueTransport
from plinth_hw.terminal.program import INTERRUPTED, MENDABLE, end_with_parent
from plinth_sim.golden.transport import PeerLostError


def split_dies(dies: int, processes: int) -> list[range]:
    """The dies of each process: neighbours, shared as evenly as they can be.

    Raises
    ------
    UserError
        If there are fewer dies than processes, or no process.
    """
    if not 1 <= processes <= dies:
        raise UserError(f"{processes} processes cannot share {dies} dies; start 1 to {dies}" if dies > 1 else
                        f"{processes} processes cannot share 1 die; start 1")
    return [range(dies * number // processes, dies * (number + 1) // processes) for number in range(processes)]


class _Ended(NamedTuple):
    """How the work of a process has ended: with a value, or an error, of its own or heard of."""

    value: Any
    error: str | None = None
    notes: Sequence[str] = ()
    remote: bool = False


def run_processes(processes: Sequence[Sequence[int]], work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """``work(transport, *arguments)`` in a process for each of ``processes``; what it returns in each.

    Work, arguments and results are pickled: a function or an object of a module. A script calls this behind
    ``if __name__ == "__main__"``, for each process imports it. No process outlives the call.

    Raises
    ------
    UserError
        If one of them ends without a result: which process, and what its error was, of whatever kind.
    """
    try:
        task = bytes(ForkingPickler.dumps((work, arguments)))
    except Exception as error:
        raise UserError(f"work for processes cannot be pickled: {cause(error)}; give a function of a module, and "
                        "arguments that can be pickled") from error
    context = get_context("spawn")
    pipes: list[dict[int, Connection]] = [{} for _ in processes]
    for first in range(len(processes)):
        for second in range(first):
            pipes[first][second], pipes[second][first] = context.Pipe()
    running: list[tuple[BaseProcess, Connection]] = []
    try:
        for own in range(len(processes)):
            ours, theirs = context.Pipe(duplex=False)
            process: BaseProcess = context.Process(target=_process, args=(processes, own, pipes[own], theirs, task))
            process.start()
            running.append((process, ours))
            theirs.close()
        # Who holds an end open would keep the others from seeing that it is closed.
        for connection in (connection for ends in pipes for connection in ends.values()):
            connection.close()
        ended = [_await(process, connection) for process, connection in running]
    finally:
        for started, _ in running:
            started.terminate()
            started.join()
    errors = sorted((end.remote, number) for number, end in enumerate(ended) if end.error is not None)
    if errors:
        _, number = errors[0]
        raise UserError(f"process {number} (dies {', '.join(map(str, processes[number]))}): {ended[number].error}",
                        ended[number].notes)
    return [end.value for end in ended]


def _await(process: BaseProcess, connection: Connection) -> _Ended:
    try:
        ended: _Ended = connection.recv()
    except EOFError:
        process.join()
        return _Ended(None, f"ended without a result, with exit code {process.exitcode}")
    except Exception as error:
        ended = _Ended(None, f"its result cannot be read: {cause(error)}")
    process.join()
    return ended


def _process(processes: Sequence[Sequence[int]], own: int, pipes: dict[int, Connection], result: Connection,
             task: bytes) -> None:
    """What a process does."""
    end_with_parent()
    transport = QueueTransport(processes, own)
    for other, connection in pipes.items():
        transport.carriers[other] = connection.send
        threading.Thread(target=_carry, args=(transport, other, connection), daemon=True).start()
    try:
        result.send(_Ended(_worked(transport, task)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        result.send(_Ended(None, cause(error), tuple(getattr(error, "__notes__", ())),
                           isinstance(error, RemoteDieError | PeerLostError)))
        sys.exit(MENDABLE)


def _worked(transport: ProcessTransport, task: bytes) -> Any:
    with transport:
        work, arguments = ForkingPickler.loads(task)
        return work(transport, *arguments)


def _carry(transport: QueueTransport, process: int, connection: Connection) -> None:
    """Put what comes over a pipe into the queue until it ends, or what comes cannot be read."""
    try:
        while True:
            transport.letters.put((process, connection.recv()))
    except (EOFError, OSError):
        transport.letters.put((process, Left("")))
    except Exception as error:
        transport.letters.put((process, Left(f"a message of it cannot be read: {cause(error)}")))
