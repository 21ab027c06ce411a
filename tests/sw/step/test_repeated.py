"""What the tasks of an operation on a die follow from: equal tasks where it is equal, whatever the step."""

from collections.abc import Hashable
from dataclasses import replace
from itertools import product

import pytest

from plinth.array.array import Array, ring
from plinth.network.layers import (
    Affine,
    Concat,
    Convolution,
    Dense,
    Flatten,
    Gelu,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
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
    equal_tasks: dict[Hashable, list[Item]] = {}
    counts: dict[type, tuple[int, int]] = {}
    for graph, batch in product(graphs, batches):
        for odd, even in product(product(("dp", "mp", "op"), repeat=array.levels), repeat=2):
            splits = tuple(
                tuple(split if split in graph.choices(number) else DP for split in (odd if number % 2 else even))
                for number in range(len(graph.nodes)))
            step = step_of(Sharding(graph=graph, splits=splits, batch=batch, factors=array.factors, array=array),
                           array.die_parameters())
            for operation, die in product(step.operations, range(array.dies)):
                if not isinstance(operation, Repeated):
                    continue
                key = type(operation), operation.on(die)
                tasks = [item for most in (2, 8) for item in operation.tasks(die, most)]
                seen, kinds = counts.get(type(operation), (0, 0))
                counts[type(operation)] = seen + 1, kinds + (key not in equal_tasks)
                assert equal_tasks.setdefault(key, tasks) == tasks, operation.name
    return counts


@pytest.mark.parametrize("preset", ["ndp-demo", "ndp-demo-mixed"])
def test_operations_that_say_they_are_equal_have_equal_tasks(preset: str) -> None:
    cnn = NETWORKS["digits-cnn"]
    means = replace(cnn, layers=tuple(
        MeanPool(name=layer.name, kernel=layer.kernel, stride=layer.stride) if isinstance(layer, MaxPool) else layer
        for layer in cnn.layers))
    counts = _check([from_network(network) for network in (cnn, means, NETWORKS["digits-mlp"])],
                    ring(2, preset=preset), (7, 32))
    _assert_kept(counts)


@pytest.mark.parametrize("preset", ["ndp-demo", "hypar-demo"])
def test_concatenated_scaled_and_gated_maps_have_equal_tasks_too(preset: str) -> None:
    """Factors and summands of each channel, alone and behind a layer; GELU in a chain and in a sweep; channels of maps
    side by side, of features, and of one map twice."""
    network = Network(name="branches", input=Shape((2, 6, 6)), layers=(
        Convolution(name="conv1", channels=4, kernel=(3, 3), padding=(1, 1)), Affine(name="norm1"), Gelu(name="gelu1"),
        Convolution(name="conv2", channels=4, kernel=(3, 3), padding=(1, 1), bias=False),
        Affine(name="norm2", bias=False), Relu(name="relu2"), Concat(name="both", inputs=("gelu1", "relu2", "gelu1")),
        Gelu(name="gelu3"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Affine(name="norm3"),
        Flatten(name="flat"), Dense(name="fc1", outputs=8), Gelu(name="gelu4"),
        Dense(name="fc2", inputs=("flat",), outputs=8), Concat(name="features", inputs=("gelu4", "fc2")),
        Dense(name="fc3", outputs=6), SoftmaxCrossEntropy(name="loss")))
    counts = _check([from_network(network)], ring(2, preset=preset), (7, 32))
    _assert_kept(counts)


def _assert_kept(counts: dict[type, tuple[int, int]]) -> None:
    assert {Products, Sweep, Chain} <= set(counts)
    for seen, different in counts.values():
        assert 0 < different < 0.6 * seen, counts
