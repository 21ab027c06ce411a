"""Rows of a table that servers own, as the samples of a batch look them up (:mod:`plinth.partition.row_traffic`).

Which rows a worker looks up is known with the batch alone: before a step the host writes, for each owner and worker,
the list of the rows that go from one to the other, each once, and how many there are
(:class:`plinth.lower.lookups.LookupNumbers`). Dies reserve memory for the most that a batch may need.

A worker has the rows of one owner behind those of the one before in a *cache* of rows, and the sums of their errors
likewise; of replicated rows, which it has itself, all. A list without rows has one, the owner's first, that nobody
looks up: no task moves nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from plinth.buffers import Buffer
from plinth.network.variables import INPUTS
from plinth.partition.row_traffic import RowTraffic
from plinth.step.tensors import Tensor, View
from plinth.step.weights import Weights


@dataclass(frozen=True)
class Lookups:
    """The rows of a layer's table that move between owners and workers in a step.

    Parameters
    ----------
    layer : str
    table : Weights
        Of each owner its rows.
    numbers : Tensor
        Row numbers of samples, of each worker those of its own.
    touched : float or None
        Share of the table's rows that a worker's samples look up, as predictions take it; None: all that they may.
    replicated : bool
        Every die has the whole table.
    """

    layer: str
    table: Weights
    numbers: Tensor
    touched: float | None = field(default=None, compare=False)
    replicated: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def width(self) -> int:
        """Words of a row of the table, each a number in FP32 or in the dies' format."""
        return self.table.shape[2]

    @cached_property
    def traffic(self) -> RowTraffic:
        """The numbers of rows that move."""
        table, numbers = self.table, self.numbers
        owned = table.region.lengths(INPUTS, table.shape[1], table.factors)
        return RowTraffic(tuple(owned.tolist()), tuple((numbers.spans.samples * numbers.positions).tolist()),
                          self.touched, self.replicated)

    @property
    def dies(self) -> int:
        """The number of dies of the array, those without rows or samples among them."""
        return len(self.traffic.owned)

    def capacity(self, owner: int, worker: int) -> int:
        """The most rows that go from an owner to a worker in a step."""
        return int(self.traffic.capacity[owner, worker])

    def expected(self, owner: int, worker: int) -> int:
        """The number of rows that predictions take for those from an owner to a worker."""
        return int(self.traffic.expected[owner, worker])

    def first(self, owner: int, worker: int) -> int:
        """The place in a worker's cache of the first row of an owner."""
        return 0 if self.replicated else int(self.traffic.capacity[:owner, worker].sum())

    def cached(self, worker: int) -> int:
        """Rows of a worker's cache."""
        return self.capacity(worker, worker) if self.replicated else self.first(self.dies, worker)

    def owners(self, worker: int) -> list[int]:
        """The dies from which a worker gets rows, itself first, then in their order from the next one on."""
        return self._others(worker, lambda other: self.capacity(other, worker))

    def workers(self, owner: int) -> list[int]:
        """The dies to which an owner gives rows, itself first, then in their order from the next one on."""
        return self._others(owner, lambda other: self.capacity(owner, other))

    def served(self, owner: int) -> list[int]:
        """The dies whose caches get rows from an owner, in the order of :meth:`workers`."""
        return [worker for worker in self.workers(owner) if worker == owner or not self.replicated]

    def sources(self, worker: int) -> list[int]:
        """The dies from which a worker's cache gets rows, in the order of :meth:`owners`."""
        return [owner for owner in self.owners(worker) if owner == worker or not self.replicated]

    def _others(self, die: int, capacity: Callable[[int], int]) -> list[int]:
        return [other for turn in range(self.dies) if capacity(other := (die + turn) % self.dies)]


