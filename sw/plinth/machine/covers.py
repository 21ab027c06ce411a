"""How a sparse pattern is covered by dense blocks at the least cost: exactly where it is regular, with fill elsewhere.

Ways that are tried, of which the cheapest is taken; of equal ones that of the fewest blocks, then the first:

    rows        rows with equal columns are a class; a class and its columns are a block. No fill. RadiX-Net's layers,
                and any rows of them, come out so
    columns     the same of columns with equal rows
    whole       all rows and all columns that have a nonzero
    similar     classes of rows are joined, greedily, with the union of their columns, as long as that is cheaper than
                blocks of their own; and likewise of columns
    bicliques   dense parts are taken out one after the other, each the best that rows and columns, chosen in turn
                from the fullest row on, lead to; what remains is covered by similar rows, or columns. A part must
                give more nonzeros for its cost than these give

All are cut into blocks of at most so many rows and columns. Ways with fill are tried only where the first is dearer
than what nonzeros cost in full blocks, and only of up to half a million nonzeros, as their time goes by the square. The
result depends on the pattern, the limits and the cost alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plinth.machine.blocks import BlockCover, BlockShapes, Integers, check_pattern, given_cover
from plinth.network.sparse.matrices import identical_rows, starts_of

#: What a block of so many rows and columns costs, in cycles or any other unit; more than 0.
Cost = Callable[[int, int], float]
#: Row and column numbers of a block, ascending.
Block = tuple[Integers, Integers]

#: Classes of rows among which similar ones are looked for at a time: time goes by their square.
MOST_CLASSES = 4096
#: Bicliques have at most so many rows and columns, and are looked for in patterns of at most so many nonzeros and
#: elements, classes counted once: there are about as many as the nonzeros allow, and each takes a look at all rows.
MOST_BICLIQUE, MOST_NONZEROS, MOST_ELEMENTS = 256, 1 << 17, 1 << 24
#: Most kinds of classes of rows, and most readers of a class of columns, to look at all pairs before any are joined.
FEW_KINDS = 32
#: Where no class of rows has more classes of columns, nor one of columns more of rows, as on a ring, and no two are
#: cheaper joined, no bicliques are looked for: those without fill are classes, those with fill are joined ones.
SHARED = 2
#: Nonzeros of a pattern up to which ways with fill are tried.
MOST_FILLED = 1 << 19
#: Times that rows and columns of a biclique are chosen in turn.
TURNS = 4


def area(rows: int, columns: int) -> float:
    """The cost of a block where nothing else is said: its elements. By this alone, rows for themselves have no fill,
    and nothing is cheaper; costs with a fixed part for each block or row make blocks larger."""
    return rows * columns


def cover(pattern: csr_array, most_rows: int, most_columns: int, cost: Cost = area, *, fill: bool = True
          ) -> BlockCover:
    """Cover a pattern by dense blocks.

    Parameters
    ----------
    pattern : csr_array
        ``[outputs, inputs]``; its values do not count, entries of 0 are nonzeros.
    most_rows, most_columns : int
        The largest block.
    cost : callable
        What a block of (rows, columns) costs, more than 0; it must not fall as either rises.
    fill : bool
        Whether ways with fill are tried, too, which take longer: a second for a layer of 1,024 x 1,024 without
        structure of which a tenth are nonzeros.

    Raises
    ------
    TypeError, ValueError
        If the pattern is not in order (:func:`~plinth.machine.blocks.check_pattern`), a limit is below 1, or a cost is
        not a finite number above 0.
    """
    return covers(pattern, most_rows, most_columns, (cost,), fill=fill)[0]


def covers(pattern: csr_array, most_rows: int, most_columns: int, costs: Sequence[Cost], *, fill: bool = True
           ) -> list[BlockCover]:
    """Cover a pattern by each of several costs, as :func:`cover` does; equal covers are made once."""
    check_pattern(pattern)
    for limit, what in ((most_rows, "rows"), (most_columns, "columns")):
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
            raise ValueError(f"{what} of a block must be at least 1, not {limit!r}")
    sides = _Sides(pattern, min(int(most_rows), pattern.shape[0]), min(int(most_columns), pattern.shape[1]))
    found: list[tuple[list[Block], BlockCover]] = []
    for cost in costs:
        blocks = _cheapest(sides, _Costs(cost, sides.most_rows, sides.most_columns), fill) if pattern.nnz else []
        known = next((made for others, made in found if _equal(blocks, others)), None)
        found.append((blocks, known or given_cover(pattern, blocks)))
    return [made for _, made in found]


def _equal(blocks: list[Block], others: list[Block]) -> bool:
    return len(blocks) == len(others) and all(np.array_equal(side, other) for block, those in zip(
        blocks, others, strict=True) for side, other in zip(block, those, strict=True))


def cover_cost(blocks: BlockShapes, cost: Cost = area) -> float:
    """What all blocks of a cover cost."""
    return sum(group.count * cost(*group.shape[1:]) for group in blocks.groups())


class _Costs:
    """Costs of blocks within limits, each asked for once."""

    def __init__(self, cost: Cost, rows: int, columns: int) -> None:
        self._cost, self.rows, self.columns = cost, rows, columns
        self._known: dict[tuple[int, int], float] = {}
        self._tables: dict[tuple[int, int], NDArray[np.float64]] = {}

    def transposed(self) -> "_Costs":
        """The same costs for the transposed pattern: rows and columns of blocks change places."""
        return _Costs(lambda rows, columns: self.block(columns, rows), self.columns, self.rows)

    def block(self, rows: int, columns: int) -> float:
        """The cost of one block (ValueError if it is not a finite number above 0)."""
        key = rows, columns
        if key not in self._known:
            cost = float(self._cost(rows, columns))
            if not (isfinite(cost) and cost > 0):
                raise ValueError(f"the cost of a block of {rows} x {columns} must be a finite number above 0, not "
                                 f"{cost}")
            self._known[key] = cost
        return self._known[key]

    def cut(self, rows: int, columns: int) -> float:
        """The cost of so many rows and columns together, cut into blocks within the limits."""
        whole_rows, rest_rows = divmod(rows, self.rows)
        whole_columns, rest_columns = divmod(columns, self.columns)
        return sum(count * self.block(height, width)
                   for height, height_count in ((self.rows, whole_rows), (rest_rows, int(rest_rows > 0)))
                   for width, width_count in ((self.columns, whole_columns), (rest_columns, int(rest_columns > 0)))
                   if (count := height_count * width_count))

    def table(self, axis: int, other: int) -> NDArray[np.float64]:
        """Costs of blocks that have ``other`` columns (axis 0) or rows (axis 1), and along the axis 1, 2, .. up to what
        bicliques may have."""
        key = axis, other
        if key not in self._tables:
            most = min((self.rows, self.columns)[axis], MOST_BICLIQUE)
            self._tables[key] = np.array([self.block(size, other) if axis == 0 else self.block(other, size)
                                          for size in range(1, most + 1)])
        return self._tables[key]

    def least(self, nonzeros: int) -> float:
        """The least cost of so many nonzeros in full blocks, whose sizes are powers of two or the limits."""
        return nonzeros * min(self.block(rows, columns) / (rows * columns)
                              for rows in _powers(self.rows) for columns in _powers(self.columns))


def _powers(limit: int) -> Iterator[int]:
    yield limit
    yield from (1 << power for power in range(limit.bit_length()))


@dataclass(frozen=True)
class _Classes:
    """Rows that are taken together, in pieces of at most so many; none of those without a nonzero.

    ``numbers`` are theirs, piece after piece, ascending within each, and ``starts`` says where each piece starts.
    """

    numbers: Integers
    starts: Integers

    @classmethod
    def of(cls, pattern: csr_array, most: int) -> "_Classes":
        """Classes of the rows of a pattern that have equal columns, in pieces of at most ``most`` rows."""
        classes = identical_rows(pattern)
        numbers = np.argsort(classes, kind="stable")
        sizes = np.bincount(classes)
        empty = np.diff(pattern.indptr)[numbers[starts_of(sizes)[:-1]]] == 0
        numbers = numbers[np.repeat(~empty, sizes)]
        sizes = sizes[~empty]
        pieces = -(-sizes // most)
        lengths = np.full(int(pieces.sum()), most)
        lengths[np.cumsum(pieces) - 1] = sizes - most * (pieces - 1)
        return cls(numbers, starts_of(lengths))

    @property
    def sizes(self) -> Integers:
        """How many rows each piece has."""
        return np.diff(self.starts)

    @property
    def first(self) -> Integers:
        """The first row of each piece."""
        return self.numbers[self.starts[:-1]]

    def members(self, pieces: NDArray[Any]) -> Integers:
        """The row numbers of some pieces, ascending."""
        return np.sort(np.concatenate([self.numbers[self.starts[piece]:self.starts[piece + 1]] for piece in pieces]))


def _exact(pattern: csr_array, rows: _Classes) -> list[Block]:
    """Each class of rows and its columns."""
    starts, columns = pattern.indptr, pattern.indices
    return [(rows.numbers[start:end], columns[starts[first]:starts[first + 1]])
            for start, end, first in zip(rows.starts, rows.starts[1:], rows.first, strict=False)]


class _PatternSide:
    """A pattern from the side of its rows, whose classes are blocks or are joined; the transpose has the other side."""

    def __init__(self, pattern: csr_array, rows: _Classes, columns: _Classes, costs: _Costs) -> None:
        self.pattern, self.rows, self.columns, self.costs = pattern, rows, columns, costs

    @cached_property
    def incidence(self) -> csr_array:
        """Which pieces of rows have entries in which pieces of columns: ``[row pieces, column pieces]``."""
        chosen = csr_array(self.pattern[self.rows.first])
        place = np.full(self.pattern.shape[1], -1)
        place[self.columns.first] = np.arange(len(self.columns.sizes))
        columns = place[chosen.indices]
        used = columns >= 0
        # Pieces are numbered by their classes, so that columns of a row need not ascend.
        counts = np.add.reduceat(used, chosen.indptr[:-1]) if len(used) else np.zeros(0, np.int64)
        return csr_array((np.ones(np.count_nonzero(used), np.float32), columns[used], starts_of(counts)),
                         shape=(len(self.rows.sizes), len(self.columns.sizes)))

    def blocks(self, groups: list[tuple[NDArray[Any], NDArray[Any]]]) -> list[Block]:
        """Blocks whose row pieces and column pieces are given."""
        return [(self.rows.members(rows), self.columns.members(columns)) for rows, columns in groups]

    def similar(self, incidence: csr_array) -> list[Block]:
        """Blocks of similar row pieces, which are joined as long as that is cheaper, a few thousand at a time."""
        used = np.flatnonzero(np.diff(incidence.indptr))
        joined: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for start in range(0, len(used), MOST_CLASSES):
            chosen = used[start:start + MOST_CLASSES]
            joined += [(chosen[rows], columns) for rows, columns in _joined_rows(
                csr_array(incidence[chosen]), self.rows.sizes[chosen], self.columns.sizes, self.costs)]
        return self.blocks(joined)


class _Sides:
    """What all ways to cover a pattern begin with, within the limits of blocks."""

    def __init__(self, pattern: csr_array, most_rows: int, most_columns: int) -> None:
        self.pattern, self.most_rows, self.most_columns = pattern, most_rows, most_columns

    @cached_property
    def rows(self) -> _Classes:
        """Rows with equal columns."""
        return _Classes.of(self.pattern, self.most_rows)

    @cached_property
    def transposed(self) -> csr_array:
        """The pattern of the transposed layer, ``[columns, rows]``: covers by columns are its covers by rows."""
        return csr_array(self.pattern.T)

    @cached_property
    def columns(self) -> _Classes:
        """Columns with equal rows."""
        return _Classes.of(self.transposed, self.most_columns)


def _cheapest(sides: _Sides, costs: _Costs, fill: bool) -> list[Block]:
    """Blocks of the cheapest way, within the limits."""
    pattern, rows = sides.pattern, sides.rows
    best = _Best(costs)
    best.offer(_exact(pattern, rows))
    if best.cost <= costs.least(pattern.nnz):
        return best.blocks
    transposed, columns = sides.transposed, sides.columns
    side = _PatternSide(pattern, rows, columns, costs)
    other = _PatternSide(transposed, columns, rows, costs.transposed())
    best.offer(_exchanged(_exact(transposed, columns)))
    if not fill or pattern.nnz > MOST_FILLED or best.cost <= costs.least(pattern.nnz):
        return best.blocks
    best.offer([(np.flatnonzero(np.diff(pattern.indptr)), np.flatnonzero(np.diff(transposed.indptr)))])
    similar, similar_columns = side.similar(side.incidence), other.similar(other.incidence)
    joined = [best.offer(similar), best.offer(_exchanged(similar_columns))]
    alone = len(similar) == len(rows.sizes) and len(similar_columns) == len(columns.sizes) and max(
        np.diff(some.incidence.indptr).max(initial=0) for some in (side, other)) <= SHARED
    if not alone and side.incidence.nnz <= MOST_NONZEROS and np.prod(side.incidence.shape) <= MOST_ELEMENTS:
        taken, remaining = _bicliques(side.incidence, rows.sizes, columns.sizes, costs, pattern.nnz / min(joined))
        parts = side.blocks(taken)
        best.offer(parts + side.similar(remaining))
        best.offer(parts + _exchanged(other.similar(csr_array(remaining.T))))
    return best.blocks


class _Best:
    """The cheapest list of blocks so far."""

    def __init__(self, costs: _Costs) -> None:
        self._costs = costs
        self.cost = float("inf")
        self.blocks: list[Block] = []

    def offer(self, blocks: list[Block]) -> float:
        """Cut blocks into pieces within the limits, keep them if they are cheapest, and tell what they cost."""
        costs = self._costs
        cost = sum(costs.cut(len(rows), len(columns)) for rows, columns in blocks)
        if cost <= self.cost:
            pieces = [(rows[row:row + costs.rows], columns[column:column + costs.columns]) for rows, columns in blocks
                      for row in range(0, len(rows), costs.rows) for column in range(0, len(columns), costs.columns)]
            if cost < self.cost or len(pieces) < len(self.blocks):
                self.cost, self.blocks = cost, pieces
        return cost


def _exchanged(blocks: list[Block]) -> list[Block]:
    return [(rows, columns) for columns, rows in blocks]


def _joined_rows(incidence: csr_array, heights: Integers, widths: Integers, costs: _Costs
                 ) -> list[tuple[Integers, Integers]]:
    """Groups of rows, each with the union of their columns.

    A group begins with the row of the most columns that is left. What joins it is the row that shares most with the
    union, or else the one that adds least, as long as the group with it is cheaper than both apart.
    """
    readers = csr_array(incidence.T)
    sizes = np.asarray(incidence @ widths, np.int64)
    if not _any_cheaper(incidence, readers, sizes, heights, widths, costs):
        return [(np.array([row]), np.sort(incidence.indices[incidence.indptr[row]:incidence.indptr[row + 1]]))
                for row in np.argsort(-sizes, kind="stable")]
    free = np.ones(len(sizes), np.bool_)
    scale = int(widths.sum()) + 1
    groups = []
    for seed in np.argsort(-sizes, kind="stable"):
        if not free[seed]:
            continue
        group, union = [], np.zeros(len(widths), np.bool_)
        shared = np.zeros(len(sizes), np.int64)
        height = width = 0
        spent, joining = 0.0, int(seed)
        while True:
            added = int(sizes[joining] - shared[joining])
            height, width = height + int(heights[joining]), width + added
            spent = costs.cut(height, width)
            group.append(joining)
            free[joining] = False
            columns = incidence.indices[incidence.indptr[joining]:incidence.indptr[joining + 1]]
            fresh = columns[~union[columns]]
            union[fresh] = True
            for column in (fresh if len(fresh) < 4 else ()):
                shared[readers.indices[readers.indptr[column]:readers.indptr[column + 1]]] += widths[column]
            if len(fresh) >= 4:
                shared += np.asarray(widths[fresh] @ readers[fresh], np.int64)
            following = _next_row(sizes, shared, free & (heights <= costs.rows - height), scale, height, width, spent,
                                  heights, costs)
            if following is None:
                break
            joining = following
        groups.append((np.array(group), np.flatnonzero(union)))
    return groups


def _any_cheaper(incidence: csr_array, readers: csr_array, sizes: Integers, heights: Integers, widths: Integers,
                 costs: _Costs) -> bool:
    """Whether any two rows are cheaper joined; each kind of pair is looked at once, where there are few kinds."""
    kinds, kind = np.unique(np.stack([heights, sizes], axis=1), axis=0, return_inverse=True)
    if len(kinds) > FEW_KINDS or np.diff(readers.indptr).max(initial=0) > FEW_KINDS:
        return True
    weighted = csr_array((widths[incidence.indices], incidence.indices, incidence.indptr), shape=incidence.shape)
    both = csr_array(weighted @ readers).tocoo()
    kind = kind.reshape(-1)
    pairs = {(one, other, shared) for one, other, shared in np.unique(np.stack(
        [kind[both.row], kind[both.col], np.asarray(both.data, np.int64)], axis=1)[both.row != both.col],
        axis=0).tolist()}
    pairs |= {(one, other, 0) for one in range(len(kinds)) for other in range(len(kinds))}
    for one, other, shared in pairs:
        (height, width), (other_height, other_width) = kinds[one].tolist(), kinds[other].tolist()
        if height + other_height <= costs.rows and costs.cut(height + other_height, width + other_width - shared) < (
                costs.cut(height, width) + costs.cut(other_height, other_width)):
            return True
    return False


def _next_row(sizes: Integers, shared: Integers, allowed: NDArray[np.bool_], scale: int, height: int, width: int,
              spent: float, heights: Integers, costs: _Costs) -> int | None:
    """The row that joins a group; None if none makes it cheaper."""
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return None
    added = sizes[rows] - shared[rows]
    for key in (shared[rows] * scale - added, shared[rows] - added * scale):
        choice = int(np.argmax(key))
        row = int(rows[choice])
        apart = costs.cut(int(heights[row]), int(sizes[row]))
        if costs.cut(height + int(heights[row]), width + int(added[choice])) < spent + apart:
            return row
    return None


def _bicliques(incidence: csr_array, heights: Integers, widths: Integers, costs: _Costs, rate: float
               ) -> tuple[list[tuple[Integers, Integers]], csr_array]:
    """Dense parts, rows and columns of each, that give more nonzeros for their cost than ``rate``; and what remains."""
    remaining = incidence.toarray()
    readers = np.ascontiguousarray(remaining.T)
    weights = heights.astype(np.float32), widths.astype(np.float32)
    left = remaining @ weights[1]
    fullest = _Fullest(heights), _Fullest(widths)
    taken = []
    while left.any():
        seed = int(np.argmax(left))
        rows, columns, gain = np.array([seed]), np.flatnonzero(remaining[seed]), 0.0
        for _ in range(TURNS):
            width = min(int(widths[columns].sum()), costs.columns, MOST_BICLIQUE)
            turn_rows, _ = fullest[0].choose(weights[1][columns] @ readers[columns], costs.table(0, width))
            turn_columns, turn_gain = fullest[1].choose(weights[0][turn_rows] @ remaining[turn_rows],
                                                        costs.table(1, int(heights[turn_rows].sum())))
            if turn_gain <= gain:
                break
            rows, columns, gain = turn_rows, turn_columns, turn_gain
        if gain > rate:
            taken.append((rows, columns))
            remaining[np.ix_(rows, columns)] = 0
            readers[np.ix_(columns, rows)] = 0
            left[rows] = np.where(left[rows] > 0, remaining[rows] @ weights[1], 0)
        else:
            left[seed] = 0
    return taken, csr_array(remaining)


class _Fullest:
    """Chooses rows, or columns, that give the most nonzeros for their cost.

    Parameters
    ----------
    sizes : array of int
        Rows of each piece.
    """

    def __init__(self, sizes: Integers) -> None:
        self._sizes, self._count, self._order = sizes, len(sizes), np.arange(len(sizes))

    def choose(self, scores: NDArray[np.float32], costs: NDArray[np.float64]) -> tuple[Integers, float]:
        """Pieces, those with the highest score first, of equal ones the first; and how many nonzeros a unit of cost
        gives.

        Parameters
        ----------
        scores : array of float
            Of each piece: nonzeros of one of its rows in the columns.
        costs : array of float
            Of 1, 2 .. rows.
        """
        # No two are equal, so that every way to sort them has one result.
        keys = scores.astype(np.int64)
        keys *= -self._count
        keys += self._order
        most = len(costs)
        if self._count > most:
            chosen = keys.argpartition(most - 1)[:most]
            chosen = chosen[keys[chosen].argsort()]
        else:
            chosen = keys.argsort()
        sizes = self._sizes[chosen]
        total = sizes.cumsum()
        fits = max(1, int(total.searchsorted(most, side="right")))
        # The first piece may have more rows than there are costs of.
        spent = costs[total[:fits] - 1] if total[0] <= most else costs[-1:] * (total[0] / most)
        gains = (scores[chosen] * sizes).cumsum()[:fits] / spent
        best = fits - 1 - int(gains[::-1].argmax())
        return chosen[:best + 1], float(gains[best])
