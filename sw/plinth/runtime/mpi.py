"""Processes that MPI has started, its *ranks*, share the dies of a golden array: a transport between them.

MPI carries letters, starts the ranks, and ends them all if one dies. A thread of each rank does its traffic, so that
letters go and come while the host computes::

    host thread            thread of the rank                     other ranks
    send    --> outbox --> isend, the request kept until done --> improbe, receive --> letters --> receive

``mpi4py`` is the extra ``mpi``; nothing of it is loaded before :func:`world` is called.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from plinth.errors import UserError, cause, one_line
from plinth.runtime.launcher import STANDARD_ERROR, await_reader, launched, who
from plinth.runtime.transports import Left, Letter, QueueTransport
from plinth_hw.installation import install

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

#: Seconds without traffic after which a rank's thread sleeps between two looks, and for how long it does.
BUSY_SECONDS, NAP_SECONDS = 2e-3, 1e-4
#: And of one between whose ranks letters are rare.
IDLE_SECONDS = 2e-2
#: Seconds for which a rank that has left waits for the others to leave before it ends them all.
LEAVE_SECONDS = 30.0
#: Seconds for which a rank that is ready to train waits for the others to be.
START_SECONDS = 300.0
#: Exit code of ranks that are ended so.
ABORTED = 2


class World(NamedTuple):
    """The ranks of a run: their communicator, how many they are, and the number of this one."""

    communicator: Any
    size: int
    rank: int


def world() -> World:
    """All ranks that ``mpiexec`` has started together; a process that it has not started is a world of one rank.

    Raises
    ------
    UserError
        If there is no ``mpi4py``, or no MPI library that it can load, MPI cannot be called from several threads, or
        another MPI's launcher has started this process beside others, which it does not know of.
    """
    try:
        from mpi4py import MPI
    except ModuleNotFoundError as error:
        raise UserError(f"{who()}processes over MPI need mpi4py, for this machine's MPI or with one of its own: "
                        f"{install('mpi')}") from error
    except (ImportError, RuntimeError) as error:
        # Of an ABI that it has no module for, too, or whose library is not here.
        raise UserError(f"{who()}mpi4py finds no MPI library that it can load: {cause(error)}; load that of this "
                        f"machine, or take one from the registry: {install('mpi')}") from error
    name = _library()
    check_threads()
    size = MPI.COMM_WORLD.Get_size()
    for variable, processes in launched().items() if size == 1 else ():
        raise UserError(f"one of {processes} processes ({variable}), but mpi4py's MPI ({name}) knows of no other; "
                        "start them with the launcher of that MPI, which `plinth doctor` shows, or give mpi4py "
                        "the MPI of this launcher")
    return World(MPI.COMM_WORLD, size, MPI.COMM_WORLD.Get_rank())


def check_threads() -> None:
    """Refuse an MPI that was not started for calls from several threads.

    Raises
    ------
    UserError
    """
    from mpi4py import MPI

    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise UserError(f"this MPI ({_library()}) cannot be called from several threads; take one that offers "
                        "MPI_THREAD_MULTIPLE, and leave mpi4py.rc as it is")


def _library() -> str:
    """Name and version of the MPI library, on one line."""
    from mpi4py.MPI import Get_library_version

    return " ".join(Get_library_version().split("\n")[0].split())


def told_by_all(ranks: World, value: Any, patience_seconds: float = START_SECONDS) -> list[Any]:
    """What each rank says, before anything else joins them. One that says nothing for so long is named, and all ranks
    are ended. Collective."""
    told = {ranks.rank: value}
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    requests = [ranks.communicator.isend(value, rank) for rank in others]
    started = time.monotonic()
    while requests or len(told) < ranks.size:
        for rank in others:
            message = ranks.communicator.improbe(rank) if rank not in told else None
            if message is not None:
                told[rank] = message.recv()
        requests = [request for request in requests if not request.Test()]
        if time.monotonic() - started > patience_seconds:
            silent = [rank for rank in others if rank not in told] or others
            end_all(ranks.communicator, ranks.rank, f"{_named(silent)} not come to where training starts "
                    f"{patience_seconds:g} seconds behind this one: all ranks are ended")
        time.sleep(NAP_SECONDS)
    return [told[rank] for rank in range(ranks.size)]


def _named(silent: Sequence[int]) -> str:
    return f"rank {silent[0]} has" if len(silent) == 1 else f"ranks {', '.join(map(str, silent))} have"


def end_late(communicator: Any, own: int, late: Sequence[int], error: BaseException | None, seconds: float) -> None:
    """End all ranks, as some have not left so long behind this one, which has left with an error, if any."""
    end_all(communicator, own, f"{'' if error is None else f'{cause(error)}; '}{_named(late)} not ended "
                               f"{seconds:.0f} seconds behind this one: all ranks are ended")


def neighbours(communicator: Any) -> int:
    """The number of ranks that share this one's machine, itself among them. Collective."""
    from mpi4py.MPI import COMM_TYPE_SHARED

    machine = communicator.Split_type(COMM_TYPE_SHARED)
    count: int = machine.Get_size()
    machine.Free()
    return count