@dataclass(frozen=True)
class LookupPlace(ABC):
    """A place of each die for what has so many rows for each owner and worker.

    Parameters
    ----------
    name : str
    lookups : Lookups
    """

    name: str
    lookups: Lookups
    packed = False

    @abstractmethod
    def rows(self, die: int) -> int:
        """The number of rows that a die has room for; 0 of one that takes no part."""

    def buffer(self, die: int) -> Buffer:
        """The whole place in a die's memory: ``[rows, width]``."""
        width = self.lookups.width
        return Buffer(self.name, 0, self.rows(die), width, width)

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return max(self.rows(die) for die in range(self.lookups.dies)) * self.lookups.width


@dataclass(frozen=True)
class RowCache(LookupPlace):
    """The rows of a table that a worker looks up, or the sums of their errors."""

    def rows(self, die: int) -> int:
        return self.lookups.cached(die)

    def table_rows(self, die: int) -> int:
        """Rows of the table that a worker's row numbers are of: as many as predictions take those to be."""
        return sum(self.lookups.expected(owner, die) for owner in self.lookups.sources(die))

    def matrix(self, die: int) -> Buffer:
        """The rows, as those of a table."""
        return self.buffer(die)

    def of(self, owner: int, worker: int) -> Buffer:
        """A worker's rows of an owner, as many as there may be."""
        return self.matrix(worker).lines(self.lookups.first(owner, worker), self.lookups.capacity(owner, worker))


@dataclass(frozen=True)
class AllRows(View):
    """A cache as a layer reads it in place of its table: the rows of all owners, one owner's behind another's."""

    of: RowCache

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where they lie."""
        return self.of.buffer(die)


@dataclass(frozen=True)
class RowSlots(LookupPlace):
    """Sums of errors that workers send to the owner of their rows, one worker's behind those of the one before; an
    owner's own stay in its cache."""

    def rows(self, die: int) -> int:
        return self._slot_rows_before(die, self.lookups.dies)

    def _slot_rows_before(self, owner: int, worker: int) -> int:
        """Rows of an owner's slots of the workers before one."""
        return sum(self.lookups.capacity(owner, other) for other in range(worker) if other != owner)

    def of(self, owner: int, worker: int) -> Buffer:
        """An owner's slot of a worker, with as many rows as there may be."""
        first, count = self._slot_rows_before(owner, worker), self.lookups.capacity(owner, worker)
        return self.buffer(owner).lines(first, count)


@dataclass(frozen=True)
class LookupLists(LookupPlace):
    """Lists of the rows that an owner gives each worker, by their numbers in its part of the table, one worker's behind
    that of the one before."""

    def buffer(self, die: int) -> Buffer:
        """The lists of a die as one row of words, a row number each."""
        words = self.rows(die)
        return Buffer(self.name, 0, 1, words, max(1, words))

    def place_words(self) -> int:
        return max(self.rows(die) for die in range(self.lookups.dies))

    def rows(self, die: int) -> int:
        """Words of a die: a number for each row that it may give."""
        return self._list_words_before(die, self.lookups.dies)

    def _list_words_before(self, owner: int, worker: int) -> int:
        """Words of an owner's lists for the workers before one."""
        return sum(self.lookups.capacity(owner, other) for other in range(worker))

    def of(self, owner: int, worker: int) -> Buffer:
        """The list of an owner's rows that a worker looks up, with room for as many as there may be."""
        first, count = self._list_words_before(owner, worker), self.lookups.capacity(owner, worker)
        return self.buffer(owner).part(f"{self.name}[{worker}]", first, 1, count)


@dataclass(frozen=True)
class LookupCounts:
    """How many rows a die gives each worker in a step, and below, how many it gets from each owner: ``[2, dies]``. The
    host writes it; who has no descriptors reads it."""

    name: str
    dies: int
    packed = False

    def buffer(self, die: int) -> Buffer:
        """The counts in a die's memory: ``[2, dies]``, rows given, and below rows got."""
        return Buffer(self.name, 0, 2, self.dies, self.dies)

    def place_words(self) -> int:
        """Words of memory, of any die."""
        return 2 * self.dies
