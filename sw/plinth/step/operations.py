"""The operations of a step, each on all dies: what tasks a die has of it.

An operation is made of pieces (strips of samples, tasks of a pool, tiles). ``most`` tells into how many groups of
neighbouring pieces they go at most, each a task that stands for several; None: every piece is a task of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from plinth.buffers import Buffer
from plinth.machine.convolution import ConvolutionShape, FeatureMap, images_of
from plinth.network.layers import MaxPool, MeanPool
from plinth.partition.graph import Node
from plinth.step import granularity, pooling
from plinth.step.tasks import (
    BPROP,
    FPROP,
    UPDATE,
    Item,
    Multiplication,
    Rows,
    Share,
    Task,
    Vector,
)
from plinth.step.tensors import WHOLE, Part, Placed, Tensor, WeightPiece, Weights
from plinth.step.vector import Piece, VectorProgram
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


class Operation(Protocol):
    """What dies do at a place of a step."""

    @property
    def name(self) -> str:
        """Of its tasks."""
        ...

    @property
    def node(self) -> Node | int | None:
        """The node of the graph that it belongs to, or its number; None: to none, as what is done before the first
        step."""
        ...

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in order."""
        ...


class Repeated(ABC):
    """An operation whose tasks on a die are often those of another step's: who compares steps keeps what follows from
    them."""

    @abstractmethod
    def on(self, die: int) -> Hashable:
        """All that the tasks of a die follow from; of operations of a type that have it equal they are equal."""


# Vector programs.


class Space(Protocol):
    """What a program may sweep over."""

    def part(self, die: int) -> Part:
        """What a die has of it."""
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

    def strips(self, die: int) -> int:
        """Strips of a die's part."""
        ...

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most so many groups."""
        ...

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
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
    #: Strips of rows, about, unless the scratchpad asks for more.
    pieces: int = granularity.STRIPS

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
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
        """How many strips a die does it in."""
        return len(self._cut(die))

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        found = self._cut(die, most)
        for strips in granularity.groups(len(found), most):
            yield from self._strip_tasks(die, found[strips.start:strips.stop], most)

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
            yield self._task(die, Piece(strips[0].row, end - strips[0].row, 0, columns), strips[0].step,
                             strips[0].width, count)

    @staticmethod
    def _piece(strip: Strip, start: int, stop: int, columns: int, column: int | None = None) -> Piece:
        row = strip.row + start * strip.step
        rows = min(strip.row + strip.rows, strip.row + stop * strip.step) - row
        if column is None:
            return Piece(row, rows, 0, columns)
        first = column * strip.width
        return Piece(row, rows, first, min(strip.width, columns - first))

    def _task(self, die: int, piece: Piece, rows: int = 0, columns: int = 0, count: int = 1) -> Task:
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
    found = []
    for number, (first, count) in enumerate(blocks):
        step, width = granularity.pieces(parameters, count * size, columns, full, row, 1 if len(blocks) > 1 else pieces,
                                  column, whole=whole)
        found.append(Strip(number, first * size, count * size, step, width))
    return tuple(found)


@dataclass(frozen=True)
class LastStrip(Repeated):
    """Vector work that goes with the last strip of others: one task on each die that has a part of ``space``."""

    name: str
    node: Node
    program: VectorProgram
    space: Tensor
    rows: int

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return self.name, self.node, self.program.on(die), self.space.part(die), self.rows

    def strips(self, die: int) -> int:
        """How many strips a die does it in."""
        return 0

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most ``most`` groups."""
        part = self.space.part(die)
        if part.words:
            program = self.program.at(die, Piece(0, self.rows, 0, part.channels))
            yield Task(self.name, Engine.VECTOR, Vector(program, self.rows, part.channels), tuple(program.reads),
                       tuple(program.writes), 1, self.node)


