"""What the tasks of an operation on a die follow from: equal tasks where it is equal, whatever the step."""

from collections.abc import Hashable
from dataclasses import replace
from itertools import product

import pytest

from plinth.array.array import Array, ring
from plinth.network.layers import MaxPool, MeanPool
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import DP, PlanGraph, from_network
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.step.layers.products import Products
from plinth.step.operations import Chain, Repeated, Sweep
from plinth.step.tasks import Item


def _check(graphs: list[PlanGraph], array: Array, batches: tuple[int, ...]) -> dict[type, tuple[int, int]]:
    """Compare the tasks of all operations that say they are equal, over all dies of steps of many splits, as pieces and
    in groups; by type how many there were, and how many of them are different."""
    found: dict[Hashable, list[Item]] = {}
    counts: dict[type, tuple[int, int]] = {}
    for graph, batch in product(graphs, batches):
        for one, two in product(product(("dp", "mp", "op"), repeat=array.levels), repeat=2):
            splits = tuple(((DP,) * array.levels if node.kind == "loss" else
                            one if number % 2 else two) for number, node in enumerate(graph.nodes))
            step = step_of(Sharding(graph=graph, splits=splits, batch=batch, factors=array.factors, array=array),
                           array.die_parameters())
            for operation, die in product(step.operations, range(array.dies)):
                if not isinstance(operation, Repeated):
                    continue
                key = type(operation), operation.on(die)
                tasks = [item for most in (2, 8) for item in operation.tasks(die, most)]
                seen, kinds = counts.get(type(operation), (0, 0))
                counts[type(operation)] = seen + 1, kinds + (key not in found)
                assert found.setdefault(key, tasks) == tasks, operation.name
    return counts


@pytest.mark.parametrize("preset", ["ndp-demo", "ndp-demo-mixed"])
def test_operations_that_say_they_are_equal_have_equal_tasks(preset: str) -> None:
    cnn = NETWORKS["digits-cnn"]
    means = replace(cnn, layers=tuple(
        MeanPool(name=layer.name, kernel=layer.kernel, stride=layer.stride) if isinstance(layer, MaxPool) else layer
        for layer in cnn.layers))
    counts = _check([from_network(network) for network in (cnn, means, NETWORKS["digits-mlp"])],
                    ring(2, preset=preset), (7, 32))
    assert {Products, Sweep, Chain} <= set(counts)
    for seen, different in counts.values():
        assert 0 < different < 0.6 * seen, counts
