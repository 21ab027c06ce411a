"""Who holds which part of a tensor: places in the dies' memories, without addresses.

Every place begins at the same address on all dies, so that a die knows where its tiles go. What a die has of a tensor
lies dense in its place, channels innermost; where it lies is told a die at a time, so that many dies cost nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from plinth.buffers import Buffer
from plinth.partition.cuts import Factors, Integers, bounds
from plinth.partition.regions import Region


@dataclass(frozen=True)
class Part:
    """A die's part of a tensor [sample, position, channel]: all positions, ranges of samples and channels.

    In memory it lies dense, channels innermost: a row is a position of a sample.
    """

    first_sample: int
    samples: int
    first_channel: int
    channels: int
    positions: int

    @property
    def rows(self) -> int:
        """Samples times positions."""
        return self.samples * self.positions

    @property
    def words(self) -> int:
        """Elements."""
        return self.rows * self.channels

    def meet(self, other: "Part") -> "Part | None":
        """What two parts of the same tensor have in common; None if nothing."""
        sample = max(self.first_sample, other.first_sample)
        channel = max(self.first_channel, other.first_channel)
        samples = min(self.first_sample + self.samples, other.first_sample + other.samples) - sample
        channels = min(self.first_channel + self.channels, other.first_channel + other.channels) - channel
        if samples <= 0 or channels <= 0:
            return None
        return Part(sample, samples, channel, channels, self.positions)

    def view(self, buffer: Buffer, inner: "Part") -> Buffer:
        """Where a part of this part lies in this part's buffer."""
        row = (inner.first_sample - self.first_sample) * self.positions
        return buffer.part(buffer.name, row * buffer.stride + inner.first_channel - self.first_channel,
                           inner.rows, inner.channels, buffer.stride)

    def index(self) -> tuple[slice, slice, slice]:
        """Where it lies in the whole tensor."""
        return (slice(self.first_sample, self.first_sample + self.samples), slice(None),
                slice(self.first_channel, self.first_channel + self.channels))


class Spans(NamedTuple):
    """Ranges of samples and channels of every die, as arrays."""

    first_sample: Integers
    end_sample: Integers
    first_channel: Integers
    end_channel: Integers

    @property
    def samples(self) -> Integers:
        """Samples of every die."""
        return self.end_sample - self.first_sample

    @property
    def channels(self) -> Integers:
        """Channels of every die."""
        return self.end_channel - self.first_channel


@lru_cache(maxsize=1 << 14)
def spans(region: Region, batch: int, channels: int, factors: Factors) -> Spans:
    """What every die has of a region."""
    return Spans(*bounds(batch, region.batch, factors), *bounds(channels, region.channels, factors))


@lru_cache(maxsize=1 << 14)
def _alike(one: Region, two: Region, batch: int, channels: int, factors: Factors) -> bool:
    return all(map(np.array_equal, spans(one, batch, channels, factors), spans(two, batch, channels, factors)))


class Placed(Protocol):
    """What has a place on every die."""

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        ...

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        ...


class Reservable(Placed, Protocol):
    """What has a place of its own."""

    @property
    def name(self) -> str:
        """Of the place."""
        ...

    def place_words(self) -> int:
        """Words on the die that needs most."""
        ...


@dataclass(frozen=True)
class Place:
    """Memory that is reserved under the same address on all dies.

    Parameters
    ----------
    words : int
        Of the die that needs most.
    moves : bool
        The place lies in memory once for every step of an epoch: inputs and targets.
    what : Placed or None
        What lies there.
    """

    name: str
    words: int
    moves: bool = False
    what: Placed | None = None


