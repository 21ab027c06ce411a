"""Rows of tables that servers own, in numpy: as many of them move as a batch looks up.

Both ends of a message know its words: an owner how many rows it gives each worker, a worker how many it gets from each
owner, as the host has written before the step.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.runtime.rings import Ends, Incoming
from plinth.step.lookups import LookupCounts
from plinth.step.row_moves import RowPull, RowPush, RowSums
from plinth.step.tasks import LookupCopy, tasks_of


def _works(operation: RowPull | RowPush | RowSums, die: int) -> Iterator[LookupCopy]:
    for task in tasks_of(operation.tasks(die)):
        yield cast("LookupCopy", task.work)


class _RowCounts:
    """The counts of rows that lie in a die's memory."""

    def __init__(self, memory: Memory, layer: str, die: int, dies: int) -> None:
        self._words = memory.view(LookupCounts(f"{layer}.counts", dies).buffer(die)).view(np.uint32)
        self._die = die

    def of(self, work: LookupCopy) -> int:
        """The rows that a task moves, of which the die is owner or worker."""
        row, other = (0, work.worker) if work.owner == self._die else (1, work.owner)
        return int(self._words[row, other])


class _ListPart(NamedTuple):
    """Rows on their way from one die to another, or to itself: views of either side that this process has."""

    work: LookupCopy
    counts: _RowCounts
    source: Floats | None
    target: Floats | None
    listed: NDArray[np.uint32] | None

    @property
    def width(self) -> int:
        """Words of a row, each a number in FP32."""
        return self.work.target.columns

    @property
    def capacity(self) -> int:
        """The most words that may be on their way in a step: all rows that either side has room for."""
        return self.width * min(self.work.source.rows, self.work.target.rows)

    def rows(self) -> int:
        """How many there are in this step."""
        return self.counts.of(self.work)

    def give(self, out: Floats) -> None:
        """Write them to ``[rows, width]``."""
        assert self.source is not None
        if self.listed is None:
            out[...] = self.source[:len(out)]
        else:
            np.take(self.source, self.listed[:len(out)], axis=0, out=out)


class ArrivingRows(NamedTuple):
    """Rows that come from another process, and where they go."""

    incoming: Incoming
    parts: list[_ListPart]

    @property
    def places(self) -> list[tuple[int, int, Floats]]:
        """For each part who sends it, who gets it, and the place of as many rows as there may be."""
        return [(part.work.owner, part.work.worker, cast("Floats", part.target)) for part in self.parts]

    def unpack(self) -> None:
        """Copy them to their places, once they have come."""
        first = 0
        for part in self.parts:
            rows = part.rows()
            size = rows * part.width
            assert part.target is not None
            part.target[:rows] = self.incoming.words[first:first + size].reshape(rows, part.width)
            first += size


class LookupMoves:
    """The kernels and messages of a pull or a push, on the dies of a process.

    Parameters
    ----------
    operation : RowPull or RowPush
    memories : mapping of int to Memory
        Of the process's dies.
    ranks : sequence of int
        The process of each die.
    ends : Ends
        Of messages to other processes; not asked for if there are none.
    tag : int
        Of its messages.

    Attributes
    ----------
    kernels : list of Kernel
        Copies within the process, and what sends rows to other processes.
    messages : list of ArrivingRows
        What comes from other processes.
    """

    def __init__(self, operation: RowPull | RowPush, memories: Mapping[int, Memory], ranks: Sequence[int], ends: Ends,
                 tag: int) -> None:
        going: dict[int, list[_ListPart]] = defaultdict(list)
        coming: dict[int, list[_ListPart]] = defaultdict(list)
        self.kernels: list[Kernel] = []
        for die, rank in enumerate(ranks):
            for work in _works(operation, die):
                other = die if work.die is None else work.die
                known = die if die in memories else other
                if known not in memories:
                    continue
                here = memories[known]
                source = memories[die].view(work.source) if die in memories else None
                target = memories[other].view(work.target) if other in memories else None
                index = None if work.index is None or source is None else memories[die].view(work.index)[0].view(
                    np.uint32)
                part = _ListPart(work, _RowCounts(here, work.layer, known, len(ranks)), source, target, index)
                if source is None:
                    coming[rank].append(part)
                elif target is None:
                    going[ranks[other]].append(part)
                else:
                    self.kernels.append(_copying(part))
        for rank, parts in sorted(going.items()):
            self.kernels.append(_sending(parts, ends.outgoing(rank, tag, sum(part.capacity for part in parts))))
        self.messages = [ArrivingRows(ends.incoming(rank, tag, sum(part.capacity for part in parts)), parts)
                         for rank, parts in sorted(coming.items())]


def _copying(part: _ListPart) -> Kernel:
    def run() -> None:
        assert part.target is not None
        part.give(part.target[:part.rows()])

    return run


def _sending(parts: Sequence[_ListPart], message: Any) -> Kernel:
    def run() -> None:
        first = 0
        for part in parts:
            rows = part.rows()
            size = rows * part.width
            part.give(message.words[first:first + size].reshape(rows, part.width))
            first += size
        message.send(first)

    return run


def sums_kernels(operation: RowSums, memory: Memory, die: int, dies: int) -> Iterator[Kernel]:
    """The kernels that add what each worker has sent to the gradient of a die's rows, in the order of workers."""
    for work in _works(operation, die):
        assert work.index is not None
        counts = _RowCounts(memory, work.layer, die, dies)
        source, target, index = (memory.view(work.source), memory.view(work.target),
                                 memory.view(work.index)[0].view(np.uint32))
        yield _adding(work, counts, source, target, index)


def _adding(work: LookupCopy, counts: _RowCounts, source: Floats, target: Floats, index: NDArray[np.uint32]) -> Kernel:
    def run() -> None:
        rows = counts.of(work)
        # Each row is there once.
        target[index[:rows]] += source[:rows]

    return run
