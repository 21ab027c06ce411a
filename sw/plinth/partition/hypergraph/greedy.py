"""Partitions that need no partitioner: at random, and grown row by row.

    random   the paper's baseline: rows dealt out by shares of their number, whatever they weigh
    greedy   one part after the other grows by the unit that adds the fewest words to it, until it has its share; then
             parts get the names of the owners that they read most of, units move and change places as long as that
             spares words, and parts that are too heavy give some away
"""

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.optimize import linear_sum_assignment

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.moves import LayerMoves, Surroundings, improve, within
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, caps, readers, row_weights


def dealt(rows: int, targets: Reals, rng: np.random.Generator) -> Integers:
    """An owner for each row, at random; parts have rows by their shares, as even as whole rows are."""
    ends = np.round(np.cumsum(targets) * rows).astype(np.int64)
    return rng.permutation(np.repeat(np.arange(len(targets)), np.diff(ends, prepend=0)))


def random(patterns: Iterable[Pattern], targets: Reals, seed: int) -> Iterator[Integers]:
    """Owners of each layer's rows, at random."""
    rng = np.random.default_rng(seed)
    for pattern in patterns:
        yield dealt(pattern.shape[0], targets, rng)


def greedy(patterns: Iterable[Pattern], targets: Reals, imbalance: float, seed: int) -> Iterator[Integers]:
    """Owners of each layer's rows, layer by layer, given those of its columns."""
    columns: Integers | None = None
    for pattern in patterns:
        limits, _ = caps(row_weights(pattern), targets, imbalance)
        columns = grown(Surroundings(pattern, columns, None, None, limits), targets, seed)
        yield columns


def grown(around: Surroundings, targets: Reals, seed: int) -> Integers:
    """Owners of a layer's rows."""
    rng = np.random.default_rng(seed)
    units = identical_rows(around.pattern)
    of_class = np.bincount(units, weights=row_weights(around.pattern))
    if (of_class > around.limits.min() / 2).any():
        units = np.arange(len(units))
    moves = LayerMoves(around, units, np.full(int(units.max()) + 1, -1))
    _grow(moves, targets)
    moves = LayerMoves(around, units, _renamed(around, units, moves.parts, targets))
    improve(moves, rng)
    return within(around, units, moves.parts, targets)


def _grow(moves: LayerMoves, targets: Reals) -> None:
    """Give each unit its first part, a part after the other."""
    goals, left = targets * moves.weights.sum(), np.ones(len(moves.weights), dtype=np.bool_)
    for part in np.argsort(-targets, kind="stable").tolist():
        while left.any():
            free = np.flatnonzero(left)
            free = free[moves.loads[part] + moves.weights[free] / 2 <= goals[part]]
            if not len(free):
                break
            # Of units that add the same the heaviest: it shares most with the part.
            added = moves.entry[free, part] - moves.weights[free] / (1 + moves.weights.max())
            unit = int(free[np.argmin(added)])
            moves.move(unit, part)
            left[unit] = False
    for unit in np.flatnonzero(left)[np.argsort(-moves.weights[left], kind="stable")].tolist():
        moves.move(unit, int(np.argmin((moves.loads + moves.weights[unit]) / goals)))


def _renamed(around: Surroundings, units: Integers, parts: Integers, targets: Reals) -> Integers:
    """Parts of units under the names with the fewest words; parts of other shares keep theirs."""
    if around.columns is None or not np.allclose(targets, targets[0]):
        return parts
    width = len(targets)
    column, reader = np.nonzero(readers(around.pattern, parts[units], width))
    owned = np.bincount(reader * width + around.columns[column], minlength=width * width).reshape(width, width)
    return linear_sum_assignment(owned, maximize=True)[1][parts]
