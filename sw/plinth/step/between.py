"""The operations of a step that go on between dies: tiles, meetings, and reductions over rings. As those of
:mod:`plinth.step.operations` they tell the tasks of each die."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from plinth.buffers import Buffer
from plinth.partition import exchanges
from plinth.partition.graph import Node
from plinth.partition.groups import ProcessGroups
from plinth.sharding import ReductionDefinition as ReductionDefinition
from plinth.step.row_lists import ExchangeLists
from plinth.step.slots import Slots
from plinth.step.tasks import Arrivals, GroupRow, Item, Members, Phase, Reduction, Signal, Task, TileCopy
from plinth.step.tensors import Tensor
from plinth.step.weights import WHOLE, WeightPiece, Weights
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True)
class Exchange:
    """Every die sends what of its part of ``source`` lies in other dies' parts of a target, to the next die first.

    Parameters
    ----------
    planned : exchanges.Exchange
        The definition that it realises, alone or with others of the name.
    name : str
        Of its tasks, as :meth:`plinth.step.step.Step.named` gives it.
    node : int
        The node whose sums, map or errors move.
    targets : sequence of Tensor
        Places, one a slot.
    slots : ProcessGroups or None
        Whose words go to which slot: a die's to that of its number in its group; None: there is one slot.
    own : bool
        Whether what a die keeps is copied as well.
    cluster : ProcessGroups or None
        Dies that send to each other; None: all do.
    """

    planned: exchanges.ExchangeDefinition
    name: str
    node: int
    number: int
    source: Tensor
    targets: Sequence[Tensor]
    slots: ProcessGroups | None
    own: bool
    cluster: ProcessGroups | None = None
    #: Of tensors whose rows are channels.
    lists: ExchangeLists | None = field(default=None, kw_only=True)

    #: Words that it sends for each of an element.
    share = 1.0
    #: Whether its tasks say what it takes, as words do not go as they are.
    by_tasks = False

    @property
    def memory_share(self) -> float:
        """Words that it reads and writes in memory for each of an element."""
        return self.share

    def members(self, die: int) -> Members | None:
        """The dies of a die's cluster, if one task reaches all. None: there is nobody else, or a task for each."""
        return None

    @property
    def flow(self) -> exchanges.ExchangeFlow:
        """The regions, sizes and positions of what moves."""
        flow = self.planned.flow(self.source.channels if self.source.by_channel else self.source.samples)
        return flow._replace(by_channel=self.source.by_channel)

    @property
    def portion(self) -> float:
        """The share of the flow's words that this exchange moves; others do the rest."""
        return 1.0

    def peers(self, die: int) -> Sequence[int]:
        """The dies that a die may send to, itself first, then in their order from the next one on."""
        if self.cluster is None:
            return [(die + turn) % self.dies for turn in range(self.dies)]
        members, number = self.cluster.of(die), self.cluster.number(die)
        return members[number:] + members[:number]

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return prod(self.source.factors)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tiles from a die to another, or to itself: one, but between index sets one a run, unless rows are moved
        by their numbers."""
        target = self.targets[0 if self.slots is None else self.slots.number(die)]
        if self.lists is not None and self.lists.run(die, other) is not None:
            yield from self._rows(die, other, target)
            return
        mine, theirs = self.source.part(die), target.part(other)
        for number, (here, there) in enumerate(mine.meet(theirs)):
            source, place = mine.view(self.source.buffer(die), here), theirs.view(target.buffer(other), there)
            run = f".{number}" if number else ""
            if die == other:
                yield Task(f"{self.name}.own{run}", Engine.TRANSFER, TileCopy(source, place), (source,), (place,))
            else:
                yield Task(f"{self.name}[{other}]{run}", Engine.TRANSFER, TileCopy(source, place, other, self.number),
                           (source,))

    def _rows(self, die: int, other: int, target: Tensor) -> Iterator[Task]:
        """All rows from a die to another, or to itself, in one tile, by their numbers on one side where they do not lie
        in a row there."""
        assert self.lists is not None
        rows, places = self.lists.meeting(die, other)
        if not len(rows):
            return
        index = self.lists.at(die, other) if other in self.lists.lists(die) else None
        # Columns are samples, of which what two dies share lies together in either.
        here, there, count = self.source.part(die).shared_channels(target.part(other))
        source, place = self.source.buffer(die), target.buffer(other)
        source = source.part(source.name, here, source.rows, count, source.stride)
        place = place.part(place.name, there, place.rows, count, place.stride)
        if index is None or index.scatter:
            source = source.lines(int(rows[0]), len(rows))
        if index is None or not index.scatter:
            place = place.lines(int(places[0]), len(places))
        reads = (source,) if index is None else (source, index.numbers)
        if die == other:
            yield Task(f"{self.name}.own", Engine.TRANSFER, TileCopy(source, place, index=index), reads, (place,))
        else:
            yield Task(f"{self.name}[{other}]", Engine.TRANSFER,
                       TileCopy(source, place, other, self.number, index=index), reads)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        yield from self.sends(die)
        arrivals = self.arrivals(die)
        if arrivals is not None:
            yield arrivals

    def sends(self, die: int) -> Iterator[Task]:
        """The tasks that send all tiles of a die, its own ones among them if they are copied."""
        for other in self.peers(die)[0 if self.own else 1:]:
            yield from self.tiles(die, other)

    def arrivals(self, die: int) -> Arrivals | None:
        """The arrivals of what others send to a die; None: nothing comes."""
        count = sum(self.arriving(die, other) for other in self.peers(die)[1:])
        if not count:
            return None
        return Arrivals(self.number, self.received(die), count)

    def arriving(self, die: int, other: int) -> int:
        """Tiles that come to a die from another."""
        return sum(1 for _ in self.tiles(other, die))

    def received(self, die: int) -> tuple[Buffer, ...]:
        """The places of a die that others write."""
        if not self.targets[0].part(die).words:
            return ()
        places = [self.targets] if isinstance(self.targets, Slots) else self.targets
        return tuple(place.buffer(die) for place in places)


@dataclass(frozen=True)
class Barrier:
    """Every die waits until all others have done their tasks of an engine. Sends no words."""

    name: str
    number: int
    dies: int
    engine: Engine
    #: The layer whose reduction waits.
    node: Node = field(compare=False)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        for other in range(self.dies):
            if other != die:
                yield Task(f"{self.name}.barrier[{other}]", Engine.TRANSFER, Signal(other, self.number, self.engine))
        yield Arrivals(self.number, (), self.dies - 1)


@dataclass(frozen=True)
class Regroup:
    """Some dies give a row of their group tables, which several rings take turns in, to the ring whose message is next.
    """

    row: int
    rings: ProcessGroups
    dies: frozenset[int]
    #: The layer whose message is next.
    node: Node = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        return f"set_group[{self.row}]"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        if die in self.dies:
            yield Task(self.name, Engine.COLLECTIVE, GroupRow(self.row, self.rings.of(die)))


@dataclass(frozen=True)
class Reduce:
    """A message of rings about a piece of a layer's weights or gradients.

    Parameters
    ----------
    planned : Reduction of :mod:`plinth.sharding`
        The definition that it realises, alone or with messages of other pieces and phases.
    phase : Phase
        What it does; of a ring of one die UPDATE is the update alone.
    source, target : Weights
        Gradients and weights, or what the phase takes and gives instead.
    rings : ProcessGroups
        The rings of dies that have the same slice.
    row : int
        Which their members' group tables have for them.
    messages : tuple
        Of each ring the number of its message; None: another reduction is the ring's.
    """

    planned: ReductionDefinition = field(compare=False)
    node: Node
    rings: ProcessGroups
    row: int
    messages: tuple[int | None, ...]
    phase: Phase
    source: Weights
    target: Weights
    parameters: DieParameters
    #: Exchange whose arrivals it waits for, if any.
    after: int | None = None
    piece: WeightPiece = WHOLE

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        return f"{self.node.name}.{self.phase.value}" + (f"[{self.piece.number}]" if self.piece.of > 1 else "")

    @cached_property
    def going(self) -> tuple[int, ...] | None:
        """Numbers of the rings whose reduction it is; None: all."""
        ring_numbers = tuple(number for number, message in enumerate(self.messages) if message is not None)
        return ring_numbers if len(ring_numbers) < len(self.messages) else None

    def message(self, die: int) -> int | None:
        """The number of the message of a die's ring; None: this is not its reduction."""
        return self.messages[self.rings.group(die)]

    def words(self, die: int) -> int:
        """The number of words of a die's message."""
        return self.piece.words(self.parameters, self.target.slice(die))[1]

    def takes_part(self, die: int) -> bool:
        """Whether a die has a message of it."""
        return self.message(die) is not None and self.words(die) > 0

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        message, piece = self.message(die), self.target.slice(die)
        first, words = self.piece.words(self.parameters, piece)
        if words and message is not None:
            source, target = (tensor.buffer(die) for tensor in (self.source, self.target))
            if words < source.columns:
                source, target = (buffer.part(buffer.name, first, 1, words) for buffer in (source, target))
            work = Reduction(self.phase, self.row, self.rings.of(die), message, source, target, self.after,
                             self.piece.rate(piece))
            yield Task(self.name, Engine.COLLECTIVE, work, (source,), (target,), 1, self.node)
