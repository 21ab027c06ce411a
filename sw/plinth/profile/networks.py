"""The networks whose training batches are micro-benchmarks: perceptrons of one to three hidden layers, and small
convolutional networks, of sizes drawn log-uniformly between bounds.

Those that fits are made from and those that check them come of different seeds, so that none is of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.network.shape import Shape

#: Seeds of sizes that fits are made from, and of those that check them.
FIT_SEED, CHECK_SEED = 1, 2
#: Functions and pools, in turn.
FUNCTIONS: tuple[type[Layer], ...] = (Tanh, Relu, Sigmoid)
POOLS = (MaxPool, MeanPool)
#: Classes of the networks' outputs.
CLASSES = 10


@dataclass(frozen=True)
class Bounds:
    """What sizes are drawn from, and how many networks.

    Attributes
    ----------
    widths, batches : (int, int)
        Least and largest features of a layer, and samples of a batch.
    channels, images : (int, int)
        Least and largest channels of a convolution, and samples of its batch.
    sides : tuple of int
        Heights and widths of maps, of which each network has one.
    perceptrons, convolutional : int
        Networks of each family that fits are made from; half as many, of sizes of their own, check them.
    """

    widths: tuple[int, int]
    batches: tuple[int, int]
    channels: tuple[int, int]
    images: tuple[int, int]
    sides: tuple[int, ...]
    perceptrons: int
    convolutional: int


#: Of a host, and of a die, which is simulated a few hundred thousand cycles a second.
HOST = Bounds(widths=(16, 1024), batches=(16, 256), channels=(4, 32), images=(8, 64), sides=(8, 12, 16, 24),
              perceptrons=40, convolutional=20)
DIE = Bounds(widths=(8, 96), batches=(8, 64), channels=(2, 8), images=(4, 12), sides=(6, 8), perceptrons=28,
             convolutional=10)


class SizedNetwork(NamedTuple):
    """A network and the samples of its batch."""

    network: Network
    batch: int


def _drawn(generator: np.random.Generator, bounds: tuple[int, int]) -> int:
    low, high = np.log(bounds)
    return round(float(np.exp(generator.uniform(low, high))))


def perceptron(inputs: int, widths: tuple[int, ...], function: type[Layer], name: str = "perceptron",
               outputs: int = CLASSES) -> Network:
    """A perceptron with hidden layers of some widths, each with a function behind it."""
    layers: list[Layer] = []
    for number, width in enumerate(widths, 1):
        layers += [Dense(name=f"fc{number}", outputs=width), function(name=f"function{number}")]
    return Network(name=name, input=Shape((inputs,)), layers=(
        *layers, Dense(name="output", outputs=outputs), SoftmaxCrossEntropy(name="loss")))


def _convolutional(channels: tuple[int, int, int], side: int, function: type[Layer], pool: type[MaxPool | MeanPool]
                   ) -> Network:
    """Two convolutions of 3 x 3 with a pool between them."""
    inputs, first, second = channels
    return Network(name="convolutional", input=Shape((inputs, side, side)), layers=(
        Convolution(name="conv1", channels=first, kernel=(3, 3), padding=(1, 1)), function(name="function1"),
        pool(name="pool1", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="conv2", channels=second, kernel=(3, 3), padding=(1, 1)), function(name="function2"),
        Flatten(name="flat"), Dense(name="output", outputs=CLASSES), SoftmaxCrossEntropy(name="loss")))


def _even(value: int) -> int:
    """An even number near it: dies of 16 bits pool and flatten even numbers of channels."""
    return max(2, 2 * round(value / 2))


def _perceptrons(bounds: Bounds, count: int, seed: int) -> Iterator[SizedNetwork]:
    generator = np.random.default_rng(seed)
    for number in range(count):
        inputs, *widths = (_drawn(generator, bounds.widths) for _ in range(2 + number % 3))
        yield SizedNetwork(perceptron(inputs, tuple(widths), FUNCTIONS[number // 3 % 3]),
                           _drawn(generator, bounds.batches))


def _convolutionals(bounds: Bounds, count: int, seed: int) -> Iterator[SizedNetwork]:
    generator = np.random.default_rng([seed, 1])
    for number in range(count):
        inputs, first, second = (_even(_drawn(generator, bounds.channels)) for _ in range(3))
        yield SizedNetwork(_convolutional((inputs, first, second), bounds.sides[number % len(bounds.sides)],
                                          FUNCTIONS[number % 3], POOLS[number % 2]), _drawn(generator, bounds.images))


def benchmark_networks(bounds: Bounds, *, checking: bool) -> list[SizedNetwork]:
    """The networks that fits are made from, or those that check them."""
    share, seed = (2, CHECK_SEED) if checking else (1, FIT_SEED)
    return [*_perceptrons(bounds, -(-bounds.perceptrons // share), seed),
            *_convolutionals(bounds, -(-bounds.convolutional // share), seed)]
