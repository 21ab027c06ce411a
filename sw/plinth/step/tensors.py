"""Who holds which part of a tensor: places in the dies' memories, without addresses.

Every place begins at the same address on all dies, so that a die knows where its tiles go. What a die has of a tensor
lies dense in its place, channels innermost; where it lies is told a die at a time, so that many dies cost nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple, Protocol

import numpy as np

from plinth.buffers import Buffer
from plinth.network.variables import INPUTS, OUTPUTS
from plinth.partition.axes import CHANNELS, ELEMENTS, SAMPLES, Region
from plinth.partition.cuts import Factors, Integers, Listed, pieces, selected
from plinth_hw.isa.parameters import DieParameters

#: Indices of an axis, as numpy takes them.
Selected = Integers | slice


class Inner(NamedTuple):
    """Some neighbouring samples and channels of a part, counted from its first ones."""

    sample: int
    samples: int
    channel: int
    channels: int


@dataclass(frozen=True)
class Part:
    """A die's part of a tensor [sample, position, channel]: all positions of some samples and channels, ranges of them
    or of the order in which a list has them.

    In memory it lies dense, channels innermost: a row is a position of a sample.
    """

    first_sample: int
    samples: int
    first_channel: int
    channels: int
    positions: int
    #: Lists whose orders samples and channels have.
    sample_order: Listed | None = None
    channel_order: Listed | None = None

    @property
    def rows(self) -> int:
        """Samples times positions."""
        return self.samples * self.positions

    @property
    def words(self) -> int:
        """Elements."""
        return self.rows * self.channels

    def meet(self, other: "Part") -> list[tuple[Inner, Inner]]:
        """What two parts of the same tensor have in common, in pieces that lie one element behind the other in either:
        where in this one, where in the other."""
        samples = pieces(self.sample_order, self.first_sample, self.first_sample + self.samples,
                         other.sample_order, other.first_sample, other.first_sample + other.samples)
        channels = pieces(self.channel_order, self.first_channel, self.first_channel + self.channels,
                          other.channel_order, other.first_channel, other.first_channel + other.channels)
        return [(Inner(sample, count, channel, width), Inner(there, count, place, width))
                for sample, there, count in samples for channel, place, width in channels]

    def view(self, buffer: Buffer, inner: Inner) -> Buffer:
        """Where a piece of this part lies in this part's buffer."""
        row = inner.sample * self.positions
        return buffer.part(buffer.name, row * buffer.stride + inner.channel, inner.samples * self.positions,
                           inner.channels, buffer.stride)

    def index(self) -> tuple[Selected, Selected, Selected]:
        """Its samples, positions and channels in the whole tensor."""
        return (selected(self.sample_order, self.first_sample, self.samples), slice(0, self.positions),
                selected(self.channel_order, self.first_channel, self.channels))


class Spans(NamedTuple):
    """Ranges of positions of samples and channels of every die, as arrays."""

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


def _spans(region: Region, batch: int, channels: int, factors: Factors) -> Spans:
    """What every die has of a region of a map."""
    return Spans(*region.bounds(SAMPLES, batch, factors), *region.bounds(CHANNELS, channels, factors))


