"""What an operation moves between dies in numpy: within a process place by place, to other processes in one message
each, which both ends make ready from the step alone."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from plinth.runtime import tiles
from plinth.runtime.halos import Halo
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.runtime.rings import Ends, Incoming, Outgoing
from plinth.step import between, line_operations, operations, predicted_gather, skipped_scatter
from plinth.step import tile_operations as tiled
from plinth.step.layers import embedding
from plinth.step.tasks import LineTransform, RowsByNumber, TileCopy, TransformTiles, Work, tasks_of


def _tasks(operation: Any, die: int) -> Iterator[Work]:
    """What its tasks move, as they are."""
    return (task.work for task in tasks_of(operation.tasks(die)))


def _whole(gather: predicted_gather.CodedGather, die: int) -> Iterator[Work]:
    """The gather whose first part a coded one is, of all words."""
    if gather.later:
        return
    for other in gather.peers(die):
        if other != die or gather.own:
            for task in tiled.Gather.tiles(gather, die, other):
                yield task.work


def _spread(scatter: skipped_scatter.SkipScatter, die: int) -> Iterator[Work]:
    """The scatter that leaves out zeros, of all words."""
    source, target = scatter.source, scatter.targets[0]
    assert isinstance(source, tiled.Tiles) and isinstance(target, tiled.Tiles)
    mine = source.at(die)
    for other in scatter.peers(die):
        theirs = target.at(other)
        for here, there in mine.part.meet(theirs.part) if theirs.count else ():
            words = mine.part.view(mine.of(source.buffer(die), theirs.first), here)
            place = theirs.part.view(theirs.of(target.buffer(other), theirs.first), there)
            yield TileCopy(words, place, other, planes=theirs.count, apart=(mine.plane, theirs.plane))


#: For each kind of operation that moves words what a die moves of it.
MOVES: dict[type, Callable[[Any, int], Iterator[Work]]] = {
    **dict.fromkeys((embedding.RowGather, operations.Turn, between.Exchange, tiled.Scatter, tiled.Gather, tiled.Untile,
                     line_operations.LineTiles, line_operations.LineGather, skipped_scatter.OwnTiles), _tasks),
    predicted_gather.CodedGather: _whole, skipped_scatter.SkipScatter: _spread}


class _Halves(NamedTuple):
    """Work that may go to other dies: what its die makes, and where another has it."""

    made: Callable[[Memory, int, Any], tiles.Made]
    places: Callable[[Memory, int, Any, int], Sequence[tiles.TilePlace]]


#: For each kind of work that may go to other dies its two halves.
SENT: dict[type, _Halves] = {TileCopy: _Halves(tiles.copied_tile, tiles.tile_places),
                             TransformTiles: _Halves(tiles.scattered_tiles, tiles.scattered_places),
                             LineTransform: _Halves(tiles.made_lines, tiles.line_places)}


class _Own(NamedTuple):
    """Work that a die may do for itself: whether it does, and its kernel."""

    stays: Callable[[Any], bool]
    kernel: Callable[[Memory, Any], Kernel]


#: For each kind of work that a die may do for itself what it does then.
OWN: dict[type, _Own] = {RowsByNumber: _Own(lambda work: True, tiles.rows_kernel),
                         TransformTiles: _Own(lambda work: not work.scatter, tiles.gather_kernel)}


class ArrivingMessage(NamedTuple):
    """What comes from another process of an operation, and where it goes: the die that sends it, the one of this
    process that gets it, and its place there, in the order in which their words lie in the message."""

    incoming: Incoming
    places: list[tuple[int, int, tiles.TilePlace]]
    #: Whether it comes to its places itself.
    there: bool

    def unpack(self) -> None:
        """Copy its words to their places, once it has come."""
        if self.there:
            return
        first = 0
        for _, _, place in self.places:
            _put(place, self.incoming.words[first:first + place.size])
            first += place.size


def _put(place: tiles.TilePlace, words: Floats) -> None:
    """Write all that goes to a place."""
    if isinstance(place, tiles.NumberedRows):
        place.put(words)
    else:
        np.copyto(place, words.reshape(place.shape))


def _given(part: tiles.MadePart, place: tiles.TilePlace) -> Kernel:
    """A part to where it goes in the same process."""
    if not isinstance(place, tiles.NumberedRows):
        return partial(part.give, place)
    words = np.empty(part.shape, np.float32)

    def give() -> None:
        part.give(words)
        place.put(words)

    return give


class Moves:
    """The kernels and messages by which an operation moves data, on the dies of a process.

    Parameters
    ----------
    operation : Operation
        Of :data:`MOVES`.
    memories : mapping of int to Memory
        Of the process's dies.
    ranks : sequence of int
        The process of each die.
    ends : Ends
        Of messages to other processes; not asked for if there are none.
    tag : int
        Of its messages.
    halo : Halo or None
        Where it takes the place of the operation's target.
    """

    def __init__(self, operation: Any, memories: Mapping[int, Memory], ranks: Sequence[int], ends: Ends, tag: int,
                 halo: Halo | None = None) -> None:
        #: Into messages, and all that is more than a copy.
        self.packing: list[Kernel] = []
        #: Copies within the process, which may go on while messages are on their way.
        self.copies: list[Kernel] = []
        moved = partial(MOVES[type(operation)], operation) if halo is None else halo.works
        made: list[tuple[int, Work, tiles.Made]] = []
        coming: dict[int, list[tuple[int, int, tiles.TilePlace]]] = defaultdict(list)
        for die, rank in enumerate(ranks):
            for work in moved(die):
                if type(work) in OWN and OWN[type(work)].stays(work):
                    if die in memories:
                        self.packing.append(OWN[type(work)].kernel(memories[die], work))
                elif die in memories:
                    made.append((die, work, SENT[type(work)].made(memories[die], die, work)))
                else:
                    coming[rank] += [(die, other, place) for other, memory in memories.items()
                                     for place in SENT[type(work)].places(memory, die, work, other) if place.size]
        going: dict[int, int] = defaultdict(int)
        for part in (part for _, _, each in made for part in each.parts if part.die not in memories):
            going[ranks[part.die]] += prod(part.shape)
        outgoing = {rank: ends.outgoing(rank, tag, words) for rank, words in sorted(going.items()) if words}
        self.sent: list[Outgoing] = list(outgoing.values())
        free = {rank: message.words for rank, message in outgoing.items()}
        for die, work, each in made:
            if each.prepare is not None:
                self.packing.append(each.prepare)
            places = {part.die: iter(SENT[type(work)].places(memories[part.die], die, work, part.die))
                      for part in each.parts if part.die in memories}
            for part in each.parts:
                if part.die in places:
                    (self.copies if each.prepare is None else self.packing).append(_given(part, next(places[part.die])))
                elif size := prod(part.shape):
                    rank = ranks[part.die]
                    place, free[rank] = free[rank][:size], free[rank][size:]
                    self.packing.append(partial(part.give, place.reshape(part.shape)))
        self.messages = [_arriving(ends, rank, tag, places, there=halo is not None)
                         for rank, places in sorted(coming.items()) if places]


def _arriving(ends: Ends, rank: int, tag: int, places: list[tuple[int, int, tiles.TilePlace]], *, there: bool
              ) -> ArrivingMessage:
    """A message from a process; ``there``: it may come to its places at any time of a step, and does if they lie one
    behind the other."""
    words = sum(place.size for _, _, place in places)
    place = _joined([place for _, _, place in places]) if there else None
    return ArrivingMessage(ends.incoming(rank, tag, words, place), places, place is not None)


def _joined(places: Sequence[tiles.TilePlace]) -> Floats | None:
    """The words of places that lie one behind the other in memory, as one array; None: they do not."""
    ends = []
    for place in places:
        if isinstance(place, tiles.NumberedRows) or not place.flags.c_contiguous:
            return None
        ends.append(byte_bounds(place))
    if any(left[1] != right[0] for left, right in pairwise(ends)):
        return None
    first = cast("Floats", places[0])
    return np.lib.stride_tricks.as_strided(first.reshape(-1), (sum(place.size for place in places),), (4,))
