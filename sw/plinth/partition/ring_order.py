"""Order the dies of a ring along the array's links.

A ring's words go from each member to the next one, so that they take as many links as the members are hops apart, all
round. The order is a cycle of neighbours where one is found, else the shortest that is found, and that of the seats
unless another one is shorter. Of rows and columns of a torus, all or some, cycles follow from their sides::

    an even number of rows         down one column, back over the others, row by row in turn
    odd numbers, rows >= columns   row after row, each from behind the end of the one before, (rows - columns) / 2 of
                                   them to the right and the others to the left, by the links round the torus

and likewise by columns. On an array of clusters, groups x clusters of dies, the dies of a group are neighbours in a row
that the host closes, those of a cluster all that are in the same row or column of its grid::

    dies of one group      as they stand in it, by the host from the last to the first
    dies of one cluster    row after row of the grid, from the end of one to the same column of the next
    dies of several        group after group, by the host from each to the next; or, all by neighbours, along one group,
                           and back over the others, cluster by cluster in turn

Where links differ in rate, a ring goes at the pace of the one that its words keep busy longest. So the pace comes
first, and the links that it takes second: rings of several groups and clusters of MPT's workers go by the host, not by
the narrow links within clusters, which would spare some links. Any other set of dies is searched: for a cycle of
neighbours a bounded number of steps, then by exchanges of two ways at a time (2-opt). On trees the order of the seats
is the shortest there is.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from plinth.array.array import MAXIMUM_PORTS, Array
from plinth.array.topologies import cluster_grid
from plinth.partition.cuts import Integers
from plinth.partition.groups import ProcessGroups

#: Members up to which other sets than rows and columns are searched, and steps of a search for a cycle of neighbours.
MOST_SEARCHED, MOST_STEPS = 128, 20_000

#: Members by their numbers in the ring.
Order = list[int]


def ring_hops(hops: Integers, order: Sequence[int]) -> int:
    """Links that a word takes once round."""
    return int(hops[order, np.roll(order, -1)].sum())


@lru_cache(maxsize=1 << 12)
def along_links(array: Array | None, rings: ProcessGroups) -> ProcessGroups:
    """The rings with their members in an order along the array's links; without an array, and on full arrays and trees,
    as they are."""
    if array is None or rings.size < 4 or array.topology in ("full", "h-tree", "star"):
        return rings
    paced = array.has_rates
    return ProcessGroups(rings.kind, tuple(_ordered(array, members, paced) for members in rings.members))


def ring_pace(array: Array, members: Sequence[int]) -> float:
    """Cycles for which one word from each member to the next one keeps the busiest link busy."""
    ring, loads = np.array(members), np.zeros(len(array.directed_rates))
    for _, over in array.all_routes.walk(ring, np.roll(ring, -1)):
        np.add.at(loads, over, 1)
    return float((loads / array.directed_rates).max())


def _ordered(array: Array, members: tuple[int, ...], paced: bool) -> tuple[int, ...]:
    """The members of a ring in the best order that is found; ``paced``: links differ in rate."""
    dies = np.array(members)
    hops = array.all_routes.hops[dies][:, dies].astype(np.int64)

    def length(order: Order) -> tuple[float, int]:
        return ring_pace(array, dies[order].tolist()) if paced else 0.0, ring_hops(hops, order)

    best = list(range(len(members)))
    least = length(best)
    for order in _orders(array, dies, hops):
        if least[1] == len(members) and not paced:
            break
        if (order_length := length(order)) < least:
            best, least = order, order_length
    first = best.index(0)
    return tuple(dies[best[first:] + best[:first]].tolist())


def _orders(array: Array, dies: Integers, hops: Integers) -> Iterator[Order]:
    """Orders to choose from, each made when it is asked for."""
    grid = _grid(dies, array.dimensions[1]) if array.dimensions else None
    around = None
    if grid is not None and array.topology == "clusters":
        columns = cluster_grid(array.dimensions[0], MAXIMUM_PORTS)[1]
        around = _rook_cycle([divmod(int(group), columns) for group in np.unique(dies // array.dimensions[1])])
    if grid is not None and around is not None:
        grid = grid[around]
        yield grid.reshape(-1).tolist()
        for table in (grid, grid.T):
            yield [int(table[place]) for place in _returning(*table.shape)]
        return
    if grid is not None and array.topology == "torus":
        for table in (grid, grid.T):
            if table.shape[0] % 2 == 0:
                yield [int(table[place]) for place in _returning(*table.shape)]
            if order := [int(table[place]) for place in _winding(*table.shape)]:
                yield order
        return
    if len(dies) <= MOST_SEARCHED and (hops == hops.T).all():
        neighbours = _neighbours(hops)
        if neighbours is not None:
            yield neighbours
        else:
            yield _exchanged(hops)


def _grid(dies: Integers, columns: int) -> Integers | None:
    """Numbers of members by row and column, if they are all of some rows and columns."""
    row, column = np.unique(dies // columns), np.unique(dies % columns)
    if len(row) * len(column) != len(dies):
        return None
    numbers = np.argsort(dies)
    wanted = (row[:, None] * columns + column).reshape(-1)
    return numbers.reshape(len(row), len(column)) if np.array_equal(dies[numbers], wanted) else None


def _returning(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Row by row of a grid in turn, and back up the first column: a cycle of neighbours if the number of rows is even,
    or the last column is beside the first one."""
    for row in range(rows):
        across = range(1, columns)
        yield from ((row, column) for column in (reversed(across) if row % 2 else across))
    yield from ((row, 0) for row in reversed(range(rows)))


