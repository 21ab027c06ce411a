"""Who holds which entries of a sparse layer's matrix: those of a die's rows, as dense blocks, then the bias.

A die's rows, over the columns that it has of the input, are covered by blocks (:mod:`plinth.machine.blocks`), which lie
one behind the other. What fills a block up is 0: its gradient is made 0 before the update.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plinth.buffers import Buffer
from plinth.machine.block_cost import BlockCost
from plinth.machine.blocks import BlockCover
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.variables import OUTPUTS
from plinth.partition.axes import CHANNELS, Region
from plinth.partition.cuts import Factors, Integers
from plinth.partition.needs import rows_of_parts
from plinth.step.row_lists import HostWords
from plinth.step.tensors import Part
from plinth.step.weights import Numbers, Weights, WeightSlice


@dataclass(frozen=True, eq=False)
class PatternSlice(WeightSlice):
    """A die's entries of a sparse matrix, and its bias; as a matrix they are one row.

    Parameters
    ----------
    entries : array of int
        For each word of its blocks the number of the entry in the whole pattern, which counts row by row; -1 of what
        fills them up.
    """

    entries: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def rows(self) -> int:
        return 1

    @property
    def weights(self) -> int:
        return len(self.entries)

    def taken(self, weights: Numbers, shape: tuple[int, int, int]) -> Numbers:
        return np.where(self.entries < 0, 0, weights[self.entries]).astype(weights.dtype)

    def put(self, weights: Numbers, shape: tuple[int, int, int], words: Numbers, rates: Numbers | None) -> None:
        held = self.entries >= 0
        weights[self.entries[held]] = words[held]


@dataclass(frozen=True)
class PatternWeights(Weights):
    """Weights of a sparse layer, or their gradient: each die has the blocks of its rows, then their bias, in one row;
    ``shape`` is that of the matrix with its zeros.

    Parameters
    ----------
    inputs : Region
        What dies have of the input.
    cost : BlockCost
        By which blocks are chosen.
    """

    pattern: SparsePattern = field(kw_only=True)
    inputs: Region = field(kw_only=True)
    cost: BlockCost = field(kw_only=True)

    def _part(self, die: int) -> "_Part":
        columns = self.inputs.bounds(CHANNELS, self.pattern.columns, self.factors)
        return _part(self.pattern, self.region, self.inputs, self.factors, self.cost, die,
                     *(int(bound[die]) for bound in columns))

    def cover(self, die: int) -> BlockCover:
        """A die's blocks: rows and columns are numbers of those that it has."""
        return self._part(die).cover

    def local(self, die: int) -> csr_array:
        """The pattern of a die's rows over the columns that it has, numbers of its own; values do not count."""
        return self._part(die).pattern

    def block(self, die: int, number: int) -> Buffer:
        """A block as a matrix."""
        blocks = self.cover(die)
        rows, columns = blocks.block(number)
        return self.matrix(die).part(f"{self.name}[{number}]", int(blocks.packed_starts[number]), len(rows),
                                     len(columns))

    def place_words(self) -> int:
        return max(self.slice(die).words for die in self._kinds())

    def _kinds(self) -> list[int]:
        """One die of each part of the outputs."""
        return np.unique(self.region.numbers(OUTPUTS, self.factors), return_index=True)[1].tolist()

    @property
    def most_rows(self) -> int:
        return 1

    @property
    def filled(self) -> frozenset[int]:
        """Dies whose blocks have fill."""
        return frozenset(die for die, number in enumerate(self.region.numbers(OUTPUTS, self.factors))
                         if self.cover(die).useful < 1)

    def slice(self, die: int) -> PatternSlice:
        first, last = (int(bound[die]) for bound in self.region.bounds(OUTPUTS, self.pattern.rows, self.factors))
        return PatternSlice(1, 0, 1, first, last - first, self.bias, output_order=self.region.orders.get(OUTPUTS),
                            entries=self._part(die).entries)

    def buffer(self, die: int) -> Buffer:
        words = self.slice(die).words
        return Buffer(self.name, 0, 1, words, max(1, words))

    def matrix(self, die: int) -> Buffer:
        return self.buffer(die)._replace(columns=self.slice(die).weights)


@dataclass(frozen=True)
class FillMask(HostWords):
    """For each word of a die's blocks 1 where it is an entry, 0 where it fills them up, in FP32."""

    name: str
    weights: PatternWeights

    @property
    def dies(self) -> int:
        return prod(self.weights.factors)

    def words(self, die: int) -> NDArray[np.uint32]:
        return (self.weights.slice(die).entries >= 0).astype(np.float32).view(np.uint32)

    def part(self, die: int) -> Part:
        """The words of a die's blocks, as a row."""
        return Part(0, 1, 0, self.weights.slice(die).weights if die in self.weights.filled else 0, 1)


@dataclass(frozen=True, eq=False)
class _Part:
    """What a die has of a sparse matrix."""

    pattern: csr_array
    cover: BlockCover
    entries: Integers


@lru_cache(maxsize=1 << 10)
def _part(pattern: SparsePattern, outputs: Region, inputs: Region, factors: Factors, cost: BlockCost, die: int,
          first: int, last: int) -> _Part:
    number = int(outputs.numbers(OUTPUTS, factors)[die])
    rows = rows_of_parts(pattern, outputs.cuts(OUTPUTS), factors)[number]
    order = inputs.orders.get(CHANNELS)
    columns = np.arange(first, last) if order is None else order.order[first:last]
    places = np.zeros(pattern.columns, np.int64)
    places[columns] = np.arange(len(columns))
    starts, matrix = pattern.matrix().indptr.astype(np.int64), pattern.of_rows(rows)
    counts = starts[rows + 1] - starts[rows]
    entries = np.repeat(starts[rows] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
    # Columns ascend as the die has them.
    within = np.lexsort((places[matrix.indices], np.repeat(np.arange(len(rows)), counts)))
    local = csr_array((np.ones(len(entries), np.float32), places[matrix.indices][within], matrix.indptr),
                      shape=(len(rows), len(columns)))
    blocks = cost.best(local)
    sources = blocks.sources()
    packed = np.where(sources < 0, -1, entries[within][sources])
    packed.flags.writeable = False
    return _Part(local, blocks, packed)

