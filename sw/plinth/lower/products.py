"""Matrix tasks of a weighted layer on one die: fprop, bprop and updateGrad of its slice.

Fully connected layers are cut in strips of samples, convolutions in strips of images, so that other engines follow
strip by strip. The weight gradient is one product over all samples of the die.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from plinth.driver.program import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.lower.convolution import Body, ConvolutionShape, FeatureMap, images_of
from plinth.lower.places import Part, WeightSlice
from plinth.lower.row_stationary import RowStationary
from plinth.lower.stages import Stage
from plinth.lower.step import image_strips, rows_of
from plinth.lower.systolic import Systolic
from plinth.model.layers import Convolution
from plinth.plan.cost.cuts import sample_step
from plinth_hw.isa.parameters import ROW_STATIONARY, SYSTOLIC, DieParameters
from plinth_hw.isa.tasks import Engine

#: What makes the tasks of each machine.
MAKERS: dict[str, type[Systolic] | type[RowStationary]] = {SYSTOLIC: Systolic, ROW_STATIONARY: RowStationary}


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

    @property
    def _maker(self) -> Systolic | RowStationary:
        """Makes the tasks of the die's machine."""
        return MAKERS[self.parameters.machine](self.parameters, self.stage.name)

    def _add(self, name: str, groups: Sequence[Sequence[Body]], reads: list[Buffer], writes: list[Buffer]) -> None:
        names = [f"{self.stage.name}.{name}{suffix}" for suffix in _suffixes(sum(map(len, groups)))]
        operation = self._maker.operation(self._shape is None)
        for bodies in groups:
            self.builder.add_parts(names[:len(bodies)], Engine.MATRIX, operation, bodies, reads=reads, writes=writes)
            names = names[len(bodies):]

    def _matrix(self, buffer: Buffer, part: Part) -> Buffer:
        """A part as a matrix: a row is a sample."""
        if part.positions == 1:
            return buffer
        return buffer.part(buffer.name, 0, part.samples, part.positions * part.channels,
                           part.positions * buffer.stride)

    def _strips(self, rows: int) -> Iterator[tuple[int, int]]:
        step = sample_step(self.parameters)
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
            for start, count in self._strips(a.rows):
                source, target = rows_of(a, start, count), rows_of(z, start, count)
                self._add(f"fprop[{start}]", self._maker.dense_forward(source, w, target), [source, w], [target])
            return
        for start, count in self._image_strips(shape):
            images, sums = self._maps(shape, x, z, start, count)
            self._add(f"fprop[{start}]", self._maker.forward(shape, images, w, sums), [images.buffer, w],
                      [sums.buffer])

    def _image_strips(self, shape: ConvolutionShape) -> Iterator[tuple[int, int]]:
        return image_strips(self.z_part.samples, shape.out_height * shape.out_width)

    def bprop(self, dz: Buffer, w: Buffer, dx: Buffer) -> None:
        """``dx = dz w^T``."""
        if self._empty:
            return
        shape = self._shape
        if shape is None:
            c = self._matrix(dx, self.x_part)
            for start, count in self._strips(c.rows):
                error, target = rows_of(dz, start, count), rows_of(c, start, count)
                self._add(f"bprop[{start}]", self._maker.dense_input_gradient(error, w, target), [error, w], [target])
            return
        for start, count in self._image_strips(shape):
            sums, errors = self._maps(shape, dx, dz, start, count)
            self._add(f"bprop[{start}]", self._maker.input_gradient(shape, errors, w, sums), [errors.buffer, w],
                      [sums.buffer])

    def update(self, x: Buffer, dz: Buffer, dw: Buffer) -> None:
        """``dw = x^T dz``."""
        if self._empty:
            return
        shape = self._shape
        if shape is None:
            a = self._matrix(x, self.x_part)
            self._add("update_grad", self._maker.dense_weight_gradient(a, dz, dw), [a, dz], [dw])
            return
        images, errors = self._maps(shape, x, dz, 0, self.z_part.samples)
        self._add("update_grad", self._maker.weight_gradient(shape, images, errors, dw),
                  [images.buffer, errors.buffer], [dw])


def _suffixes(count: int) -> list[str]:
    return [f".{number}" for number in range(count)] if count > 1 else [""]
