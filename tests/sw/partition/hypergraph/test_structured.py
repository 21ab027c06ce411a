"""Rings and blocks of regular patterns, and what their partitions cost."""

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array, eye_array
from tests.support.sparse_patterns import pruned_net, radix_net, random_net

from plinth.partition.hypergraph.figures import compared
from plinth.partition.hypergraph.owners import Pattern, SparsePartition, canonical, row_weights, shares
from plinth.partition.hypergraph.structured import find_rings, structured
from plinth.partition.hypergraph.volume import traffic


def partitioned(patterns: list[Pattern], parts: int, weights: list[float] | None = None, imbalance: float = 0.01
                ) -> SparsePartition:
    """A partition by structure."""
    owners = structured(map(canonical, patterns), shares(parts, weights), imbalance)
    assert owners is not None
    return SparsePartition(parts, owners[0], owners[1:])


def test_rings_of_radix_net() -> None:
    """Layer t is 2^t rings; of the last one two classes are the same rows, and rings are complete blocks."""
    for layer, pattern in enumerate(radix_net(256, 8, seed=3)):
        rings = find_rings(canonical(pattern))
        assert rings is not None
        offset = layer % 4
        lengths = np.diff(rings.starts)
        assert len(lengths) == 1 << offset and (lengths == (1 if offset == 3 else 16 >> offset)).all()
        dense = pattern.toarray() > 0
        for start, end in zip(rings.starts, rings.starts[1:], strict=False):
            reads = [dense[rings.classes == member].any(axis=0) for member in rings.order[start:end]]
            for one, following in zip(reads, [*reads[1:], reads[0]], strict=True):
                assert (one & following).sum() == (32 if offset == 3 else 16 if len(reads) > 2 else 32)


def test_higher_radix_and_bands_are_rings() -> None:
    rows = np.arange(24)
    radix = csr_array(sum(np.eye(24)[(rows + step) % 24] for step in range(4)))
    rings = find_rings(canonical(radix))
    assert rings is not None and len(rings.order) == 24 and set(np.abs(np.diff(rings.order)).tolist()) == {1}
    band = canonical(csr_array(diags_array([np.ones(30), np.ones(29)], offsets=[0, 1])))
    rings = find_rings(band)
    assert rings is not None and rings.order.tolist() in (list(range(30)), list(range(29, -1, -1)))
    assert partitioned([csr_array(np.ones((8, 8)))], 4).layers[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert traffic([csr_array(eye_array(8))] * 3, partitioned([csr_array(eye_array(8))] * 3, 4)).words == 0


def test_irregular_patterns_have_none() -> None:
    rng = np.random.default_rng(0)
    for pattern in (*random_net(rng, [40, 50], 0.2), *pruned_net([60, 50], 0.1, 0)):
        assert find_rings(canonical(pattern)) is None
        assert structured([canonical(pattern)], shares(4, None), 0.01) is None
    # A ring with one reader that is no neighbour.
    pattern = radix_net(128, 1, copies=4)[0].tolil()
    pattern[0, 77] = 1
    assert find_rings(canonical(csr_array(pattern))) is None


@pytest.mark.parametrize("parts, volume, ratio", [(32, 1.275, 0.064), (64, 1.81, 0.072), (128, 3.74, 0.131)])
def test_volumes_of_the_prototype(parts: int, volume: float, ratio: float) -> None:
    """N = 1,024: means over 120 layers, the first base and 19 others, of which two are partitioned here."""
    patterns = radix_net(1024, 18, seed=1)
    rows = compared(patterns, parts, ["random", "structured"])
    whole = traffic(patterns, partitioned(patterns, parts))
    volumes = [layer.words / 2 / layer.columns for layer in whole.layers]
    assert 0.98 * volume < 0.05 * np.mean(volumes[:6]) + 0.95 * np.mean(volumes[6:]) < 1.02 * volume
    assert rows["structured"]["ratios"]["volume"] < 1.02 * ratio and rows["structured"]["imbalance_layer"] == 1


def test_layouts_are_kept_where_that_costs_less() -> None:
    """Of the first base, whose columns have the names of the rows before: blocks for the first layers, then rings.
    Each layer by itself would cost a half of the columns and more from the second layer on."""
    found = traffic(radix_net(4096, 8), partitioned(radix_net(4096, 8), 16))
    volumes = [layer.words / 2 / layer.columns for layer in found.layers]
    assert sum(volumes) < 1.95 and volumes[0] == 1 / 16


def test_shares_of_unequal_processors() -> None:
    patterns, weights = radix_net(1024, 12, seed=2), [1, 1, 2, 4, 0.5, 3]
    partition = partitioned(patterns, 6, weights)
    targets = shares(6, weights)
    found = traffic(patterns, partition)
    assert found.balance(targets) < 1.011
    assert found.volume < 0.5 * compared(patterns, 6, ["random"], weights=weights)["random"]["volume"]
    for pattern, owners in zip(patterns, partition.layers, strict=True):
        loads = np.bincount(owners, weights=row_weights(pattern))
        assert loads[3] > 1.9 * loads[2] > 3.5 * loads[0]


def test_a_layout_that_pays_later_is_kept() -> None:
    """Of the first copy, 64 classes among 4 parts: blocks of classes for two layers, then classes by their remainder,
    which costs .75 once and nothing in the layers behind. All chains that are cheapest at first are of blocks."""
    patterns = radix_net(256, 6, copies=4)
    found = structured([canonical(pattern) for pattern in patterns], shares(4, None), 0.0)
    assert found is not None
    assert traffic(patterns, SparsePartition(4, found[0], found[1:])).volume * 6 == 1 / 16 + 1 / 8 + 3 / 4
