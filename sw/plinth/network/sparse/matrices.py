"""Matrices in compressed sparse rows (CSR), the form in which all files of this package hand weights on.

A matrix has a row for each output i of a layer and a column for each input j, so that ``z = W x``. Within a row the
columns ascend, each at most once; an entry may have the value 0, since it is the pattern that says what is trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

#: Most rows or columns of a matrix, and most entries: with four bytes for its column and value each, 1 GiB.
MAXIMUM_NEURONS, MAXIMUM_ENTRIES = 1 << 24, 1 << 27


def csr(values: NDArray[Any], columns: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]) -> csr_array:
    """Make a matrix of parts that are known to be in order: columns ascending within each row.

    Parameters
    ----------
    values, columns : array
        ``[entries]``, row after row.
    starts : array
        ``[rows + 1]``: where each row starts among the entries, and their number.
    shape : (int, int)
    """
    from scipy.sparse import csr_array

    index = np.int32 if max(*shape, len(columns)) < 1 << 31 else np.int64
    matrix = csr_array((values, columns.astype(index, copy=False), starts.astype(index, copy=False)), shape=shape)
    matrix.has_canonical_format = True
    return matrix


def starts_of(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Where rows of so many entries start: ``[rows + 1]``."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def entry_rows(matrix: csr_array) -> NDArray[np.int64]:
    """The row of each entry: ``[entries]``, in the order of the matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def segments(starts: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers from each start on, so many of each, one segment behind the other: ``[sum of counts]``."""
    ends = starts_of(counts)
    return np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])


def unordered_row(starts: NDArray[Any], columns: NDArray[Any]) -> int | None:
    """The first row whose columns do not ascend, or None."""
    rises = np.ones(len(columns), bool)
    rises[1:] = columns[1:] > columns[:-1]
    first = starts[:-1]
    rises[first[first < len(columns)]] = True
    falls = np.flatnonzero(~rises)
    return int(np.searchsorted(starts, falls[0], side="right")) - 1 if len(falls) else None


def checked(matrix: Any, name: str) -> csr_array:
    """Check a matrix that somebody else has made.

    Raises
    ------
    TypeError
        If it is no sparse matrix in compressed rows of float32 or float64.
    ValueError
        If it is too large, its columns are out of range or do not ascend, or a value is not finite; ``name`` is told.
    """
    from scipy.sparse import csr_array

    if not isinstance(matrix, csr_array) or matrix.ndim != 2 or matrix.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must be a scipy.sparse.csr_array of float32 or float64 with two dimensions, not "
                        f"{type(matrix).__name__}")
    check_size(matrix.shape, matrix.nnz, name)
    matrix.check_format(full_check=True)
    row = unordered_row(matrix.indptr, matrix.indices)
    if row is not None:
        raise ValueError(f"columns of row {row} of {name} do not ascend; call sum_duplicates() of the matrix")
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} has values that are not finite; mend them")
    return matrix


def check_size(shape: tuple[int, int], entries: int, name: str) -> None:
    """Refuse a matrix that is empty or too large (ValueError)."""
    if not all(1 <= size <= MAXIMUM_NEURONS for size in shape):
        raise ValueError(f"{name} must have 1 to {MAXIMUM_NEURONS} rows and columns, not {shape[0]} x {shape[1]}")
    check_entries(entries, name)


def check_entries(entries: int, name: str) -> None:
    """Refuse a matrix with more than :data:`MAXIMUM_ENTRIES` entries (ValueError)."""
    if entries > MAXIMUM_ENTRIES:
        raise ValueError(f"{name} has {entries} entries, more than {MAXIMUM_ENTRIES}; take fewer of its rows")


def check_layer(layer: int, layers: int) -> None:
    """Refuse what is not the index of one of so many layers (ValueError)."""
    if not 0 <= layer < layers:
        raise ValueError(f"layer must be from 0 to {layers - 1}, not {layer!r}")


def row_list(rows: ArrayLike, count: int) -> NDArray[np.int64]:
    """Row indices, in any order, as an array (ValueError if they are no indices of ``count`` rows)."""
    indices = np.asarray(rows)
    if not indices.size:
        indices = indices.astype(np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(f"rows must be a list of indices, not {indices.dtype} {list(indices.shape)}")
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < count:
        raise ValueError(f"rows must be from 0 to {count - 1}, not {indices.min()} to {indices.max()}")
    return indices.astype(np.int64, copy=False)


def selected(matrix: csr_array, rows: ArrayLike) -> csr_array:
    """Some rows of a matrix, in the order in which they are asked for; all of them in order: the matrix itself."""
    indices = row_list(rows, matrix.shape[0])
    if len(indices) == matrix.shape[0] and np.array_equal(indices, np.arange(len(indices))):
        return matrix
    return matrix[indices]


def identical_rows(pattern: csr_array) -> NDArray[np.int64]:
    """For each row the number of its class; rows of a class have the same columns. Classes are numbered in the order of
    their first rows. Columns ascend within each row."""
    rows = pattern.shape[0]
    if not rows:
        return np.zeros(0, dtype=np.int64)
    lengths = np.diff(pattern.indptr)
    marks = np.random.default_rng(0).integers(1 << 62, size=(2, pattern.shape[1]), dtype=np.int64)
    keys = np.zeros((rows, 3), dtype=np.int64)
    keys[:, 2] = lengths
    filled = np.flatnonzero(lengths)
    if len(filled):
        # The length and two sums of random numbers, modulo 2^64: those of different sets are equal once in 2^124.
        for number, mark in enumerate(marks):
            keys[filled, number] = np.add.reduceat(mark[pattern.indices], pattern.indptr[filled])
    order = np.lexsort(keys.T)
    new = np.ones(rows, dtype=np.bool_)
    new[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    sorted_class = np.cumsum(new) - 1
    classes = np.empty(rows, dtype=np.int64)
    classes[order] = sorted_class
    first = np.full(sorted_class[-1] + 1, rows)
    np.minimum.at(first, classes, np.arange(rows))
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[classes]
