"""Kernels made elements of tiles, W = G w G^T, and gradients of elements those of kernels, dw = G^T dW G.

Dies of FP32 do it by the matrix engine, in one product with all G[u, k] G'[v, l]. Those whose matrix engine would round
both to 16 bits do it by the vector engine in FP32. Down, then across, or, of gradients, across, then down::

    T[u, l] = sum over k of G[u, k] w[k, l]          W[u, v] = sum over l of G'[v, l] T[u, l]
    T[u, l] = sum over v of G'[v, l] dW[u, v]        dw[k, l] = sum over u of G[u, k] T[u, l]

A sum goes in the order of its terms; those whose coefficients have the size of the first one are added to it or
subtracted, others are multiplied by their ratio to it before, and the sum by the first coefficient at the end, each
rounded. A die that has some of the elements adds up those.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from plinth.buffers import Buffer
from plinth.partition.graph import Node
from plinth.step.operands import Operands
from plinth.step.operations import Sweep
from plinth.step.tasks import FPROP, UPDATE, Multiplication, Share, Task
from plinth.step.tensors import Constant, Part, Tiles
from plinth.step.vector import VectorProgram
from plinth.step.weights import Weights
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VECTOR_STORES, VectorOp

#: Coefficients of a sum, one for each source.
Row = Sequence[Fraction]


@dataclass(frozen=True)
class _Matrix:
    """What sums are made of: as many numbers as a tap, or an element, has weights."""

    inputs: int
    outputs: int

    def part(self, die: int) -> Part:
        """What a die has of it."""
        return Part(0, self.inputs, 0, self.outputs, 1)


def _sum(program: VectorProgram, name: str, row: Row, sources: Sequence[int]) -> str:
    """Region of a sum of sources, which lie in regions of their numbers: ``name``, or that of a source alone."""
    used = [(str(number), row[number]) for number in sources if row[number]]
    if not used:
        program.run(VectorOp.SUB, name, str(sources[0]), str(sources[0]))
        return name
    (first, unit), *others = used
    if not others and unit == 1:
        return first
    total = first
    for source, coefficient in others:
        ratio, term = coefficient / unit, source
        if abs(ratio) != 1:
            program.run(VectorOp.SCALE, "term", source, immediate=float(ratio))
            ratio, term = Fraction(1), "term"
        program.run(VectorOp.ADD if ratio > 0 else VectorOp.SUB, name, total, term)
        total = name
    if unit != 1:
        program.run(VectorOp.SCALE, name, total, immediate=float(unit))
    return name


@dataclass(frozen=True)
class _OfKernels(ABC):
    """What either engine does.

    Parameters
    ----------
    direction : str
        FPROP: elements of a kernel; UPDATE: its gradient of theirs.
    elements : Operands or Weights
        Of tiles, as the matrix engine reads them, or their gradient.
    of : Tiles or None
        Of a gradient: the tiles that it is made of; a die that has none has no gradient.
    """

    node: Node
    direction: str
    elements: Operands | Weights
    of: Tiles | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        """Of its tasks."""
        return f"{self.node.name}.{'kernel_grad' if self.direction == UPDATE else 'elements'}"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        if self.elements.slice(die).words and (self.of is None or self.of.at(die).words):
            yield from self.element_tasks(die, most)

    @abstractmethod
    def element_tasks(self, die: int, most: int | None) -> Iterator[Task]:
        """The tasks of a die that has elements."""


@dataclass(frozen=True)
class KernelProducts(_OfKernels):
    """Kernels of tiles made by products on the matrix engine.

    Parameters
    ----------
    matrix : Constant
        ``[elements, taps]`` of all G[u, k] G[v, l].
    kernel : Weights
        Of the kernel, or their gradient.
    """

    matrix: Constant
    kernel: Weights

    def element_tasks(self, die: int, most: int | None) -> Iterator[Task]:
        """The products of a task: one product."""
        piece = self.elements.slice(die)
        words, taps = piece.inputs * piece.outputs, len(self.matrix.values[0])
        matrix = self.matrix.buffer(die).lines(piece.first_tap, piece.taps)
        kernel, elements = (buffer.part(buffer.name, 0, rows, words) for buffer, rows in (
            (self.kernel.buffer(die), taps), (self.elements.buffer(die), piece.taps)))
        operands, target = (((matrix, kernel, elements), elements) if self.direction == FPROP else
                            ((matrix, elements, kernel), kernel))
        yield Task(self.name, Engine.MATRIX, Multiplication(self.node.name, self.direction, None, *operands),
                   operands[:2], (target,), 1, self.node, Share(matrix.rows, matrix.rows, taps, words))


@dataclass(frozen=True)
class KernelSums(_OfKernels):
    """Kernels of tiles made by sums on the vector engine, for transforms of at most as many taps and elements each way
    as a vector program loads.

    Parameters
    ----------
    kernel : Weights
        Of the kernel, or their gradient.
    middle : Weights
        Room for what is between the directions: elements down, taps across.
    """

    parameters: DieParameters
    kernel: Weights
    middle: Weights

    def element_tasks(self, die: int, most: int | None) -> Iterator[Task]:
        """The products of a task."""
        piece = self.elements.slice(die)
        assert self.node.tiling is not None
        down, across = self.node.tiling.form.transforms

        def place(matrix: Buffer, width: int) -> Callable[[int, int], Buffer]:
            return lambda row, column: matrix.lines((row * width + column) * piece.inputs, piece.inputs)

        taps, middle = (place(weights.matrix(die), across.taps) for weights in (self.kernel, self.middle))
        # Elements that the die has, row by row, and where.
        have: dict[int, list[int]] = {}
        where = {divmod(piece.tap(number), across.size): number for number in range(piece.taps)}
        for row, column in sorted(where):
            have.setdefault(row, []).append(column)

        def elements(row: int, column: int) -> Buffer:
            return self.elements.matrix(die).lines(where[row, column] * piece.inputs, piece.inputs)

        update = self.direction == UPDATE
        vertical = [(f"down[{column}]", [taps(k, column) for k in range(down.taps)],
                     [middle(row, column) for row in have], [down.g[row] for row in have])
                    for column in range(across.taps)]
        level = [(f"across[{row}]", [middle(row, column) for column in range(across.taps)],
                  [elements(row, v) for v in some], [across.g[v] for v in some]) for row, some in have.items()]
        for name, narrow, wide, matrix in level + vertical if update else vertical + level:
            if update:
                yield from self._sums(die, most, name, wide, narrow, list(zip(*matrix, strict=True)))
            else:
                yield from self._sums(die, most, name, narrow, wide, matrix)

    def _sums(self, die: int, most: int | None, name: str, sources: Sequence[Buffer], targets: Sequence[Buffer],
              matrix: Sequence[Row]) -> Iterator[Task]:
        """Targets from sources, as many as a program stores at a time."""
        piece = self.elements.slice(die)
        for start in range(0, len(targets), VECTOR_STORES):
            program, rows = VectorProgram(self.parameters), matrix[start:start + VECTOR_STORES]
            used = [number for number in range(len(sources)) if any(row[number] for row in rows)] or [0]
            for number in used:
                program.load(str(number), sources[number])
            sums = [_sum(program, f"sum{number}", row, used) for number, row in enumerate(rows)]
            for region, place in zip(sums, targets[start:], strict=False):
                program.store(region, place)
            yield from Sweep(f"{self.name}.{name}.{start}", self.node, self.parameters, program, program,
                             _Matrix(piece.inputs, piece.outputs), len(program.regions), pieces=1).tasks(die, most)
