"""The operations of a step, each on all dies: what tasks a die has of it.

An operation is made of pieces (strips of samples, tasks of a pool, tiles). ``most`` tells into how many groups of
neighbouring pieces they go at most, each a task that stands for several; None: every piece is a task of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

from plinth.buffers import Buffer
from plinth.partition.graph import Node
from plinth.step import granularity
from plinth.step.tasks import (
    Item,
    Task,
    TileCopy,
    Vector,
)
from plinth.step.tensors import Part, Placed, Tensor
from plinth.step.vector import VectorPiece, VectorProgram
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

Entry = TypeVar("Entry")


class Operation(Protocol):
    """Interface of an operation: what dies do at a place of a step."""

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        ...

    @property
    def node(self) -> Node | int | None:
        """The node of the graph that it belongs to, or its number; None: to none, as what is done before the first
        step."""
        ...

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in order."""
        ...


def entry_of(table: Mapping[type, Entry], operation: object) -> Entry | None:
    """The entry of a table for an operation's kind, else for the nearest kind that it extends; None: there is none."""
    return next((table[kind] for kind in type(operation).__mro__ if kind in table), None)


class Repeated(ABC):
    """An operation whose tasks on a die are often those of another step's: who compares steps keeps what follows from
    them."""

    @abstractmethod
    def on(self, die: int) -> Hashable:
        """A key of all that the die's tasks follow from: operations of one type with equal keys have equal tasks
        there."""


# Vector programs.


class Space(Protocol):
    """Interface of a tensor that a program may sweep over."""

    def part(self, die: int) -> Part:
        """The part of it that a die has."""
        ...


@dataclass(frozen=True)
class Strip:
    """Rows of a space that are worked on before the next ones, in pieces of ``step`` rows x ``width`` columns."""

    number: int
    row: int
    rows: int
    step: int
    width: int


