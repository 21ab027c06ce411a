"""Pools: vector tasks on strips of images, forwards and backwards (:mod:`~plinth.step.layers.pool_programs`)."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from plinth.buffers import Buffer
from plinth.machine.convolution import FeatureMap, images_of
from plinth.network.layers import MaxPool, MeanPool
from plinth.partition.graph import Node
from plinth.step import granularity
from plinth.step.layers import pool_programs
from plinth.step.layers.epilogue import EpilogueLayer
from plinth.step.operations import Repeated
from plinth.step.tasks import Task, Vector
from plinth.step.tensors import Tensor
from plinth.step.vector import VectorProgram
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True)
class Pool(Repeated):
    """A pool forwards or backwards, strip by strip of images.

    Parameters
    ----------
    maps : sequence of (Tensor, (height, width))
        As :func:`plinth.step.layers.pool_programs.forward` or :func:`~plinth.step.layers.pool_programs.backward` take
        them.
    """

    name: str
    node: Node
    parameters: DieParameters
    layer: MaxPool | MeanPool
    backward: bool
    maps: tuple[tuple[Tensor, tuple[int, int]], ...]
    only_last: ClassVar[bool] = False

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
            make = pool_programs.backward if self.backward else pool_programs.forward
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
    tasks: list[tuple[VectorProgram, int, int, int, list[int], list[int]]] = []
    # Where those of the phase begin that goes on: tasks of a phase are equal whichever comes first.
    begin, phase = 0, ([-1], [-1])
    for _, program in (pool_programs.backward if backward else pool_programs.forward)(layer, parameters, *maps):
        reads = sorted({int(buffer.place) for buffer in program.reads})
        writes = sorted({int(move.operand.place) for move in program.stores})  # type: ignore[union-attr]
        if phase != (reads, writes):
            begin, phase = len(tasks), (reads, writes)
        for place in range(begin, len(tasks)):
            like, rows, columns, count, *_ = tasks[place]
            if (rows, columns) == (program.rows, program.columns) and like.instructions == program.instructions:
                tasks[place] = like, rows, columns, count + 1, reads, writes
                break
        else:
            tasks.append((program, program.rows, program.columns, 1, reads, writes))
    return tasks


class PoolLayer(EpilogueLayer):
    """Builds the operations of a pool."""

    by_images = True
    #: Whether what lies between its directions may be narrow.
    narrow_middle: ClassVar[bool]
    layer: MaxPool | MeanPool

    def _pool(self, *maps: tuple[Tensor, tuple[int, int]], backward: bool) -> None:
        self.step.hold(Pool(self.name, self.node, self.step.parameters, self.layer, backward, maps))

    def forward(self, source: Tensor) -> Tensor:
        self.source = source
        whole, small = self.epilogue.size, self.epilogue.output
        between = small[0], whole[1]
        self.middle = self.step.reserve(source.like(f"{self.name}.middle", positions=between[0] * between[1],
                                                    packed=self.packed and self.narrow_middle))
        self.target = self.step.reserve(source.like(f"{self.name}.output", positions=small[0] * small[1],
                                                    packed=self.packed))
        if self.kinked:
            self.step.maps.setdefault(self.name, []).append(source)
        self._pool((source, whole), (self.middle, between), (self.target, small), backward=False)
        return self.target

    def backward(self, error: Tensor) -> Tensor:
        whole, small = self.epilogue.size, self.epilogue.output
        between = small[0], whole[1]
        source_error, middle, rest = (self.step.reserve(like.like(f"{self.name}.{name}")) for like, name in (
            (self.source, "error"), (self.middle, "middle_error"), (self.target, "rest")))
        self._pool((self.source, whole), (self.middle, between), (self.target, small), (error, small),
                   (middle, between), (source_error, whole), (rest, small), backward=True)
        return source_error


class MaxPoolLayer(PoolLayer):
    """Builds the operations of a maximum, whose input decides which neuron of a window is the largest."""

    kinked = True
    narrow_middle = True


class MeanPoolLayer(PoolLayer):
    """Builds the operations of a mean, whose sums stay FP32."""

    narrow_middle = False
