"""Messages of numpy steps between the ranks of an MPI program: buffers that stay, sent and received step after step.

Receives are posted when a step begins (``MPI_Startall``); no call waits within MPI: whoever waits asks again and again,
and looks meanwhile whether another rank has ended.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plinth.driver.driver import DieError, RemoteDieError
from plinth.runtime.memory import Floats
from plinth.runtime.mpi import BUSY_SECONDS, LEAVE_SECONDS, NAP_SECONDS, MpiTransport, neighbours
from plinth_sim.golden.array import PATIENCE_SECONDS

#: For how long a rank waits that another one has left in order: less than that one waits for it to leave.
LEFT_SECONDS = LEAVE_SECONDS - 10


class _Received:
    """A message that comes once a step."""

    def __init__(self, communicator: Any, rank: int, tag: int, words: int, place: Floats | None) -> None:
        from mpi4py.MPI import FLOAT

        self.words: Floats = np.empty(words, np.float32) if place is None else place
        self.request = communicator.Recv_init([self.words, FLOAT], rank, tag)

    def arrived(self) -> bool:
        """Whether it has come."""
        return bool(self.request.Test())


class _Sent:
    """A message that goes once a step."""

    def __init__(self, transport: MpiTransport, communicator: Any, rank: int, tag: int, words: int) -> None:
        from mpi4py.MPI import FLOAT

        self.words: Floats = np.empty(words, np.float32)
        self.request = communicator.Send_init([self.words, FLOAT], rank, tag)
        self._transport, self._communicator, self._rank, self._tag = transport, communicator, rank, tag

    def send(self, words: int | None = None) -> None:
        """Send its words, or the first few, which may not be written before the next step."""
        from mpi4py.MPI import FLOAT

        if words is None:
            self.request.Start()
        else:
            self.request = self._communicator.Isend([self.words[:words], FLOAT], self._rank, self._tag)
        self._transport.count(self._rank, len(self.words) if words is None else words)


class _AllReduce:
    """A sum over ranks by the library, once a step."""

    def __init__(self, communicator: Any, words: int) -> None:
        self.words: Floats = np.empty(words, np.float32)
        self._communicator = communicator

    def start(self) -> None:
        """Begin to sum what all ranks have in ``words``."""
        from mpi4py.MPI import FLOAT, IN_PLACE

        self._request = self._communicator.Iallreduce(IN_PLACE, [self.words, FLOAT])

    def arrived(self) -> bool:
        """Whether ``words`` are the sums."""
        return bool(self._request.Test())


class MpiMessages:
    """The other ranks of a run, as steps in numpy see them (:class:`~plinth.runtime.numpy_step.Processes`).

    Parameters
    ----------
    transport : MpiTransport
        Entered: it tells how other ranks have ended, and counts what is sent.
    library : bool
        Gradients are summed by the library's all-reduce, in an order of its own, in place of rings.
    patience_seconds : float
        Longest time of one wait, whatever else has come meanwhile.

    Raises
    ------
    UserError
        From all that waits, if another rank has ended or nothing comes for so long.
    """

    def __init__(self, transport: MpiTransport, *, library: bool = False, patience_seconds: float = PATIENCE_SECONDS
                 ) -> None:
        self._transport, self._patience, self._library = transport, patience_seconds, library
        # What follows waits within MPI: a rank that has ended before would be waited for without end.
        self.wait(transport.meeting().Test)
        self._communicator = transport.communicator.Dup()
        self.own, self.size = transport.own, len(transport.processes)
        #: Ranks that share this one's memory, itself among them.
        self.neighbours = neighbours(self._communicator)
        processes = {die: rank for rank, dies in enumerate(transport.processes) for die in dies}
        #: The rank of each die.
        self.ranks = [processes[die] for die in range(len(processes))]
        #: Communicators of ranks that sum by the library.
        self._groups: dict[tuple[int, ...], Any] = {}
        self._received: list[_Received] = []
        self._sent: list[_Sent] = []

    def another(self) -> MpiMessages:
        """The same ranks, with messages of their own. Collective."""
        return MpiMessages(self._transport, library=self._library, patience_seconds=self._patience)

    def duplicate(self) -> Any:
        """A communicator of the same ranks, for messages of somebody else. Collective."""
        return self._communicator.Dup()

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> _Received:
        """The end of a message from a rank; of those of a tag they come in their order. ``place``: where its words
        come, at any time of a step; else they come to a place of their own."""
        self._received.append(_Received(self._communicator, rank, tag, words, place))
        return self._received[-1]

    def outgoing(self, rank: int, tag: int, words: int) -> _Sent:
        """The end of a message to a rank."""
        self._sent.append(_Sent(self._transport, self._communicator, rank, tag, words))
        return self._sent[-1]

    def all_reduce(self, ranks: Sequence[int], words: int) -> _AllReduce | None:
        """A sum over ranks by the library, this one among them; None: it is for rings to make. Ranks ask for those
        that they take part in in the same order. Collective among them."""
        if not self._library:
            return None
        members = tuple(sorted(set(ranks)))
        if members not in self._groups:
            group = self._communicator.Get_group().Incl(members)
            self._groups[members] = self._communicator.Create_group(group)
        return _AllReduce(self._groups[members], words)

    @property
    def expected(self) -> int:
        """Messages that come in a step, as far as they are said."""
        return len(self._received)

    def begin(self, messages: Sequence[int] | None = None) -> None:
        """Begin a step: post all receives, once everything that was sent is gone; ``messages``: those alone, by their
        numbers, that come in the part of the step that is run."""
        from mpi4py.MPI import Prequest

        waiting = list(self._sent)

        def gone() -> bool:
            waiting[:] = [message for message in waiting if not message.request.Test()]
            return not waiting

        self.wait(gone)
        some = range(len(self._received)) if messages is None else messages
        Prequest.Startall([self._received[number].request for number in some])

    def wait(self, done: Callable[[], bool]) -> None:
        """Return once something is done, which is asked again and again; at first all the time."""
        started = time.monotonic()
        while not done():
            waited = time.monotonic() - started
            self._look(waited)
            time.sleep(NAP_SECONDS if waited > BUSY_SECONDS else 0)

    def _look(self, waited: float) -> None:
        """Whether there is anything to wait for."""
        # Who has left in order has sent all that others need, which may be on its way yet.
        for rank, why in sorted(self._transport.endings.items()):
            if why is not None:
                raise RemoteDieError(f"rank {rank} has ended with an error: {why}")
            if waited > LEFT_SECONDS:
                raise RemoteDieError(f"rank {rank} has ended, with no error, and nothing has come from others for "
                                     f"{waited:.0f} s; all ranks have to do as many steps")
        if waited > self._patience:
            raise DieError(f"nothing came from other ranks for {self._patience:g} s")

    def gathered(self, values: Floats, counts: Sequence[int]) -> Floats:
        """The numbers of all ranks, one rank's behind those of the one before, ``counts`` of each. Collective."""
        from mpi4py.MPI import FLOAT

        together = np.empty(sum(counts), np.float32)
        request = self._communicator.Iallgatherv([values, FLOAT], [together, list(counts), None, FLOAT])
        self.wait(request.Test)
        return together

    def told(self, value: Any) -> list[Any]:
        """What each rank says. Collective."""
        from mpi4py.MPI import BYTE, INT64_T

        text = np.frombuffer(pickle.dumps(value), np.uint8)
        counts = np.empty(self.size, np.int64)
        self.wait(self._communicator.Iallgather([np.array([len(text)], np.int64), INT64_T], [counts, INT64_T]).Test)
        texts = np.empty(int(counts.sum()), np.uint8)
        self.wait(self._communicator.Iallgatherv([text, BYTE], [texts, counts.tolist(), None, BYTE]).Test)
        return [pickle.loads(part.tobytes()) for part in np.split(texts, np.cumsum(counts)[:-1])]