class Chained(Protocol):
    """Vector work that goes strip by strip with other work."""

    #: Whether it goes with the last strip alone.
    only_last: ClassVar[bool]

    @property
    def node(self) -> Node:
        """The node of the graph that it belongs to."""
        ...

    def strips(self, die: int) -> int:
        """Strips of a die's part."""
        ...

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most so many groups."""
        ...

    def on(self, die: int) -> Hashable:
        """A key of all that the die's tasks follow from: operations of one type with equal keys have equal tasks
        there."""
        ...


@dataclass(frozen=True)
class Sweep(Repeated):
    """A vector program over what each die has of a tensor, ``fold`` positions as one row.

    Parameters
    ----------
    first, program : VectorProgram
        Of the piece that begins with the first row, and of all others; their operands are places of all dies.
    regions, row_regions, column_regions : int
        Full, row and column regions, which pieces must have room for. With ``column_regions`` rows are whole.
    images : bool
        It goes in strips of whole images.

    Raises
    ------
    UserError
        From :meth:`tasks`, if a row that must be whole does not fit the scratchpad; groups stand for tasks of a row
        then, so that what cannot be lowered can be planned.
    """

    name: str
    node: Node
    parameters: DieParameters
    first: VectorProgram
    program: VectorProgram
    space: Space
    regions: int
    row_regions: int = 0
    column_regions: int | None = None
    fold: int = 1
    images: bool = False
    only_last: ClassVar[bool] = False
    #: Strips of rows, about, unless the scratchpad asks for more.
    pieces: int = granularity.STRIPS

    def on(self, die: int) -> Hashable:
        """A key of all that the die's tasks follow from: operations of one type with equal keys have equal tasks
        there."""
        return (self.name, self.node, self.parameters, self.first.on(die), self.program.on(die), self.space.part(die),
                self.regions, self.row_regions, self.column_regions, self.fold, self.images, self.pieces)

    def _cut(self, die: int, most: int | None = 1) -> Sequence[Strip]:
        part = self.space.part(die)
        if not part.words:
            return ()
        return _strips(self.parameters, part.samples, part.positions // self.fold, self.fold * part.channels,
                       self.node.raw_positions if self.images else 0, self.pieces,
                       (self.regions, self.row_regions, self.column_regions), most is None)

    def strips(self, die: int) -> int:
        """The number of strips in which a die does the sweep."""
        return len(self._cut(die))

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        cut = self._cut(die, most)
        for strips in granularity.groups(len(cut), most):
            yield from self._strip_tasks(die, cut[strips.start:strips.stop], most)

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most ``most`` groups."""
        yield from self._strip_tasks(die, self._cut(die, most)[strips.start:strips.stop], most)

    def _strip_tasks(self, die: int, strips: Sequence[Strip], most: int | None) -> Iterator[Task]:
        columns = self.fold * self.space.part(die).channels
        if len(strips) == 1:
            (strip,) = strips
            down, across = -(-strip.rows // strip.step), -(-columns // strip.width)
            if across > 1 and most is None:
                for row in range(down):
                    for column in range(across):
                        yield self._task(die, self._piece(strip, row, row + 1, columns, column))
                return
            for rows in granularity.groups(down, most):
                piece = self._piece(strip, rows.start, rows.stop, columns)
                yield self._task(die, piece, min(strip.step, piece.rows), min(strip.width, columns),
                                 len(rows) * across)
        elif strips:
            count = sum(-(-strip.rows // strip.step) * -(-columns // strip.width) for strip in strips)
            end = strips[-1].row + strips[-1].rows
            yield self._task(die, VectorPiece(strips[0].row, end - strips[0].row, 0, columns), strips[0].step,
                             strips[0].width, count)

    @staticmethod
    def _piece(strip: Strip, start: int, stop: int, columns: int, column: int | None = None) -> VectorPiece:
        row = strip.row + start * strip.step
        rows = min(strip.row + strip.rows, strip.row + stop * strip.step) - row
        if column is None:
            return VectorPiece(row, rows, 0, columns)
        first = column * strip.width
        return VectorPiece(row, rows, first, min(strip.width, columns - first))

    def _task(self, die: int, piece: VectorPiece, rows: int = 0, columns: int = 0, count: int = 1) -> Task:
        program = (self.program if piece.row else self.first).at(die, piece)
        return Task(f"{self.name}{piece}", Engine.VECTOR, Vector(program, rows or piece.rows, columns or piece.columns),
                    tuple(program.reads), tuple(program.writes), count, self.node)


@lru_cache(maxsize=1 << 12)
def _strips(parameters: DieParameters, samples: int, size: int, columns: int, positions: int, pieces: int,
            regions: tuple[int, int, int | None], whole: bool) -> tuple[Strip, ...]:
    """Strips of samples of ``size`` rows x columns each: with ``positions`` of a map before pools as long as its strips
    of images."""
    blocks = list(granularity.image_strips(samples, positions)) if positions else [(0, samples)]
    full, row, column = regions
    strips = []
    for number, (first, count) in enumerate(blocks):
        step, width = granularity.pieces(parameters, count * size, columns, full, row, 1 if len(blocks) > 1 else pieces,
                                  column, whole=whole)
        strips.append(Strip(number, first * size, count * size, step, width))
    return tuple(strips)


@dataclass(frozen=True)
class LastStrip(Repeated):
    """Vector work that goes with the last strip of others: one task on each die that has a part of ``space``."""

    name: str
    node: Node
    program: VectorProgram
    space: Tensor
    rows: int
    only_last: ClassVar[bool] = True

    def on(self, die: int) -> Hashable:
        """A key of all that the die's tasks follow from: operations of one type with equal keys have equal tasks
        there."""
        return self.name, self.node, self.program.on(die), self.space.part(die), self.rows

    def strips(self, die: int) -> int:
        """The number of strips in which a die does the sweep."""
        return 0

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most ``most`` groups."""
        part = self.space.part(die)
        if part.words:
            program = self.program.at(die, VectorPiece(0, self.rows, 0, part.channels))
            yield Task(self.name, Engine.VECTOR, Vector(program, self.rows, part.channels), tuple(program.reads),
                       tuple(program.writes), 1, self.node)


@dataclass(frozen=True)
class Turn(Repeated):
    """A copy of what each die has of a tensor whose rows are the tensor's columns: a word at a time."""

    name: str
    node: Node
    source: Tensor
    target: Tensor

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return self.name, self.node, self.source.part(die), self.source.name

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        source, target = self.source.buffer(die), self.target.buffer(die)
        if source.rows and source.columns:
            column = source.part(source.name, 0, source.rows, 1, source.stride)
            row = target.part(target.name, 0, source.rows, 1, 1)
            work = TileCopy(column, row, planes=source.columns, apart=(1, target.stride))
            yield Task(self.name, Engine.TRANSFER, work, (source,), (target,), 1, self.node)


@dataclass(frozen=True)
class Chain(Repeated):
    """Vector work of which a strip of images goes all its way before the next one starts."""

    name: str
    members: tuple[Chained, ...]

    @property
    def node(self) -> Node:
        """The node of the graph that its members belong to."""
        return self.members[0].node

    def on(self, die: int) -> Hashable:
        """A key of all that the die's tasks follow from: operations of one type with equal keys have equal tasks
        there."""
        return self.name, tuple((type(member), member.on(die)) for member in self.members)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        count = max((member.strips(die) for member in self.members), default=0)
        groups = list(granularity.groups(count, most))
        inner = None if most is None else max(1, most // max(1, len(groups)))
        for strips in groups:
            for member in self.members:
                if not member.only_last or strips.stop == count:
                    yield from member.strip_tasks(die, strips, inner)


@dataclass(frozen=True)
class Clear:
    """Vector tasks that fill a place with +0, whatever lies there."""

    name: str
    node: Node | None
    parameters: DieParameters
    place: Placed
    #: Any place that has been written before: a word of it is read.
    any: Buffer

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        whole, size = self.place.buffer(die), granularity.zero_step(self.parameters)
        words = whole.rows * whole.columns
        for group in granularity.groups(-(-words // size), most):
            start = group.start * size
            columns = min(words, group.stop * size) - start
            program = VectorProgram(self.parameters, 1, columns)
            program.clear("z", self.any)
            program.store("z", whole.part(f"{whole.name}[{start}]", start, 1, columns))
            yield Task(f"{self.name}[{start}]", Engine.VECTOR, Vector(program, 1, min(size, columns)),
                       tuple(program.reads), tuple(program.writes), len(group), self.node)
