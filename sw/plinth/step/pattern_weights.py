"""Who holds which entries of a sparse layer's matrix: those of a die's rows, as dense blocks, then the bias.

A die's rows, over the columns that it has of the input, are covered by blocks (:mod:`plinth.machine.blocks`), which lie
one behind the other. What fills a block up is 0: its gradient is made 0 before the update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.byte_cache import ByteCache
from plinth.machine.block_cost import BlockCost
from plinth.machine.blocks import BlockCover, BlockLayout
from plinth.machine.sparse_products import HostBlockCost
from plinth.network.sparse.matrices import csr, segments
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.variables import OUTPUTS
from plinth.partition.axes import CHANNELS, Region
from plinth.partition.cuts import Factors
from plinth.partition.needs import rows_of_parts
from plinth.step.row_lists import HostWords
from plinth.step.tensors import Part
from plinth.step.weights import Numbers, Weights, WeightSlice

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

Entries = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PatternSlice(WeightSlice):
    """A die's entries of a sparse matrix, and its bias; as a matrix they are one row.

    Parameters
    ----------
    packed : int
        Words of its blocks.
    find : callable
        Gives :attr:`entries`, which are large, and not held.
    """

    packed: int = 0
    find: Callable[[], Entries] = field(kw_only=True)

    @property
    def entries(self) -> Entries:
        """For each word of its blocks the number of the entry in the whole pattern, which counts row by row; -1 of what
        fills them up."""
        return self.find()

    @property
    def rows(self) -> int:
        return 1

    @property
    def weights(self) -> int:
        return self.packed

    def taken(self, weights: Numbers, shape: tuple[int, int, int]) -> Numbers:
        entries = self.entries
        return np.where(entries < 0, 0, weights[entries]).astype(weights.dtype)

    def put(self, weights: Numbers, shape: tuple[int, int, int], words: Numbers, rates: Numbers | None) -> None:
        entries = self.entries
        held = entries >= 0
        weights[entries[held]] = words[held]


@dataclass(frozen=True)
class PatternWeights(Weights):
    """Weights of a sparse layer, or their gradient: each die has the blocks of its rows, then their bias, in one row;
    ``shape`` is that of the matrix with its zeros.

    Parameters
    ----------
    inputs : Region
        What dies have of the input.
    cost : BlockCost or HostBlockCost
        By which blocks are chosen.
    """

    pattern: SparsePattern = field(kw_only=True)
    inputs: Region = field(kw_only=True)
    cost: BlockCost | HostBlockCost = field(kw_only=True)

    def _key(self, die: int) -> _PartKey:
        first, last = self.inputs.bounds(CHANNELS, self.pattern.columns, self.factors)
        return _PartKey(self.pattern, self.region, self.inputs, self.factors, self.cost, die, int(first[die]),
                        int(last[die]))

    def _part(self, die: int) -> _Part:
        key = self._key(die)
        return _PARTS.get(key, partial(_part, key))

    def layout(self, die: int) -> BlockLayout:
        """A die's blocks: rows and columns are numbers of those that it has."""
        return _layout(self._key(die))

    def cover(self, die: int) -> BlockCover:
        """A die's blocks, with the places of its entries among their words: not held for long."""
        return self._part(die).cover

    def local(self, die: int) -> csr_array:
        """The pattern of a die's rows over the columns that it has, numbers of its own; values do not count."""
        return self._part(die).pattern

    def block(self, die: int, number: int) -> Buffer:
        """The words of one block, as a matrix of its rows and columns."""
        blocks = self.layout(die)
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
        return frozenset(die for die in range(prod(self.factors)) if self.layout(die).useful < 1)

    def slice(self, die: int) -> PatternSlice:
        first, last = (int(bound[die]) for bound in self.region.bounds(OUTPUTS, self.pattern.rows, self.factors))
        return PatternSlice(1, 0, 1, first, last - first, self.bias, output_order=self.region.orders.get(OUTPUTS),
                            packed=self.layout(die).packed, find=partial(_entries, self._key(die)))

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

    def size(self, die: int) -> int:
        return self.weights.slice(die).weights

    def part(self, die: int) -> Part:
        """The words of a die's blocks, as a row."""
        return Part(0, 1, 0, self.size(die) if die in self.weights.filled else 0, 1)


@dataclass(frozen=True, eq=False)
class _Part:
    """What a die has of a sparse matrix."""

    pattern: csr_array
    cover: BlockCover

    @property
    def bytes(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in (self.pattern.data, self.pattern.indices, self.pattern.indptr,
                                              self.cover.positions, self.cover.rows, self.cover.columns))


class _PartKey(NamedTuple):
    """What a die's part follows from; ``first`` and ``last`` are the bounds of its columns."""

    pattern: SparsePattern
    outputs: Region
    inputs: Region
    factors: Factors
    cost: BlockCost | HostBlockCost
    die: int
    first: int
    last: int


#: Parts that are kept from one question to the next: those of four layers of 65,536 rows with 32 entries take more.
_PARTS: ByteCache[_Part] = ByteCache(1 << 26, lambda part: part.bytes)
#: Likewise their blocks alone, which are asked for all through a step: those of 250 such parts take more.
_LAYOUTS: ByteCache[BlockLayout] = ByteCache(1 << 28, lambda layout: layout.bytes)


def _layout(key: _PartKey) -> BlockLayout:
    return _LAYOUTS.get(key, lambda: _PARTS.get(key, partial(_part, key)).cover.layout())


def _part(key: _PartKey) -> _Part:
    numbered = _numbered(key)
    local = csr(np.ones(numbered.nnz, np.float32), numbered.indices, numbered.indptr, numbered.shape)
    return _Part(local, key.cost.best(local))


def _numbered(key: _PartKey) -> csr_array:
    """A die's rows over the columns that it has, which ascend as the die has them; values are numbers of entries in the
    whole pattern."""
    from scipy.sparse import csr_array

    pattern, outputs, inputs, factors, _, die, first, last = key
    number = int(outputs.numbers(OUTPUTS, factors)[die])
    rows = rows_of_parts(pattern, outputs.cuts(OUTPUTS), factors)[number]
    order = inputs.orders.get(CHANNELS)
    columns = np.arange(first, last) if order is None else order.order[first:last]
    places = np.zeros(pattern.columns, np.int32)
    places[columns] = np.arange(len(columns))
    starts, matrix = pattern.matrix().indptr.astype(np.int64), pattern.of_rows(rows)
    entries = segments(starts[rows], starts[rows + 1] - starts[rows]).astype(np.int32)
    numbered = csr_array((entries, places[matrix.indices], matrix.indptr), shape=(len(rows), len(columns)))
    numbered.sort_indices()
    return numbered


def _entries(key: _PartKey) -> Entries:
    """For each word of a die's blocks the number of its entry; -1 of what fills them up."""
    numbered, layout = _numbered(key), _layout(key)
    if layout.useful == 1 and len(layout.rows) == np.count_nonzero(np.diff(numbered.indptr)):
        # Each row is in one block, with all of its columns.
        heights, widths = np.diff(layout.row_starts), np.diff(layout.column_starts)
        return np.asarray(numbered.data[segments(numbered.indptr[layout.rows].astype(np.int64),
                                                 np.repeat(widths, heights))], np.int32)
    sources = _PARTS.get(key, partial(_part, key)).cover.sources()
    return np.where(sources < 0, -1, numbered.data[sources]).astype(np.int32)
