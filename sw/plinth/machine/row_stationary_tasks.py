"""Products as tasks of the row-stationary machine.

Which loops of a product become which of a task's, by operand (docs/row_mapping.md has the mapping itself):

| product | image | row y | column v | unit u | filter | channel | kernel row | kernel column |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| z = x * w | image | row of z | column of z | | output | input | kernel row | kernel column |
| dx, a phase | image | row of dx | column of dx | | input | output | kernel row, backwards | column, backwards |
| dw | | kernel row | kernel column | input | output | image | row of dz | column of dz |
| z = x w | | sample div W | sample mod W | | output | input | | |
| dx = dz w^T | | sample div W | sample mod W | | input | output | | |
| dw = x^T dz | | | | input | output | | sample div W | sample mod W |

FP16 operands lie two to a word, rows of them from words on: neighbours along one dimension of
each operand are operands, all other steps whole words. Tasks count both in operands, and start at words.

The sums of a task run over blocks of channels, folds of kernel rows, segments of kernel columns, sets, rows and taps,
in this order; tasks that accumulate follow those that they add to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.machine.choices import MappedSamples, choose, dense, dense_update
from plinth.machine.convolution import Body, ConvolutionShape, FeatureMap, GradientPhase, phases, require
from plinth.machine.mappings import LONGEST, Loops, Mapping, Piece, pieces
from plinth_hw.isa.operations import MatrixOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.row_stationary import ADDRESS_MASK, derived


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Where a product's operands lie: first words; steps, of map and filters in operands, of sums in words. Those of
    units of the map are 1."""

    base_x: int
    base_w: int
    base_c: int
    x: int
    w: int
    c: int
    x_image: int = 0
    x_row: int = 0
    x_column: int = 0
    x_channel: int = 0
    w_row: int = 0
    w_column: int = 0
    w_channel: int = 0
    w_filter: int = 1
    c_image: int = 0
    c_row: int = 0
    c_column: int = 0
    c_unit: int = 0
    #: Row and column of the map that the kernel's first ones meet first, and the map's size.
    row: int = 0
    column: int = 0
    map_rows: int = 1
    map_columns: int = 1


def _body(die: DieParameters, loops: Loops, mapping: Mapping, piece: Piece, at: _Places, accumulate: bool) -> Body:
    """A task's body."""
    c = at.c + piece.image * at.c_image + piece.row * at.c_row + piece.column * at.c_column + piece.unit * at.c_unit
    # Runs of units are whole words, but for the last one.
    x = at.x + (piece.image * at.x_image + piece.unit) // die.packing
    units = loops.units > 1
    steps = {
        "x_image": piece.run if units else at.x_image, "x_row": at.x_row, "x_column": at.x_column,
        "x_channel": at.x_channel, "w_row": at.w_row, "w_column": at.w_column, "w_channel": at.w_channel,
        "w_filter": at.w_filter, "c_image": piece.run * at.c_unit if units else at.c_image, "c_row": at.c_row,
        "c_column": at.c_column, "c_run": at.c_unit}
    counts = {
        "images": piece.images, "rows": piece.rows, "windows": piece.windows, "window_run": piece.run,
        "filters": loops.filters, "filter_step": mapping.filter_step, "filter_groups": mapping.filter_groups,
        "kernel_rows": loops.kernel_rows, "kernel_columns": loops.kernel_columns, "channels": loops.channels,
        "tap_channels": mapping.tap_channels, "set_rows": mapping.set_rows, "sets": mapping.sets,
        "tap_columns": mapping.tap_columns, "interleaved_windows": mapping.interleaved_windows,
        "row_origin": at.row + piece.row * loops.row_stride, "row_stride": loops.row_stride,
        "column_origin": at.column + piece.column * loops.column_stride, "column_stride": loops.column_stride,
        "row_dilation": loops.row_dilation, "column_dilation": loops.column_dilation,
        "map_rows": at.map_rows, "map_columns": at.map_columns, "accumulate": int(accumulate)}
    fields = {name: step & ADDRESS_MASK for name, step in steps.items()} | counts
    body = fields | derived(SimpleNamespace(**fields), die)
    return body | {"x": {"offset": x, "base": at.base_x}, "w": {"offset": at.w, "base": at.base_w},
                   "c": {"offset": c, "base": at.base_c}}


