"""A network as what is lowered: nodes of its plan, each with the steps that follow it until another node reads it."""

from dataclasses import dataclass

from plinth.errors import UserError
from plinth.model.layers import Flatten, Layer, MaxPool, MeanPool, Relu, Shape, Sigmoid, Tanh
from plinth.model.network import INPUT, Network
from plinth.plan.graph import Edge, Node, from_network

ACTIVATIONS = (Relu, Tanh, Sigmoid)
POOLS = (MaxPool, MeanPool)


@dataclass(frozen=True)
class Follower:
    """An activation or a pool behind a node, and the shape that it reads."""

    layer: Layer
    shape: Shape


@dataclass(frozen=True)
class Stage:
    """A node: a weighted layer, a junction or the loss; what feeds it and what follows it."""

    number: int
    node: Node
    layer: Layer
    #: Shape of its first input and of its output before what follows.
    input: Shape
    output: Shape
    #: Edges of the plan graph into it, in the order of the layer's inputs; None where the network's input feeds it.
    feeds: tuple[Edge | None, ...]
    followers: tuple[Follower, ...]

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.layer.name


def stages(network: Network) -> tuple[Stage, ...]:
    """The stages of a network, one a node of its plan graph, in the same order.

    Raises
    ------
    UserError
        If a layer cannot be lowered; it is named.
    """
    graph = from_network(network)
    numbers = {node.name if node.kind != "loss" else network.loss.name: number
               for number, node in enumerate(graph.nodes)}
    ends: dict[str, str] = {INPUT: INPUT}
    followers: dict[str, list[Follower]] = {name: [] for name in numbers}
    found = []
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        if layer.name not in numbers:
            before = ends.pop(layer.inputs[0], None)
            if before is None:
                raise _refused(network, layer, f"reads {layer.inputs[0]!r} beside another layer; activations, "
                               "pools and flattens are lowered where nothing else reads their input")
            if not isinstance(layer, Flatten):
                if before == INPUT:
                    raise _refused(network, layer, "stands before the first layer with weights; put one before it")
                followers[before].append(Follower(layer, shapes.inputs[0]))
            ends[layer.name] = before
            continue
        number = numbers[layer.name]
        if len(set(layer.inputs)) < len(layer.inputs):
            raise _refused(network, layer, "reads the same layer twice")
        for name in layer.inputs:
            if name not in ends:
                raise _refused(network, layer, f"reads {name!r} beside an activation, a pool or a flatten of it; "
                               "read what comes out of that")
        edges = {edge.producer: edge for edge in graph.edges if edge.consumer == number}
        feeds = tuple(edges[numbers[ends[name]]] if ends[name] != INPUT else None for name in layer.inputs)
        found.append((number, layer, shapes, feeds))
        ends[layer.name] = layer.name
    return tuple(
        Stage(number, graph.nodes[number], layer, shapes.inputs[0], shapes.output, feeds,
              tuple(followers[layer.name]))
        for number, layer, shapes, feeds in found)


def _refused(network: Network, layer: Layer, why: str) -> UserError:
    return UserError(f"network {network.name!r}: layer {layer.name!r} ({layer.kind}) {why}; such a network can be "
                     "planned but not lowered")
