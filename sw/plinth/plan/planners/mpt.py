"""MPT's choice (section IV.C): for each Winograd layer the groups and clusters in which a step communicates shortest.

A layer of (g groups, c clusters) splits the elements of its tiles over g dies and its samples over c times as many
dies as there are clusters; whatever is no Winograd layer splits its samples over all. Between layers nothing moves.
Communication is what the links take for the tiles of fprop and bprop, of predicted gathers and skipped scatters for the
words that are expected, and for the ring of the gradient, each at once and one after the other, with nothing beside it.

Of layers that may choose their transform (``winograd: auto``) those of one group get F(4x4,3x3), if they have it, and
others F(2x2,3x3), as the paper has it: whichever communicates less.
"""

from collections.abc import Iterator
from dataclasses import replace

from plinth.model.array import Array
from plinth.model.layers import AUTO, Convolution
from plinth.model.network import Network
from plinth.partition.graph import DP, EP, PlanGraph, from_network
from plinth.partition.regions import Splits, has_elements
from plinth.plan.cost.time import StepTime, Vector
from plinth_hw.isa.winograd import OUTPUTS


def in_groups(array: Array, levels: int) -> Vector:
    """Splits of a Winograd layer: so many of the last levels of the array's groups split elements."""
    most = array.group_levels
    return tuple(EP if most - levels <= level < most else DP for level in range(array.levels))


def grouped(graph: PlanGraph, array: Array, levels: int) -> Splits:
    """All Winograd layers in so many groups, whatever else there is over all dies."""
    return tuple(in_groups(array, levels if node.tiling else 0) for node in graph.nodes)


def arrangements(time: StepTime, number: int) -> Iterator[Vector]:
    """Splits of a node, by rising number of groups."""
    node = time.graph.nodes[number]
    for levels in range(time.array.group_levels + 1 if node.tiling is not None else 1):
        vector = in_groups(time.array, levels)
        if has_elements(node, vector, time.factors):
            yield vector


def communication(time: StepTime, number: int, vector: Vector) -> float:
    """Cycles of a step that a node's tiles and its gradient take on the links."""
    return time.own(number, vector, (DP,) * time.levels) + time.ring(number, vector)


def _best(time: StepTime, number: int) -> Vector:
    return min(arrangements(time, number), key=lambda vector: communication(time, number, vector))


def mpt(time: StepTime) -> Splits:
    """Splits of all nodes."""
    return (*(_best(time, number) for number in time.graph.planned), (DP,) * time.levels)


def _graph(network: Network, layer: Convolution) -> tuple[PlanGraph, int]:
    """The graph with another layer in place of one of that name, and its number."""
    layers = tuple(layer if one.name == layer.name else one for one in network.layers)
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
