"""Lines of Winograd tiles between dies that have whole columns of them: one direction is transformed where words come
from, the other where they go (:mod:`plinth.partition.lines`)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from plinth.machine.convolution import FeatureMap
from plinth.partition.graph import Node
from plinth.step import granularity
from plinth.step.tasks import LineTransform, Members, Task, TransformTiles
from plinth.step.tensors import Inner, Tiles
from plinth.step.tile_operations import GATHERED_WORDS, Gather, by_column
from plinth_hw.isa.operations import Engine


@dataclass(frozen=True)
class LineTiles:
    """The other half of a scatter of lines, down: tiles of the columns that a die has, a task each."""

    name: str
    node: Node
    outputs: bool
    source: Tiles
    target: Tiles

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        lines, tiles = self.source.at(die), self.target.at(die)
        assert self.node.tiling is not None
        across = self.node.tiling.tiles[1]
        for number in range(lines.count if lines.part.words else 0):
            maps = FeatureMap(lines.of(self.source.buffer(die), lines.first + number), self.source.positions // across,
                              across)
            some = tiles.of(self.target.buffer(die), tiles.first + number * tiles.column)
            work = TransformTiles(self.node, self.outputs, True, False, maps, some, tiles.plane,
                                  (0, tiles.column, 0, 1), by_column=by_column(self.node, maps.images), plain=(0, 1))
            yield Task(f"{self.name}.{number}", Engine.TRANSFER, work, (maps.buffer,),
                       (some.repeated(tiles.column, tiles.plane),), 1, self.node)


@dataclass(frozen=True)
class LineGather(Gather):
    """A gather to dies from ones that have whole columns of tiles of outputs: each makes lines of them, A^T down, as it
    sends them, so many columns to all dies before the next ones."""

    cut_in_strips: ClassVar[bool] = False
    layer: Node | None = None
    by_tasks = True

    def _columns(self, die: int, words: int) -> Iterator[tuple[int, int]]:
        """Columns of a task, of so many words of an element: the first one's number, and how many."""
        source, layer = self.source, self.layer
        assert isinstance(source, Tiles) and layer is not None and layer.tiling is not None
        mine, (down, _) = source.at(die), layer.tiling.form.transforms
        count = mine.count // down.size
        for group in granularity.groups(count, max(1, count * down.outputs * words // GATHERED_WORDS)):
            yield mine.first // down.size + group.start, len(group)

    def _work(self, die: int, other: int, column: int, count: int, here: Inner, there: Inner) -> LineTransform:
        """Some columns of a die, for a run of another's samples."""
        source, target, layer = self.source, self.targets[0], self.layer
        assert isinstance(source, Tiles) and isinstance(target, Tiles) and layer is not None
        assert layer.tiling is not None
        mine, theirs, (down, _) = source.at(die), target.at(other), layer.tiling.form.transforms
        source_column = mine.part.view(mine.of(source.buffer(die), column * down.size), here)
        target_column = theirs.part.view(theirs.of(target.buffer(other), column * down.outputs), there)
        return LineTransform(layer, source_column, target_column, count, (mine.plane, theirs.plane))

    def _task(self, end: str, work: LineTransform) -> Task:
        elements, outputs = work.sides
        reads, writes = (buffer.repeated(work.columns * side, plane) for buffer, side, plane in zip(
            (work.source, work.target), (elements, outputs), work.planes, strict=True))
        if work.members is not None:
            reads = reads.repeated(work.members.count, work.members_apart)
        return Task(self.name + end, Engine.TRANSFER, work, (reads,), (writes,) if work.die is None else (), 1,
                    self.layer)

    def _to_all(self, die: int, members: Members) -> Iterator[Task]:
        """A task for so many columns, for all dies of the cluster."""
        assert isinstance(self.source, Tiles)
        here, there, apart = self._first(die, members)
        for column, count in self._columns(die, here.samples * self.source.positions * here.channels):
            work = replace(self._work(die, members.first, column, count, here, there), exchange=self.number,
                           members=members, members_apart=apart)
            yield self._task(f"[{members.first}..].{column}", work)

    def tiles(self, die: int, other: int) -> Iterator[Task]:
        """The tasks by which a die sends to another, or to itself: a task a run of samples and so many columns."""
        source, target = self.source, self.targets[0]
        assert isinstance(source, Tiles) and isinstance(target, Tiles)
        mine = source.at(die)
        for number, (here, there) in enumerate(mine.part.meet(target.part(other)) if mine.words else ()):
            for column, count in self._columns(die, here.samples * source.positions * here.channels):
                work = self._work(die, other, column, count, here, there)
                if die == other:
                    yield self._task(f".own.{number}.{column}", work)
                else:
                    yield self._task(f"[{other}].{number}.{column}", replace(work, die=other, exchange=self.number))
