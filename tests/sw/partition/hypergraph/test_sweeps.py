"""Sweeps: fewer words than phases, within limits, the same for the same seed."""

import numpy as np
import pytest
from tests.support.sparse_patterns import pruned_net, radix_net

from plinth.partition.hypergraph import sweeps
from plinth.partition.hypergraph.greedy import greedy
from plinth.partition.hypergraph.model import Hypergraph
from plinth.partition.hypergraph.owners import (
    Integers,
    Pattern,
    Reals,
    canonical,
    caps,
    longest_first,
    row_weights,
    shares,
)
from plinth.partition.hypergraph.partitioner import PartitionerError
from plinth.partition.hypergraph.sweeps import Sweeps, swept
from plinth.partition.hypergraph.volume import column_cost

TARGETS, IMBALANCE = shares(4, [2, 1, 1, 2]), 0.03
SHORT = Sweeps(2, 6, 1)


def words(patterns: list[Pattern], layers: list[Integers]) -> int:
    """Words of one direction of all layers."""
    return sum(column_cost(pattern, layers[layer - 1] if layer else None, layers[layer], 4)
               for layer, pattern in enumerate(patterns))


def network(kind: str) -> tuple[list[Pattern], list[Integers]]:
    """A network and its phases."""
    patterns = pruned_net([60, 50, 40, 40], 0.15, 2) if kind == "irregular" else radix_net(128, 4, copies=8)
    patterns = [canonical(pattern) for pattern in patterns]
    return patterns, list(greedy(patterns, TARGETS, IMBALANCE, 0))


@pytest.mark.parametrize("kind", ["irregular", "regular"])
def test_fewer_words_within_limits(kind: str) -> None:
    patterns, begun = network(kind)
    told: list[tuple[str, int, int]] = []
    found = swept(patterns, begun, TARGETS, IMBALANCE, 1, partitioner=False, sweeps=SHORT,
                  progress=lambda *step: told.append(step))
    assert words(patterns, found) < words(patterns, begun)
    for pattern, owners in zip(patterns, found, strict=True):
        limits, _ = caps(row_weights(pattern), TARGETS, IMBALANCE)
        assert (np.bincount(owners, weights=row_weights(pattern), minlength=4) <= limits).all()
    again = swept(patterns, begun, TARGETS, IMBALANCE, 1, partitioner=False, sweeps=SHORT)
    assert all(map(np.array_equal, found, again))
    assert told[-1][2] == 9 and [step for _, step, _ in told] == sorted({step for _, step, _ in told})


def test_never_more_words_than_before() -> None:
    """Annealing alone, so hot that it ends far above where it began."""
    patterns, begun = network("regular")
    best = swept(patterns, begun, TARGETS, IMBALANCE, 0, partitioner=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "HOT", 100.0)
        patch.setattr(sweeps, "COOL", 50.0)
        found = swept(patterns, best, TARGETS, IMBALANCE, 0, partitioner=False, sweeps=Sweeps(0, 2, 0))
    assert words(patterns, found) == words(patterns, best)


def test_words_are_kept_count_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through all kinds of sweeps, and what a partitioner proposes: bad ones, too heavy ones, good ones, none."""
    patterns, phases = network("irregular")
    rng = np.random.default_rng(0)
    good = swept(patterns, phases, TARGETS, IMBALANCE, 3, partitioner=False, sweeps=SHORT)
    begun = [longest_first(row_weights(pattern), TARGETS) for pattern in patterns]
    calls = []

    def solve(graph: Hypergraph, limits: Reals, seed: int) -> Integers:
        calls.append(seed)
        layer = next(number for number, pattern in enumerate(patterns)
                     if np.array_equal(row_weights(pattern), graph.weights[:pattern.shape[0]]))
        rows = patterns[layer].shape[0]
        if len(calls) % 4 == 0:
            raise PartitionerError("crashed")
        owners = good[layer] if len(calls) % 4 == 1 else rng.integers(4, size=rows) * (len(calls) % 2)
        return np.concatenate([owners, graph.fixed[rows:]])

    monkeypatch.setattr(sweeps, "solve", solve)
    counted, spared = [], []
    take, partition = sweeps._Network.take, sweeps._partition

    def counted_take(self: sweeps._Network, *arguments: object) -> None:
        take(self, *arguments)
        counted.append(self.words == words(patterns, self.layers))

    def counted_partition(network: sweeps._Network, layer: int, seed: int) -> None:
        before = network.words
        partition(network, layer, seed)
        spared.append(before - network.words)
        counted.append(network.words == words(patterns, network.layers))

    monkeypatch.setattr(sweeps._Network, "take", counted_take)
    monkeypatch.setattr(sweeps, "_partition", counted_partition)
    found = swept(patterns, begun, TARGETS, IMBALANCE, 1, partitioner=True, sweeps=SHORT)
    assert len(counted) > 20 and all(counted) and max(spared) > 0 == min(spared)
    assert words(patterns, found) < words(patterns, begun)