@dataclass(frozen=True)
class Tensor:
    """A tensor [sample, position, channel], of which each die has a region: all positions, dense."""

    name: str
    samples: int
    positions: int
    channels: int
    region: Region
    factors: Factors
    packed: bool = False

    @property
    def spans(self) -> Spans:
        """What every die has."""
        return spans(self.region, self.samples, self.channels, self.factors)

    def place_words(self) -> int:
        """As :class:`Reservable`."""
        here = self.spans
        widths = (here.channels + 1) // 2 if self.packed else here.channels
        return int((here.samples * self.positions * widths).max())

    def part(self, die: int) -> Part:
        """What a die has."""
        here = self.spans
        first, low = int(here.first_sample[die]), int(here.first_channel[die])
        return Part(first, int(here.end_sample[die]) - first, low, int(here.end_channel[die]) - low, self.positions)

    def buffer(self, die: int) -> Buffer:
        """Where that lies."""
        part = self.part(die)
        width = -(-part.channels // 2) if self.packed else part.channels
        return Buffer(self.name, 0, part.rows, part.channels, max(1, width), packed=self.packed)

    def like(self, name: str, *, packed: bool = False, positions: int | None = None) -> "Tensor":
        """Another tensor of which each die has the same samples and channels."""
        return Tensor(name, self.samples, self.positions if positions is None else positions, self.channels,
                      self.region, self.factors, packed)

    def alike(self, other: "Tensor") -> bool:
        """Whether each die has the same of both."""
        return self.region == other.region or _alike(self.region, other.region, self.samples, self.channels,
                                                     self.factors)


@dataclass(frozen=True)
class View:
    """A part of what each die has in a place, as a function tells it."""

    of: Placed
    find: Callable[[int, Buffer], Buffer]

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        return self.of.packed

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        return self.find(die, self.of.buffer(die))


@dataclass(frozen=True)
class Row:
    """A row on every die, as wide as the rows of a tensor, ``fold`` of them side by side."""

    name: str
    of: Tensor
    fold: int

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        return False

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        columns = self.fold * self.of.part(die).channels
        return Buffer(self.name, 0, 1, columns, max(1, columns))

    def place_words(self) -> int:
        """As :class:`Reservable`."""
        return self.fold * int(self.of.spans.channels.max())


def folded(of: Placed, fold: int) -> Placed:
    """A dense place with ``fold`` rows in one."""
    return of if fold == 1 else View(of, lambda die, buffer: buffer.folded(fold))


@dataclass(frozen=True)
class WeightSlice:
    """A die's slice of a layer's weights [tap, channel in, channel out] (ranges of channels, all taps) and bias."""

    taps: int
    first_input: int
    inputs: int
    first_output: int
    outputs: int
    bias: bool
    #: Rows behind it that belong to no layer: of an embedding whose rows are split.
    spare: int = 0

    @property
    def rows(self) -> int:
        """Rows of the slice as a matrix."""
        return self.taps * self.inputs

    @property
    def weights(self) -> int:
        """Elements of the matrix."""
        return self.rows * self.outputs

    @property
    def words(self) -> int:
        """Weights, then bias."""
        return self.weights + (self.outputs if self.bias else 0)

    @property
    def spare_words(self) -> int:
        """Words of the spare rows."""
        return self.spare * self.outputs


@dataclass(frozen=True)
class Weights:
    """Weights of a layer, or their gradient: each die has a slice, weights then bias then spare rows, in one row."""

    name: str
    #: Of the whole layer: taps, channels in, channels out.
    shape: tuple[int, int, int]
    #: Input and output channels that dies have.
    region: Region
    factors: Factors
    bias: bool
    spare: int = 0
    packed: bool = False

    @property
    def _spans(self) -> Spans:
        # Rows of the matrix are cut as samples are.
        _, inputs, outputs = self.shape
        return spans(self.region, inputs, outputs, self.factors)

    def place_words(self) -> int:
        """As :class:`Reservable`."""
        here = self._spans
        return int((here.channels * (self.shape[0] * here.samples + int(self.bias) + self.spare)).max())

    def slice(self, die: int) -> WeightSlice:
        """What a die has."""
        here = self._spans
        row, column = int(here.first_sample[die]), int(here.first_channel[die])
        return WeightSlice(self.shape[0], row, int(here.end_sample[die]) - row, column,
                           int(here.end_channel[die]) - column, self.bias, self.spare)

    def buffer(self, die: int) -> Buffer:
        """Weights and bias in one row."""
        piece = self.slice(die)
        return Buffer(self.name, 0, 1, piece.words, max(1, piece.words + piece.spare_words))

    def matrix(self, die: int) -> Buffer:
        """The matrix with its spare rows."""
        piece = self.slice(die)
        return Buffer(self.name, 0, piece.rows + piece.spare, piece.outputs, piece.outputs)

    def spare_rows(self, die: int) -> Buffer:
        """What lies behind the slice."""
        piece = self.slice(die)
        return Buffer(f"{self.name}.spare", piece.words, piece.spare, piece.outputs, piece.outputs, whole=self.name)

    def bias_of(self, tensor: Tensor) -> Placed:
        """The bias for the channels that each die has of a tensor."""
        def find(die: int, buffer: Buffer) -> Buffer:
            piece, part = self.slice(die), tensor.part(die)
            return buffer.part(buffer.name, piece.weights + part.first_channel - piece.first_output, 1, part.channels)

        return View(self, find)
