"""MPT's choice (section IV.C): for each Winograd layer the groups and clusters in which a step communicates shortest.

A layer of (g groups, c clusters) splits the elements of its tiles over g dies and its samples over c times as many
dies as there are clusters; whatever is no Winograd layer splits its samples over all. g is any number that divides the
array's groups: 1, 2, 3 and 6 on a ring of 6. Levels that split elements of one layer hold those of another, so that
between layers nothing moves: no layer has 2 groups beside one of 3.
Communication is what the links take for the tiles of fprop and bprop, of predicted gathers and skipped scatters for the
words that are expected, and for the ring of the gradient, each at once and one after the other, with nothing beside it.

Of layers that may choose their transform (``winograd: auto``) those of one group get F(4x4,3x3), if they have it, and
others F(2x2,3x3), as the paper has it: whichever communicates less.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import prod

from plinth.array.array import Array
from plinth.network.layers import AUTO, Convolution
from plinth.network.network import Network
from plinth.partition.cuts import Factors
from plinth.partition.graph import DP, EP, PlanGraph, from_network
from plinth.partition.regions import Splits, has_elements
from plinth.predict.time import StepTime, Vector
from plinth_hw.isa.winograd import OUTPUTS


def in_groups(array: Array, levels: int) -> Vector:
    """Splits of a Winograd layer: so many of the last levels of the array's groups split elements."""
    most = array.group_levels
    return tuple(EP if most - levels <= level < most else DP for level in range(array.levels))


def _orders(levels: tuple[int, ...], factors: Factors) -> Iterator[tuple[int, ...]]:
    """Orders in which levels can come to split elements; of levels of as many parts the last one first."""
    if not levels:
        yield ()
    for factor in dict.fromkeys(factors[level] for level in reversed(levels)):
        last = max(level for level in levels if factors[level] == factor)
        for rest in _orders(tuple(level for level in levels if level != last), factors):
            yield last, *rest


@lru_cache
def _chains(groups: Factors, levels: int) -> tuple[tuple[Vector, ...], ...]:
    return tuple(tuple(tuple(EP if level in order[:count] else DP for level in range(levels))
                       for count in range(len(groups) + 1)) for order in _orders(tuple(range(len(groups))), groups))


def chains(array: Array) -> tuple[tuple[Vector, ...], ...]:
    """Splits of Winograd layers by rising number of groups, each holding those before it, so that from one to another
    no sample moves: the last levels first, then, where levels have several numbers of parts, in all other orders."""
    return _chains(array.factors[:array.group_levels], array.levels)


@lru_cache
def _factorings(groups: Factors, levels: int) -> tuple[Vector, ...]:
    by_size: dict[int, Vector] = {}
    for vector in chain.from_iterable(_chains(groups, levels)):
        by_size.setdefault(prod(groups[level] for level, split in enumerate(vector) if split == EP), vector)
    return tuple(by_size[number] for number in sorted(by_size))


def factorings(array: Array) -> tuple[Vector, ...]:
    """Splits of a Winograd layer in every number of groups that the array has, ascending: of levels that give as many
    the last ones."""
    return _factorings(array.factors[:array.group_levels], array.levels)


def grouped(graph: PlanGraph, array: Array, levels: int) -> Splits:
    """All Winograd layers in so many groups, whatever else there is over all dies."""
    return tuple(in_groups(array, levels if node.tiling else 0) for node in graph.nodes)


def arrangements(time: StepTime, number: int) -> Iterator[Vector]:
    """Splits of a node, by rising number of groups."""
    node = time.graph.nodes[number]
    for vector in factorings(time.array) if node.tiling is not None else ((DP,) * time.levels,):
        if has_elements(node, vector, time.factors):
            yield vector


def communication(time: StepTime, number: int, vector: Vector) -> float:
    """Cycles of a step that a node's tiles and its gradient take on the links."""
    return time.own(number, vector, (DP,) * time.levels) + time.ring(number, vector)


def mpt(time: StepTime) -> Splits:
    """Splits of all nodes: of all chains that in which they communicate shortest, of equal ones the first."""
    able = [set(arrangements(time, number)) for number in time.graph.planned]

    def along(vectors: tuple[Vector, ...]) -> tuple[float, list[Vector]]:
        shortest = [min((communication(time, number, vector), place) for place, vector in enumerate(vectors)
                        if vector in able[number]) for number in time.graph.planned]
        return sum(cycles for cycles, _ in shortest), [vectors[place] for _, place in shortest]

    _, splits = min(map(along, chains(time.array)), key=lambda costed: costed[0])
    return (*splits, (DP,) * time.levels)


def _graph(network: Network, layer: Convolution) -> tuple[PlanGraph, int]:
    """The graph with another layer in place of one of that name, and its number."""
    layers = tuple(layer if original.name == layer.name else original for original in network.layers)
    graph = from_network(replace(network, layers=layers))
    return graph, next(number for number, node in enumerate(graph.nodes) if node.name == layer.name)


def with_transforms(network: Network, time: StepTime) -> Network:
    """The network with the transform chosen of each layer that may choose it; ``time`` is of the network as it is."""
    known: dict[object, int] = {}
    layers = []
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        if isinstance(layer, Convolution) and layer.winograd == AUTO and layer.transform(shapes.inputs) is not None:
            key = (shapes.inputs, layer.channels, layer.kernel, layer.padding, layer.bias, layer.weights,
                   layer.predict, layer.shares)
            if key not in known:
                costs = []
                for outputs in OUTPUTS[layer.kernel]:
                    graph, number = _graph(network, replace(layer, winograd=outputs))
                    other = StepTime(graph, time.batch, time.array, time.machine, time.rule, time.links)
                    # The largest transform is that of one group, the smallest that of several.
                    costs += [(communication(other, number, vector), outputs) for vector in arrangements(other, number)
                              if (EP in vector) == (outputs == 2) or len(OUTPUTS[layer.kernel]) == 1]
                known[key] = min(costs)[1]
            layer = replace(layer, winograd=known[key])
        layers.append(layer)
    return replace(network, layers=tuple(layers))