@dataclass(frozen=True)
class Pool(Repeated):
    """A pool forwards or backwards, strip by strip of images.

    Parameters
    ----------
    maps : sequence of (Tensor, (height, width))
        As :func:`plinth.step.pooling.forward` or :func:`plinth.step.pooling.backward` take them.
    """

    name: str
    node: Node
    parameters: DieParameters
    layer: MaxPool | MeanPool
    backward: bool
    maps: tuple[tuple[Tensor, tuple[int, int]], ...]

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return (self.name, self.node, self.parameters, self.layer, self.backward,
                tuple((tensor.part(die), tensor.buffer(die), size) for tensor, size in self.maps))

    def _cut(self, die: int) -> list[tuple[int, int]]:
        part = self.maps[0][0].part(die)
        return list(granularity.image_strips(part.samples, self.node.raw_positions)) if part.words else []

    def strips(self, die: int) -> int:
        """How many strips a die does it in."""
        return len(self._cut(die))

    def strip_tasks(self, die: int, strips: range, most: int | None) -> Iterator[Task]:
        """Tasks of some neighbouring strips, in at most ``most`` groups."""
        cut = self._cut(die)[strips.start:strips.stop]
        if most is None:
            make = pooling.backward if self.backward else pooling.forward
            for start, count in cut:
                maps = [images_of(tensor.buffer(die), start, count, *size) for tensor, size in self.maps]
                for suffix, program in make(self.layer, self.parameters, *maps):
                    what = f"backward_{suffix}" if self.backward else suffix
                    yield Task(f"{self.name}.{what}.{start}", Engine.VECTOR,
                               Vector(program, program.rows, program.columns), tuple(program.reads),
                               tuple(program.writes), 1, self.node)
        elif cut:
            first, count = cut[0]
            images = cut[-1][0] + cut[-1][1] - first
            wholes = [images_of(tensor.buffer(die), first, images, *size).buffer for tensor, size in self.maps]
            sizes = tuple((buffer.columns, buffer.packed, size) for buffer, (_, size) in
                          zip(wholes, self.maps, strict=True))
            for number, (program, rows, columns, tasks, reads, writes) in enumerate(_pooled(
                    self.parameters, replace(self.layer, name="pool"), self.backward, count, sizes)):
                yield Task(f"{self.name}.{number}.{first}", Engine.VECTOR, Vector(program, rows, columns),
                           tuple(wholes[place] for place in reads), tuple(wholes[place] for place in writes),
                           tasks * len(cut), self.node)


