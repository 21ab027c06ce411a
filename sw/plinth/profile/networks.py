"""The networks whose training batches are micro-benchmarks: perceptrons of one to three hidden layers, and small
convolutional networks, of sizes drawn log-uniformly between bounds.

Those that fits are made from and those that check them come of different seeds, so that none is of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
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
from plinth.profile.widest import hidden_widths, with_widths
from plinth.profile.works import batch_works

#: Seeds of sizes that fits are made from, and of those that check them. Sizes of seed 2 were looked at while the forms
#: of fits were chosen: they check nothing any more.
FIT_SEED, CHECK_SEED = 1, 3
#: Functions and pools, in turn.
FUNCTIONS: tuple[type[Layer], ...] = (Tanh, Relu, Sigmoid)
POOLS = (MaxPool, MeanPool)
#: Classes of the networks' outputs.
CLASSES = 10
#: Shares of the hidden widths of a network whose local layers are asked for.
FIT_SHARES, CHECK_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0), (3 / 16, 3 / 8, 3 / 4)
#: Networks that are drawn for one that is small enough, at most.
_DRAWS = 100


@dataclass(frozen=True)
class SizeBounds:
    """What sizes are drawn from, and how many networks.

    Attributes
    ----------
    widths, batches : (int, int)
        Least and largest features of a layer, and samples of a batch.
    channels, images : (int, int)
        Least and largest channels of a convolution, and samples of its batch.
    sides : tuple of int
        Heights and widths of maps, of which each network has one.
    most_macs : int
        Most multiply-adds of a batch's forward propagation: larger ones take too long to measure.
    perceptrons, convolutional : int
        Networks of each family that fits are made from; half as many, of sizes of their own, check them.
    """

    widths: tuple[int, int]
    batches: tuple[int, int]
    channels: tuple[int, int]
    images: tuple[int, int]
    sides: tuple[int, ...]
    most_macs: int
    perceptrons: int
    convolutional: int

    def covering(self, network: Network, batch: int) -> SizeBounds:
        """SizeBounds within which layers and batch of a network lie as well."""
        works = [work.sizes for work in batch_works(network, batch) if work.kind.startswith("product")]
        widths = [width for _, *sizes in works for width in sizes]
        return replace(self, widths=_with(self.widths, widths), batches=_with(self.batches, [batch]))


def _with(bounds: tuple[int, int], sizes: list[int]) -> tuple[int, int]:
    return min([bounds[0], *sizes]), max([bounds[1], *sizes])


#: Of a host, and of a die, which is simulated a few hundred thousand cycles a second.
HOST = SizeBounds(widths=(16, 1024), batches=(16, 256), channels=(4, 32), images=(8, 64), sides=(8, 12, 16, 24),
              most_macs=1 << 28, perceptrons=40, convolutional=20)
DIE = SizeBounds(widths=(8, 96), batches=(8, 64), channels=(2, 8), images=(4, 12), sides=(6, 8), most_macs=1 << 20,
             perceptrons=28, convolutional=10)


class SizedNetwork(NamedTuple):
    """A network and the samples of its batch."""

    network: Network
    batch: int


def _drawn(generator: np.random.Generator, bounds: tuple[int, int]) -> int:
    low, high = np.log(bounds)
    return round(float(np.exp(generator.uniform(low, high))))


def _perceptron(inputs: int, widths: tuple[int, ...], function: type[Layer]) -> Network:
    """A perceptron with hidden layers of some widths, each with a function behind it."""
    layers: list[Layer] = []
    for number, width in enumerate(widths, 1):
        layers += [Dense(name=f"fc{number}", outputs=width), function(name=f"function{number}")]
    return Network(name="perceptron", input=Shape((inputs,)), layers=(
        *layers, Dense(name="output", outputs=CLASSES), SoftmaxCrossEntropy(name="loss")))


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


def _small_enough(bounds: SizeBounds, draw: Callable[[], SizedNetwork]) -> SizedNetwork:
    """The first of what is drawn that does not take too long; of many the last one."""
    for _ in range(_DRAWS):
        drawn = draw()
        if drawn.batch * drawn.network.macs <= bounds.most_macs:
            break
    return drawn


def _perceptrons(bounds: SizeBounds, count: int, seed: int) -> Iterator[SizedNetwork]:
    generator = np.random.default_rng(seed)

    def draw(number: int) -> SizedNetwork:
        inputs, *widths = (_drawn(generator, bounds.widths) for _ in range(2 + number % 3))
        return SizedNetwork(_perceptron(inputs, tuple(widths), FUNCTIONS[number // 3 % 3]),
                            _drawn(generator, bounds.batches))

    for number in range(count):
        yield _small_enough(bounds, partial(draw, number))


def _convolutionals(bounds: SizeBounds, count: int, seed: int) -> Iterator[SizedNetwork]:
    generator = np.random.default_rng([seed, 1])

    def draw(number: int) -> SizedNetwork:
        inputs, first, second = (_even(_drawn(generator, bounds.channels)) for _ in range(3))
        return SizedNetwork(_convolutional((inputs, first, second), bounds.sides[number % len(bounds.sides)],
                                           FUNCTIONS[number % 3], POOLS[number % 2]), _drawn(generator, bounds.images))

    for number in range(count):
        yield _small_enough(bounds, partial(draw, number))


def network_sizes(network: Network, batch: int, bounds: SizeBounds, *, checking: bool) -> list[SizedNetwork]:
    """A network with its hidden widths in a few shares, the whole one among those that fits are made from, as far as
    they do not take too long.

    Raises
    ------
    UserError
        If a layer has no width that could be another, or there is no hidden one.
    """
    whole = hidden_widths(network)
    scaled = [tuple(max(2, 2 * round(share * width / 2)) if share < 1 else width for width in whole)
              for share in (CHECK_SHARES if checking else FIT_SHARES)]
    sized = [SizedNetwork(with_widths(network, widths), batch) for widths in dict.fromkeys(scaled)]
    return [each for each in sized if batch * each.network.macs <= bounds.most_macs]


def benchmark_networks(bounds: SizeBounds, *, checking: bool) -> list[SizedNetwork]:
    """The networks that fits are made from, or those that check them."""
    share, seed = (2, CHECK_SEED) if checking else (1, FIT_SEED)
    return [*_perceptrons(bounds, -(-bounds.perceptrons // share), seed),
            *_convolutionals(bounds, -(-bounds.convolutional // share), seed)]
