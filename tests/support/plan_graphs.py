"""Small random graphs and splits for the tests of planners."""

import random

from plinth.machine.convolution import ConvolutionWindow
from plinth.network.layers import MaxPool
from plinth.network.variables import bias, weights
from plinth.partition.graph import LOSS, Edge, Epilogue, Node, PlanGraph, chain
from plinth.partition.regions import Splits


def dense(name: str, inputs: int, outputs: int, channels: int | None = None) -> Node:
    """Fully connected; ``channels`` of a flattened map of ``inputs`` elements."""
    return Node(name=name, kind="dense", variables=(weights(inputs, outputs), bias(outputs)),
                input_channels=channels or inputs, output_channels=outputs, input_elements=inputs, raw_elements=outputs,
                map_elements=outputs, macs=inputs * outputs)


def convolution(name: str, channels: int, outputs: int, kernel: int, side: int, raw: int, pooled: int) -> Node:
    """Square convolution from side to raw to pooled."""
    variables = weights(channels, outputs, (kernel, kernel)), bias(outputs)
    return Node(name=name, kind="convolution", variables=variables, input_channels=channels,
                output_channels=outputs, input_elements=channels * side * side, raw_elements=outputs * raw * raw,
                map_elements=outputs * pooled * pooled, macs=variables[0].elements * raw * raw,
                input_positions=side * side, output_positions=raw * raw,
                window=ConvolutionWindow((side, side), (kernel, kernel), (1, 1), (kernel // 2, kernel // 2),
                                         (raw, raw)),
                epilogue=() if pooled == raw else (Epilogue(
                    MaxPool(name=f"{name}.pool", kernel=(2, 2), stride=(2, 2)), (raw, raw), (pooled, pooled)),))


def random_chain(rng: random.Random, nodes: int, sizes: tuple[int, ...]) -> PlanGraph:
    """Convolutions with pooling, then fully connected layers."""
    layers: list[Node] = []
    channels, side = rng.choice(sizes), 8
    for number in range(nodes):
        outputs = rng.choice(sizes)
        if number < nodes // 2 and side > 1:
            pooled = side // 2 if rng.random() < 0.5 else side
            layers.append(convolution(f"conv{number}", channels, outputs, rng.choice((1, 3)), side, side, pooled))
            side = pooled
        else:
            layers.append(dense(f"fc{number}", channels * side * side, outputs, channels))
            side = 1
        channels = outputs
    return chain("chain", layers)


def random_graph(rng: random.Random, blocks: int, sizes: tuple[int, ...]) -> PlanGraph:
    """Residual blocks: a convolution, one or two more, and a junction; then a fully connected layer."""
    channels, side = rng.choice(sizes), 2
    nodes: list[Node] = [convolution("stem", 3, channels, 3, side, side, side)]
    edges: list[Edge] = []

    def join(producer: int, consumer: int) -> None:
        edges.append(Edge(producer, consumer, channels * side * side, channels))

    for block in range(blocks):
        entry = len(nodes) - 1
        before = entry
        for number in range(rng.choice((1, 2))):
            nodes.append(convolution(f"block{block}.{number}", channels, channels, 3, side, side, side))
            join(before, len(nodes) - 1)
            before = len(nodes) - 1
        elements = channels * side * side
        nodes.append(Node(name=f"block{block}.add", kind="add", input_channels=channels, output_channels=channels,
                          input_elements=elements, raw_elements=elements, map_elements=elements,
                          output_positions=side * side))
        join(before, len(nodes) - 1)
        join(entry, len(nodes) - 1)
    nodes.append(dense("fc", channels * side * side, rng.choice(sizes), channels))
    join(len(nodes) - 2, len(nodes) - 1)
    classes = nodes[-1].output_channels
    nodes.append(Node(name=LOSS, kind=LOSS, input_channels=classes, output_channels=classes, input_elements=classes,
                      raw_elements=classes, map_elements=classes))
    edges.append(Edge(len(nodes) - 2, len(nodes) - 1, classes, classes))
    return PlanGraph(name="blocks", nodes=tuple(nodes), edges=tuple(edges))


def random_splits(rng: random.Random, graph: PlanGraph, levels: int, splits: tuple[str, ...]) -> Splits:
    """Any splits that the nodes may take."""
    return tuple(tuple(rng.choice(graph.choices(number, splits)) for _ in range(levels))
                 for number in range(len(graph.nodes)))
