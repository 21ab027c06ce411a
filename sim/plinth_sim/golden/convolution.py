"""Golden model of convolution tasks: the GEMM of :mod:`~plinth_sim.golden.matrix` on a matrix of windows.

A, as stored, is V[r, e] (``transpose_a`` swaps the sides). Row r is the position (b, i, j) of a grid, j fastest;
column e is element w of run t of kernel row u, w fastest::

    y = window_row + i window_row_step + u              x = window_column + j window_column_step + t a_run + w
    V = word at  a + a_origin + (steps to (b, i, j)) + (steps to (u, t)) + w      if 0 <= y < map_rows and
                                                                                     0 <= x < map_columns
      = +0                                                                        otherwise

A column of B, as stored, is an element of a run likewise, and rows of C follow the grid. All sums are taken in
the order of :func:`~plinth_sim.golden.matrix.gemm`, taps outside the map included: they add (+0 * B).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import Format
from plinth_hw.isa.row_stationary import ADDRESS_MASK, signed
from plinth_sim.golden import matrix
from plinth_sim.golden.vector import BadOperandError

Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class ConvolutionOperands:
    """What a task computes with: op(A), op(B), which elements of op(A) lie in the map, and the word addresses
    of the first column of C's rows."""

    a: NDArray[Any]
    b: NDArray[Any]
    inside: NDArray[np.bool_]
    c: Offsets

    @property
    def useful_macs(self) -> int:
        """Multiply-adds with an element of the map."""
        return int(np.count_nonzero(self.inside)) * self.b.shape[1]


def walk(count: int, sizes: Sequence[int], steps: Sequence[int]) -> tuple[Offsets, Offsets, Offsets]:
    """Offsets of the first ``count`` places of a walk, and their two upper indices.

    ``sizes`` are the places of the innermost loop and the turns of the middle one; ``steps`` lead to the next
    place, and from the last place of each loop to the next turn of the loop round it.
    """
    number = np.arange(count, dtype=np.int64)
    inner, middle = number % sizes[0], number // sizes[0] % sizes[1]
    outer = number // (sizes[0] * sizes[1])
    turn = (sizes[0] - 1) * steps[0] + steps[1]
    round_ = (sizes[0] - 1) * steps[0] + (sizes[1] - 1) * turn + steps[2]
    place, turn, round_ = (signed(step) for step in (steps[0], turn, round_))
    return inner * place + middle * turn + outer * round_, middle, inner


def _runs(count: int, run: int, runs: int, run_step: int, kernel_step: int, packing: int,
          ) -> tuple[Offsets, Offsets, Offsets]:
    """Offsets, in elements, of the first ``count`` elements of a window; their kernel rows and their places in
    the kernel row."""
    number = np.arange(count, dtype=np.int64)
    within, run_number, row = number % run, number // run % runs, number // (run * runs)
    turn = signed((runs - 1) * run_step + kernel_step)
    offsets = packing * (run_number * signed(run_step) + row * turn) + within
    return offsets, row, run_number * run + within


def check(body: Any) -> None:
    """Raise ``BadOperandError`` for a body that the engine refuses."""
    for field in ("m", "n", "k", "grid_columns", "grid_rows", "a_run", "a_runs", "map_rows", "map_columns"):
        if not getattr(body, field):
            raise BadOperandError(f"{field} must not be 0")
    if body.b_run and not body.b_runs:
        raise BadOperandError("b_runs must not be 0 if b_run is not")


def operands(memory: NDArray[np.unsignedinteger], body: Any, bases: Sequence[int], fmt: Format) -> ConvolutionOperands:
    """Gather the operands of a task. ``body`` has the fields of ``MatrixBody`` as attributes; operands are of ``fmt``.

    Raises
    ------
    BadOperandError
        As :func:`check`.
    IndexError
        If an element, or a row of C, lies outside the memory.
    """
    check(body)
    elements, packing = memory.view(matrix.storage(fmt)), 8 * memory.itemsize // fmt.bits

    def start(pointer: Any) -> int:
        return bases[pointer.base] + pointer.offset

    def gather(first: int, rows: Offsets, columns: Offsets, real: NDArray[np.bool_]) -> NDArray[Any]:
        at = (packing * (first + rows[:, None]) + columns[None, :]) & (packing * (ADDRESS_MASK + 1) - 1)
        gathered = np.zeros(at.shape, dtype=elements.dtype)
        gathered[real] = elements[at[real]]
        return gathered

    rows, columns = (body.k, body.m) if body.transpose_a else (body.m, body.k)
    grid = (body.grid_columns, body.grid_rows)
    places, i, j = walk(rows, grid, (body.a_stride, body.a_row_step, body.a_image_step))
    taps, kernel_row, place = _runs(columns, body.a_run, body.a_runs, body.a_run_step, body.a_kernel_step, packing)
    y = (body.window_row + i * body.window_row_step)[:, None] + kernel_row
    x = (body.window_column + j * body.window_column_step)[:, None] + place
    inside = (y >= 0) & (y < body.map_rows) & (x >= 0) & (x < body.map_columns)
    a = gather(start(body.a) + body.a_origin, places, taps, inside)

    rows, columns = (body.n, body.k) if body.transpose_b else (body.k, body.n)
    if body.b_run:
        taps, _, _ = _runs(columns, body.b_run, body.b_runs, body.b_run_step, body.b_kernel_step, packing)
    else:
        taps = np.arange(columns, dtype=np.int64)
    b = gather(start(body.b), np.arange(rows, dtype=np.int64) * body.b_stride, taps,
               np.ones((rows, columns), dtype=bool))

    if body.transpose_a:
        c = np.arange(body.m, dtype=np.int64) * body.c_stride
    else:
        c, _, _ = walk(body.m, grid, (body.c_stride, body.c_row_step, body.c_image_step))
    c = (start(body.c) + c) & ADDRESS_MASK
    if (c + body.n > len(memory)).any():
        raise IndexError(f"a row of C lies outside a memory of {len(memory)} words")
    return ConvolutionOperands(np.ascontiguousarray(a.T if body.transpose_a else a), b.T if body.transpose_b else b,
                               inside.T if body.transpose_a else inside, c)


def execute(memory: NDArray[np.unsignedinteger], body: Any, bases: Sequence[int], fmt: Format) -> ConvolutionOperands:
    """Run CONVOLUTION in ``memory``; returns what it computed with.

    Raises
    ------
    BadOperandError, IndexError
        As :func:`operands`; nothing is written then.
    """
    gathered = operands(memory, body, bases, fmt)
    at = gathered.c[:, None] + np.arange(body.n)
    first = memory[at].view(matrix.stored(fmt)) if body.accumulate else None
    memory[at] = matrix.multiply(fmt, gathered.a, gathered.b, first).view(memory.dtype)
    return gathered


__all__ = ["ConvolutionOperands", "check", "execute", "operands", "walk"]
