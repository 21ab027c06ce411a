"""The operations of a Winograd layer: its tiles between maps and dies that multiply them, and the products of their
elements. As those of :mod:`plinth.step.operations` they tell the tasks of each die."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import ClassVar, Protocol

from plinth.buffers import Buffer
from plinth.machine.convolution import FeatureMap
from plinth.partition.graph import Node, Tiling
from plinth.step import granularity
from plinth.step.between import Exchange
from plinth.step.operands import Operands
from plinth.step.operations import Operation
from plinth.step.tasks import (
    BPROP,
    FPROP,
    UPDATE,
    Arrivals,
    Item,
    Members,
    Multiplication,
    Share,
    Task,
    TileCopy,
    TransformTiles,
    Vector,
)
from plinth.step.tensors import Elements, Inner, Part, Tensor, Tiles
from plinth.step.tile_strips import TileStrip, tile_strips
from plinth.step.vector import VectorProgram
from plinth.step.weights import Weights
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.isa.winograd import plain_sides

#: Words of elements that a task gives a die, about, where it has as many: a task more takes some 75 cycles.
GATHERED_WORDS = 2048


def rectangles(mine: Elements, columns: int) -> Iterator[tuple[int, int, int, int]]:
    """Neighbouring elements of a tile as rectangles, in their order: first row, rows, first column, columns."""
    if mine.column:
        yield 0, mine.column, mine.first // mine.column, mine.count // mine.column
        return
    first, count = mine.first, mine.count
    while count:
        row, column = divmod(first, columns)
        rows = count // columns if not column else 0
        wide = columns if rows else min(count, columns - column)
        yield row, max(1, rows), column, wide
        some = max(1, rows) * wide
        first, count = first + some, count - some


def _maps(node: Node, outputs: bool, tensor: Tensor, die: int, inner: Inner) -> FeatureMap:
    """Some samples and channels of what a die has of a layer's inputs or outputs."""
    assert node.window is not None
    size = node.window.output if outputs else node.window.size
    return FeatureMap(tensor.part(die).view(tensor.buffer(die), inner), *size)


def by_column(node: Node, images: int, added: bool = False) -> bool:
    """Whether a descriptor does a column of tiles of all images, else an image: what makes fewer of them, and with
    sums what keeps tiles that overlap apart."""
    assert node.tiling is not None
    return images > 1 and (added or node.tiling.tiles[1] < images)


class Strips(Protocol):
    """The strips in which each die does a layer."""

    def of(self, die: int) -> Sequence[TileStrip]:
        """The strips of a die; none: it does all tiles at once."""
        ...


@dataclass(frozen=True)
class OwnStrips:
    """Strips of each die's own tiles, of so many samples of every die."""

    parameters: DieParameters
    tiling: Tiling
    weights: Weights
    samples: tuple[int, ...]

    def of(self, die: int) -> Sequence[TileStrip]:
        """Strips of a die; none: it does all tiles at once."""
        piece, samples = self.weights.slice(die), self.samples[die]
        if not piece.words or not samples:
            return ()
        return tile_strips(self.parameters, samples, self.tiling.tiles, self.tiling.elements, piece.inputs,
                           piece.outputs)


@dataclass(frozen=True)
class SameStrips:
    """Strips that are the same on all dies."""

    strips: tuple[TileStrip, ...]

    def of(self, die: int) -> Sequence[TileStrip]:
        """Strips of a die; none: it does all tiles at once."""
        return self.strips


def _strips(strips: Strips | None, die: int, node: Node, part: Part) -> Sequence[TileStrip]:
    """Those of a die, or all tiles of what it has as one."""
    assert node.tiling is not None
    return (strips.of(die) if strips is not None else ()) or (TileStrip(0, part.samples, 0, node.tiling.tiles[0]),)


