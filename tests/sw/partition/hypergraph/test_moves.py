"""Differences of moves are those of the words counted anew; limits hold."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import pruned_net, radix_net, random_net

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.moves import LayerMoves, Surroundings, anneal, improve, mend, within
from plinth.partition.hypergraph.owners import Integers, canonical, caps, row_weights, shares
from plinth.partition.hypergraph.volume import column_cost

PARTS = 5


def surrounded(seed: int, layer: int) -> tuple[Surroundings, Integers]:
    """A layer of a random network between random owners, and owners of its rows."""
    rng = np.random.default_rng(seed)
    sizes = [40, 60, 50, 30]
    patterns = [canonical(pattern) for pattern in random_net(rng, sizes, 0.15)]
    owners = [rng.integers(PARTS, size=rows) for rows in sizes]
    limits, _ = caps(row_weights(patterns[layer]), shares(PARTS, None), 0.1)
    last = layer == 2
    return Surroundings(patterns[layer], owners[layer] if layer else None, None if last else patterns[layer + 1],
                        None if last else owners[layer + 2], limits), owners[layer + 1]


def words(around: Surroundings, owners: Integers) -> int:
    """Words of one direction of a layer and the next one."""
    cost = column_cost(around.pattern, around.columns, owners, PARTS)
    if around.following is not None and around.following_rows is not None:
        cost += column_cost(around.following, owners, around.following_rows, PARTS)
    return cost


@pytest.mark.parametrize("layer", range(3))
def test_differences_are_exact(layer: int) -> None:
    around, owners = surrounded(1, layer)
    moves = LayerMoves(around, np.arange(len(owners)), owners)
    rng, begun = np.random.default_rng(2), words(around, owners)
    for _ in range(150):
        unit, to = int(rng.integers(len(owners))), int(rng.integers(PARTS))
        if to == moves.parts[unit]:
            continue
        before, said = words(around, moves.parts), moves.differences(unit)[to]
        assert moves.move(unit, to) == said == words(around, moves.parts) - before
        assert begun + moves.change == words(around, moves.parts)
    anew = LayerMoves(around, np.arange(len(owners)), moves.parts)
    assert np.array_equal(anew.entry, moves.entry) and np.array_equal(anew.spared, moves.spared)
    assert np.array_equal(anew.loads, moves.loads)


def test_units_that_are_placed_one_by_one() -> None:
    """From no parts at all, as well as from all of them."""
    around, owners = surrounded(3, 1)
    moves = LayerMoves(around, np.arange(len(owners)), np.full(len(owners), -1))
    for unit in np.random.default_rng(0).permutation(len(owners)).tolist():
        moves.move(unit, int(owners[unit]))
    anew = LayerMoves(around, np.arange(len(owners)), owners)
    assert np.array_equal(anew.entry, moves.entry) and np.array_equal(anew.spared, moves.spared)


def test_identical_rows_move_together() -> None:
    patterns = radix_net(256, 6)
    rng = np.random.default_rng(4)
    columns, following = rng.integers(PARTS, size=256), rng.integers(PARTS, size=256)
    units = identical_rows(patterns[2])
    around = Surroundings(patterns[2], columns, patterns[3], following, np.full(PARTS, 1e9))
    moves = LayerMoves(around, units, rng.integers(PARTS, size=int(units.max()) + 1))
    for _ in range(50):
        unit, to = int(rng.integers(len(moves.parts))), int(rng.integers(PARTS))
        if to != moves.parts[unit]:
            before = words(around, moves.parts[units])
            assert moves.move(unit, to) == words(around, moves.parts[units]) - before


@pytest.mark.parametrize("layer", range(3))
def test_annealing_keeps_limits(layer: int) -> None:
    around, owners = surrounded(5, layer)
    moves = LayerMoves(around, np.arange(len(owners)), owners)
    begun = words(around, owners)
    assert mend(moves) and (moves.loads <= around.limits).all()
    for temperature in (3.0, 1.0, 0.3):
        anneal(moves, temperature, np.random.default_rng(0))
        assert (moves.loads <= around.limits).all()
        assert moves.change == words(around, moves.parts) - begun
    improve(moves, np.random.default_rng(0))
    assert moves.change < 0 and (moves.loads <= around.limits).all()
    assert moves.change == words(around, moves.parts) - begun


def test_exchanges_where_nothing_else_fits() -> None:
    """Rows of one weight, evenly dealt out, no room at all: only exchanges are left, and they spare words."""
    pattern = canonical(radix_net(64, 1, copies=2)[0])
    around = Surroundings(pattern, None, None, None, np.full(4, row_weights(pattern).sum() / 4))
    owners = np.random.default_rng(0).permutation(np.arange(64) % 4)
    moves = LayerMoves(around, np.arange(64), owners)
    improve(moves, np.random.default_rng(0))
    assert moves.change < -30 and (np.bincount(moves.parts) == 16).all()


def test_a_partition_that_is_far_too_uneven_is_mended() -> None:
    pattern = canonical(pruned_net([200, 120], 0.1, 0)[0])
    targets = shares(PARTS, [1, 1, 2, 3, 5])
    limits, ratio = caps(row_weights(pattern), targets, 0.01)
    owners = within(Surroundings(pattern, None, None, None, limits), np.arange(120), np.zeros(120, dtype=int), targets)
    assert (np.bincount(owners, weights=row_weights(pattern), minlength=PARTS) <= limits).all() and ratio < 1.03


def test_where_moves_do_not_mend_rows_are_dealt_out_anew() -> None:
    """Weights 3, 3, 2, 2, 2 in two parts: 6 and 6 is possible, but from 3 + 2 + 2 and 3 + 2 no one move leads there."""
    pattern = csr_array(np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0]]))
    around = Surroundings(pattern, None, None, None, np.array([6.5, 6.5]))
    owners = within(around, np.arange(5), np.array([0, 1, 0, 0, 1]), shares(2, None))
    assert sorted(np.bincount(owners, weights=row_weights(pattern)).tolist()) == [6, 6]
