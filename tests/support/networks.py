"""Random networks: graphs of every kind of layer, whose shapes follow; plans and samples for them."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from plinth.array.array import prime_factors
from plinth.errors import UserError
from plinth.lower.stages import check_network
from plinth.network.layers import (
    Add,
    Affine,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Gelu,
    Join,
    Layer,
    LeakyRelu,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Relu6,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.reproduce.sparsity.networks import RECIPES
from plinth.sharding import Sharding
from plinth.train.data import Dataset, table_rows

#: Sums and means of layers with themselves, behind a pool, beside other readers, of more than a task loads, and before
#: the loss; the network's input is read twice as well.
DOUBLED = Network(name="doubled", input=Shape((3, 4, 4)), layers=(
    Convolution(name="conv1", channels=3, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    MaxPool(name="pool", kernel=(3, 3), stride=(1, 1), padding=(1, 1)), Add(name="add1", inputs=("pool", "pool")),
    Relu(name="relu2"), Convolution(name="conv2", channels=3, kernel=(1, 1)), Add(name="add2", inputs=("conv2",) * 5),
    Join(name="join1", inputs=("add2", "pool", "relu2", "input", "pool", "input", "add2")), Flatten(name="flat"),
    Dense(name="fc", outputs=4), Join(name="join2", inputs=("fc", "fc")), SoftmaxCrossEntropy(name="loss")))


#: Concatenations of maps and of features, of one more than once and of the network's input, with an activation behind,
#: one that keeps its input, a pool, and nothing; before a loss.
CONCATENATED = Network(name="concatenated", input=Shape((3, 4, 4)), layers=(
    Convolution(name="conv1", channels=5, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    Convolution(name="conv2", channels=2, kernel=(1, 1), bias=False, inputs=("relu1",)),
    Concat(name="concat1", inputs=("conv2", "relu1", "input", "conv2")), Gelu(name="gelu"),
    MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Convolution(name="conv3", channels=4, kernel=(1, 1)),
    Concat(name="concat2", inputs=("conv3", "pool")), Relu(name="relu2"), Flatten(name="flat"),
    Dense(name="fc1", outputs=3), Dense(name="fc2", outputs=2, inputs=("flat",)),
    Concat(name="concat3", inputs=("fc2", "fc1")), SoftmaxCrossEntropy(name="loss")))


def random_network(generator: Generator, *, layers: int = 12, size: int = 12, channels: int = 6) -> Network:
    """A network of about so many layers over maps of at most ``channels`` x ``size`` x ``size``."""

    def below(limit: int, low: int = 1) -> int:
        return int(generator.integers(low, limit + 1))

    def pair(limit: int, low: int = 1) -> tuple[int, int]:
        return below(limit, low), below(limit, low)

    added: list[Layer] = []
    shapes: dict[str, Shape] = {}

    def add(layer: Layer) -> None:
        inputs = layer.inputs or (added[-1].name,)
        added.append(layer)
        shapes[layer.name] = layer.output([shapes[name] for name in inputs])

    embedded = generator.random() < 0.15
    flat = embedded or generator.random() < 0.3
    shapes["input"] = Shape((below(channels),) if flat else (below(channels), below(size, 4), below(size, 4)))
    if embedded:
        add(Embedding(name="rows", inputs=("input",), rows=below(100), width=below(channels)))
    for number in range(below(layers)):
        last = added[-1].name if added else "input"
        source = shapes[last]
        name = f"layer{number}"
        alike = [other for other, shape in shapes.items() if shape == source and other != "input"]
        choice = generator.random()
        if choice < 0.05 and added and (not source.flat or isinstance(added[-1], Dense)):
            add(Affine(name=name, inputs=(last,), bias=choice < 0.04))
        elif choice < 0.2:
            kind = [(Relu, LeakyRelu, Relu6, Gelu)[number % 4], Tanh, Sigmoid][below(3) - 1]
            add(kind(name=name, inputs=(last,)))
        elif choice < 0.4 and alike and last != "input":
            joins = [Add, Join] if source.flat else [Add, Join, Concat]
            add(joins[below(len(joins)) - 1](name=name, inputs=(last, alike[below(len(alike)) - 1])))
        elif source.flat:
            add(Dense(name=name, inputs=(last,), outputs=below(channels * 4), bias=bool(below(2) - 1)))
        elif choice < 0.6 and min(source[1:]) > 2:
            kernel = pair(3)
            add([MaxPool, MeanPool][below(2) - 1](name=name, inputs=(last,), kernel=kernel, stride=pair(3),
                                                  padding=(kernel[0] // 2, 0), ceil=bool(below(2) - 1)))
        elif choice < 0.65:
            add(Flatten(name=name, inputs=(last,)))
        else:
            kernel = (below(min(3, source[1])), below(min(3, source[2])))
            add(Convolution(name=name, inputs=(last,), channels=below(channels), kernel=kernel, stride=pair(2),
                            padding=pair(1, 0), bias=bool(below(2) - 1)))
    if not shapes[added[-1].name].flat:
        add(Flatten(name="flatten"))
    add(Dense(name="classifier", outputs=below(10, 2)))
    add([SoftmaxCrossEntropy, MeanSquaredError][below(2) - 1](name="loss"))
    return Network(name="random", input=shapes["input"], layers=tuple(added))


def trainable_network(generator: Generator, *, layers: int = 6) -> Network:
    """A small random network that can be lowered."""
    while True:
        network = random_network(generator, layers=layers, size=6, channels=5)
        try:
            check_network(network)
        except UserError:
            continue
        return network


def random_plan(network: Network, dies: int, batch: int, generator: Generator) -> Plan:
    """Any split of every layer at every level."""
    graph = from_network(network)
    factors = prime_factors(dies)
    splits = tuple(tuple(str(generator.choice(graph.choices(number))) for _ in factors)
                   for number in range(len(graph.nodes)))
    return Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch, factors=factors), planner="random",
                model="exact", array=f"ring-{dies}")


def random_data(network: Network, samples: int, generator: Generator) -> Dataset:
    """Samples, the same for training and testing; row numbers for embeddings."""
    rows, size = table_rows(network), (samples, network.input.elements)
    x = generator.integers(0, rows, size) if rows else generator.standard_normal(size).astype(np.float32)
    outputs = network.output.elements
    if isinstance(network.loss, SoftmaxCrossEntropy):
        y = generator.integers(0, outputs, samples)
        return Dataset(x, y, x, y, outputs)
    wanted = generator.standard_normal((samples, outputs)).astype(np.float32)
    return Dataset(x, wanted, x, wanted, 0)


def winograd_network(generator: Generator) -> Network:
    """Convolutions by Winograd tiles and without, of every kernel that has a transform and one that has none, any
    padding; activations and pools between."""
    def below(limit: int, low: int = 1) -> int:
        return int(generator.integers(low, limit + 1))

    layers: list[Layer] = []
    source = Shape((below(5), below(9, 5), below(9, 5)))
    shape = source
    for number in range(below(3)):
        kernel = [(3, 3), (5, 5), (3, 1), (1, 3), (2, 2)][below(5) - 1]
        if kernel[0] > shape[1] or kernel[1] > shape[2]:
            kernel = (1, 3)
        wanted: list[str | int] = ["auto", "off"]
        wanted += ([] if kernel == (2, 2) else [2]) + ([4] if kernel == (3, 3) else [])
        winograd = wanted[below(len(wanted)) - 1]
        layer = Convolution(
            name=f"conv{number}", inputs=(layers[-1].name if layers else "input",), channels=below(5), kernel=kernel,
            padding=(below(kernel[0] - 1, 0), below(kernel[1] - 1, 0)), bias=bool(below(2) - 1), winograd=winograd,
            weights="winograd" if winograd != "off" and generator.random() < 0.6 else "spatial")
        layers.append(layer)
        shape = layer.output([shape])
        if generator.random() < 0.6:
            layers.append(Relu(name=f"relu{number}"))
        if min(shape[1:]) > 5 and generator.random() < 0.3:
            layers.append(MaxPool(name=f"pool{number}", inputs=(layers[-1].name,), kernel=(2, 2), stride=(2, 2)))
            shape = layers[-1].output([shape])
        if min(shape[1:]) < 3:
            break
    if generator.random() < 0.7:
        layers += [Flatten(name="flatten"), Dense(name="classifier", outputs=below(6, 2)),
                   SoftmaxCrossEntropy(name="loss")]
    else:
        layers.append(MeanSquaredError(name="loss"))
    return Network(name="winograd", input=source, layers=tuple(layers))


#: The digits' network with fewer neurons behind its convolutions, for dies that are simulated: tasks and words of these
#: are the same, and other tasks, too, but that the mask of the neurons' error comes whole, not in pieces.
NARROW_DIGITS = replace(NETWORKS["digits-cnn"], layers=tuple(
    replace(layer, outputs=96) if isinstance(layer, Dense) and layer.name == "fc1" else layer
    for layer in NETWORKS["digits-cnn"].layers))


def enlarged_digits() -> Dataset:
    """The digits as maps of 28x28."""
    images = RECIPES["digits"].images()
    return Dataset(images.train_x, images.train_y, images.test_x, images.test_y, 10)


#: Rows of a table by their numbers, then dense layers.
WORDS = Network(name="words", input=Shape((6,)), layers=(
    Embedding(name="table", inputs=("input",), rows=11, width=5), Dense(name="hidden", outputs=7),
    Relu(name="relu"), Dense(name="classes", outputs=3), SoftmaxCrossEntropy(name="loss")))


def tiled(outputs: int, weights: str | None, rounds: int | str | None = None, *, dies: int = 4, batch: int = 6,
          split: tuple[str, str] = ("dp", "ep")) -> tuple[Network, Plan]:
    """The digits' convolutions in Winograd tiles of so many outputs, and a plan that splits them so at two levels."""
    network = with_tiles(NETWORKS["digits-cnn"], outputs, weights, rounds)
    graph = from_network(network)
    splits = tuple(split if node.tiling else ("dp", "dp") for node in graph.nodes) if dies > 1 else (
        ((),) * len(graph.nodes))
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="data", model="exact",
                         array=f"ring-{dies}")