def _touched(tiles: Buffer, count: int, plane: int, strips: Sequence[object]) -> tuple[Buffer, ...]:
    """Words of some tiles of ``count`` elements, the first one's given, ``plane`` words apart: those of all tiles in
    one, of a strip for each element, so that strips do not wait for each other."""
    if len(strips) < 2:
        return (tiles.repeated(count, plane),)
    return tuple(tiles.part(tiles.name, number * plane, tiles.rows, tiles.columns, tiles.stride)
                 for number in range(count))


@dataclass(frozen=True)
class Spread(Exchange, ABC):
    """What goes to all dies of a cluster in one task, if that can be: each of them counts what comes, also the die
    itself.

    Parameters
    ----------
    share : float
        Words that it sends for each of an element, where zeros are left out on the way.
    """

    share: float = field(default=1.0, kw_only=True)

    @property
    def memory_share(self) -> float:
        """1: where zeros are left out on the way, they are read and written all the same."""
        return 1.0

    @abstractmethod
    def members(self, die: int) -> Members | None:
        """The dies of a die's cluster, if one task reaches all. None: there is nobody else, or a task for each."""

    @cached_property
    def _to_each(self) -> dict[int, int]:
        """By die, the descriptors of its tasks for all of its cluster, which every one of these counts."""
        return {}

    def arriving(self, die: int, other: int) -> int:
        """How many messages arrive from a die: of each descriptor."""
        if other in self._to_each:
            return self._to_each[other]
        together = self.members(die) is not None
        descriptors = sum(task.work.descriptors for task in (self.sends(other) if together else self.tiles(other, die)))
        if together:
            self._to_each[other] = descriptors
        return descriptors

    def arrivals(self, die: int) -> Arrivals | None:
        """What a die waits for from others: of a task for several dies also the die's own."""
        if self.members(die) is None:
            return super().arrivals(die)
        count = sum(self.arriving(die, other) for other in self.peers(die))
        return Arrivals(self.number, self.received(die), count) if count else None


