"""Products with a matrix of weights: fully connected layers, and convolutions that are computed directly."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from plinth.buffers import Buffer
from plinth.machine.convolution import ConvolutionShape, FeatureMap, images_of
from plinth.partition.graph import DP, Node
from plinth.step import granularity
from plinth.step.layers.weighted import WeightedLayer
from plinth.step.operations import Repeated
from plinth.step.reductions import Reductions
from plinth.step.tasks import BPROP, FPROP, UPDATE, Multiplication, Share, Task
from plinth.step.tensors import Part, Tensor
from plinth.step.vector import VectorPiece
from plinth.step.weights import WHOLE, WeightPiece
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


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
    #: Of which micro-batch; a gradient is added to what those before have left.
    batch: int = 0

    @property
    def added(self) -> bool:
        """Whether a gradient is added to what is there."""
        return self.direction == UPDATE and self.batch > 0

    @property
    def name(self) -> str:
        """The name of its tasks, up to the first sample in brackets."""
        return f"{self.node.name}.{'update_grad' if self.direction == UPDATE else self.direction}"

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return (self.node, self.parameters, self.direction, self.piece, self.added, self.weights.matrix(die),
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
            name, (first, rows) = self.name, self.piece.rows(self.parameters, w.rows)
            if rows < w.rows:
                # Columns of the input are rows of the weights.
                name, w = f"{name}[{self.piece.number}]", w.lines(first, rows)
                x = VectorPiece(0, x.rows, first, rows).of(x)
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
        whole_a, whole_c = (operand.buffer if isinstance(operand, FeatureMap) else operand for operand in some(samples))
        operands: tuple[Buffer | FeatureMap, Buffer | FeatureMap, Buffer | FeatureMap]
        if self.direction == FPROP:
            operands, reads, writes = (a, w, c), (whole_a, w), whole_c
        elif self.direction == BPROP:
            operands, reads, writes = (c, w, a), (whole_c, w), whole_a
        else:
            operands, reads, writes = (a, c, w), (whole_a, whole_c, *((w,) if self.added else ())), w
        work = replace(Multiplication(self.node.name, self.direction, shape, *operands), added=self.added)
        return Task(name, Engine.MATRIX, work, reads, (writes,), count, self.node, share)


def matrix_of(buffer: Buffer, part: Part) -> Buffer:
    """A part as a matrix: a row is a sample."""
    if part.positions == 1:
        return buffer
    return buffer.part(buffer.name, 0, part.samples, part.positions * part.channels, part.positions * buffer.stride)


class ProductLayer(WeightedLayer):
    """Builds the operations of a fully connected layer or a convolution."""

    narrow_splits = (DP,)
    accumulates = True

    def multiply(self, x: Tensor, z: Tensor) -> None:
        step = self.step
        step.add(Products(self.node, step.parameters, FPROP, x, z, self.operand, batch=step.micro_batch))
        self.step.empty(x, z)

    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        step, node, x_error = self.step, self.node, self.input_error()
        if x_error is not None:
            step.add(Products(node, step.parameters, BPROP, x_error, error, self.operand, batch=step.micro_batch))
            step.empty(z, x_error)
        for piece in reductions.pieces(self.number):
            step.add(Products(node, step.parameters, UPDATE, x, error, step.gradients[node.name], piece,
                              step.micro_batch))
            reductions.add(self.number, piece)
