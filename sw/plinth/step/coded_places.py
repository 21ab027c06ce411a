"""Places of strings and masks beside Winograd tiles: a row a run, of as many words as follow from the run's."""

from dataclasses import dataclass

from plinth.buffers import Buffer
from plinth.partition.groups import ProcessGroups
from plinth.partition.predicted import mask_words, string_words
from plinth.step.tasks import CodePart
from plinth.step.tensors import Tiles


def _longest(tiles: Tiles) -> int:
    """Words of an element's run on the die that has most."""
    return int((tiles.spans.samples * tiles.spans.channels).max()) * tiles.positions


@dataclass(frozen=True)
class RowWords:
    """Words of a row, which follow from those of its run: a length, then words of the run, or a part of its strings;
    then its mask."""

    length: bool = False
    exact: bool = False
    part: CodePart | None = None
    mask: bool = False

    def of(self, run: int) -> int:
        """The number of words of a row for a run of so many words."""
        words = int(self.length) + (run if self.exact else 0) + (mask_words(run) if self.mask else 0)
        part = self.part
        return words + (0 if part is None else string_words(run, part.number, part.rounds, part.regions))


#: A run's mask alone.
MASK = RowWords(mask=True)


@dataclass(frozen=True)
class PerElement:
    """A place with a row for each element of tiles that dies have in whole; rows lie as the elements do."""

    name: str
    tiles: Tiles
    width: RowWords
    packed = False

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.tiles.elements * self.width.of(_longest(self.tiles))

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        columns = self.width.of(self.tiles.at(die).part.words)
        return Buffer(self.name, 0, self.tiles.elements, columns, max(1, columns))

    def of(self, die: int, element: int, count: int) -> Buffer:
        """Rows of some elements that lie evenly."""
        whole, tiles = self.buffer(die), self.tiles.at(die)
        return whole.part(f"{self.name}[{element}]", tiles.place(element) * whole.stride, count, whole.columns,
                          tiles.apart * whole.stride)


@dataclass(frozen=True)
class MapStrings(PerElement):
    """Masks that a die has made as strings: a row has its length first."""

    def of(self, die: int, element: int, count: int) -> Buffer:
        """Masks of some elements."""
        rows = self.strings(die, element, count)
        return rows.part(self.name, 1, count, rows.columns - 1, rows.stride)

    def strings(self, die: int, element: int, count: int) -> Buffer:
        """Rows of some elements, in whole."""
        return super().of(die, element, count)


@dataclass(frozen=True)
class PerMember:
    """A place for elements that dies have of all samples of their cluster: for each die of it, one behind the other, a
    row an element.

    Parameters
    ----------
    elements : Tiles
        Which a die has.
    samples : Tiles
        Which a die has, in whole, and whose runs the rows are of.
    """

    name: str
    elements: Tiles
    samples: Tiles
    cluster: ProcessGroups
    width: RowWords
    packed = False

    @property
    def _row(self) -> int:
        return self.width.of(_longest(self.samples))

    @property
    def _member(self) -> int:
        return int(self.elements.counts.max()) * self._row

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.cluster.size * self._member

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        return Buffer(self.name, 0, 1, self.place_words(), max(1, self.place_words()))

    def of(self, die: int, other: int, element: int, count: int) -> Buffer:
        """Rows of some of a die's elements, of another's samples."""
        first = self.cluster.number(other) * self._member + (element - self.elements.at(die).first) * self._row
        columns = self.width.of(self.samples.at(other).part.words)
        return self.buffer(die).part(self.name, first, count, columns, self._row)
