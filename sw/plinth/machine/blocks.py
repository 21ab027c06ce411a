"""A sparse pattern as dense blocks: what a matrix engine, or a library of dense products, multiplies in its place.

A pattern has a row for each output of a layer and a column for each input (:mod:`plinth.network.sparse.matrices`). A
block is a set of rows times a set of columns. Each nonzero belongs to exactly one block; all other elements of blocks
are *fill*: zeros that are multiplied as well. They count as issued, not as useful, and a weight there stays 0.

Weights of a layer that is covered lie *packed*: block after block, each row-major, ``rows x columns`` words. So a block
is a dense matrix over operands that are gathered by its row and column numbers. :mod:`plinth.machine.covers` finds
covers.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.sparse.matrices import check_size, entry_rows, segments, starts_of, unordered_row

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

Integers = NDArray[np.int64]

#: Blocks by their shapes: of each a number of blocks, their rows and their columns.
Shapes = tuple[tuple[int, int, int], ...]

#: Most words of packed blocks of a layer.
MAXIMUM_PACKED = 1 << 30


@dataclass(frozen=True, eq=False)
class BlockGroup:
    """Blocks of a cover that follow each other and have equal shapes.

    Parameters
    ----------
    first, count : int
        Which block is the first, and how many there are.
    rows, columns : array of int
        Of each block ``[count, rows]`` and ``[count, columns]``, ascending.
    packed : slice
        Where they lie among the packed words: ``[count, rows, columns]`` of them.
    """

    first: int
    count: int
    rows: Integers
    columns: Integers
    packed: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the packed words: blocks, rows, columns."""
        return self.count, self.rows.shape[1], self.columns.shape[1]


