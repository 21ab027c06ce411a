"""Dense gradients of all workers, fused into one message of a ring: each gets their sum.

The order of a sum is that of the dies' rings: chunk c belongs to worker c mod N, and its sum starts at the worker
behind (:mod:`plinth.runtime.rings`).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from plinth.runtime.memory import Floats
from plinth.runtime.rings import Ends, Incoming, MemberRows, OwnerChunks, RingPasses
from plinth.sharding import CHUNK_WORDS
from plinth.step.tasks import Phase
from plinth.workers.channel import SentWords


class DenseSum:
    """A sum over all workers, once a step.

    Parameters
    ----------
    ends : Ends
        Of messages between workers.
    own : int
        This worker.
    order : sequence of int
        All workers in the order of the ring, those of a machine neighbours.
    words : int
    tag : int
        The first of as many as there are workers.
    sent : mapping of int to SentWords
        Counts what this worker sends each other one.

    Attributes
    ----------
    own, total : array ``[words]``
        What this worker adds, to be written before :meth:`begin`; and the sum, behind it.
    """

    def __init__(self, ends: Ends, own: int, order: Sequence[int], words: int, tag: int, sent: Mapping[int, SentWords]
                 ) -> None:
        self.own, self.total = np.zeros(words, np.float32), np.zeros(words, np.float32)
        self._size, self._number = len(order), order.index(own)
        behind = order[(self._number + 1) % self._size]
        self._sent = sent[behind] if behind != own else SentWords()
        # About as many chunks as workers.
        self._chunks = OwnerChunks(words, max(CHUNK_WORDS, -(-words // self._size)), self._size)
        rows = [MemberRows(self.own, self.total) if worker == own else None for worker in order]
        self._passes = RingPasses(Phase.UPDATE, -1.0, self._chunks, rows, list(order), ends, tag)
        self._pass: Iterator[Incoming] | None = None
        self._awaited: Incoming | None = None

    def begin(self) -> None:
        """Begin, as far as that goes without waiting."""
        self.total[:] = 0
        self._pass = self._passes.begin()
        self._awaited = next(self._pass, None)
        for step in range(self._size - 1):
            for owner in (self._number - 1 - step, self._number - step):
                words = self._chunks.words(owner % self._size)
                if words:
                    self._sent.add(words)

    def advance(self) -> bool:
        """Go on as far as that goes without waiting; whether it is done."""
        assert self._pass is not None
        while self._awaited is not None:
            if not self._awaited.arrived():
                return False
            self._awaited = next(self._pass, None)
        return True


def fused(parts: list[Floats], into: Floats) -> None:
    """Write arrays one behind the other."""
    first = 0
    for part in parts:
        into[first:first + part.size] = part.reshape(-1)
        first += part.size
