"""A scatter of tiles that leaves out zeros (docs/prediction.md), as operations::

    tiles of the die's own samples, all elements           transform, within the die
    own elements as they are, all others' words but zeros  skip code   to who has the elements
    masks of these for itself, where errors come back      skip code, within the die
    tiles of these                                         decode

Forwards masks of words that are other than +0 go with them, and, where errors of the inputs come back by them
(:func:`~plinth.step.predicted_gather.add_named`), of those whose window has anything but +0: of these zeros are -0.
Backwards masks of the gather serve, which both sides have: a neuron that it left out lets no error pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from plinth.buffers import Buffer
from plinth.partition.predicted import skip_share
from plinth.step.between import Exchange
from plinth.step.coded_places import MASK, MapStrings, PerElement, PerMember, RowWords
from plinth.step.step import Step
from plinth.step.tasks import Decode, Encode, SkipPart, Task, TileCopy, code_task
from plinth.step.tensors import Tiles
from plinth.step.tile_operations import Scatter
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import Engine


@dataclass(frozen=True)
class Masks:
    """Which elements of tiles are sent: where those are that have the samples, and where those that have the elements.
    """

    gathered: PerElement
    asked: PerMember


@dataclass(frozen=True)
class OwnTiles:
    """Tiles of what a die has of maps, all elements."""

    name: str
    scatter: Scatter

    @property
    def node(self) -> int:
        """The number of the node whose tiles these are, which steps are not compared by."""
        return self.scatter.node

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        yield from self.scatter.tiles(die, die)


@dataclass(frozen=True, kw_only=True)
class SkipScatter(Exchange):
    """Every die gives each die of its cluster the elements that it has, of its own samples.

    Parameters
    ----------
    part : SkipPart
    strings : PerMember
    masks : Masks or None
        By which it sends, or, if they are sent, which are kept; None: none are.
    share : float
        Words that it sends for each of an element, about.
    """

    part: SkipPart
    strings: PerMember
    masks: Masks | None
    share: float
    by_tasks = True

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself: what a die has itself is copied."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine, theirs = source.at(die), target.at(other)
        met = mine.part.meet(theirs.part)
        if not (theirs.count and met):
            return
        (here, there), = met
        words = mine.part.view(mine.of(source.buffer(die), theirs.first), here)
        if die == other:
            place = theirs.part.view(theirs.of(target.buffer(other), theirs.first), there)
            apart = mine.plane, theirs.plane
            reads, writes = (tile.repeated(theirs.count, plane) for tile, plane in zip(
                (words, place), apart, strict=True))
            yield Task(f"{self.name}.own", Engine.TRANSFER, TileCopy(words, place, planes=theirs.count, apart=apart),
                       (reads,), (writes,))
            return
        gathered = None if self.masks is None or self.part.sent else self.masks.gathered
        even = mine if gathered is None else gathered.tiles.at(die)
        for first, count in even.evenly(theirs.first, theirs.count):
            runs, strings = mine.runs(self.source.buffer(die), first, count), self.strings.of(other, die, first, count)
            masks = None if gathered is None else gathered.of(die, first, count)
            end = f".{first}" if first > theirs.first else ""
            yield code_task(f"{self.name}[{other}]{end}", Encode(self.part, runs, strings, masks, other, self.number))

    def received(self, die: int) -> tuple[Buffer, ...]:
        """Places of a die that others write: strings."""
        return (self.strings.buffer(die),) if self.strings.elements.at(die).words else ()


@dataclass(frozen=True)
class OwnMaps:
    """Masks of the tiles that a die has sent, for itself: of elements that others have."""

    name: str
    tiles: Tiles
    elements: Tiles
    maps: MapStrings
    #: As of :class:`~plinth.step.between.Exchange`.
    node: int = field(compare=False)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        whole, mine = self.tiles.at(die), self.elements.at(die)
        part = SkipPart(True, 1 / WORD_BITS, maps=True)
        for first, count in whole.besides(mine):
            runs, strings = whole.runs(self.tiles.buffer(die), first, count), self.maps.strings(die, first, count)
            yield code_task(f"{self.name}.{first}", Encode(part, runs, strings, None))


@dataclass(frozen=True)
class DecodeTiles:
    """Tiles of what other dies of a cluster have sent, a task a die."""

    name: str
    scatter: SkipScatter

    @property
    def node(self) -> int:
        """The number of the node whose tiles these are, which steps are not compared by."""
        return self.scatter.node

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        scatter, target = self.scatter, self.scatter.targets[0]
        source = scatter.source
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine = target.at(die)
        for other in scatter.peers(die)[1:]:
            theirs = source.at(other)
            met = theirs.part.meet(mine.part)
            if not (mine.count and met):
                continue
            (_, there), = met
            place = mine.part.view(mine.of(target.buffer(die), mine.first), there)
            runs = place.part(place.name, 0, mine.count, theirs.part.words, mine.plane)
            strings = scatter.strings.of(die, other, mine.first, mine.count)
            masks = None if scatter.masks is None else scatter.masks.asked.of(die, other, mine.first, mine.count)
            yield code_task(f"{self.name}.{other}", Decode(scatter.part, strings, runs, masks))


def add_skipped(step: Step, scatter: Scatter, masks: Masks | None, *, kept: bool) -> Masks | None:
    """Append the operations of a scatter that leaves out zeros; its masks.

    Parameters
    ----------
    scatter : Scatter
        What it stands in place of.
    masks : Masks or None
        Of the gather whose errors it sends; None: they go with the words.
    kept : bool
        Whether these are kept, and are those of elements whose window has anything but +0; else of words other than it.
    """
    target, maps, planned, cluster = scatter.targets[0], scatter.source, scatter.planned, scatter.cluster
    assert isinstance(target, Tiles) and planned.coded is not None and cluster is not None
    whole = step.reserve(replace(target, name=f"{target.name}.own", region=maps.region))
    step.add(OwnTiles(f"{scatter.name}.tiles", replace(scatter, targets=[whole], cluster=None, marked=kept)))
    part = SkipPart(masks is None, skip_share(planned.coded, planned.phase, "scatter"))
    strings = step.reserve(PerMember(f"{target.name}.strings", target, whole, cluster,
                                     RowWords(length=True, exact=True, mask=part.sent)))
    map_strings: MapStrings | None = None
    if kept:
        map_strings = step.reserve(MapStrings(f"{target.name}.masks", whole, RowWords(length=True, mask=True)))
        masks = Masks(map_strings, step.reserve(PerMember(f"{target.name}.asked", target, whole, cluster, MASK)))
    sent = SkipScatter(planned, scatter.name, scatter.node, scatter.number, whole, [target], None, True, cluster,
                       part=part, strings=strings, masks=masks, share=part.share)
    step.add(sent)
    if map_strings is not None:
        step.add(OwnMaps(f"{scatter.name}.masks", whole, target, map_strings, scatter.node))
    step.add(DecodeTiles(f"{scatter.name}.decode", sent))
    return masks
