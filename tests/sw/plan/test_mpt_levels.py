"""MPT's planner against a search of all sets of levels, written from docs/winograd.md."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from plinth.array.array import Array, clusters, ring
from plinth.network.layers import Convolution, Dense, Flatten, Layer, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.partition.graph import from_network
from plinth.plan.planners.mpt import communication, in_groups, mpt
from plinth.predict.time import StepTime

#: Networks of which each array gets a part; networks in all.
ARRAYS = [ring(8), ring(16), ring(6), ring(12), ring(8, preset="ndp-demo-winograd"), clusters(4, 2), clusters(8, 2)]
NETWORKS = 105


def random_network(rng: np.random.Generator) -> Network:
    """One to three Winograd layers, of many channels and few places or the other way round."""
    layers: list[Layer] = []
    side = int(rng.integers(4, 17))
    for number in range(int(rng.integers(1, 4))):
        layers += [Convolution(name=f"conv{number}", channels=int(rng.integers(4, 130)), kernel=(3, 3),
                               padding=(1, 1), winograd=int(rng.choice([2, 4])),
                               weights=str(rng.choice(["spatial", "winograd"]))),
                   Relu(name=f"relu{number}")]
    layers += [Flatten(name="flatten"), Dense(name="classes", outputs=10), SoftmaxCrossEntropy(name="loss")]
    return Network(name="random", input=Shape((int(rng.integers(4, 65)), side, side)), layers=tuple(layers))


def shortest(time: StepTime, array: Array) -> float:
    """The shortest communication of all sets of levels for each layer: a group has an element of each tile, and of two
    layers one's levels hold the other's."""
    plain = ("dp",) * array.levels
    wholes = (number for number in time.graph.planned if not time.graph.nodes[number].tiling)
    rest = sum(time.own(number, plain, plain) + time.ring(number, plain) for number in wholes)
    choices = []
    for number in time.graph.planned:
        tiling = time.graph.nodes[number].tiling
        if tiling is None:
            continue
        costs = []
        for levels in (frozenset(levels) for count in range(array.group_levels + 1)
                       for levels in combinations(range(array.group_levels), count)):
            if prod(array.factors[level] for level in levels) <= tiling.elements:
                vector = tuple("ep" if level in levels else "dp" for level in range(array.levels))
                costs.append((levels, time.own(number, vector, plain) + time.ring(number, vector)))
        choices.append(costs)
    return rest + min(sum(cycles for _, cycles in chosen) for chosen in product(*choices) if all(
        one <= other or other <= one for (one, _), (other, _) in combinations(chosen, 2)))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.name}-{array.preset}")
def test_no_levels_communicate_less(array: Array) -> None:
    rng = np.random.default_rng([array.dies, ARRAYS.index(array)])
    plain = ("dp",) * array.levels
    for _ in range(NETWORKS // len(ARRAYS)):
        time = StepTime(from_network(random_network(rng)), array.dies * int(rng.choice([1, 4])), array)
        splits = mpt(time)
        cycles = sum(time.own(number, splits[number], plain) + time.ring(number, splits[number])
                     for number in time.graph.planned)
        assert cycles == pytest.approx(shortest(time, array), rel=1e-9)


def test_first_levels_are_taken_where_they_are_shorter() -> None:
    """Four groups of a ring of sixteen, beside sixteen of the next layer: of neighbours their gradient takes fewer hops
    than of dies that lie apart."""
    layers = [Convolution(name=f"conv{number}", channels=channels, kernel=(3, 3), padding=(1, 1), winograd=2,
                          weights="winograd") for number, channels in enumerate((118, 67))]
    time = StepTime(from_network(Network(name="two", input=Shape((37, 5, 5)), layers=(
        *layers, Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss")))), 24, ring(16))
    assert mpt(time)[:2] == (("ep", "ep", "dp", "dp"), ("ep",) * 4)
    first, last = (communication(time, 0, vector) for vector in (("ep", "ep", "dp", "dp"), in_groups(time.array, 2)))
    assert first < 0.95 * last


def test_nobody_sends_errors_of_the_networks_inputs() -> None:
    """The same layer behind another one sends tiles of its input's error as well."""
    first = Convolution(name="a", channels=32, kernel=(3, 3), padding=(1, 1), winograd=2)
    second = Convolution(name="b", channels=32, kernel=(3, 3), padding=(1, 1), winograd=2)
    graph = from_network(Network(name="two", input=Shape((32, 8, 8)), layers=(
        first, second, Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss"))))
    time = StepTime(graph, 16, ring(4))
    tiled = [number for number, node in enumerate(graph.nodes) if node.tiling]
    vector, plain = ("dp", "ep"), ("dp", "dp")
    of_first, of_second = (time.own(number, vector, plain) for number in tiled)
    assert 0.6 * of_second < of_first < 0.9 * of_second
