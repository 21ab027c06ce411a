"""Products in numpy: of matrices by BLAS, and of convolutions as such, a few images at a time."""

from functools import cached_property

import numpy as np

from plinth.machine.convolution import ConvolutionShape
from plinth.machine.host import MOST_UNROLLED
from plinth.runtime.memory import Floats, Kernel


def product_kernel(direction: str, x: Floats, w: Floats, z: Floats, added: bool = False) -> Kernel:
    """``z = x w``, ``x = z w^T`` or ``w = x^T z``, by direction; ``added``: that ``w`` and what is there."""
    if added:
        return lambda: np.add(w, x.T @ z, out=w)
    return {"fprop": lambda: np.matmul(x, w, out=z), "bprop": lambda: np.matmul(z, w.T, out=x),
            "update": lambda: np.matmul(x.T, z, out=w)}[direction]


class ConvolutionKernel:
    """A convolution of a die: maps ``x [image, row, column, channel]`` and ``z`` likewise, weights ``w [taps channels,
    outputs]``."""

    def __init__(self, shape: ConvolutionShape, images: int) -> None:
        self.shape, self.images = shape, images
        down, across = shape.padding[:2]
        self._places = shape.out_height * shape.out_width
        self._taps = shape.kernel[0] * shape.kernel[1] * shape.inputs
        self.some = max(1, min(images, MOST_UNROLLED // max(1, self._places * self._taps)))
        rows, columns = ((out - 1) * stride + taps for out, stride, taps in zip(
            (shape.out_height, shape.out_width), shape.stride, shape.kernel, strict=True))
        self._padded = np.zeros((self.some, max(rows, shape.height + down), max(columns, shape.width + across),
                                 shape.inputs), dtype=np.float32)
        inner = self._padded[:, down:down + shape.height, across:across + shape.width]
        self._inner = inner
        self._windows = np.lib.stride_tricks.sliding_window_view(self._padded, shape.kernel, axis=(1, 2))[
            :, ::shape.stride[0], ::shape.stride[1]][:, :shape.out_height, :shape.out_width].transpose(0, 1, 2, 4, 5, 3)
        self._unrolled = np.empty(self._windows.shape, dtype=np.float32)
        #: Whether windows of the whole batch are there from fprop on.
        self.kept = self.some >= images

    @cached_property
    def _errors(self) -> tuple[Floats, Floats]:
        """Room for the error of unrolled windows, and of maps with their rim."""
        return np.empty((self.some * self._places, self._taps), dtype=np.float32), np.zeros_like(self._padded)

    def _matrix(self, count: int) -> Floats:
        return self._unrolled[:count].reshape(count * self._places, self._taps)

    def _unroll(self, x: Floats, start: int) -> Floats:
        count = min(self.some, self.images - start)
        self._inner[:count] = x[start:start + count]
        np.copyto(self._unrolled[:count], self._windows[:count])
        return self._matrix(count)

    def fprop(self, x: Floats, w: Floats, z: Floats) -> None:
        """z of x."""
        for start in range(0, self.images, self.some):
            rows = self._unroll(x, start)
            np.matmul(rows, w, out=z[start * self._places:start * self._places + len(rows)])

    def bprop(self, x: Floats, w: Floats, z: Floats) -> None:
        """The error of x of that of z."""
        shape, (scratch, back) = self.shape, self._errors
        down, across = shape.padding[:2]
        for start in range(0, self.images, self.some):
            count = min(self.some, self.images - start)
            rows = count * self._places
            np.matmul(z[start * self._places:start * self._places + rows], w.T, out=scratch[:rows])
            taps = scratch[:rows].reshape(count, shape.out_height, shape.out_width, *shape.kernel, shape.inputs)
            back[:count] = 0
            for row, column in np.ndindex(*shape.kernel):
                rows_of = slice(row, row + shape.stride[0] * shape.out_height, shape.stride[0])
                columns_of = slice(column, column + shape.stride[1] * shape.out_width, shape.stride[1])
                back[:count, rows_of, columns_of] += taps[:, :, :, row, column]
            x[start:start + count] = back[:count, down:down + shape.height, across:across + shape.width]

    def update(self, x: Floats, w: Floats, z: Floats, *, unrolled: bool, added: bool = False) -> None:
        """The gradient of w; ``unrolled``: windows of x are those of fprop; ``added``: to what is there."""
        for start in range(0, self.images, self.some):
            rows = self._matrix(min(self.some, self.images)) if unrolled else self._unroll(x, start)
            error = z[start * self._places:start * self._places + len(rows)]
            if start or added:
                w += rows.T @ error
            else:
                np.matmul(rows.T, error, out=w)