class BlockShapes(ABC):
    """Dense blocks: the row and column numbers of each, and where its words lie."""

    #: Rows and columns of the pattern.
    shape: tuple[int, int]
    #: Row numbers, block after block, ascending within a block, and where those of each block start, and their number.
    rows: Integers
    row_starts: Integers
    #: Column numbers likewise.
    columns: Integers
    column_starts: Integers
    #: Where the words of each block start, and their number: ``[blocks + 1]``.
    packed_starts: Integers

    @property
    @abstractmethod
    def block_entries(self) -> Integers:
        """Number of nonzeros of each block."""

    @cached_property
    def nonzeros(self) -> int:
        """Number of nonzeros of the pattern."""
        return int(self.block_entries.sum())

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.row_starts) - 1

    @property
    def packed(self) -> int:
        """Number of packed words, fill with them: multiply-adds that a sample issues."""
        return int(self.packed_starts[-1])

    def entries(self, blocks: Sequence[int]) -> int:
        """Number of nonzeros of some blocks."""
        return int(self.block_entries[list(blocks)].sum())

    def packed_words(self, blocks: Sequence[int]) -> int:
        """Number of packed words of some blocks."""
        return int(np.diff(self.packed_starts)[list(blocks)].sum())

    def shapes(self, blocks: Sequence[int] | None = None) -> Shapes:
        """Shapes of some blocks, or all, as many of each as follow each other in the cover's order."""
        heights, widths = np.diff(self.row_starts), np.diff(self.column_starts)
        if blocks is not None:
            chosen = np.sort(np.array(blocks, np.int64))
            heights, widths = heights[chosen], widths[chosen]
        changes = np.flatnonzero((np.diff(heights) != 0) | (np.diff(widths) != 0)) + 1
        bounds = [0, *changes.tolist(), len(heights)] if len(heights) else []
        return tuple((end - first, int(heights[first]), int(widths[first])) for first, end in pairwise(bounds))

    @property
    def useful(self) -> float:
        """Share of nonzeros in the packed words; 1 of a cover without fill."""
        return self.nonzeros / self.packed if self.packed else 1.0

    def block(self, number: int) -> tuple[Integers, Integers]:
        """Row and column numbers of a block, from 0."""
        return (self.rows[self.row_starts[number]:self.row_starts[number + 1]],
                self.columns[self.column_starts[number]:self.column_starts[number + 1]])

    def groups(self) -> tuple[BlockGroup, ...]:
        """Blocks of equal shapes together, in their order."""
        ends = np.cumsum([count for count, _, _ in self.shapes()], dtype=np.int64).tolist()
        return tuple(BlockGroup(
            first, end - first,
            self.rows[self.row_starts[first]:self.row_starts[end]].reshape(end - first, -1),
            self.columns[self.column_starts[first]:self.column_starts[end]].reshape(end - first, -1),
            slice(int(self.packed_starts[first]), int(self.packed_starts[end])))
            for first, end in pairwise([0, *ends]))

    def contiguous(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell of each block whether its rows are contiguous, and whether its columns are."""
        return _contiguous(self.rows, self.row_starts), _contiguous(self.columns, self.column_starts)


def _contiguous(numbers: Integers, starts: Integers) -> NDArray[np.bool_]:
    # Numbers of a block ascend.
    return np.asarray(numbers[starts[1:] - 1] - numbers[starts[:-1]] + 1 == np.diff(starts))


@dataclass(frozen=True, eq=False)
class BlockLayout(BlockShapes):
    """The blocks of a cover without the places of nonzeros, which take more memory than all else.

    Parameters
    ----------
    shape, rows, row_starts, columns, column_starts, packed_starts
        Rows and columns of the pattern; numbers of rows and of columns, block after block, where those of each block
        start, and where its words do.
    counts : array of int
        Number of nonzeros of each block.
    """

    shape: tuple[int, int]
    rows: Integers
    row_starts: Integers
    columns: Integers
    column_starts: Integers
    packed_starts: Integers
    counts: Integers

    @property
    def block_entries(self) -> Integers:
        """Number of nonzeros of each block."""
        return self.counts

    @property
    def bytes(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in (self.rows, self.row_starts, self.columns, self.column_starts,
                                              self.packed_starts, self.counts))


@dataclass(frozen=True)
class BlockCover(BlockShapes):
    """Dense blocks that hold each nonzero of a pattern exactly once. Equal covers compare, hash and digest equal.

    Blocks are in the order of their shapes, larger ones first, equal ones by their first rows and columns.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the pattern.
    rows, row_starts : array of int
        Row numbers, block after block, ascending within a block; block b has those from ``row_starts[b]`` to
        ``row_starts[b + 1]``.
    columns, column_starts : array of int
        Column numbers likewise.
    positions : array of int
        Of each nonzero, in the pattern's order, its place among the packed words.

    Raises
    ------
    ValueError
        If a block is empty, its numbers do not ascend or are out of range, or two nonzeros have one place.
    """

    shape: tuple[int, int]
    rows: Integers = field(repr=False, compare=False)
    row_starts: Integers = field(repr=False, compare=False)
    columns: Integers = field(repr=False, compare=False)
    column_starts: Integers = field(repr=False, compare=False)
    positions: Integers = field(repr=False, compare=False)
    #: Where the words of each block start, and their number: ``[blocks + 1]``.
    packed_starts: Integers = field(init=False, repr=False, compare=False)
    #: SHA-256 of all arrays, in hexadecimal digits.
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = int(self.shape[0]), int(self.shape[1])
        for numbers, starts, size, what in ((self.rows, self.row_starts, shape[0], "row"),
                                            (self.columns, self.column_starts, shape[1], "column")):
            _check_numbers(numbers, starts, size, what)
        if len(self.row_starts) != len(self.column_starts):
            raise ValueError(f"a cover has {len(self.row_starts) - 1} blocks of rows, but "
                             f"{len(self.column_starts) - 1} of columns; give each block both")
        packed_starts = starts_of(np.diff(self.row_starts) * np.diff(self.column_starts))
        packed = int(packed_starts[-1])
        if packed > MAXIMUM_PACKED:
            raise ValueError(f"blocks of a cover have {packed} words, more than {MAXIMUM_PACKED}; take smaller blocks")
        if len(self.positions) and not 0 <= int(self.positions.min()) <= int(self.positions.max()) < packed:
            raise ValueError(f"places of nonzeros must be from 0 to {packed - 1}, not {self.positions.min()} to "
                             f"{self.positions.max()}")
        taken = np.zeros(packed, np.bool_)
        taken[self.positions] = True
        if np.count_nonzero(taken) != len(self.positions):
            raise ValueError("two nonzeros of a cover have one place; give each its own")
        hashed = hashlib.sha256(repr(shape).encode())
        for name in ("rows", "row_starts", "columns", "column_starts", "positions"):
            array = np.array(getattr(self, name), np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
            hashed.update(f"{name} {len(array)} ".encode())
            hashed.update(array.astype("<i8", copy=False).tobytes())
        packed_starts.setflags(write=False)
        for name, value in (("shape", shape), ("packed_starts", packed_starts), ("digest", hashed.hexdigest())):
            object.__setattr__(self, name, value)

    @cached_property
    def nonzeros(self) -> int:
        """Number of nonzeros of the pattern."""
        return len(self.positions)

    @cached_property
    def block_entries(self) -> Integers:
        """Number of nonzeros of each block."""
        if len(self.positions) == self.packed:
            return np.diff(self.packed_starts)
        return np.diff(np.searchsorted(np.sort(self.positions), self.packed_starts))

    def layout(self) -> BlockLayout:
        """Its blocks, without the places of nonzeros."""
        return BlockLayout(self.shape, self.rows, self.row_starts, self.columns, self.column_starts, self.packed_starts,
                           self.block_entries)

    def sources(self) -> Integers:
        """The number of the nonzero behind each packed word, -1 of fill: ``[packed]``, the inverse of ``positions``."""
        sources = np.full(self.packed, -1, np.int64)
        sources[self.positions] = np.arange(self.nonzeros)
        return sources

    def pack(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of nonzeros, in the pattern's order, as packed words of the same type; fill is 0.

        Raises
        ------
        ValueError
            If there are other numbers of values than of nonzeros.
        """
        if values.shape != (self.nonzeros,):
            raise ValueError(f"values of a cover must be {self.nonzeros}, one a nonzero, not {list(values.shape)}")
        packed = np.zeros(self.packed, values.dtype)
        packed[self.positions] = values
        return packed

    def unpack(self, packed: NDArray[Any]) -> NDArray[Any]:
        """Packed words of nonzeros, in the pattern's order; what stands in fill is left out.

        Raises
        ------
        ValueError
            If there are other numbers of words than of the cover.
        """
        if packed.shape != (self.packed,):
            raise ValueError(f"packed words of a cover must be {self.packed}, not {list(packed.shape)}")
        return packed[self.positions]


def check_pattern(pattern: Any) -> csr_array:
    """Check a pattern that is to be covered.

    Raises
    ------
    TypeError
        If it is no sparse matrix in compressed rows.
    ValueError
        If it is too large, numbers are out of range, or columns of a row do not ascend or stand there twice.
    """
    from scipy.sparse import csr_array

    if not isinstance(pattern, csr_array) or pattern.ndim != 2:
        raise TypeError(f"a pattern must be a scipy.sparse.csr_array with two dimensions, not {type(pattern).__name__}")
    check_size(pattern.shape, pattern.nnz, "a pattern")
    pattern.check_format(full_check=True)
    row = unordered_row(pattern.indptr, pattern.indices)
    if row is not None:
        columns = pattern.indices[pattern.indptr[row]:pattern.indptr[row + 1]]
        ordered, counts = np.unique(columns, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"row {row} of a pattern has column {ordered[np.argmax(counts > 1)]} twice; call "
                             "sum_duplicates() of the matrix")
        raise ValueError(f"columns of row {row} of a pattern do not ascend; call sort_indices() of the matrix")
    return pattern


def empty_cover(shape: tuple[int, int]) -> BlockCover:
    """The cover of a pattern without nonzeros, which may have no rows or no columns: no blocks."""
    numbers, starts = np.zeros(0, np.int64), np.zeros(1, np.int64)
    return BlockCover(shape, numbers, starts, numbers, starts, numbers)


def given_cover(pattern: csr_array, blocks: list[tuple[Integers, Integers]]) -> BlockCover:
    """A cover of given blocks, row and column numbers of each, ascending. A nonzero that several hold belongs to the
    first of them; rows and columns without any nonzero of a block are left out of it.

    Raises
    ------
    TypeError, ValueError
        If the pattern is not in order (:func:`check_pattern`).
    ValueError
        If numbers of a block do not ascend or are out of range, or no block holds a nonzero; its row and column are
        told.
    """
    check_pattern(pattern)
    row_starts, column_starts = (starts_of(np.array([len(block[side]) for block in blocks], np.int64))
                                 for side in (0, 1))
    rows, columns = (_joined([block[side] for block in blocks]) for side in (0, 1))
    _check_numbers(rows, row_starts, pattern.shape[0], "row")
    _check_numbers(columns, column_starts, pattern.shape[1], "column")
    exact = _exact_cover(pattern, rows, row_starts, columns, column_starts)
    if exact is not None:
        return exact
    keys = entry_rows(pattern) * pattern.shape[1] + pattern.indices
    block, held = _elements(rows, row_starts, columns, column_starts, pattern.shape[1])
    at = np.minimum(np.searchsorted(keys, held), max(0, len(keys) - 1))
    hits = np.flatnonzero(keys[at] == held) if len(keys) else np.zeros(0, np.int64)
    owner = np.full(len(keys), -1, np.int64)
    # Of several elements that are one nonzero the last one written stays: the first.
    owner[at[hits[::-1]]] = block[hits[::-1]]
    if len(owner) and owner.min() < 0:
        row, column = divmod(int(keys[np.argmin(owner)]), pattern.shape[1])
        raise ValueError(f"no block of a cover holds the nonzero of row {row} and column {column}; add one that does")
    return _assembled(pattern, len(blocks), owner)


def _exact_cover(pattern: csr_array, rows: Integers, row_starts: Integers, columns: Integers, column_starts: Integers
                 ) -> BlockCover | None:
    """The cover where each row with a nonzero is in one block alone, whose columns are all that the row has; None where
    a block has fill, or a row is in several."""
    heights, widths = np.diff(row_starts), np.diff(column_starts)
    row_block = np.repeat(np.arange(len(heights)), heights)
    row_widths, starts = widths[row_block], pattern.indptr.astype(np.int64)
    counts = np.diff(starts)
    times = np.bincount(rows, minlength=pattern.shape[0])
    if (times != (counts > 0)).any() or (counts[rows] != row_widths).any():
        return None
    held = segments(starts[rows], row_widths)
    if (pattern.indices[held] != columns[segments(column_starts[row_block], row_widths)]).any():
        return None
    order = np.lexsort((columns[column_starts[:-1]], rows[row_starts[:-1]], -widths, -heights))
    chosen = segments(row_starts[order], heights[order])
    positions = np.empty(len(held), np.int64)
    positions[segments(starts[rows[chosen]], row_widths[chosen])] = np.arange(len(held))
    return BlockCover(pattern.shape, rows[chosen], starts_of(heights[order]),
                      columns[segments(column_starts[order], widths[order])], starts_of(widths[order]), positions)


def _assembled(pattern: csr_array, count: int, owner: Integers) -> BlockCover:
    """A cover by the block of each nonzero, of so many: blocks have the rows and columns of their nonzeros, and are put
    in order; those without any are left out."""
    rows, row_block = _used(entry_rows(pattern), owner, pattern.shape[0])
    columns, column_block = _used(pattern.indices, owner, pattern.shape[1])
    heights, widths = np.bincount(row_block, minlength=count), np.bincount(column_block, minlength=count)
    first_row, first_column = (np.zeros(count, np.int64) for _ in range(2))
    filled = heights > 0
    first_row[filled] = rows[starts_of(heights)[:-1][filled]]
    first_column[filled] = columns[starts_of(widths)[:-1][filled]]
    order = np.lexsort((first_column, first_row, -widths, -heights))[:np.count_nonzero(filled)]
    row_starts, column_starts = starts_of(heights[order]), starts_of(widths[order])
    rows = rows[segments(starts_of(heights)[:-1][order], heights[order])]
    columns = columns[segments(starts_of(widths)[:-1][order], widths[order])]
    place = np.empty(count, np.int64)
    place[order] = np.arange(len(order))
    return BlockCover(pattern.shape, rows, row_starts, columns, column_starts,
                      _positions(pattern, place[owner], rows, row_starts, columns, column_starts))


def _positions(pattern: csr_array, block: Integers, rows: Integers, row_starts: Integers, columns: Integers,
               column_starts: Integers) -> Integers:
    """Places of nonzeros among the packed words, from the block of each."""
    height, width = pattern.shape
    heights, widths = np.diff(row_starts), np.diff(column_starts)
    # Keys ascend, block by block.
    row_keys = np.repeat(np.arange(len(heights)), heights) * height + rows
    column_keys = np.repeat(np.arange(len(widths)), widths) * width + columns
    row = np.searchsorted(row_keys, block * height + entry_rows(pattern)) - row_starts[block]
    column = np.searchsorted(column_keys, block * width + pattern.indices) - column_starts[block]
    return np.asarray(starts_of(heights * widths)[block] + row * widths[block] + column)


def _used(numbers: NDArray[Any], owner: Integers, size: int) -> tuple[Integers, Integers]:
    """Numbers that nonzeros of a block have, each once, ascending, block by block, and the block of each."""
    keys = np.unique(owner * size + numbers)
    return keys % size, keys // size


def _elements(rows: Integers, row_starts: Integers, columns: Integers, column_starts: Integers, width: int
              ) -> tuple[Integers, Integers]:
    """Of each element of blocks, row-major, its block and its key, row x width + column."""
    heights, widths = np.diff(row_starts), np.diff(column_starts)
    row_block = np.repeat(np.arange(len(heights)), heights)
    block = np.repeat(row_block, widths[row_block])
    column = columns[segments(column_starts[:-1][row_block], widths[row_block])]
    return block, np.repeat(rows, widths[row_block]) * width + column


def _check_numbers(numbers: Integers, starts: Integers, size: int, what: str) -> None:
    """Refuse row or column numbers of blocks of which there are none, or which do not ascend or are out of range."""
    lengths = np.diff(starts)
    if starts[0] or starts[-1] != len(numbers) or (lengths <= 0).any():
        block = int(np.argmax(lengths <= 0)) if (lengths <= 0).any() else len(lengths) - 1
        raise ValueError(f"block {block} of a cover must have {what}s, as many as its starts say; leave it out")
    unordered = unordered_row(starts, numbers)
    if unordered is not None:
        raise ValueError(f"{what} numbers of block {unordered} of a cover do not ascend; sort them")
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < size:
        raise ValueError(f"{what} numbers of a cover must be from 0 to {size - 1}, not {numbers.min()} to "
                         f"{numbers.max()}")


def _joined(arrays: list[Integers]) -> Integers:
    return np.concatenate(arrays).astype(np.int64, copy=False) if arrays else np.zeros(0, np.int64)
