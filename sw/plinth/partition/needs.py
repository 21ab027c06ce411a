"""What dies have and need of a sparse layer that splits its outputs: rows of its matrix, and the columns in which these
have entries, a cover of the inputs.

Within a part columns stand in the order in which their owners have them, one owner's behind the other's: what an owner
sends to a die lies there in a row.
"""

from functools import lru_cache

import numpy as np

from plinth.network.sparse.matrices import identical_rows
from plinth.network.sparse.pattern import SparsePattern
from plinth.partition.cuts import (
    Cover,
    Cuts,
    Factors,
    Indices,
    Integers,
    Listed,
    bounds,
    levels_of,
    order_of,
    selected,
)
from plinth.partition.cuts import places as part_numbers


@lru_cache(maxsize=1 << 10)
def rows_of_parts(pattern: SparsePattern, outputs: Cuts, factors: Factors) -> tuple[Integers, ...]:
    """The rows of each part of the outputs, in the order in which the part has them."""
    low, high = bounds(pattern.rows, outputs, factors)
    order, everything = order_of(outputs), np.arange(pattern.rows)
    first = np.unique(part_numbers(levels_of(outputs), factors), return_index=True)[1]
    return tuple(everything[selected(order, int(low[seat]), int(high[seat] - low[seat]))] for seat in first)


@lru_cache(maxsize=1 << 10)
def by_blocks(pattern: SparsePattern, outputs: Cuts, factors: Factors) -> Cuts:
    """How outputs are cut, with the rows of each part in such an order that those of the same columns are neighbours:
    blocks of a die's matrix are rows that lie one behind the other."""
    classes = identical_rows(pattern.matrix())
    parts = [rows[np.argsort(classes[rows], kind="stable")] for rows in rows_of_parts(pattern, outputs, factors)]
    listed = Listed(levels_of(outputs), tuple(map(_ranges, parts)))
    return outputs if listed.ordered or listed == outputs[0] else (listed,)


def _ranges(indices: Integers) -> Indices:
    """Indices, in their order, as ranges."""
    ends = np.flatnonzero(np.diff(indices) != 1)
    firsts, lasts = np.concatenate([indices[:1], indices[ends + 1]]), np.concatenate([indices[ends], indices[-1:]])
    return tuple(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


@lru_cache(maxsize=1 << 10)
def nonzeros_of_parts(pattern: SparsePattern, outputs: Cuts, factors: Factors) -> Integers:
    """The entries of the rows of each part of the outputs."""
    counts = np.diff(pattern.matrix().indptr).astype(np.int64)
    entries = np.array([counts[rows].sum() for rows in rows_of_parts(pattern, outputs, factors)], dtype=np.int64)
    entries.flags.writeable = False
    return entries


@lru_cache(maxsize=1 << 10)
def needed_columns(pattern: SparsePattern, outputs: Cuts, owned: Cuts, factors: Factors) -> Cover:
    """The columns that each part of the outputs needs; ``owned``: how their owners cut the inputs."""
    order, places = order_of(owned), np.arange(pattern.columns)
    if order is not None:
        places[order.order] = places.copy()
    parts: list[Indices] = []
    for rows in rows_of_parts(pattern, outputs, factors):
        columns = np.unique(pattern.of_rows(rows).indices).astype(np.int64)
        parts.append(_ranges(columns[np.argsort(places[columns])]))
    return Cover(levels_of(outputs), tuple(parts))
