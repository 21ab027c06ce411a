"""What dies have and need of a sparse layer that splits its outputs: rows of its matrix, and the columns in which these
have entries, a cover of the inputs.

Within a part columns stand in the order in which their owners have them, one owner's behind the other's: what an owner
sends to a die is contiguous there. Rows of the same columns, a class, are neighbours, and so are two classes that a row
of the next layer reads together: what a block of either layer reads and gives is then contiguous as well, so that
nobody gathers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from plinth.network.sparse.matrices import entry_rows, identical_rows
from plinth.network.sparse.pattern import SparsePattern
from plinth.partition.cuts import (
    Cover,
    Cuts,
    Factors,
    Indices,
    Integers,
    Listed,
    Runs,
    bounds,
    levels_of,
    order_of,
    ranges_of_indices,
)
from plinth.partition.cuts import places as part_numbers

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array


@lru_cache(maxsize=1 << 10)
def rows_of_parts(pattern: SparsePattern, outputs: Cuts, factors: Factors) -> tuple[Integers, ...]:
    """The rows of each part of the outputs, in the order in which the part has them."""
    low, high = bounds(pattern.rows, outputs, factors)
    order = order_of(outputs)
    first = np.unique(part_numbers(levels_of(outputs), factors), return_index=True)[1]
    return tuple(np.arange(low[seat], high[seat]) if order is None else order.order[low[seat]:high[seat]]
                 for seat in first)


@lru_cache(maxsize=1 << 10)
def by_blocks(pattern: SparsePattern, outputs: Cuts, factors: Factors, following: SparsePattern | None = None) -> Cuts:
    """How outputs are cut, with the rows of each part in such an order that those of the same columns are neighbours:
    blocks of a die's matrix are rows that lie one behind the other. ``following``: of a sparse layer that reads them.
    """
    classes = identical_rows(pattern.matrix())
    readers = None if following is None else _distinct(following.matrix())
    parts = [_chained(rows, classes, readers) for rows in rows_of_parts(pattern, outputs, factors)]
    listed = Listed(levels_of(outputs), tuple(map(ranges_of_indices, parts)))
    given = order_of(outputs)
    same = given is not None and np.array_equal(listed.order, given.order) and np.array_equal(listed.edges, given.edges)
    return outputs if listed.ordered or same else (listed,)


def _chained(indices: Integers, classes: Integers, readers: csr_array | None) -> Integers:
    """Put indices of rows, or of columns, in an order class by class. Where a reader has all of two classes, and none
    else of these indices, the two become neighbours, so that what it reads is contiguous; of pairs that exclude each
    other the first ones do.

    Parameters
    ----------
    indices : array of int
        Those of a part.
    classes : array of int
        The class of every row or column of the matrix, also of those that the part does not have.
    readers : csr_array or None
        ``[readers, rows or columns]``: who reads what, each set of them once (:func:`_distinct`); None: classes stay in
        order.
    """
    numbers, class_of = np.unique(classes[indices], return_inverse=True)
    place = np.arange(len(numbers))
    if readers is not None and len(numbers) > 2:
        group = np.full(readers.shape[1], -1)
        group[indices] = class_of
        reader, read = entry_rows(readers), group[readers.indices]
        pairs, counts = np.unique((reader * len(numbers) + read)[read >= 0], return_counts=True)
        reader, read = np.divmod(pairs, len(numbers))
        whole = counts == np.bincount(class_of)[read]
        begins = np.flatnonzero(np.diff(reader, prepend=-1))
        of_two = begins[np.diff(begins, append=len(reader)) == 2]
        of_two = of_two[whole[of_two] & whole[of_two + 1]]
        place[_chain(len(numbers), zip(read[of_two].tolist(), read[of_two + 1].tolist(), strict=True))] = np.arange(
            len(numbers))
    return indices[np.argsort(place[class_of], kind="stable")]


def _distinct(matrix: csr_array) -> csr_array:
    """Rows of a matrix, of those with the same columns the first one."""
    return matrix[np.unique(identical_rows(matrix), return_index=True)[1]]


def _chain(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """All numbers below ``count`` in an order in which both of a pair are neighbours: the earlier of pairs that
    exclude each other; what begins with the least number comes first."""
    beside: list[list[int]] = [[] for _ in range(count)]
    ends = list(range(count))
    for one, other in pairs:
        # Of a chain with several members each end knows the other one.
        if len(beside[one]) < 2 and len(beside[other]) < 2 and ends[one] != other:
            beside[one].append(other)
            beside[other].append(one)
            far, near = ends[one], ends[other]
            ends[far], ends[near] = near, far
    order, seen = list[int](), [False] * count
    for first in range(count):
        if len(beside[first]) == 2 or seen[first]:
            continue
        current: int | None = first
        while current is not None:
            seen[current] = True
            order.append(current)
            current = next((number for number in beside[current] if not seen[number]), None)
    return order


@lru_cache(maxsize=1 << 10)
def whole_inputs(pattern: SparsePattern) -> Cuts:
    """All columns of a layer that reads the network's input, in an order in which blocks read contiguous ones; the host
    can write the input in any order."""
    read = pattern.matrix()
    columns = _chained(np.arange(pattern.columns), identical_rows(_sorted(read.T)), _distinct(read))
    return (Listed((), (ranges_of_indices(columns),)),)


def _sorted(matrix: Any) -> csr_array:
    """A matrix in compressed rows, columns ascending."""
    from scipy.sparse import csr_array

    rows = csr_array(matrix)
    rows.sort_indices()
    return rows


@lru_cache(maxsize=1 << 10)
def nonzeros_of_parts(pattern: SparsePattern, outputs: Cuts, factors: Factors) -> Integers:
    """The entries of the rows of each part of the outputs."""
    counts = np.diff(pattern.matrix().indptr).astype(np.int64)
    entries = np.array([counts[rows].sum() for rows in rows_of_parts(pattern, outputs, factors)], dtype=np.int64)
    entries.flags.writeable = False
    return entries


@lru_cache(maxsize=1 << 10)
def needed_columns(pattern: SparsePattern, outputs: Cuts, owned: Cuts | None, factors: Factors) -> Cover:
    """The columns that each part of the outputs needs; ``owned``: how their owners cut the inputs; None: they are
    the network's, which the host writes in any order."""
    order, places = order_of(owned or ()), np.arange(pattern.columns)
    if order is not None:
        places[order.order] = places.copy()
    parts: list[Indices | Runs] = []
    for rows in rows_of_parts(pattern, outputs, factors):
        read = pattern.of_rows(rows)
        columns = np.flatnonzero(np.bincount(read.indices, minlength=pattern.columns))
        parts.append(ranges_of_indices(columns[np.argsort(places[columns])] if owned is not None else
                             _chained(columns, identical_rows(_sorted(read.T)), _distinct(read))))
    return Cover(levels_of(outputs), tuple(parts))