# Loops of convolutions; those of fully connected layers are :func:`plinth.machine.choices.dense` and `dense_update`.


def forward_loops(layer: ConvolutionShape, images: int) -> Loops:
    """The loops of the forward product ``z = x * w``."""
    return Loops(
        images=images, rows=layer.out_height, columns=layer.out_width, filters=layer.outputs, channels=layer.inputs,
        kernel_rows=layer.kernel[0], kernel_columns=layer.kernel[1], row_stride=layer.stride[0],
        column_stride=layer.stride[1], adjacent_channels=True)


def input_gradient_loops(layer: ConvolutionShape, images: int) -> Iterator[tuple[GradientPhase, Loops]]:
    """The loops of the gradient of ``x``, phase by phase; where no tap meets a phase's places, of a product by one that
    does."""
    for phase in phases(layer):
        taps, outputs = (phase.taps, layer.outputs) if phase.met else ((1, 1), 1)
        yield phase, Loops(
            images=images, rows=phase.rows, columns=phase.columns, filters=layer.inputs, channels=outputs,
            kernel_rows=taps[0], kernel_columns=taps[1], adjacent_channels=True, adjacent_filters=False)


def weight_gradient_loops(layer: ConvolutionShape, images: int) -> Loops:
    """The loops of the gradient of ``w``."""
    return Loops(
        rows=layer.kernel[0], columns=layer.kernel[1], units=layer.inputs, filters=layer.outputs, channels=images,
        kernel_rows=layer.out_height, kernel_columns=layer.out_width, row_dilation=layer.stride[0],
        column_dilation=layer.stride[1])


def _operands(x: Buffer, w: Buffer, c: Buffer) -> dict[str, int]:
    return {"base_x": x.base, "base_w": w.base, "base_c": c.base, "x": x.address, "w": w.address, "c": c.address}