def _winding(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """A cycle of neighbours of a torus, row after row by the links round it."""
    rights = rows // 2 if rows % 2 == 0 else (rows - columns) // 2
    if rights < 0 or (rows % 2 and (rows - columns) % 2):
        return
    column = 0
    for row in range(rows):
        # Where rows are even in number, to the right and to the left in turn.
        right = row % 2 == 0 if rows % 2 == 0 else row < rights
        step = 1 if right else -1
        yield from ((row, (column + step * place) % columns) for place in range(columns))
        column = (column - step) % columns


def _rook_cycle(places: Sequence[tuple[int, int]]) -> Order | None:
    """A cycle of places of a grid, by their numbers, in which each is in the row or the column of the next one, as a
    rook moves; None if none is found."""
    numbers = {place: number for number, place in enumerate(places)}
    if cycle := _row_by_row(places):
        return [numbers[place] for place in cycle]
    if cycle := _row_by_row([(column, row) for row, column in places]):
        return [numbers[row, column] for column, row in cycle]
    return None


def _row_by_row(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A rook's cycle that goes through the rows one after the other; empty if there is none."""
    rows: dict[int, list[int]] = {}
    for row, column in places:
        rows.setdefault(row, []).append(column)
    if len(rows) == 1:
        return list(places)
    # Rows of one place stand between two others of their column.
    single = [(row, columns[0]) for row, columns in rows.items() if len(columns) == 1]
    rows = {row: columns for row, columns in rows.items() if len(columns) > 1}
    shared = sorted(set.intersection(*map(set, rows.values()))) if rows else []
    if len(rows) < 2 or len(shared) < 2 + len(rows) % 2:
        return []
    # Columns by which each row is entered: no two rows in turn by the same, the last one and the first included.
    doors = [shared[number % 2] for number in range(len(rows) - len(rows) % 2)] + shared[2:3] * (len(rows) % 2)
    cycle = []
    for number, (row, columns) in enumerate(rows.items()):
        enter, leave = doors[number], doors[(number + 1) % len(doors)]
        cycle += [(row, enter), *((row, column) for column in columns if column not in (enter, leave)), (row, leave)]
        cycle += [place for place in single if place[1] == leave]
        single = [place for place in single if place[1] != leave]
    return [] if single else cycle


def _neighbours(hops: Integers) -> Order | None:
    """A cycle of neighbours, if one is found in a bounded number of steps: those with the fewest ways on first."""
    near = [np.flatnonzero(row == 1).tolist() for row in hops]
    path, used, steps = [0], {0}, 0

    def ways_on(member: int) -> list[int]:
        free = [other for other in near[member] if other not in used]
        return sorted(free, key=lambda other: (sum(neighbour not in used for neighbour in near[other]), other))

    waiting = [ways_on(0)]
    while waiting and steps < MOST_STEPS:
        steps += 1
        if len(path) == len(near) and 0 in near[path[-1]]:
            return path
        if not waiting[-1]:
            waiting.pop()
            used.discard(path.pop())
            continue
        following = waiting[-1].pop(0)
        path.append(following)
        used.add(following)
        waiting.append(ways_on(following))
    return None


def _exchanged(hops: Integers) -> Order:
    """The order of the seats, improved as long as two of its ways can be exchanged for two that are shorter."""
    order, count = np.arange(len(hops)), len(hops)
    ones, others = np.triu_indices(count, 2)
    apart = (ones > 0) | (others < count - 1)
    ones, others = ones[apart], others[apart]
    while True:
        here, there = order[ones], order[others]
        behind, beyond = order[ones + 1], order[(others + 1) % count]
        gain = hops[here, behind] + hops[there, beyond] - hops[here, there] - hops[behind, beyond]
        best = int(gain.argmax()) if len(gain) else 0
        if not len(gain) or gain[best] <= 0:
            return order.tolist()
        order[ones[best] + 1:others[best] + 1] = order[ones[best] + 1:others[best] + 1][::-1].copy()
