"""Golden model of the transfer engine.

For plane p, row r, column c, all ascending:

    memory[D + p * Dp + r * Dr + c] = memory[S + p * Sp + r * Sr + c]

with S, D the source and destination addresses and Sp, Sr, Dp, Dr their plane and row strides; address
arithmetic is modulo 2^32. If the two ranges overlap, what the destination holds afterwards is
unspecified (here: every read sees the memory as it was before the task). If rows of the destination
overlap each other, the later one wins.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_sim.golden.vector import BadOperandError

ADDRESS_MASK = 0xFFFF_FFFF


def copy(memory: NDArray[np.uint32], body: Any, bases: Sequence[int]) -> None:
    """Run COPY in ``memory``. ``body`` has the fields of ``TransferBody`` as attributes.

    Raises
    ------
    BadOperandError
        If the number of columns, rows or planes is zero.
    IndexError
        If a row lies outside the memory; nothing is written then.
    """
    if not (body.columns and body.rows and body.planes):
        raise BadOperandError(f"A transfer needs columns, rows and planes, not {body.columns} x "
                              f"{body.rows} x {body.planes}")
    sources = _starts(body, body.source, body.source_row_stride, body.source_plane_stride, bases)
    destinations = _starts(body, body.destination, body.destination_row_stride,
                           body.destination_plane_stride, bases)
    for start in (*sources, *destinations):
        if start + body.columns > len(memory):
            raise IndexError(f"words {start}+{body.columns} lie outside a memory of {len(memory)} words")
    rows = [memory[start:start + body.columns].copy() for start in sources]
    for start, row in zip(destinations, rows, strict=True):
        memory[start:start + body.columns] = row


def _starts(body: Any, pointer: Any, row_stride: int, plane_stride: int, bases: Sequence[int]) -> list[int]:
    """Address of every row, planes outermost."""
    first = bases[pointer.base] + pointer.offset
    return [(first + plane * plane_stride + row * row_stride) & ADDRESS_MASK
            for plane in range(body.planes) for row in range(body.rows)]
