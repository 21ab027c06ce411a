"""Sums of rows that several dies send, in numpy, without the slots in which dies have them.

Of a sparse layer's error a die gets from each other one the rows that this one needs, few of all; the step gives each
sender a slot as large as all rows, and adds the slots. Here the rows are added where they belong, in the order of the
slots, straight from the message that they came in, or from the die of the same process that has them: a slot is never
touched. What no die sends is 0.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from plinth.machine.block_cost import is_run
from plinth.partition.cuts import Integers
from plinth.runtime.crossings import Moves
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.step.between import Exchange
from plinth.step.sums import Sum
from plinth.step.tensors import Tensor

#: Indices of rows as numpy takes them fastest.
Rows = Integers | slice


def _rows(numbers: Integers) -> Rows:
    if len(numbers) and is_run(numbers):
        return slice(int(numbers[0]), int(numbers[0]) + len(numbers))
    return numbers


class SlotSum:
    """A sum over slots on the dies of a process.

    Parameters
    ----------
    exchange, operation
        As :func:`~plinth.runtime.overlay.summed_slots` gives them.
    memories : mapping of int to Memory
        Of the process's dies.
    moves : Moves
        Of the exchange: what comes from other processes.
    """

    def __init__(self, exchange: Exchange, operation: Sum, memories: Mapping[int, Memory], moves: Moves) -> None:
        self._exchange, self._memories = exchange, memories
        #: Words that come from other processes, by sender and receiver.
        self._coming: dict[tuple[int, int], Floats] = {}
        for message in moves.messages:
            first = 0
            for sender, receiver, place in message.places:
                self._coming[sender, receiver] = message.incoming.words[first:first + place.size]
                first += place.size
        self.kernels: list[Kernel] = [kernel for die in memories for kernel in self._of(die, operation.target)]

    def _of(self, die: int, target: Tensor) -> Iterator[Kernel]:
        """What makes a die's sum."""
        exchange, part = self._exchange, target.part(die)
        assert exchange.lists is not None and exchange.slots is not None
        if not part.words:
            return
        total, given = self._memories[die].view(target.buffer(die)), np.zeros((part.samples, part.channels), np.bool_)
        adds: list[Kernel] = []
        for sender in sorted(exchange.peers(die), key=exchange.slots.number):
            rows, places = exchange.lists.meeting(sender, die)
            if not len(rows):
                continue
            source = exchange.source.part(sender)
            here, there, count = source.shared_channels(part)
            columns = slice(there, there + count)
            # Where no one before has given anything there is nothing to add to.
            new = ~given[places, there]
            given[places, columns] = True
            words = self._words(sender, die, rows, slice(here, here + count))
            for some, add in ((new, False), (~new, True)):
                chosen = np.flatnonzero(some)
                if len(chosen):
                    adds.append(_adding(total[:, columns], _rows(places[chosen]), words, _rows(chosen), add))
        missing = np.flatnonzero(~given.all(axis=1))
        if len(missing):
            empty = _rows(missing)
            yield lambda: total.__setitem__(empty, 0)
        yield from adds

    def _words(self, sender: int, die: int, rows: Integers, columns: slice) -> Callable[[Rows], Floats]:
        """What gives some of the rows that a die sends another, by their numbers among these."""
        if sender in self._memories:
            matrix = self._memories[sender].view(self._exchange.source.buffer(sender))[:, columns]
            if is_run(rows):
                sent = matrix[int(rows[0]):int(rows[0]) + len(rows)]
                return lambda chosen: sent[chosen]
            return lambda chosen: matrix[rows[chosen]]
        sent = self._coming[sender, die].reshape(len(rows), -1)
        return lambda chosen: sent[chosen]


def _adding(total: Floats, places: Rows, words: Callable[[Rows], Floats], chosen: Rows, add: bool) -> Kernel:
    """What writes words to rows, or adds them there, each row once."""
    def write() -> None:
        total[places] = words(chosen)

    def accumulate() -> None:
        total[places] += words(chosen)

    return accumulate if add else write