@lru_cache(maxsize=1 << 14)
def _part(region: Region, batch: int, channels: int, positions: int, factors: Factors, die: int) -> Part:
    """What a die has of it."""
    here = _spans(region, batch, channels, factors)
    first, low = int(here.first_sample[die]), int(here.first_channel[die])
    return Part(first, int(here.end_sample[die]) - first, low, int(here.end_channel[die]) - low, positions,
                region.orders.get(SAMPLES), region.orders.get(CHANNELS))


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
        return _spans(self.region, self.samples, self.channels, self.factors)

    def _words(self) -> Integers:
        here = self.spans
        widths = (here.channels + 1) // 2 if self.packed else here.channels
        return here.samples * self.positions * widths

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return int(self._words().max())

    def part(self, die: int) -> Part:
        """What a die has."""
        return _part(self.region, self.samples, self.channels, self.positions, self.factors, die)

    def buffer(self, die: int) -> Buffer:
        """Where that lies."""
        part = self.part(die)
        width = -(-part.channels // 2) if self.packed else part.channels
        return Buffer(self.name, 0, part.rows, part.channels, max(1, width), packed=self.packed)

    def like(self, name: str, *, packed: bool = False, positions: int | None = None) -> "Tensor":
        """Another tensor of which each die has the same samples and channels."""
        return Tensor(name, self.samples, self.positions if positions is None else positions, self.channels,
                      self.region, self.factors, packed)


@dataclass(frozen=True)
class Elements:
    """What a die has of the tiles of a map: some neighbouring elements of a tile, of some samples' tiles and channels.
    In memory they lie dense: element, sample, tile, channel."""

    first: int
    count: int
    part: Part
    packed: bool = False
    #: As of :class:`Tiles`.
    column: int = 0
    by_rows: bool = False

    @property
    def words(self) -> int:
        """In all."""
        return self.count * self.part.words

    @property
    def width(self) -> int:
        """Words of a tile's channels."""
        return -(-self.part.channels // 2) if self.packed else self.part.channels

    @property
    def plane(self) -> int:
        """Words of an element."""
        return self.part.rows * self.width

    @property
    def apart(self) -> int:
        """Places from an element to the next one of its column, if they are counted column by column, or the next."""
        return self.count // self.column if self.by_rows else 1

    def place(self, element: int) -> int:
        """Elements that lie before one."""
        if not self.by_rows:
            return element - self.first
        column, row = divmod(element, self.column)
        return row * self.apart + column

    def evenly(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Some neighbours, first one and how many, as those whose places are as far from each other."""
        end = first + count
        while first < end:
            stop = min(end, (first // self.column + 1) * self.column) if self.by_rows else end
            yield first, stop - first
            first = stop

    def of(self, buffer: Buffer, element: int) -> Buffer:
        """An element's matrix: a row is a tile."""
        part = self.part
        return buffer.part(f"{buffer.name}[{element}]", self.place(element) * self.plane, part.rows, part.channels,
                           self.width)

    def runs(self, buffer: Buffer, element: int, count: int) -> Buffer:
        """Some elements that lie evenly, a row each."""
        words = self.of(buffer, element)
        return words.part(words.name, 0, count, self.part.words, self.apart * self.plane)

    def besides(self, own: "Elements") -> list[tuple[int, int]]:
        """Of tiles in whole, the elements but for some of a die: first one and how many, of neighbours."""
        if not self.words:
            return []
        behind = own.first + own.count
        ends = ((0, own.first), (behind, self.count)) if own.count else ((0, self.count),)
        return [(first, end - first) for first, end in ends if first < end]


@dataclass(frozen=True)
class Tiles(Tensor):
    """Winograd tiles of a map: ``positions`` of a sample, each of some elements, of which dies have ranges."""

    elements: int = 1
    #: Elements of a column, where they are counted column by column; 0: row by row.
    column: int = 0
    #: They lie row by row all the same; dies have all.
    by_rows: bool = False

    def _elements(self) -> tuple[Integers, Integers]:
        return self.region.bounds(ELEMENTS, self.elements, self.factors)

    @property
    def counts(self) -> Integers:
        """Elements of every die."""
        low, high = self._elements()
        return high - low

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return int((self.counts * self._words()).max())

    def at(self, die: int) -> Elements:
        """What a die has."""
        low, high = self._elements()
        return Elements(int(low[die]), int(high[die] - low[die]), self.part(die), self.packed, self.column,
                        self.by_rows)

    def buffer(self, die: int) -> Buffer:
        """All its elements, one behind the other."""
        here = self.at(die)
        return Buffer(self.name, 0, here.count * here.part.rows, here.part.channels, max(1, here.width),
                      packed=self.packed)

    def narrowed(self, name: str) -> "Tiles":
        """The same as operands of 16 bits."""
        return replace(self, name=name, packed=True)


@dataclass(frozen=True)
class Constant:
    """A matrix that every die has, ``[rows, columns]``, and the host writes before the first step."""

    name: str
    values: tuple[tuple[float, ...], ...]
    packed = False

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return len(self.values) * len(self.values[0])

    def buffer(self, die: int) -> Buffer:
        """Where it lies."""
        columns = len(self.values[0])
        return Buffer(self.name, 0, len(self.values), columns, columns)


@dataclass(frozen=True)
class View(ABC):
    """A part of what each die has in a place."""

    of: Placed

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        return self.of.packed

    @abstractmethod
    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""


@dataclass(frozen=True)
class Folded(View):
    """A dense place with ``fold`` rows in one."""

    fold: int

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        return self.of.buffer(die).folded(self.fold)


@dataclass(frozen=True)
class Unfolded(View):
    """A row as ``fold`` rows, one below the other."""

    fold: int

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        row = self.of.buffer(die)
        return row.part(row.name, 0, self.fold, row.columns // self.fold)


@dataclass(frozen=True)
class OnDies(View):
    """A place on some dies; on the others nothing."""

    dies: frozenset[int]

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        found = self.of.buffer(die)
        return found if die in self.dies else Buffer(found.name, 0, 0, 0, 1)


@dataclass(frozen=True)
class Meeting(View):
    """What each die has of a tensor that it also has of another one of the same elements, as one piece."""

    of: Tensor
    other: Tensor

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        part = self.of.part(die)
        found = [inner for inner, _ in part.meet(self.other.part(die))]
        return part.view(self.of.buffer(die), found[0] if found else Inner(0, 0, 0, 0))


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
        """Words of memory, of the die that needs most."""
        return self.fold * int(self.of.spans.channels.max())


def folded(of: Placed, fold: int) -> Placed:
    """A dense place with ``fold`` rows in one."""
    return of if fold == 1 else Folded(of, fold)


@dataclass(frozen=True)
class WeightSlice:
    """A die's slice of a layer's weights [tap, channel in, channel out] and bias: all taps of channels that neighbour
    each other, or do in the order of a list."""

    #: Of a layer whose tiles' elements are split those that the die has, from a first one on.
    taps: int
    first_input: int
    inputs: int
    first_output: int
    outputs: int
    bias: bool
    #: Rows behind it that belong to no layer: of an embedding whose rows are split.
    spare: int = 0
    #: Lists whose orders channels have.
    input_order: Listed | None = None
    output_order: Listed | None = None
    first_tap: int = 0
    #: Of elements: all numbers in the order in which they are counted; none: that of numbers.
    tap_order: tuple[int, ...] = ()

    @property
    def tap_index(self) -> Selected:
        """Its taps in the whole layer."""
        if self.tap_order:
            return np.array(self.tap_order[self.first_tap:self.first_tap + self.taps])
        return slice(self.first_tap, self.first_tap + self.taps)

    def tap(self, number: int) -> int:
        """The number in the whole layer of one of its taps."""
        return self.tap_order[self.first_tap + number] if self.tap_order else self.first_tap + number

    @property
    def input_index(self) -> Selected:
        """Its input channels in the whole layer."""
        return selected(self.input_order, self.first_input, self.inputs)

    @property
    def output_index(self) -> Selected:
        """Its output channels in the whole layer."""
        return selected(self.output_order, self.first_output, self.outputs)

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
class WeightPiece:
    """A piece of every die's slice of a layer's weights: neighbouring rows of the matrix, with the last of them the
    bias. Pieces may be empty."""

    number: int = 0
    of: int = 1

    def rows(self, parameters: DieParameters, rows: int, columns: int) -> tuple[int, int]:
        """First row and number of rows, of a matrix: tiles of the array are whole, and pieces begin with a beat."""
        beat = parameters.beat_words
        unit = lcm(parameters.rows, beat, beat // gcd(columns, beat))
        each = rows if self.of == 1 else -(-rows // (self.of * unit)) * unit
        first = min(self.number * each, rows)
        return first, min(each, rows - first)

    def words(self, parameters: DieParameters, piece: WeightSlice) -> tuple[int, int]:
        """First word and number of words, of a slice with its bias."""
        first, rows = self.rows(parameters, piece.rows, piece.outputs)
        if not rows and (self.number or piece.rows):
            return 0, 0
        end = (first + rows) * piece.outputs if first + rows < piece.rows else piece.words
        return first * piece.outputs, end - first * piece.outputs

    def rate(self, piece: WeightSlice) -> float:
        """The factor on its learning rate, of a slice."""
        return 1.0


@dataclass(frozen=True)
class ElementPiece(WeightPiece):
    """The weights of each die's element of tiles of one number, which have a learning rate of their own; behind the
    elements comes the bias. Empty where a die has fewer elements."""

    #: Factors on the learning rate, by elements of the whole layer.
    rates: tuple[float, ...] = ()

    def words(self, parameters: DieParameters, piece: WeightSlice) -> tuple[int, int]:
        """First word and number of words, of a slice with its bias."""
        each = piece.inputs * piece.outputs
        if self.number < self.of - 1:
            return (self.number * each, each) if self.number < piece.taps else (0, 0)
        return piece.weights, piece.words - piece.weights

    def rate(self, piece: WeightSlice) -> float:
        """The factor on its learning rate, of a slice."""
        return self.rates[piece.tap(self.number)] if self.number < self.of - 1 else 1.0


#: All of a slice.
WHOLE = WeightPiece()


@lru_cache(maxsize=1 << 14)
def _slice(region: Region, shape: tuple[int, int, int], bias: bool, spare: int, factors: Factors,
           order: tuple[int, ...], die: int) -> WeightSlice:
    """What a die has of a layer's weights."""
    (begin, end), (low, high), (first, last) = (
        tuple(int(bound[die]) for bound in region.bounds(axis, size, factors))
        for axis, size in zip((ELEMENTS, INPUTS, OUTPUTS), shape, strict=True))
    return WeightSlice(end - begin, low, high - low, first, last - first, bias, spare, region.orders.get(INPUTS),
                       region.orders.get(OUTPUTS), begin, order)


@dataclass(frozen=True)
class Weights:
    """Weights of a layer, or their gradient: each die has a slice, weights then bias then spare rows, in one row."""

    name: str
    #: Of the whole layer: taps, channels in, channels out.
    shape: tuple[int, int, int]
    #: Input and output channels that dies have, and elements of tiles, which taps are then.
    region: Region
    factors: Factors
    bias: bool
    spare: int = 0
    packed: bool = False
    #: As of :class:`WeightSlice`.
    tap_order: tuple[int, ...] = ()

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        taps, rows, columns = (self.region.lengths(axis, size, self.factors)
                               for axis, size in zip((ELEMENTS, INPUTS, OUTPUTS), self.shape, strict=True))
        return int((columns * (taps * rows + int(self.bias) + self.spare)).max())

    @property
    def most_rows(self) -> int:
        """Rows of the matrix, on the die that has most."""
        taps, rows = (self.region.lengths(axis, size, self.factors)
                      for axis, size in zip((ELEMENTS, INPUTS), self.shape[:2], strict=True))
        return int((taps * rows).max())

    def slice(self, die: int) -> WeightSlice:
        """What a die has."""
        return _slice(self.region, self.shape, self.bias, self.spare, self.factors, self.tap_order, die)

    def buffer(self, die: int) -> Buffer:
        """Weights and bias in one row."""
        piece = self.slice(die)
        return Buffer(self.name, 0, 1, piece.words, max(1, piece.words + piece.spare_words))

    def matrix(self, die: int) -> Buffer:
        """The matrix with its spare rows."""
        piece = self.slice(die)
        return Buffer(self.name, 0, piece.rows + piece.spare, piece.outputs, piece.outputs)

    def bias_of(self, tensor: Tensor) -> "Bias":
        """The bias for the channels that each die has of a tensor."""
        return Bias(self, tensor)


@dataclass(frozen=True)
class Bias(View):
    """The bias for the channels that each die has of a tensor."""

    of: Weights
    tensor: Tensor

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        whole, piece, part = self.of.buffer(die), self.of.slice(die), self.tensor.part(die)
        return whole.part(whole.name, piece.weights + part.first_channel - piece.first_output, 1, part.channels)


@dataclass(frozen=True)
class Matrix(View):
    """The matrix of each die's weights, with its spare rows."""

    of: Weights

    def buffer(self, die: int) -> Buffer:
        """Where it lies on a die."""
        return self.of.matrix(die)


@dataclass(frozen=True)
class SpareRows(View):
    """The spare rows behind each die's weights."""

    of: Weights

    def buffer(self, die: int) -> Buffer:
        """Where they lie on a die."""
        piece = self.of.slice(die)
        return Buffer(f"{self.of.name}.spare", piece.words, piece.spare, piece.outputs, piece.outputs,
                      whole=self.of.name)
