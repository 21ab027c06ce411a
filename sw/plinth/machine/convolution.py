"""Convolution layers as matrix tasks: forward, input gradient, weight gradient.

Feature maps lie as [image, row, column, channel] with the channels of a position next to each other, weights as
[kernel row, kernel column, channel, output], outputs next to each other. A task's body describes where windows
lie; nothing is copied.

::

    z[b, i, j, n]     = sum over u, v, c of    x[b, i s + u - p, j s + v - p, c]  w[u, v, c, n]
    dx[b, y, x, c]    = sum over u, v, n of    dz[b, i, j, n]  w[u, v, c, n]     i s + u - p = y, j s + v - p = x
    dw[u, v, c, n]    = sum over b, i, j of    x[b, i s + u - p, j s + v - p, c]  dz[b, i, j, n]

with the sums in the order of their names, ascending, but for the input gradient, where i and j ascend, so u and v
descend (s and p of rows and columns may differ). p is the padding above and left of the map; what is padded below and
on the right shows in the output's size alone. With a stride s > 1 the input gradient is cut into s x s *phases*, the
rows y and columns x with the same remainder modulo s: each is a convolution of dz with a stride of 1 by the taps that
meet those places.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from plinth.buffers import Buffer
from plinth.machine.tiles import CUT_CYCLES, tile_shape
from plinth.network.layers import Convolution, Shape
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.row_stationary import ADDRESS_MASK

Body = dict[str, Any]
Pair = tuple[int, int]
#: Largest number of elements of a run, and of positions or rows of a grid.
LONGEST = (1 << 16) - 1


@dataclass(frozen=True)
class ConvolutionWindow:
    """Windows of a convolution: its input map, kernel, stride, padding and output map, [rows, columns] each."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: tuple[int, ...]
    output: Pair

    @property
    def positions(self) -> int:
        """Height times width of the output map."""
        return self.output[0] * self.output[1]


@dataclass(frozen=True, kw_only=True)
class ConvolutionShape:
    """Shape of a layer; pairs are of rows and columns.

    Raises
    ------
    ValueError
        If a size is not positive, a padding is negative, or no window fits the padded map.
    """

    height: int
    width: int
    inputs: int
    outputs: int
    kernel: Pair
    stride: Pair = (1, 1)
    #: Above and left of the map, then below and right where these differ.
    padding: tuple[int, ...] = (0, 0)

    def __post_init__(self) -> None:
        sizes = {"height": self.height, "width": self.width, "inputs": self.inputs, "outputs": self.outputs,
                 "kernel": min(self.kernel), "stride": min(self.stride)}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if min(self.padding) < 0:
            raise ValueError(f"padding must not be negative, not {self.padding}")
        if self.out_height < 1 or self.out_width < 1:
            raise ValueError(f"a kernel of {self.kernel[0]} x {self.kernel[1]} does not fit a map of {self.height} x "
                             f"{self.width} with padding {self.padding}")

    @classmethod
    def of(cls, layer: Convolution, inputs: Shape) -> "ConvolutionShape":
        """The shape of a network's convolution whose input has a given shape."""
        channels, height, width = inputs
        return cls(height=height, width=width, inputs=channels, outputs=layer.channels, kernel=layer.kernel,
                   stride=layer.stride, padding=layer.padding)

    @property
    def out_height(self) -> int:
        """Rows of the output map."""
        return (self.height + self.padding[0] + self.padding[-2] - self.kernel[0]) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the output map."""
        return (self.width + self.padding[1] + self.padding[-1] - self.kernel[1]) // self.stride[1] + 1

    @property
    def taps(self) -> int:
        """Rows of the weight matrix: kernel positions times channels."""
        return self.kernel[0] * self.kernel[1] * self.inputs


@dataclass(frozen=True)
class FeatureMap:
    """A buffer as [image, row, column, channel]: a row of the buffer is a position."""

    buffer: Buffer
    height: int
    width: int

    def __post_init__(self) -> None:
        if self.buffer.rows % (self.height * self.width):
            raise ValueError(f"{self.buffer.rows} positions are no whole images of {self.height} x {self.width}")

    @property
    def images(self) -> int:
        """Images of the batch."""
        return self.buffer.rows // (self.height * self.width)

    @property
    def channels(self) -> int:
        """Elements of a position."""
        return self.buffer.columns

    @property
    def row_words(self) -> int:
        """Words from a row to the next."""
        return self.width * self.buffer.stride

    @property
    def image_words(self) -> int:
        """Words from an image to the next."""
        return self.height * self.row_words

    def pointer(self, image: int, row: int, column: int) -> dict[str, int]:
        """The address of a position's first word as a descriptor names it."""
        offset = image * self.image_words + row * self.row_words + column * self.buffer.stride
        return {"offset": self.buffer.address + offset, "base": self.buffer.base}


