"""Who holds which part of a tensor: places in the dies' memories, without addresses.

Every place begins at the same address on all dies, so that a die knows where its tiles go. What a die has of a tensor
lies dense in its place, channels innermost; where it lies is told a die at a time, so that many dies cost nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from plinth.buffers import Buffer
from plinth.partition.axes import CHANNELS, ELEMENTS, SAMPLES, Region
from plinth.partition.cuts import Factors, Integers, Listed, pieces, selected

#: Indices of an axis, as numpy takes them.
Selected = Integers | slice


def grid(axes: Sequence[Selected]) -> tuple[Any, ...]:
    """Indices of each axis as one index of numpy's."""
    if all(isinstance(axis, slice) for axis in axes):
        return tuple(axes)
    return np.ix_(*(np.arange(axis.start, axis.stop) if isinstance(axis, slice) else axis for axis in axes))


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
        """The rows of the part: samples times positions."""
        return self.samples * self.positions

    @property
    def words(self) -> int:
        """The number of elements of the part."""
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

    def shared_channels(self, other: "Part") -> tuple[int, int, int]:
        """The channels that two parts of the same tensor have in common, which lie one behind the other in both: the
        first one's number in this part, in the other, and how many there are."""
        ((here, there, count),) = pieces(
            self.channel_order, self.first_channel, self.first_channel + self.channels,
            other.channel_order, other.first_channel, other.first_channel + other.channels)
        return here, there, count

    def view(self, buffer: Buffer, inner: Inner) -> Buffer:
        """The part of this part's buffer where a piece of it lies."""
        row = inner.sample * self.positions
        return buffer.part(buffer.name, row * buffer.stride + inner.channel, inner.samples * self.positions,
                           inner.channels, buffer.stride)

    def index(self) -> tuple[Selected, Selected, Selected]:
        """The samples, positions and channels of the part as indices of the whole tensor."""
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
        """The part of a die's memory where it lies."""
        ...


class Reservable(Placed, Protocol):
    """What has a place of its own."""

    @property
    def name(self) -> str:
        """The name of the place."""
        ...

    def place_words(self) -> int:
        """Words on the die that needs most."""
        ...


@dataclass(frozen=True)
class Place:
    """Memory that is reserved under the same address on all dies that have it.

    Parameters
    ----------
    words : int
        Of the die that needs most.
    moves : bool
        The place lies in memory once for every step of an epoch: inputs and targets.
    what : Placed or None
        What lies there.
    stage : int or None
        The pipeline stage whose dies alone have it; None: all dies do.
    """

    name: str
    words: int
    moves: bool = False
    what: Placed | None = None
    stage: int | None = None


@dataclass(frozen=True)
class Tensor:
    """A tensor [sample, position, channel], of which each die has a region: all positions, dense.

    With ``by_channel`` it is [channel, position, sample], of one position: ``samples`` counts channels then, and the
    region's axes have changed places. So sparse layers have their maps, whose channels move one by one.
    """

    name: str
    samples: int
    positions: int
    channels: int
    region: Region
    factors: Factors
    packed: bool = False
    by_channel: bool = False
    #: Where it begins in its place.
    first_word: int = 0

    @property
    def spans(self) -> Spans:
        """The ranges of samples and channels that every die has."""
        return _spans(self.region, self.samples, self.channels, self.factors)

    def _words(self) -> Integers:
        here = self.spans
        widths = (here.channels + 1) // 2 if self.packed else here.channels
        return here.samples * self.positions * widths

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return int(self._words().max())

    def part(self, die: int) -> Part:
        """The part of the tensor that a die has."""
        return _part(self.region, self.samples, self.channels, self.positions, self.factors, die)

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        part = self.part(die)
        width = -(-part.channels // 2) if self.packed else part.channels
        return Buffer(self.name, self.first_word, part.rows, part.channels, max(1, width), packed=self.packed)

    def like(self, name: str, *, packed: bool = False, positions: int | None = None) -> "Tensor":
        """Another tensor of which each die has the same samples and channels."""
        return Tensor(name, self.samples, self.positions if positions is None else positions, self.channels,
                      self.region, self.factors, packed, self.by_channel)

    def turned(self, name: str) -> "Tensor":
        """Another tensor of which each die has the same samples and channels, with rows and columns changed; of one
        position."""
        other = {SAMPLES: CHANNELS, CHANNELS: SAMPLES}
        region = Region(tuple((other[axis], cuts) for axis, cuts in self.region.axes), self.region.owners)
        return Tensor(name, self.channels, self.positions, self.samples, region, self.factors,
                      by_channel=not self.by_channel)


@dataclass(frozen=True)
class Elements:
    """The part of the tiles of a map that a die has: some neighbouring elements of a tile, of some samples' tiles and
    channels. In memory they lie dense: element, sample, tile, channel."""

    first: int
    count: int
    part: Part
    packed: bool = False
    #: As of :class:`Tiles`.
    column: int = 0
    by_rows: bool = False

    @property
    def words(self) -> int:
        """The number of words of all elements."""
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
        """The runs of neighbouring elements of whole tiles that are not a die's ``own``: first one and how many."""
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
        """The elements that a die has."""
        low, high = self._elements()
        return Elements(int(low[die]), int(high[die] - low[die]), self.part(die), self.packed, self.column,
                        self.by_rows)

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory with all its elements, one behind the other."""
        here = self.at(die)
        return Buffer(self.name, 0, here.count * here.part.rows, here.part.channels, max(1, here.width),
                      packed=self.packed)

    def narrowed(self, name: str) -> "Tiles":
        """The same tiles as operands of 16 bits."""
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
        """The part of a die's memory where it lies."""
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
        """The part of a die's memory where it lies."""


@dataclass(frozen=True)
class Folded(View):
    """A dense place with ``fold`` rows in one."""

    fold: int

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        return self.of.buffer(die).folded(self.fold)


@dataclass(frozen=True)
class Unfolded(View):
    """A row as ``fold`` rows, one below the other."""

    fold: int

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        row = self.of.buffer(die)
        return row.part(row.name, 0, self.fold, row.columns // self.fold)


@dataclass(frozen=True)
class OnDies(View):
    """A place on some dies; on the others nothing."""

    dies: frozenset[int]

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        buffer = self.of.buffer(die)
        return buffer if die in self.dies else buffer._replace(rows=0)


@dataclass(frozen=True)
class Meeting(View):
    """What each die has of a tensor that it also has of another one of the same elements, as one piece."""

    of: Tensor
    other: Tensor

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        part = self.of.part(die)
        overlap = [inner for inner, _ in part.meet(self.other.part(die))]
        return part.view(self.of.buffer(die), overlap[0] if overlap else Inner(0, 0, 0, 0))


@dataclass(frozen=True)
class RowOnDies:
    """A row on every die, as wide as the rows of a tensor, ``fold`` of them side by side."""

    name: str
    of: Tensor
    fold: int

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        return False

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        columns = self.fold * self.of.part(die).channels
        return Buffer(self.name, 0, 1, columns, max(1, columns))

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.fold * int(self.of.spans.channels.max())


def folded(of: Placed, fold: int) -> Placed:
    """A dense place with ``fold`` rows in one."""
    return of if fold == 1 else Folded(of, fold)
