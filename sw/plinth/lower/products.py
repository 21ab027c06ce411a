"""Matrix tasks of a weighted layer on one die: fprop, bprop and updateGrad of its slice.

Fully connected layers are cut in strips of samples, convolutions in strips of images, so that other engines follow
strip by strip. The weight gradient is one product over all samples of the die.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plinth.lower import convolution
from plinth.lower.builder import Buffer, GraphBuilder
from plinth.lower.convolution import ConvolutionShape, FeatureMap, images_of
from plinth.lower.places import Part, WeightSlice
from plinth.lower.stages import Stage
from plinth.lower.step import image_strips, rows_of
from plinth.model.layers import Convolution
from plinth.plan.cost.machine import interleave_m_log2
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import Engine, MatrixOperation


@dataclass(frozen=True)
class Products:
    """Matrix tasks of a layer on a die; does nothing where the die's part or slice is empty."""

    stage: Stage
    parameters: DieParameters
    builder: GraphBuilder
    piece: WeightSlice
    #: Parts of input and output.
    x_part: Part
    z_part: Part

    @property
    def _empty(self) -> bool:
        return not (self.x_part.words and self.z_part.words)

    @property
    def _shape(self) -> ConvolutionShape | None:
        """Of a convolution: that of the die's slice."""
        if not isinstance(self.stage.layer, Convolution):
            return None
        return replace(ConvolutionShape.of(self.stage.layer, self.stage.input), inputs=self.piece.inputs,
                       outputs=self.piece.outputs)

    def _add(self, name: str, operation: MatrixOperation, bodies: Sequence[dict[str, Any]], reads: list[Buffer],
             writes: list[Buffer]) -> None:
        for number, body in enumerate(bodies):
            suffix = f".{number}" if len(bodies) > 1 else ""
            self.builder.add(f"{self.stage.name}.{name}{suffix}", Engine.MATRIX, operation, body, reads=reads,
                             writes=writes)

    def _gemm(self, name: str, a: Buffer, b: Buffer, c: Buffer, *, transpose_a: bool = False,
              transpose_b: bool = False) -> None:
        body = {"a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride,
                "c": c.pointer, "c_stride": c.stride, "m": c.rows, "n": c.columns,
                "k": a.rows if transpose_a else a.columns, "transpose_a": int(transpose_a),
                "transpose_b": int(transpose_b),
                "interleave_m_log2": interleave_m_log2(self.parameters, c.rows, c.columns)}
        self._add(name, MatrixOperation.GEMM, [body], [a, b], [c])

    def _matrix(self, buffer: Buffer, part: Part) -> Buffer:
        """A part as a matrix: a row is a sample."""
        if part.positions == 1:
            return buffer
        return buffer.part(buffer.name, 0, part.samples, part.positions * part.channels)

    def _strips(self, rows: int, step: int) -> Iterator[tuple[int, int]]:
        for start in range(0, rows, step):
            yield start, min(step, rows - start)

    def _maps(self, shape: ConvolutionShape, x: Buffer, z: Buffer, start: int, count: int
              ) -> tuple[FeatureMap, FeatureMap]:
        """Images of input and output maps."""
        return (images_of(x, start, count, shape.height, shape.width),
                images_of(z, start, count, shape.out_height, shape.out_width))

    def fprop(self, x: Buffer, w: Buffer, z: Buffer) -> None:
        """``z = x w``."""
        if self._empty:
            return
        shape = self._shape
        if shape is None:
            a = self._matrix(x, self.x_part)
            for start, count in self._strips(a.rows, 2 * self.parameters.rows):
                self._gemm(f"fprop[{start}]", rows_of(a, start, count), w, rows_of(z, start, count))
            return
        for start, count in self._image_strips(shape):
            source, target = self._maps(shape, x, z, start, count)
            self._add(f"fprop[{start}]", MatrixOperation.CONVOLUTION,
                      convolution.forward(shape, self.parameters, source, w, target), [source.buffer, w],
                      [target.buffer])

    def _image_strips(self, shape: ConvolutionShape) -> Iterator[tuple[int, int]]:
        return image_strips(self.z_part.samples, shape.out_height * shape.out_width)

    def bprop(self, dz: Buffer, w: Buffer, dx: Buffer) -> None:
        """``dx = dz w^T``."""
        if self._empty:
            return
        shape = self._shape
        if shape is None:
            c = self._matrix(dx, self.x_part)
            for start, count in self._strips(c.rows, 2 * self.parameters.rows):
                self._gemm(f"bprop[{start}]", rows_of(dz, start, count), w, rows_of(c, start, count),
                           transpose_b=True)
            return
        for start, count in self._image_strips(shape):
            target, source = self._maps(shape, dx, dz, start, count)
            self._add(f"bprop[{start}]", MatrixOperation.CONVOLUTION,
                      convolution.input_gradient(shape, self.parameters, source, w, target), [source.buffer, w],
                      [target.buffer])

    def update(self, x: Buffer, dz: Buffer, dw: Buffer) -> None:
        """``dw = x^T dz``."""
        if self._empty:
            return
        shape = self._shape
        if shape is None:
            self._gemm("update_grad", self._matrix(x, self.x_part), dz, dw, transpose_a=True)
            return
        source, error = self._maps(shape, x, dz, 0, self.z_part.samples)
        self._add("update_grad", MatrixOperation.CONVOLUTION,
                  convolution.weight_gradient(shape, self.parameters, source, error, dw), [source.buffer, error.buffer],
                  [dw])