def images_of(buffer: Buffer, start: int, count: int, height: int, width: int) -> FeatureMap:
    """Some images of a buffer."""
    size = height * width
    return FeatureMap(buffer.part(buffer.name, start * size * buffer.stride, count * size, buffer.columns,
                                  buffer.stride), height, width)


@dataclass(frozen=True)
class Grid:
    """Positions of each image that a task, or several, compute: rows x columns of them."""

    images: int
    rows: int
    columns: int


@dataclass(frozen=True)
class TaskPositions:
    """Positions that one task computes: ``positions`` from a row of an image on, in a grid that has ``rows`` rows
    from there on in every image."""

    image: int
    row: int
    rows: int
    positions: int
    interleave_m_log2: int


def parts(parameters: DieParameters, grid: Grid, n: int, k: int) -> list[TaskPositions]:
    """Tasks that cover a grid: one, or one of whole tiles and another, of another shape, for the last rows."""
    overhead = CUT_CYCLES + parameters.rows * parameters.interleave
    positions = grid.images * grid.rows * grid.columns
    whole, shape = tile_shape(parameters, positions, n)
    best, tasks = whole * k, [TaskPositions(0, 0, grid.rows, positions, shape)]
    for rest in range(1, grid.rows + (grid.images > 1)):
        last = rest * grid.columns
        (first_cycles, first_shape), (last_cycles, last_shape) = (
            tile_shape(parameters, count, n) for count in (positions - last, last))
        cycles = (first_cycles + last_cycles) * k + overhead
        if cycles < best:
            best, tasks = cycles, [
                TaskPositions(0, 0, grid.rows, positions - last, first_shape),
                TaskPositions(grid.images - 1, grid.rows - rest, rest, last, last_shape)]
    return tasks


def _windows(source: FeatureMap, part: TaskPositions, grid: Grid, kernel: Pair, first: Pair, stride: Pair) -> Body:
    """Fields of A: windows of ``kernel`` rows and columns, whose first one of the grid begins at row and column
    ``first`` of the map."""
    word, packing = source.buffer.stride, 2 if source.buffer.packed else 1
    y, x = first[0] + part.row * stride[0], first[1]
    run, runs, run_step = kernel[1] * source.channels, 1, 0
    if word * packing != source.channels or run > LONGEST:
        run, runs, run_step = source.channels, kernel[1], word
    for name, size in (("channels", run), ("kernel columns", runs), ("grid rows", part.rows),
                       ("grid columns", grid.columns), ("map rows", source.height)):
        if size > LONGEST:
            raise ValueError(f"{name} must be at most {LONGEST}, not {size}")
    row, last = stride[0] * source.row_words, (grid.columns - 1) * stride[1] * word
    return {
        "a": source.pointer(part.image, 0, 0), "a_origin": (y * source.row_words + x * word) & ADDRESS_MASK,
        "a_stride": stride[1] * word, "a_row_step": (row - last) & ADDRESS_MASK,
        "a_image_step": (source.image_words - (part.rows - 1) * row - last) & ADDRESS_MASK,
        "grid_columns": grid.columns, "grid_rows": part.rows,
        "a_run": run, "a_runs": runs, "a_run_step": run_step,
        "a_kernel_step": (source.row_words - (runs - 1) * run_step) & ADDRESS_MASK,
        "window_row": y, "window_row_step": stride[0], "map_rows": source.height,
        "window_column": x * source.channels, "window_column_step": stride[1] * source.channels,
        "map_columns": source.width * source.channels,
    }


def _results(target: FeatureMap, part: TaskPositions, grid: Grid, first: Pair, stride: Pair) -> Body:
    """Fields of C: every ``stride``-th row and column of a map from ``first`` on."""
    word = stride[1] * target.buffer.stride
    row, last = stride[0] * target.row_words, (grid.columns - 1) * word
    return {
        "c": target.pointer(part.image, first[0] + part.row * stride[0], first[1]), "c_stride": word,
        "c_row_step": (row - last) & ADDRESS_MASK,
        "c_image_step": (target.image_words - (part.rows - 1) * row - last) & ADDRESS_MASK,
        "m": part.positions, "n": target.channels, "interleave_m_log2": part.interleave_m_log2,
    }


def forward(layer: ConvolutionShape, parameters: DieParameters, x: FeatureMap, w: Buffer, z: FeatureMap, *,
            accumulate: bool = False) -> list[Body]:
    """Bodies of CONVOLUTION tasks for ``z = x * w``, which may run in any order.

    Parameters
    ----------
    w : Buffer
        ``layer.taps`` rows of ``layer.outputs``.
    """
    require(layer, x, w, z)
    grid = Grid(z.images, z.height, z.width)
    return [{
        **_windows(x, part, grid, layer.kernel, (-layer.padding[0], -layer.padding[1]), layer.stride),
        **_results(z, part, grid, (0, 0), (1, 1)), "b": w.pointer, "b_stride": w.stride, "k": layer.taps,
        "accumulate": int(accumulate),
    } for part in parts(parameters, grid, layer.outputs, layer.taps)]


