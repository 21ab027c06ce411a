"""Golden model of the row-stationary machine's tasks: the GEMM of :mod:`~plinth_sim.golden.matrix` in its order.

A sum out[o, w, f] belongs to array column o = (image, y), window w = (v, u) and filter f. Its terms follow each other
as they pass through the array, with t = (block, fold, segment, set, r, s, c), the last one fastest::

    channel = (block sets + set) tap_channels + c      row    = row_origin + y row_stride + krow row_dilation
    krow    = fold set_rows + r                        column = column_origin + v column_stride + kcol column_dilation
    kcol    = segment tap_columns + s

    X = operand at  packing x + image x_image + row x_row + column x_column + channel x_channel + u
      = +0                                                              if row or column lies outside the map
    W = operand at  packing w + channel w_channel + krow w_row + kcol w_column + f w_filter
    out = out + (X W)                                                   from +0, or with ``accumulate`` from C
    C = word at     c + image c_image + y c_row + v c_column + u c_run + f

An FP32 operand is a word, packing = 1; operands of 16 bits lie two to a word, packing = 2, the even one in its low
half, and their products are exact. Pointers and steps of C count words, steps of X and W operands.

A term whose channel the layer does not have is (+0 * +0), one whose krow or kcol it does not have (X * +0); both are
added as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.row_stationary import ADDRESS_MASK, COUNTS, derived, needs, signed
from plinth_sim.golden import matrix
from plinth_sim.golden.vector import BadOperandError

Offsets = NDArray[np.int64]

@dataclass(frozen=True)
class RowOperands:
    """What a task computes with: X as [o w, t], W as [t, f], which elements of X are of the map and of a term that
    exists, and the word addresses of the first filter's sums."""

    x: NDArray[Any]
    w: NDArray[Any]
    inside: NDArray[np.bool_]
    c: Offsets

    @property
    def useful_macs(self) -> int:
        """Multiply-adds of a term that exists with an element of the map."""
        return int(np.count_nonzero(self.inside)) * self.w.shape[1]


def check(body: Any, die: DieParameters) -> None:
    """Raise ``BadOperandError`` for a body that the machine cannot run."""
    for name in COUNTS:
        if not getattr(body, name):
            raise BadOperandError(f"{name} must not be 0")
    if body.window_run > 1 and (body.tap_channels > 1 or body.column_stride != 1):
        raise BadOperandError("window_run above 1 needs tap_channels = 1 and column_stride = 1")
    if body.tap_channels > 1 and body.x_channel != 1:
        raise BadOperandError("tap_channels above 1 needs x_channel = 1")
    for name, value in derived(body, die).items():
        if getattr(body, name) != value:
            raise BadOperandError(f"{name} must be {value}, not {getattr(body, name)}")
    for name, (need, most) in needs(body, die).items():
        if need > most:
            raise BadOperandError(f"the task needs {need} {name}, there are {most}")


def operands(memory: NDArray[np.unsignedinteger], body: Any, bases: Sequence[int], die: DieParameters) -> RowOperands:
    """Gather the operands of a task. ``body`` has the fields of ``RowStationaryBody`` as attributes.

    Raises
    ------
    BadOperandError
        As :func:`check`.
    IndexError
        If a word lies outside the memory.
    """
    check(body, die)

    def start(pointer: Any) -> int:
        return bases[pointer.base] + pointer.offset

    packing = die.packing
    source = memory.view(matrix.storage(die.multiply_format))
    mask = (ADDRESS_MASK + 1) * packing - 1
    shape = (body.blocks, body.folds, body.segments, body.sets, body.set_rows, body.tap_columns, body.tap_channels)
    block, fold, segment, set_, r, s, c = (
        index.reshape(-1, 1) for index in np.indices(shape, dtype=np.int64))
    channel = (block * body.sets + set_) * body.tap_channels + c
    krow, kcol = fold * body.set_rows + r, segment * body.tap_columns + s
    loaded = channel < body.channels
    exists = loaded & (krow < body.kernel_rows) & (kcol < body.kernel_columns)

    image, y, w = (index.reshape(1, -1) for index in np.indices((body.images, body.rows, body.windows), dtype=np.int64))
    v, u = w // body.window_run, w % body.window_run
    row = body.row_origin + y * body.row_stride + krow * body.row_dilation
    column = body.column_origin + v * body.column_stride + kcol * body.column_dilation
    loaded = loaded & (row >= 0) & (row < body.map_rows) & (column >= 0) & (column < body.map_columns)
    at = start(body.x) * packing + image * signed(body.x_image) + row * signed(body.x_row)
    at = at + column * signed(body.x_column) + channel * signed(body.x_channel) + u & mask
    inputs = np.zeros(at.shape, dtype=source.dtype)
    inputs[loaded] = source[at[loaded]]

    f = np.arange(body.filters, dtype=np.int64)
    at = (start(body.w) * packing + channel * signed(body.w_channel) + krow * signed(body.w_row)
          + kcol * signed(body.w_column) + f * signed(body.w_filter) & mask)
    filters = np.zeros(at.shape, dtype=source.dtype)
    filters[exists[:, 0]] = source[at[exists[:, 0]]]

    sums = (start(body.c) + image * signed(body.c_image) + y * signed(body.c_row) + v * signed(body.c_column)
            + u * signed(body.c_run) & ADDRESS_MASK).reshape(-1)
    if (sums + body.filters > len(memory)).any():
        raise IndexError(f"a row of sums lies outside a memory of {len(memory)} words")
    return RowOperands(np.ascontiguousarray(inputs.T), filters, (loaded & exists).T,
                       sums)


def execute(memory: NDArray[np.unsignedinteger], body: Any, bases: Sequence[int], die: DieParameters) -> RowOperands:
    """Run ROW_STATIONARY in ``memory``; returns what it computed with.

    Raises
    ------
    BadOperandError, IndexError
        As :func:`operands`; nothing is written then.
    """
    gathered = operands(memory, body, bases, die)
    at = gathered.c[:, None] + np.arange(body.filters)
    first = memory[at].view(matrix.stored(die.multiply_format)) if body.accumulate else None
    memory[at] = matrix.multiply(die.multiply_format, gathered.x, gathered.w, first).view(memory.dtype)
    return gathered


__all__ = ["RowOperands", "check", "execute", "operands"]