def end_all(communicator: Any, own: int, message: str) -> None:
    """End all ranks, with a line, once the launcher has read it."""
    with suppress(Exception):
        print(f"plinth: error: rank {own}: {one_line(message)}", file=sys.stderr, flush=True)
    await_reader(STANDARD_ERROR)
    communicator.Abort(ABORTED)


class MpiTransport(QueueTransport):
    """One rank's end of a transport. Letters of a rank to another keep their order, as messages of one communicator do.

    Behind the last letter of all ranks the thread ends; a rank that does not leave within :data:`LEAVE_SECONDS` of
    this one is named, and all ranks are ended.

    Attributes
    ----------
    communicator : mpi4py.MPI.Intracomm
        That it was made for.
    endings : dict of int to str or None
        How other ranks have left, behind the ``with`` all of them: in order, or with an error, in one line.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
        Of as many ranks as there are processes. The transport has its own one made of it. Collective.
    processes : sequence of sequences of int
        The dies of each rank.
    nap_seconds : float
        For how long its thread sleeps between two looks when there is nothing to do.
    """

    def __init__(self, communicator: Intracomm, processes: Sequence[Sequence[int]], *,
                 nap_seconds: float = NAP_SECONDS) -> None:
        if communicator.Get_size() != len(processes):
            raise ValueError(f"{len(processes)} processes, but {communicator.Get_size()} ranks")
        super().__init__(processes, communicator.Get_rank())
        from mpi4py.MPI import Status

        self.communicator = communicator
        self._communicator, self._status = communicator.Dup(), Status()
        self._nap_seconds = nap_seconds
        self._outbox: queue.SimpleQueue[tuple[int, Letter]] = queue.SimpleQueue()
        others = [rank for rank in range(len(processes)) if rank != self.own]
        self.carriers = {rank: partial(self._hand_over, rank) for rank in others}
        #: Ranks whose last letter this one has sent; and those whose last letter has come, with what it says.
        self._told: set[int] = set()
        self.endings: dict[int, str | None] = {}
        self._others = frozenset(others)
        self._thread = threading.Thread(target=self._carry, daemon=True, name="mpi")

    def meeting(self) -> Any:
        """A request that is done once all ranks have called this. It is one of the transport's own communicator: a rank
        that never calls it leaves nothing behind in that of the caller."""
        return self._communicator.Ibarrier()

    def _hand_over(self, rank: int, letter: Letter) -> None:
        self._outbox.put((rank, letter))

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        super().__exit__(kind, error, traceback)
        self._thread.join(LEAVE_SECONDS)
        if self._thread.is_alive():
            silent = sorted(self._others - self.endings.keys()) or sorted(self._others)
            end_late(self._communicator, self.own, silent, error, LEAVE_SECONDS)
        self._communicator.Free()

    def _carry(self) -> None:
        """Carry letters until there are none any more. Without its traffic no rank can even be told: all are ended."""
        try:
            self._carry_all()
        except Exception as error:
            end_all(self._communicator, self.own, f"messages between ranks cannot be carried: {cause(error)}")

    def _carry_all(self) -> None:
        """Send and receive until the last letter of every other rank has come, and all of this rank's are gone."""
        requests: list[Any] = []
        quiet = time.monotonic()
        while requests or not self._others <= self._told & self.endings.keys():
            busy = self._send(requests) | self._receive()
            requests[:] = [request for request in requests if not request.Test()]
            if busy:
                quiet = time.monotonic()
            elif time.monotonic() - quiet > BUSY_SECONDS:
                time.sleep(self._nap_seconds)
            else:
                time.sleep(0)

    def _send(self, requests: list[Any]) -> bool:
        """Post all letters of the outbox; whether there was one."""
        busy = False
        while not self._outbox.empty():
            rank, letter = self._outbox.get()
            # The request holds the letter's bytes until they are gone.
            requests.append(self._communicator.isend(letter, rank))
            if isinstance(letter, Left):
                self._told.add(rank)
            busy = True
        return busy

    def _receive(self) -> bool:
        """Take all letters that have come; whether there was one."""
        busy = False
        while (message := self._communicator.improbe()) is not None:
            letter: Letter = message.recv(self._status)
            if isinstance(letter, Left):
                self.endings[self._status.Get_source()] = letter.why
            self.letters.put((self._status.Get_source(), letter))
            busy = True
        return busy
