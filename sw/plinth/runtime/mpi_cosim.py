"""Ranks share the dies of a co-simulated array: their epochs and meetings over MPI.

Ranks run epochs together (:mod:`plinth_sim.rtl.remote_links`): behind each of them a rank swaps a buffer of fixed size
with every other one, by persistent requests, and waits. It does so itself, without a thread for its traffic, so that a
processor has nothing to do but the dies. What is told in meetings, and how a rank has left, are letters of a
communicator of their own, which a rank looks for where a buffer does not come.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from plinth.errors import cause
from plinth.runtime.mpi import LEAVE_SECONDS, World, end_late, neighbours
from plinth.runtime.transports import Left
from plinth_sim.golden.array import PATIENCE_SECONDS
from plinth_sim.golden.transport import PeerLostError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Prequest

    from plinth_sim.rtl.remote_links import Bytes

#: Looks for buffers before a rank gives its processor to others between two of them: some 50 microseconds.
SPIN_LOOKS = 50
#: Seconds of waiting after which a rank sleeps between two looks, and for how long.
BUSY_SECONDS, NAP_SECONDS = 1e-2, 1e-4
#: Seconds between looks for letters while a buffer does not come.
LOOK_SECONDS = 5e-3
#: Seconds for which a rank waits for a buffer of another that has left in order: its last letter may be the faster one.
GRACE_SECONDS = 5.0


def threads_of_rank(ranks: World) -> int | None:
    """Simulation threads of this rank that are not asked for: its share of the processors that it and others of its
    machine may run on; None where ``PLINTH_THREADS`` says it. Collective."""
    count = neighbours(ranks.communicator)
    return None if os.environ.get("PLINTH_THREADS") else max(1, len(os.sched_getaffinity(0)) // count)


class _Told(NamedTuple):
    """A letter: what a rank tells in a meeting."""

    what: Any


class MpiLockstep:
    """One rank's end of what joins co-simulated dies; a context, within which the rank's host code runs.

    A rank that leaves it with an error ends the waits of the others; one that does not leave within
    :data:`~plinth.runtime.mpi.LEAVE_SECONDS` of this one is named, and all ranks are ended.

    Attributes
    ----------
    processes : sequence of sequences of int
        The dies of each rank.
    own : int
        This rank.
    endings : dict of int to str or None
        How other ranks have left, behind the ``with`` all of them: in order, or with an error, in one line.
    patience_seconds : float
        How long this rank waits for another that does not come.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
        Of as many ranks as there are processes. Collective.
    processes : sequence of sequences of int
        The dies of each rank.
    patience_seconds : float
    """

    def __init__(self, communicator: Intracomm, processes: Sequence[Sequence[int]],
                 patience_seconds: float = PATIENCE_SECONDS) -> None:
        if communicator.Get_size() != len(processes):
            raise ValueError(f"{len(processes)} processes, but {communicator.Get_size()} ranks")
        self.processes, self.own = processes, communicator.Get_rank()
        self.patience_seconds = patience_seconds
        self.endings: dict[int, str | None] = {}
        self._buffers, self._letters = communicator.Dup(), communicator.Dup()
        self._others = [rank for rank in range(len(processes)) if rank != self.own]
        self._told: dict[int, deque[Any]] = {rank: deque() for rank in self._others}
        #: Letters on their way.
        self._sent: list[Any] = []
        #: Of all channels.
        self._receives: list[Prequest] = []
        self._sends: list[Prequest] = []

    def channel(self, outgoing: Sequence[Bytes], incoming: Sequence[Bytes]) -> Callable[[], None]:
        """Make what swaps buffers with the other ranks: see :class:`~plinth_sim.rtl.remote_links.Lockstep`."""
        from mpi4py.MPI import BYTE, Prequest, Request

        # Buffers of different channels keep apart.
        tag = len(self._receives)
        receives = [self._buffers.Recv_init([buffer, BYTE], rank, tag)
                    for rank, buffer in zip(self._others, incoming, strict=True)]
        sends = [self._buffers.Send_init([buffer, BYTE], rank, tag)
                 for rank, buffer in zip(self._others, outgoing, strict=True)]
        requests = receives + sends
        self._receives += receives
        self._sends += sends

        def missing() -> list[int]:
            return [rank for rank, request in zip(self._others, receives, strict=True) if not request.Test()]

        def swap() -> None:
            Prequest.Startall(requests)
            self._await(lambda: Request.Testall(requests), missing, self.patience_seconds)

        return swap

    def meet(self, told: Any, patient: bool = False) -> list[Any]:
        """What each rank has told: see :class:`~plinth_sim.rtl.remote_links.Lockstep`."""
        self._post(_Told(told))

        def missing() -> list[int]:
            return [rank for rank in self._others if not self._told[rank]]

        def all_have() -> bool:
            self._look()
            return not missing()

        self._await(all_have, missing, float("inf") if patient else self.patience_seconds)
        return [told if rank == self.own else self._told[rank].popleft() for rank in range(len(self.processes))]

    def _await(self, done: Callable[[], bool], missing: Callable[[], list[int]], patience: float) -> None:
        """Look until it is done; ``missing`` are the ranks that have to do something for it.

        Raises
        ------
        PeerLostError
            If one of these has left.
        TimeoutError
            If none of them comes in time.
        """
        for _ in range(SPIN_LOOKS):
            if done():
                return
        start, next_look = time.monotonic(), 0.0
        while not done():
            waited = time.monotonic() - start
            if waited > BUSY_SECONDS:
                time.sleep(NAP_SECONDS)
            else:
                os.sched_yield()
            if waited < next_look:
                continue
            next_look = waited + LOOK_SECONDS
            self._look()
            gone = [rank for rank in missing() if rank in self.endings] if self.endings else []
            lost = [rank for rank in gone if self.endings[rank] is not None or waited > GRACE_SECONDS]
            if lost:
                raise self._lost(lost)
            if waited > patience:
                numbers = ", ".join(str(die) for rank in missing() for die in self.processes[rank])
                raise TimeoutError(f"dies {numbers} did not come to where all processes meet within {patience:g} s")

    def _lost(self, ranks: Sequence[int]) -> PeerLostError:
        reasons = [why for rank in ranks if (why := self.endings[rank])]
        return PeerLostError((die for rank in ranks for die in self.processes[rank]), *reasons[:1])

    def _post(self, letter: _Told | Left) -> None:
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent += [self._letters.isend(letter, rank) for rank in self._others]

    def _look(self) -> None:
        """Take the letters that have come."""
        from mpi4py.MPI import Status

        status = Status()
        while (message := self._letters.improbe(status=status)) is not None:
            rank, letter = status.Get_source(), message.recv()
            if isinstance(letter, Left):
                self.endings[rank] = letter.why
            else:
                self._told[rank].append(letter.what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Leave: the others are told how, and have half a minute to leave as well."""
        self._post(Left(None if error is None else cause(error)))
        until = time.monotonic() + LEAVE_SECONDS
        while True:
            self._look()
            self._sent = [request for request in self._sent if not request.Test()]
            silent = [rank for rank in self._others if rank not in self.endings]
            if not silent and not self._sent:
                break
            if time.monotonic() > until:
                end_late(self._letters, self.own, silent or self._others, error, LEAVE_SECONDS)
            time.sleep(NAP_SECONDS)
        self._free()

    def _free(self) -> None:
        """Give back the requests, of which some may wait for what does not come any more."""
        for request in self._receives:
            if not request.Test():
                request.Cancel()
                request.Wait()
        for request in (*self._receives, *self._sends):
            request.Free()
        self._buffers.Free()
        self._letters.Free()