@dataclass(frozen=True)
class RowStationary:
    """Tasks of a layer's products on a row-stationary die.

    Each method gives groups of bodies: those of a group write different words and may run in any order; each group
    follows the one before it.

    Raises
    ------
    UserError
        If the layer has no mapping onto the machine, or is larger than a task's fields.
    """

    parameters: DieParameters
    #: Of the layer, for messages.
    name: str = "a product"

    def operation(self, dense: bool) -> MatrixOperation:
        """The operation code of the tasks of a fully connected layer, or of a convolution."""
        return MatrixOperation.ROW_STATIONARY

    def _product(self, loops: Loops, at: _Places, accumulate: bool, mapping: Mapping | None = None) -> list[Body]:
        sizes = {"filters": loops.filters, "kernel rows": loops.kernel_rows, "kernel columns": loops.kernel_columns,
                 "rows of the map": at.map_rows, "columns of the map": at.map_columns, "channels": loops.channels >> 8}
        for size, value in sizes.items():
            if value > LONGEST:
                raise UserError(f"layer {self.name!r} has {value} {size}, a task at most {LONGEST}")
        mapping = mapping or choose(self.parameters, loops, self.name)
        return [_body(self.parameters, loops, mapping, piece, at, accumulate) for piece in pieces(loops, mapping)]

    def _steps(self, **words: int) -> dict[str, int]:
        """Steps of map and filters that are whole words, in operands."""
        return {name: step * self.parameters.packing for name, step in words.items()}

    def forward(self, layer: ConvolutionShape, x: FeatureMap, w: Buffer, z: FeatureMap) -> list[list[Body]]:
        """``z = x * w``."""
        require(layer, x, w, z)
        place = layer.inputs * w.stride
        return [self._product(forward_loops(layer, z.images), _Places(
            **_operands(x.buffer, w, z.buffer),
            **self._steps(x_image=x.image_words, x_row=x.row_words, x_column=x.buffer.stride,
                          w_row=layer.kernel[1] * place, w_column=place, w_channel=w.stride),
            x_channel=1, c_image=z.image_words, c_row=z.row_words, c_column=z.buffer.stride, row=-layer.padding[0],
            column=-layer.padding[1], map_rows=x.height, map_columns=x.width), False)]

    def input_gradient(self, layer: ConvolutionShape, dz: FeatureMap, w: Buffer, dx: FeatureMap) -> list[list[Body]]:
        """The gradient of ``x``, phase by phase. Places that no tap meets become 0, as in
        :func:`~plinth.machine.convolution.input_gradient`."""
        require(layer, dx, w, dz)
        place, (down, right) = layer.inputs * w.stride, layer.stride
        bodies: list[Body] = []
        for phase, loops in input_gradient_loops(layer, dx.images):
            (y, x), last = (dz.height, 0), 0
            if phase.met:
                (y, x), taps = phase.first, phase.taps
                last = (phase.tap[0] + down * (taps[0] - 1)) * layer.kernel[1] + phase.tap[1] + right * (taps[1] - 1)
            operands = _operands(dz.buffer, w, dx.buffer)
            operands["w"] += last * place
            operands["c"] += phase.row * dx.row_words + phase.column * dx.buffer.stride
            bodies += self._product(loops, _Places(
                **operands,
                **self._steps(x_image=dz.image_words, x_row=dz.row_words, x_column=dz.buffer.stride,
                              w_row=-down * layer.kernel[1] * place, w_column=-right * place, w_filter=w.stride),
                x_channel=1, w_channel=1, c_image=dx.image_words, c_row=down * dx.row_words,
                c_column=right * dx.buffer.stride, row=y, column=x, map_rows=dz.height, map_columns=dz.width), False)
        return [bodies]

    def weight_gradient(self, layer: ConvolutionShape, x: FeatureMap, dz: FeatureMap, dw: Buffer) -> list[list[Body]]:
        """The gradient of ``w``."""
        require(layer, x, dw, dz)
        place = layer.inputs * dw.stride
        return [self._product(weight_gradient_loops(layer, dz.images), _Places(
            **_operands(x.buffer, dz.buffer, dw),
            **self._steps(x_row=x.row_words, x_column=x.buffer.stride, x_channel=x.image_words, w_row=dz.row_words,
                          w_column=dz.buffer.stride, w_channel=dz.image_words),
            c_row=layer.kernel[1] * place, c_column=place, c_unit=dw.stride, row=-layer.padding[0],
            column=-layer.padding[1], map_rows=x.height, map_columns=x.width), False)]

    def dense_forward(self, x: Buffer, w: Buffer, z: Buffer) -> list[list[Body]]:
        """``z = x w``."""
        parts = dense(self.parameters, x.rows, x.columns, z.columns, False, self.name)
        return self._samples(parts, x, w, z, w_filter=1, **self._steps(w_channel=w.stride))

    def dense_input_gradient(self, dz: Buffer, w: Buffer, dx: Buffer) -> list[list[Body]]:
        """``dx = dz w^T``."""
        parts = dense(self.parameters, dz.rows, dz.columns, dx.columns, True, self.name)
        return self._samples(parts, dz, w, dx, w_channel=1, **self._steps(w_filter=w.stride))

    def _samples(self, parts: Iterable[MappedSamples], x: Buffer, w: Buffer, c: Buffer,
                 **filters: int) -> list[list[Body]]:
        bodies: list[Body] = []
        for part in parts:
            columns, operands = part.loops.columns, _operands(x, w, c)
            operands["x"] += part.start * x.stride
            operands["c"] += part.start * c.stride
            bodies += self._product(part.loops, _Places(
                **operands, **self._steps(x_row=columns * x.stride, x_column=x.stride), x_channel=1, **filters,
                c_row=columns * c.stride, c_column=c.stride, map_rows=part.loops.rows,
                map_columns=columns), False, part.mapping)
        return [bodies]

    def dense_weight_gradient(self, x: Buffer, dz: Buffer, dw: Buffer) -> list[list[Body]]:
        """``dw = x^T dz``: samples beyond whole kernel rows are added to the sums of the others."""
        groups = []
        for part in dense_update(self.parameters, x.rows, x.columns, dw.columns, self.name):
            wide = part.loops.kernel_columns
            operands = _operands(x, dz, dw)
            operands["x"] += part.start * x.stride
            operands["w"] += part.start * dz.stride
            groups.append(self._product(part.loops, _Places(
                **operands, **self._steps(x_row=wide * x.stride, x_column=x.stride, w_row=wide * dz.stride,
                                          w_column=dz.stride),
                c_unit=dw.stride, map_rows=part.loops.kernel_rows, map_columns=wide), part.start > 0, part.mapping))
        return groups


