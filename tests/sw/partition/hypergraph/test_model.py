"""Hypergraphs of layers: their cut is the words; smaller forms have the same cut."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import radix_net, random_net

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.model import contracted, phase, two_sided
from plinth.partition.hypergraph.owners import Integers, Pattern, canonical
from plinth.partition.hypergraph.volume import column_cost

PARTS = 4


def layers(seed: int) -> tuple[list[Pattern], list[Integers]]:
    """Three random layers with random owners of inputs and rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 40, size=4).tolist()
    patterns = [canonical(pattern) for pattern in random_net(rng, sizes, rng.uniform(0.05, 0.3))]
    return patterns, [rng.integers(PARTS, size=rows) for rows in sizes]


def test_the_papers_example() -> None:
    """Figure 3's sizes: four rows and, fixed, four columns; a net a column, of cost 2, with one fixed vertex."""
    pattern = csr_array(np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]]))
    graph = phase(pattern, np.array([1, 1, 0, 0]), 2)
    assert graph.weights.tolist() == [2, 3, 2, 2, 0, 0, 0, 0]
    assert graph.fixed.tolist() == [-1, -1, -1, -1, 1, 1, 0, 0]
    assert graph.costs.tolist() == [2, 2, 2, 2]
    nets = [sorted(net.tolist()) for net in np.split(graph.pins, graph.starts[1:-1])]
    assert nets == [[0, 1, 4], [1, 2, 5], [0, 1, 3, 6], [2, 3, 7]]
    first = phase(pattern, None, 2)
    assert (first.fixed == -1).all() and len(first.weights) == 4 and len(first.pins) == pattern.nnz


@pytest.mark.parametrize("seed", range(6))
def test_the_cut_is_the_words(seed: int) -> None:
    patterns, owners = layers(seed)
    for layer, pattern in enumerate(patterns):
        columns, rows = owners[layer], owners[layer + 1]
        words = 2 * column_cost(pattern, columns, rows, PARTS)
        assert phase(pattern, columns, PARTS).cut(np.concatenate([rows, columns])) == words
        assert phase(pattern, None, PARTS).cut(rows) == 2 * column_cost(pattern, None, rows, PARTS)
        if layer < 2:
            following, following_rows = patterns[layer + 1], owners[layer + 2]
            both = two_sided(pattern, columns, following, following_rows, PARTS)
            assert both.cut(np.concatenate([rows, columns, np.arange(PARTS)])) == words + 2 * column_cost(
                following, rows, following_rows, PARTS)


@pytest.mark.parametrize("seed", range(6))
def test_reduced_is_the_same_problem(seed: int) -> None:
    patterns, owners = layers(seed)
    graph = two_sided(patterns[0], owners[0], patterns[1], owners[2], PARTS)
    small = graph.reduced()
    rows = len(owners[1])
    held = small.fixed[rows:]
    assert (small.fixed[:rows] == -1).all() and len(np.unique(held)) == len(held)
    assert (np.diff(small.starts) > 1).all() and small.starts[-1] == len(small.pins)
    assert len(small.costs) == len({tuple(sorted(net.tolist())) for net in np.split(small.pins, small.starts[1:-1])})
    rng = np.random.default_rng(seed)
    lost = set()
    for _ in range(10):
        parts = rng.integers(PARTS, size=rows)
        lost.add(graph.cut(np.concatenate([parts, graph.fixed[rows:]])) - small.cut(np.concatenate([parts, held])))
    assert len(lost) == 1


def test_contracted_rows_move_together() -> None:
    pattern = radix_net(256, 1)[0]
    groups = identical_rows(pattern)
    graph = phase(pattern, np.arange(256) % PARTS, PARTS)
    small = contracted(graph, groups)
    assert len(small.weights) == 16 + 256 and small.weights[:16].tolist() == [16 * 32] * 16
    parts = np.random.default_rng(0).integers(PARTS, size=16)
    assert small.cut(np.concatenate([parts, graph.fixed[256:]])) == graph.cut(
        np.concatenate([parts[groups], graph.fixed[256:]]))


def test_identical_rows() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.random((40, 12)) < rng.uniform(0.05, 0.3)
        classes = identical_rows(canonical(csr_array(rows)))
        names: dict[bytes, int] = {}
        assert classes.tolist() == [names.setdefault(row.tobytes(), len(names)) for row in rows]