@dataclass(frozen=True)
class Scatter(Spread):
    """Every die makes tiles of the maps of its samples and gives each die of its cluster the elements that it has.

    Parameters
    ----------
    layer : Node
    outputs : bool
        Whether the maps are the layer's outputs, else its inputs.
    strips : Strips or None
        Of those that a die makes for itself.
    marked : bool
        Whether zeros of tiles that a die makes for itself tell if they have a cause.
    halved : bool
        Only across: of each row of the maps go lines, tiles of :class:`~plinth.step.line_operations.LineTiles`.
    """

    layer: Node | None = None
    outputs: bool = False
    strips: Strips | None = None
    by_tasks = True
    marked: bool = False
    halved: bool = False

    def members(self, die: int) -> Members | None:
        """The dies of a die's cluster, if one task reaches all: they are as far from each other, and those that have an
        element more come first."""
        target = self.targets[0]
        assert isinstance(target, Tiles)
        dies = sorted(self.peers(die), key=lambda other: target.at(other).first)
        steps = {following - previous for previous, following in pairwise(dies)}
        counts = [target.at(other).count for other in dies]
        longer = sum(count > counts[-1] for count in counts)
        if len(steps) != 1 or min(steps) < 1 or counts != [counts[-1] + 1] * longer + [counts[-1]] * (
                len(counts) - longer):
            return None
        return Members(dies[0], steps.pop(), len(dies), counts[-1], longer)

    def sends(self, die: int) -> Iterator[Task]:
        """The tasks by which a die sends, in program order: a task a run of samples, for all dies of the cluster or for
        each."""
        members, target, layer = self.members(die), self.targets[0], self.layer
        if members is None:
            yield from super().sends(die)
            return
        assert isinstance(target, Tiles) and layer is not None and layer.tiling is not None
        mine, whole = target.at(die), target.buffer(die)
        down, across = layer.tiling.form.sides
        for number, (here, there) in enumerate(self.source.part(die).meet(mine.part)):
            maps, stride = _maps(layer, self.outputs, self.source, die, here), mine.part.channels
            tiles = whole.part(whole.name, there.sample * target.positions * stride + there.channel,
                               there.samples * target.positions, there.channels, stride)
            touched = tiles.repeated(mine.count, mine.plane)
            work = TransformTiles(layer, self.outputs, True, False, maps, tiles, mine.plane,
                                  (0, 1 if self.halved else down, 0, across), None, self.number, members,
                                  by_column=by_column(layer, maps.images), column=target.column,
                                  plain=(int(self.halved), 0))
            yield Task(f"{self.name}[{members.first}..]" + (f".{number}" if number else ""), Engine.TRANSFER, work,
                       (maps.buffer,), (touched,), 1, layer)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself: a task a rectangle of elements, for all images of a
        run; of a die that has all elements a task a strip."""
        target, layer, own = self.targets[0], self.layer, die == other
        assert isinstance(target, Tiles) and layer is not None and layer.tiling is not None
        if own and self.strips is not None and (strips := self.strips.of(die)):
            yield from self._in_strips(die, strips)
            return
        theirs, whole = target.at(other), target.buffer(other)
        (_, columns), stride = layer.tiling.form.sides, theirs.part.channels
        for number, (here, there) in enumerate(self.source.part(die).meet(theirs.part)):
            maps = _maps(layer, self.outputs, self.source, die, here)
            first = there.sample * target.positions * stride + there.channel
            for corner, (row, rows, column, wide) in enumerate(rectangles(theirs, columns)):
                tiles = whole.part(whole.name, first, there.samples * target.positions, there.channels, stride)
                touched = tiles.repeated(rows * wide, theirs.plane)
                first += rows * wide * theirs.plane
                work = TransformTiles(layer, self.outputs, True, False, maps, tiles, theirs.plane,
                                      (row, rows, column, wide), None if own else other, -1 if own else self.number,
                                      by_column=by_column(layer, maps.images), marked=own and self.marked,
                                      column=theirs.column, plain=(int(self.halved), 0))
                run = f".{number}.{corner}" if number or corner else ""
                yield Task(f"{self.name}.own{run}" if own else f"{self.name}[{other}]{run}", Engine.TRANSFER, work,
                           (maps.buffer,), (touched,) if own else (), 1, layer)

    def _in_strips(self, die: int, strips: Sequence[TileStrip]) -> Iterator[Task]:
        """Tiles that a die makes for itself."""
        target, layer = self.targets[0], self.layer
        assert isinstance(target, Tiles) and layer is not None and layer.tiling is not None
        tiling, mine, whole = layer.tiling, target.at(die), target.buffer(die)
        down, across = tiling.form.sides
        for number, strip in enumerate(strips):
            maps = _maps(layer, self.outputs, self.source, die, Inner(strip.image, strip.images, 0, mine.part.channels))
            tiles = mine.of(whole, mine.first).lines(*strip.rows(tiling.tiles))
            yield Task(f"{self.name}.own.{number}", Engine.TRANSFER, TransformTiles(
                layer, self.outputs, True, False, maps, tiles, mine.plane, (0, down, 0, across),
                lines=(strip.line, strip.lines), by_column=by_column(layer, mine.part.samples)),
                (maps.buffer,), _touched(tiles, mine.count, mine.plane, strips), 1, layer)


@dataclass(frozen=True)
class Gather(Spread):
    """Every die gives each die of its cluster the elements that it has of the tiles of that die's samples, some of them
    to all before the next ones, so that these go while others are multiplied: in one task to all in turn, so that words
    go both ways round at any time. Where there is a task for each, and a cluster is of all dies, every other die goes
    through the others the other way round; what a die keeps is copied while others' words come.

    Parameters
    ----------
    strips : sequence of (first tile, tiles)
        Those of a die's samples in which the last elements go to all, each in an exchange; none: they go at once.
    strip : int
        Which of them goes, with the first one what goes before.
    """

    #: Whether its last elements may go in strips.
    cut_in_strips: ClassVar[bool] = True
    strips: Sequence[tuple[int, int]] = ()
    strip: int = 0

    @property
    def portion(self) -> float:
        """The share of the flow's words that this gather moves, as the first die sends them."""
        if not self.strips:
            return 1.0
        source = self.source
        assert isinstance(source, Tiles)
        sent = sum(count * tiles for _, count, (_, tiles) in self.runs(0))
        return sent / (source.at(0).count * self.targets[0].part(0).rows)

    def members(self, die: int) -> Members | None:
        """The dies of a die's cluster, if one task reaches all: they are as far from each other, so many as a block has
        places, and samples of each lie as far behind those of the one before."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        dies, mine = sorted(self.peers(die)), source.at(die).part
        if len(dies) < 2 or plain_sides(len(dies)) is None:
            return None
        parts = [target.part(other) for other in dies]
        met = [mine.meet(part) for part in parts]
        if any(len(some) != 1 for some in met) or len({(part.rows, part.channels) for part in parts}) != 1:
            return None
        starts = [here.sample for ((here, _),) in met]
        steps = [{following - previous for previous, following in pairwise(positions)} for positions in (dies, starts)]
        same = {(here._replace(sample=0), there) for ((here, there),) in met}
        if len(same) != 1 or any(len(distances) != 1 or min(distances) < 1 for distances in steps):
            return None
        return Members(dies[0], steps[0].pop(), len(dies))

    def sends(self, die: int) -> Iterator[Task]:
        """The tasks by which a die sends, in program order."""
        members = self.members(die)
        if members is not None:
            yield from self._to_all(die, members)
            return
        itself, *others = self.peers(die)
        if len(others) + 1 == self.dies and die % 2:
            others.reverse()
        for tasks in zip_longest(*(self.tiles(die, other) for other in (*others, itself))):
            yield from (task for task in tasks if task is not None)

    def _to_all(self, die: int, members: Members) -> Iterator[Task]:
        """A task for so many elements, for all dies of the cluster."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine, first = source.at(die), members.first
        theirs, own, whole = target.at(first), target.buffer(die), source.buffer(die)
        here, there, apart = self._first(die, members)
        for element, count, (start, rows) in self.runs(die):
            # Rows that follow each other on both sides are one.
            fold = rows if here.channels == mine.width == theirs.width else 1
            source_tile, target_tile = (
                which.part.view(which.of(buffer, element), inner).lines(start, rows).folded(fold)
                for which, buffer, inner in ((mine, whole, here), (theirs, target.buffer(first), there)))
            work = TileCopy(source_tile, target_tile, None, self.number, count, (mine.plane, theirs.plane), members,
                            apart)
            run = (f".{element}" if element > mine.first else "") + (f".{self.strip}" if self.strip else "")
            yield Task(f"{self.name}[{members.first}..]{run}", Engine.TRANSFER, work,
                       (mine.of(whole, element).repeated(count, mine.plane),),
                       _touched(theirs.of(own, element).lines(start, rows), count, theirs.plane, self.strips))

    def _first(self, die: int, members: Members) -> tuple[Inner, Inner, int]:
        """Of what goes to all: what the first die gets, where a die has it and where it goes; words of an element from
        there to what the next one gets."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine, (first, second, *_) = source.at(die), (member for member, _ in members.shares)
        ((here, there),), ((following, _),) = (mine.part.meet(target.part(other)) for other in (first, second))
        return here, there, (following.sample - here.sample) * source.positions * mine.width

    def runs(self, die: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """What a die sends to all: first element, elements, and of these first tile and tiles of each die's samples."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine = source.at(die)
        ((here, _),) = mine.part.meet(target.part(die))
        rows = here.samples * source.positions
        groups = list(granularity.groups(mine.count, max(1, mine.count * rows * here.channels // GATHERED_WORDS)))
        for group in groups:
            cut = self.strips if self.strips and group is groups[-1] else ((0, rows),)
            if self.strip < len(cut):
                yield mine.first + group.start, len(group), cut[self.strip]

    def received(self, die: int) -> tuple[Buffer, ...]:
        """Places of a die that others write."""
        if not self.strips:
            return super().received(die)
        target = self.targets[0]
        assert isinstance(target, Tiles)
        theirs, whole = target.at(die), target.buffer(die)
        return tuple(place for other in self.peers(die) for element, count, tiles in self.runs(other)
                     for place in _touched(theirs.of(whole, element).lines(*tiles), count, theirs.plane, self.strips))

    @staticmethod
    def _groups(mine: Elements, theirs: Elements, words: int) -> Iterator[tuple[int, int]]:
        """Elements of a task, of so many words each: first one, and how many."""
        for first, count in theirs.evenly(mine.first, mine.count):
            for group in granularity.groups(count, max(1, count * words // GATHERED_WORDS)):
                yield first + group.start, len(group)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself: a task a run of samples and so many elements."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine, theirs = source.at(die), target.at(other)
        apart = mine.plane, theirs.apart * theirs.plane
        for number, (here, there) in enumerate(mine.part.meet(theirs.part) if mine.words else ()):
            words = here.samples * source.positions * here.channels
            for first, count in self._groups(mine, theirs, words):
                source_tile, target_tile = (which.part.view(which.of(tensor.buffer(at), first), inner)
                                            for which, tensor, at, inner in (
                                                (mine, source, die, here), (theirs, target, other, there)))
                reads, writes = (tile.repeated(count, plane) for tile, plane in zip(
                    (source_tile, target_tile), apart, strict=True))
                run = f".{number}.{first}" if number or first > mine.first else ""
                if die == other:
                    yield Task(f"{self.name}.own{run}", Engine.TRANSFER,
                               TileCopy(source_tile, target_tile, planes=count, apart=apart), (reads,), (writes,))
                else:
                    yield Task(f"{self.name}[{other}]{run}", Engine.TRANSFER,
                               TileCopy(source_tile, target_tile, other, self.number, count, apart), (reads,))


@dataclass(frozen=True)
class Untile:
    """The tiles of what a die has of a layer's inputs or outputs made maps.

    Parameters
    ----------
    added : bool
        Windows overlap: what is made is added to the places of the maps, which hold zeros.
    strips : Strips or None
        A task each; None: all tiles at once.
    halved : bool
        The tiles are lines, of :class:`~plinth.step.line_operations.LineGather`.
    strip : int or None
        The one that is made; None: all.
    """

    name: str
    node: Node
    outputs: bool
    source: Tiles
    target: Tensor
    added: bool
    strips: Strips | None
    halved: bool = False
    strip: int | None = None

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        tiles, part = self.source.at(die), self.target.part(die)
        if not part.words:
            return
        assert self.node.tiling is not None
        whole, tiling = self.source.buffer(die), self.node.tiling
        _, across = tiling.form.sides
        strips = _strips(self.strips, die, self.node, part)
        for number, strip in enumerate(strips):
            if self.strip not in (None, number):
                continue
            maps = _maps(self.node, self.outputs, self.target, die, Inner(strip.image, strip.images, 0, part.channels))
            some = tiles.of(whole, 0).lines(*strip.rows(tiling.tiles))
            work = TransformTiles(self.node, self.outputs, False, self.added, maps, some, tiles.plane,
                                  (0, tiles.count // across, 0, across), lines=(strip.line, strip.lines),
                                  by_column=by_column(self.node, part.samples, self.added),
                                  column=0 if tiles.by_rows else tiles.column,
                                  plain=(tiles.column if self.halved else 0, 0))
            reads = _touched(some, tiles.count, tiles.plane, strips)
            yield Task(self.name + (f".{number}" if len(strips) > 1 else ""), Engine.TRANSFER, work,
                       (*reads, maps.buffer) if self.added else reads, (maps.buffer,), 1, self.node)


@dataclass(frozen=True)
class ElementProducts:
    """Products of a Winograd layer, strip by strip and element by element of its tiles: a task each.

    Parameters
    ----------
    x, z : Tiles
        Of inputs and outputs, or their errors.
    weights : Weights or Operands
        Of elements, or their gradient, whose sums are of all samples.
    strips : Strips or None
        None: all tiles at once.
    """

    node: Node
    direction: str
    x: Tiles
    z: Tiles
    weights: Weights | Operands
    strips: Strips | None = None

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        return f"{self.node.name}.{'update_grad' if self.direction == UPDATE else self.direction}"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        x, z, piece = self.x.at(die), self.z.at(die), self.weights.slice(die)
        if not (x.words and z.words):
            return
        inputs, outputs, weights = self.x.buffer(die), self.z.buffer(die), self.weights.matrix(die)
        assert self.node.tiling is not None
        tiles = self.node.tiling.tiles
        strips = _strips(self.strips, die, self.node, x.part)
        for number, strip in enumerate(strips):
            end = f".{number}" if len(strips) > 1 else ""
            for group in granularity.groups(x.count, most):
                first = x.first + group.start
                a, c = (side.of(buffer, first).lines(*strip.rows(tiles)) for side, buffer in (
                    (x, inputs), (z, outputs)))
                w = weights.lines(group.start * piece.inputs, piece.inputs)
                whole_a, whole_c = (_touched(operand, len(group), side.plane, strips) for operand, side in (
                    (a, x), (c, z)))
                whole_w = (w.repeated(len(group), piece.inputs * weights.stride),)
                operands, reads, writes = {
                    FPROP: ((a, w, c), (*whole_a, *whole_w), whole_c),
                    BPROP: ((c, w, a), (*whole_c, *whole_w), whole_a),
                    UPDATE: ((a, c, w), (*whole_a, *whole_c), whole_w)}[self.direction]
                share = Share(len(group) * a.rows, x.count * x.part.rows, piece.inputs, piece.outputs)
                yield Task(f"{self.name}[{first}]{end}", Engine.MATRIX,
                           Multiplication(self.node.name, self.direction, None, *operands), reads, writes, len(group),
                           self.node, share)


@dataclass(frozen=True)
class InStrips:
    """Tiles made of maps, multiplied and made maps, of dies that cut them in strips. A die takes its tasks in their
    order, and few of them ahead: so a strip's maps, and the tiles of the one after the next, are asked for before the
    next one's products."""

    scatter: Scatter
    products: ElementProducts
    untile: Untile

    @property
    def parts(self) -> tuple[Operation, ...]:
        """The operations that it does strip by strip, in the order in which they would go one behind the other."""
        return self.scatter, self.products, self.untile

    @property
    def name(self) -> str:
        """The name of the operation, which is that of its products."""
        return self.products.name

    @property
    def node(self) -> Node:
        """The node of the graph that its products belong to."""
        return self.products.node

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        scatters, products, mapped = (list(operation.tasks(die, most)) for operation in (
            self.scatter, self.products, self.untile))
        count = len(scatters) if self.untile.strips is not None and self.untile.strips.of(die) else 1
        if count == 1:
            yield from (*scatters, *products, *mapped)
            return
        each = len(products) // count
        yield scatters[0]
        for number in range(count):
            yield from (*scatters[number + 1:number + 2], *(mapped[number - 1:number] if number else ()),
                        *products[number * each:(number + 1) * each])
        yield mapped[-1]


@dataclass(frozen=True)
class ElementRates:
    """The gradient of tiles' elements times the rate of each, for updates by one."""

    node: Node
    parameters: DieParameters
    gradient: Weights
    rates: tuple[float, ...]

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        return f"{self.node.name}.rates"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        piece, whole, size = self.gradient.slice(die), self.gradient.buffer(die), granularity.zero_step(self.parameters)
        words = piece.inputs * piece.outputs
        for element in range(piece.taps):
            for group in granularity.groups(-(-words // size), most):
                start = group.start * size
                columns = min(words, group.stop * size) - start
                place = whole.part(whole.name, element * words + start, 1, columns)
                program = VectorProgram(self.parameters, 1, columns)
                program.load("g", place)
                program.run(VectorOp.SCALE, "g", "g", immediate=self.rates[piece.tap(element)])
                program.store("g", place)
                yield Task(f"{self.name}[{element},{start}]", Engine.VECTOR, Vector(program, 1, min(size, columns)),
                           (place,), (place,), len(group), self.node)