@dataclass(frozen=True)
class GradientPhase:
    """Rows and columns of the input's gradient with the same remainders modulo the strides."""

    #: The first row and column, and how many there are.
    row: int
    column: int
    rows: int
    columns: int
    #: Kernel row and column of the first tap, and how many taps there are.
    tap: Pair
    taps: Pair
    #: Row and column of the output map that the window of the first place begins at.
    first: Pair

    @property
    def met(self) -> bool:
        """Whether any tap meets its places."""
        return min(self.taps) > 0


def phases(layer: ConvolutionShape) -> Iterator[GradientPhase]:
    """The phases of a layer, row by row."""
    def side(axis: int, size: int) -> list[tuple[int, int, int, int, int]]:
        kernel, stride, padding = layer.kernel[axis], layer.stride[axis], layer.padding[axis]
        remainders = []
        for remainder in range(min(stride, size)):
            tap = (remainder + padding) % stride
            taps = -(-max(0, kernel - tap) // stride)
            first = (remainder + padding - tap) // stride - (taps - 1)
            remainders.append((remainder, -(-(size - remainder) // stride), tap, taps, first))
        return remainders

    for down, across in product(side(0, layer.height), side(1, layer.width)):
        (row, rows, *rest), (column, columns, *others) = down, across
        tap, taps, first = zip(rest, others, strict=True)
        yield GradientPhase(row, column, rows, columns, tap, taps, first)


def input_gradient(layer: ConvolutionShape, parameters: DieParameters, dz: FeatureMap, w: Buffer, dx: FeatureMap, *,
                   accumulate: bool = False) -> list[Body]:
    """Bodies of CONVOLUTION tasks for the gradient of ``x``, which may run in any order.

    Places that no tap meets become 0: as a sum of one product of a place outside the map and a weight.
    """
    require(layer, dx, w, dz)
    bodies: list[Body] = []
    down, right = layer.stride
    for phase in phases(layer):
        grid = Grid(dx.images, phase.rows, phase.columns)
        (tap, tap_column), taps, first = phase.tap, phase.taps, phase.first
        k = taps[0] * taps[1] * layer.outputs
        if not k and accumulate:
            continue
        if k:
            place_words = layer.inputs * w.stride
            step, row_step = -right * place_words, -down * layer.kernel[1] * place_words
            place = (tap + down * (taps[0] - 1)) * layer.kernel[1] + tap_column + right * (taps[1] - 1)
            weights: Body = {
                "b": {"offset": w.address + place * place_words, "base": w.base},
                "b_run": layer.outputs, "b_runs": taps[1], "b_run_step": step & ADDRESS_MASK,
                "b_kernel_step": (row_step - (taps[1] - 1) * step) & ADDRESS_MASK}
        else:
            taps, first, k, weights = (1, 1), (dz.height, 0), 1, {"b": w.pointer}
        bodies += [{
            **_windows(dz, part, grid, taps, first, (1, 1)),
            **_results(dx, part, grid, (phase.row, phase.column), layer.stride), **weights, "b_stride": w.stride,
            "transpose_b": 1, "k": k, "accumulate": int(accumulate),
        } for part in parts(parameters, grid, layer.inputs, k)]
    return bodies


def weight_gradient(layer: ConvolutionShape, parameters: DieParameters, x: FeatureMap, dz: FeatureMap, dw: Buffer, *,
                    accumulate: bool = False) -> list[Body]:
    """Body of the CONVOLUTION task for the gradient of ``w``."""
    require(layer, x, dw, dz)
    k = dz.images * dz.height * dz.width
    whole = TaskPositions(0, 0, dz.height, k, 0)
    return [{
        **_windows(x, whole, Grid(dz.images, dz.height, dz.width), layer.kernel,
                   (-layer.padding[0], -layer.padding[1]), layer.stride),
        "b": dz.buffer.pointer, "b_stride": dz.buffer.stride, "c": dw.pointer, "c_stride": dw.stride,
        "m": layer.taps, "n": layer.outputs, "k": k, "transpose_a": 1, "accumulate": int(accumulate),
        "interleave_m_log2": tile_shape(parameters, layer.taps, layer.outputs)[1],
    }]


def require(layer: ConvolutionShape, x: FeatureMap, w: Buffer, z: FeatureMap) -> None:
    """Raise ``ValueError`` for operands that are not of the layer's shape."""
    for name, shape, needed in (
            ("The input", (x.height, x.width, x.channels), (layer.height, layer.width, layer.inputs)),
            ("The output", (z.height, z.width, z.channels), (layer.out_height, layer.out_width, layer.outputs)),
            ("The weights", (w.rows, w.columns), (layer.taps, layer.outputs)),
            ("The output's batch", z.images, x.images)):
        if shape != needed:
            raise ValueError(f"{name} must have the shape {needed}, not {shape}")