@lru_cache(maxsize=1 << 10)
def _pooled(parameters: DieParameters, layer: MaxPool | MeanPool, backward: bool, images: int,
            sizes: tuple[tuple[int, bool, tuple[int, int]], ...],
            ) -> list[tuple[VectorProgram, int, int, int, list[int], list[int]]]:
    """Equal tasks of each phase of a pool over some images: program, rows, columns, how many, and the maps read and
    written."""
    maps, packs = [], any(packed for _, packed, _ in sizes)
    for number, (columns, packed, (height, width)) in enumerate(sizes):
        # Positions are whole words; lowering refuses an odd number of channels, which may be planned for.
        columns += columns % 2 if packs else 0
        stride = -(-columns // 2) if packed else columns
        maps.append(FeatureMap(Buffer(str(number), 0, images * height * width, columns, stride, packed=packed),
                               height, width))
    found: list[tuple[VectorProgram, int, int, int, list[int], list[int]]] = []
    # Where those of the phase begin that goes on: tasks of a phase are equal whichever comes first.
    begin, phase = 0, ([-1], [-1])
    for _, program in (pooling.backward if backward else pooling.forward)(layer, parameters, *maps):
        reads = sorted({int(buffer.place) for buffer in program.reads})
        writes = sorted({int(move.operand.place) for move in program.stores})  # type: ignore[union-attr]
        if phase != (reads, writes):
            begin, phase = len(found), (reads, writes)
        for place in range(begin, len(found)):
            like, rows, columns, count, *_ = found[place]
            if (rows, columns) == (program.rows, program.columns) and like.instructions == program.instructions:
                found[place] = like, rows, columns, count + 1, reads, writes
                break
        else:
            found.append((program, program.rows, program.columns, 1, reads, writes))
    return found


@dataclass(frozen=True)
class Chain(Repeated):
    """Vector work of which a strip of images goes all its way before the next one starts."""

    name: str
    members: tuple[Sweep | Pool | LastStrip, ...]

    @property
    def node(self) -> Node:
        """That of its members."""
        return self.members[0].node

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return self.name, tuple((type(member), member.on(die)) for member in self.members)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        count = max((member.strips(die) for member in self.members), default=0)
        groups = list(granularity.groups(count, most))
        inner = None if most is None else max(1, most // max(1, len(groups)))
        for strips in groups:
            for member in self.members:
                if not isinstance(member, LastStrip) or strips.stop == count:
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


# Products.


class Matrices(Protocol):
    """Weights of dies, or their gradient."""

    def matrix(self, die: int) -> Buffer:
        """A die's, as the matrix engine takes them."""
        ...


@dataclass(frozen=True)
class Products(Repeated):
    """A product of a weighted layer: strips of samples, so that other engines follow strip by strip; of the gradient of
    the weights a piece, of all samples. Nothing where a die's part or slice is empty.

    Parameters
    ----------
    x, z : Tensor
        Input and output, or their errors.
    weights : Matrices
        As the engine reads them, or their gradient.
    piece : WeightPiece
        Of the gradient.
    """

    node: Node
    parameters: DieParameters
    direction: str
    x: Tensor
    z: Tensor
    weights: Matrices
    piece: WeightPiece = WHOLE

    @property
    def name(self) -> str:
        """Of its tasks."""
        return f"{self.node.name}.{'update_grad' if self.direction == UPDATE else self.direction}"

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return (self.node, self.parameters, self.direction, self.piece, self.weights.matrix(die),
                *((tensor.part(die), tensor.buffer(die)) for tensor in (self.x, self.z)))

    def shape(self, die: int) -> ConvolutionShape | None:
        """Of a convolution: that of the die's slice."""
        window = self.node.window
        if window is None:
            return None
        return ConvolutionShape(
            height=window.size[0], width=window.size[1], inputs=self.x.part(die).channels,
            outputs=self.z.part(die).channels, kernel=window.kernel, stride=window.stride, padding=window.padding)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        x_part, z_part = self.x.part(die), self.z.part(die)
        if not (x_part.words and z_part.words):
            return
        shape, x, z, w = self.shape(die), self.x.buffer(die), self.z.buffer(die), self.weights.matrix(die)
        samples = z_part.samples

        def share(some: int) -> Share:
            return Share(some, samples, w.rows, z_part.channels, self.piece.of)

        if shape is None:
            x, z = (matrix_of(buffer, part) for buffer, part in ((x, x_part), (z, z_part)))
        if self.direction == UPDATE:
            name, (first, rows) = self.name, self.piece.rows(self.parameters, w.rows, w.columns)
            if rows < w.rows:
                # Columns of the input are rows of the weights.
                name, x, w = f"{name}[{self.piece.number}]", Piece(0, x.rows, first, rows).of(x), w.lines(first, rows)
            if rows:
                yield self._task(name, shape, x, z, w, 0, share(samples))
            return
        step = (granularity.sample_step(self.parameters) if shape is None else
                granularity.image_step(samples, shape.out_height * shape.out_width))
        for group in granularity.groups(-(-samples // step), most):
            start = group.start * step
            count = min(samples, group.stop * step) - start
            yield self._task(f"{self.name}[{start}]", shape, x, z, w, start, share(count), min(step, count), len(group))

    def _task(self, name: str, shape: ConvolutionShape | None, x: Buffer, z: Buffer, w: Buffer, start: int,
              share: Share, each: int = 0, count: int = 1) -> Task:
        """A task over some samples, that stands for ``count`` of ``each`` samples."""
        samples = share.samples

        def some(number: int) -> tuple[Buffer | FeatureMap, Buffer | FeatureMap]:
            if shape is None:
                return x.lines(start, number), z.lines(start, number)
            return (images_of(x, start, number, shape.height, shape.width),
                    images_of(z, start, number, shape.out_height, shape.out_width))

        a, c = some(each or samples)
        whole_a, whole_c = (one.buffer if isinstance(one, FeatureMap) else one for one in some(samples))
        operands: tuple[Buffer | FeatureMap, Buffer | FeatureMap, Buffer | FeatureMap]
        if self.direction == FPROP:
            operands, reads, writes = (a, w, c), (whole_a, w), whole_c
        elif self.direction == BPROP:
            operands, reads, writes = (c, w, a), (whole_c, w), whole_a
        else:
            operands, reads, writes = (a, c, w), (whole_a, whole_c), w
        return Task(name, Engine.MATRIX, Multiplication(self.node.name, self.direction, shape, *operands), reads,
                    (writes,), count, self.node, share)


def matrix_of(buffer: Buffer, part: Part) -> Buffer:
    """A part as a matrix: a row is a sample."""
    if part.positions == 1:
        return buffer
    return buffer.part(buffer.name, 0, part.samples, part.positions * part.channels, part.positions * buffer.stride)


@dataclass(frozen=True)
class Gather:
    """Rows of an embedding's table to its output, or those of the output's error added to the table's gradient. Nothing
    where the die's part is empty.

    Row numbers lie in die memory as the network's input. Where rows of the table are split over dies, the numbers of
    what others hold are those of spare rows behind the slice: they hold zeros, so that the sum of the dies' outputs has
    each row once, and take what has no place in the slice's gradient.
    """

    node: Node
    numbers: Tensor
    #: Output, or its error.
    z: Tensor
    table: Weights
    added: bool

    @property
    def name(self) -> str:
        """Of its task."""
        return f"{self.node.name}.{'scatter' if self.added else 'gather'}"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        piece = self.table.slice(die)
        if not self.z.part(die).words or (self.added and not piece.words):
            return
        numbers, table, rows = self.numbers.buffer(die), self.table.matrix(die), self.z.buffer(die)
        work = Rows(numbers, table, rows, self.added, self.table.shape[1], piece.inputs)
        reads, writes = ((numbers, rows, table), table) if self.added else ((numbers, table), rows)
        yield Task(self.name, Engine.TRANSFER, work, reads, (writes,), 1, self.node)
