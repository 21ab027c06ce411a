"""Lists of row numbers in die memory, by which copies take rows of one side one by one.

Lists follow from what dies have of tensors; the host writes them once. Rows of the other side lie one behind the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.machine.block_cost import is_run
from plinth.partition.cuts import Integers
from plinth.step.tasks import RowIndex
from plinth.step.tensors import Part, Tensor


class IndexedRows(NamedTuple):
    """Row numbers, and whether they are those of the side that is written, else of that which is read."""

    rows: Integers
    scatter: bool


#: Of a die the lists that it has, by what they are for.
Lists = Mapping[Hashable, IndexedRows]


class HostWords(ABC):
    """A place that the host writes once, before the first step, on each die other words. Hashable."""

    name: str
    packed = False

    @abstractmethod
    def words(self, die: int) -> NDArray[np.uint32]:
        """What the host writes on a die."""

    @abstractmethod
    def size(self, die: int) -> int:
        """How many words these are."""

    @property
    @abstractmethod
    def dies(self) -> int:
        """Dies of the array."""

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return max(self.size(die) for die in range(self.dies))

    def buffer(self, die: int) -> Buffer:
        """All of a die."""
        count = self.size(die)
        return Buffer(self.name, 0, 1, count, max(1, count))


class RowLists(HostWords):
    """All lists of a die, one behind the other, in the order of :meth:`lists`."""

    @abstractmethod
    def lists(self, die: int) -> Lists:
        """A die's lists."""

    def words(self, die: int) -> NDArray[np.uint32]:
        return np.concatenate([np.zeros(0, np.uint32), *(some.rows.astype(np.uint32)
                                                         for some in self.lists(die).values())])

    def size(self, die: int) -> int:
        return _placed(self, die).words

    def at(self, die: int, key: Hashable) -> RowIndex:
        """One of a die's lists, and where it lies."""
        first, some = _placed(self, die).lists[key]
        count = len(some.rows)
        return RowIndex(self.buffer(die).part(f"{self.name}[{first}]", first, 1, count), some.scatter, some.rows)


class _PlacedLists(NamedTuple):
    """First word of each list, and itself; words of all."""

    lists: Mapping[Hashable, tuple[int, IndexedRows]]
    words: int


# Of a few dies: of blocks there are thousands of lists.
@lru_cache(maxsize=1 << 7)
def _placed(lists: RowLists, die: int) -> _PlacedLists:
    placed, first = {}, 0
    for key, some in lists.lists(die).items():
        placed[key] = first, some
        first += len(some.rows)
    return _PlacedLists(placed, first)


@dataclass(frozen=True)
class ExchangeLists(RowLists):
    """Lists of an exchange between tensors whose rows are channels: for each die that gets some, itself among them, the
    rows that it gets; none where these lie one behind the other on both sides, or on neither."""

    name: str
    source: Tensor
    target: Tensor

    @property
    def dies(self) -> int:
        return prod(self.source.factors)

    def lists(self, die: int) -> Lists:
        return _exchange_lists(self, die)

    def run(self, die: int, other: int) -> bool | None:
        """Whether the rows that a die sends another are contiguous: True on both sides, False on one, None on neither.
        """
        apart = [not is_run(rows) for rows in self.meeting(die, other)]
        return None if all(apart) else not any(apart)

    def meeting(self, die: int, other: int) -> tuple[Integers, Integers]:
        """Rows of a die's part of the source that another has of the target, and where these are there, ascending."""
        return _meeting(self.source.part(die), self.target.part(other))


@lru_cache(maxsize=1 << 12)
def _exchange_lists(exchange: ExchangeLists, die: int) -> Lists:
    lists: dict[Hashable, IndexedRows] = {}
    for other in range(exchange.dies):
        if exchange.run(die, other) is False:
            here, there = exchange.meeting(die, other)
            lists[other] = IndexedRows(here, False) if is_run(there) else IndexedRows(there, True)
    return lists


@lru_cache(maxsize=1 << 12)
def _meeting(mine: Part, theirs: Part) -> tuple[Integers, Integers]:
    if not (mine.words and theirs.words):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    left, right = (np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
                   for rows in (mine.index()[0], theirs.index()[0]))
    _, here, there = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    order = np.argsort(there)
    return here[order].astype(np.int32), there[order].astype(np.int32)

