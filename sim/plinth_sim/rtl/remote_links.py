"""Co-simulated dies of one array in several processes, which run epoch by epoch together.

Each process has a :class:`~plinth_sim.rtl.cosim.CosimArray` of its own dies. Simulated time is one: all of them run the
same epochs, and between two hand each other what goes over links between their dies (``remote.h``). Host code takes no
simulated time, but register accesses do; before every run the processes tell what each wants to run for, its
:class:`Aim`, and all run for the most urgent one::

    ACCESS    a process has accesses of its dies to play; the first process of several, then the next
    WAIT      no process has: all that have come to a wait run until the dies that each awaits have ended
    RUN       likewise, for a number of cycles
    MEET      all have come to a meeting

So accesses are played one process after the other, as one process plays those of one die after the other: with the dies
shared in the order of their numbers every die does in every cycle what it does in one process.
"""

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

#: ``Exchange`` of remote.h.
_EXCHANGE = ctypes.CFUNCTYPE(ctypes.c_int)


class Aim(IntEnum):
    """What a process wants the dies to run for; the lowest one is the most urgent."""

    ACCESS, WAIT, RUN, MEET = range(4)


class Agreed(NamedTuple):
    """What all processes run for next."""

    aim: Aim
    #: At most.
    cycles: int
    #: Whether a wait begins, of any process.
    begins: bool
    #: Whether it is what this process wants, and of accesses, those of this one.
    own: bool = True
    #: Whether what this process has queued is to be played with it.
    queued: bool = True


class Lockstep(Protocol):
    """Joins the processes that own the dies of a co-simulated array.

    Members
    -------
    processes : sequence of sequences of int
        The dies of each process: each die of the array once, each process at least one.
    own : int
        Which of the processes this one is.
    """

    @property
    def processes(self) -> Sequence[Sequence[int]]:
        """The dies of each process."""

    @property
    def own(self) -> int:
        """Number of this process."""

    def channel(self, outgoing: Sequence[Bytes], incoming: Sequence[Bytes]) -> Callable[[], None]:
        """Make what swaps buffers with the other processes, a buffer each way for every one in the order of their
        numbers, whenever all processes call it. Any thread may call it; it may be interrupted.

        A call raises ``ConnectionError`` if a process is gone, ``TimeoutError`` if one does not come; the message says
        which.
        """

    def meet(self, told: Any, patient: bool = False) -> list[Any]:
        """Return what each process has told, which is plain data, in their order.

        Parameters
        ----------
        told : any
            Plain data.
        patient : bool
            Wait without end, for what one process has to do before may take long.

        Raises
        ------
        ConnectionError, TimeoutError
            If a process is gone, or does not come; the message says which.
        """


class RemoteLinks:
    """The way from one process's dies to those of the others.

    Parameters
    ----------
    library : ctypes.CDLL
        The compiled harness.
    array : int
        Its array, of this process's dies.
    lockstep : Lockstep
    """

    def __init__(self, library: ctypes.CDLL, array: int, lockstep: Lockstep) -> None:
        self._library, self._array, self._lockstep = library, array, lockstep
        others = [process for process in range(len(lockstep.processes)) if process != lockstep.own]
        outgoing = [np.zeros(library.plinth_peer_puts(array, peer), np.uint8) for peer in range(len(others))]
        incoming = [np.zeros(library.plinth_peer_takes(array, peer), np.uint8) for peer in range(len(others))]
        aims = [[np.zeros(24, np.uint8) for _ in others] for _ in range(2)]
        self._own_aims, other_aims = ([each.view(np.int64) for each in way] for way in aims)
        self._aims = dict(zip(others, other_aims, strict=True))
        self._swap_aims, self._swap = lockstep.channel(*aims), lockstep.channel(outgoing, incoming)
        #: What has ended the connection.
        self.failure: BaseException | None = None
        self._buffers = outgoing, incoming
        for peer in range(len(others)):
            library.plinth_peer_buffers(array, peer, outgoing[peer].ctypes.data, incoming[peer].ctypes.data)
        # The harness holds its address alone.
        self._exchange = _EXCHANGE(self._exchanged)
        library.plinth_join(array, self._exchange)
        #: The processes in the order of their first dies.
        self._order = sorted(range(len(lockstep.processes)), key=lambda process: min(lockstep.processes[process]))

    def _exchanged(self) -> int:
        """The harness's exchange at the end of an epoch: 0, or 1 if it has failed."""
        try:
            self._swap()
        except BaseException as error:
            # It would be lost on its way through the harness.
            self.failure = error
            return 1
        return 0

    def agree(self, aim: Aim, cycles: int, begins: bool) -> Agreed:
        """Tell the others what this process would run for, for how many cycles at most, and whether that is the begin
        of a wait; return what all run for.

        Raises
        ------
        ConnectionError, TimeoutError
            If a process is gone, or does not come.
        """
        self.check()
        for told in self._own_aims:
            told[:] = aim, cycles, begins
        try:
            self._swap_aims()
        except BaseException as error:
            self.leave(error)
            raise
        own = self._lockstep.own
        aims = {process: tuple(map(int, told)) for process, told in self._aims.items()} | {own: (aim, cycles, begins)}
        urgent = min(wanted for wanted, *_ in aims.values())
        asking = [process for process in self._order if aims[process][0] == urgent]
        if urgent == Aim.ACCESS:
            # What earlier processes have queued comes before these accesses, and what later ones have, behind them.
            queued = self._order.index(own) <= self._order.index(asking[0])
            return Agreed(Aim.ACCESS, aims[asking[0]][1], False, asking[0] == own, queued)
        return Agreed(Aim(urgent), min(aims[process][1] for process in asking),
                      any(aims[process][2] for process in asking), own in asking, urgent != Aim.MEET)

    def check(self) -> None:
        """Go on alone if the connection has ended, or dies of another process have broken a protocol.

        Raises
        ------
        ConnectionError, TimeoutError, or what else has ended it
        """
        if self.failure is None:
            for process, incoming in zip(self._aims, self._buffers[1], strict=True):
                if incoming[:12].view(np.uint32)[2]:
                    dies = ", ".join(map(str, self._lockstep.processes[process]))
                    self.failure = ConnectionError(f"a die of process {process}, which has dies {dies}, has broken a "
                                                   "protocol")
        if self.failure is not None:
            self.leave(self.failure)
            raise self.failure

    def leave(self, failure: BaseException) -> None:
        """Go on alone: the other dies are silent from now on, and only registers of this process's dies can be read."""
        self.failure = failure
        self._library.plinth_leave(self._array)

    def meet(self, told: Any) -> list[Any]:
        """What each process has told.

        Raises
        ------
        ConnectionError, TimeoutError
            If a process is gone, or does not come.
        """
        try:
            return self._lockstep.meet(told)
        except BaseException as error:
            self.leave(error)
            raise
