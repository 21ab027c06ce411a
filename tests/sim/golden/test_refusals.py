"""Arrays and bodies that golden functions refuse, in a line that says what is wrong."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plinth_hw.isa.formats import FP32
from plinth_hw.isa.operations import CollectiveOperation, TransferOperation, UpdateOperation
from plinth_sim.golden import collective, convolution, matrix, transfer, winograd
from plinth_sim.golden.vector import BadOperandError

F32 = np.zeros((2, 3), np.float32)
F64: Any = np.zeros((2, 2))
SQUARE: Any = ((1, 0), (0, 1))


#: Fields of a transfer's body that say nothing where they are 0.
UNUSED = ("gather", "scatter", "down", "across", "members", "remote", "sent", "given", "maps", "regions", "first",
          "follows", "skips")


def rows(operation: TransferOperation, **fields: int) -> Callable[[], Any]:
    """Of one column, row and plane, but for some fields."""
    body = SimpleNamespace(**dict.fromkeys(UNUSED, 0) | {"columns": 1, "rows": 1, "planes": 1} | fields)
    return lambda: transfer.rows(operation, np.zeros(64, np.uint32), body, [0], (), 4)


def came(operation: CollectiveOperation, words: int) -> Callable[[], Any]:
    """Words that come for the first of two members, of messages of four words in chunks of two."""
    def send() -> Any:
        member = collective.member(operation, 0, 2, *np.zeros((2, 4), np.uint32), 0, 2, UpdateOperation.NONE)
        collective.resume(member, None)
        return collective.resume(member, np.zeros(words, np.uint32))
    return send


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: matrix.operand(F64, False), TypeError, "Operands must be float16 or float32, not float64"),
    (lambda: matrix.operand(np.zeros(3, np.float32), False), ValueError, "Operands must have two dimensions, not 1"),
    (lambda: matrix.gemm(F32, F32), ValueError, "Inner dimensions must be equal, not 3 and 2"),
    (lambda: matrix.gemm(F32, F32.T, F64), TypeError,
     "The accumulated matrix must be float32, not float64"),
    (lambda: matrix.gemm(F32, F32.T, F32), ValueError, "The accumulated matrix must have shape (2, 2), not (2, 3)"),
    (lambda: collective.all_gather([], 4), ValueError, "A group needs at least one member"),
    (lambda: collective.all_gather([np.zeros(4)], 4), TypeError, "Messages must be float32, not float64"),
    (lambda: collective.all_gather([np.zeros(4, np.float32), np.zeros(5, np.float32)], 4), ValueError,
     "All members' messages must have 4 words, not 5"),
    (lambda: collective.all_gather([np.zeros(4, np.float32)], 0), ValueError, "chunk_words must be positive, not 0"),
    (lambda: collective.all_reduce([np.zeros(4, np.float32)] * 2, None, 0.1, 4, UpdateOperation.SGD), ValueError,
     "needs weights, not None"),
    (lambda: collective.all_reduce([np.zeros(4, np.float32)] * 2, [np.zeros(4, np.float32)], 0.1, 4,
                                   UpdateOperation.SGD), ValueError, "weights must have the same members and words"),
    *((came(operation, words), ValueError, f"messages differ: {words} words came where 2 were expected")
      for operation in (CollectiveOperation.REDUCE_SCATTER, CollectiveOperation.ALL_GATHER) for words in (1, 3)),
    (lambda: convolution.check(SimpleNamespace(
        m=1, n=1, k=1, grid_columns=1, grid_rows=1, a_run=1, a_runs=1, map_rows=1, map_columns=1, b_run=1, b_runs=0)),
     BadOperandError, "b_runs must not be 0 if b_run is not"),
    (lambda: winograd.weighted(SQUARE, np.zeros((3, 2), np.float32), 0), ValueError,
     "an axis of 3 places does not fit a matrix of 2 columns"),
    *((rows(TransferOperation.COPY, **{name: 0}), BadOperandError, "A transfer needs columns, rows and planes, not ")
      for name in ("columns", "rows", "planes")),
    (rows(TransferOperation.ADD, gather=1, scatter=1), BadOperandError, "A transfer has one indexed side at most"),
    (rows(TransferOperation.TRANSFORM, gather=1), BadOperandError, "A transform indexes nothing and has matrices of"),
    (rows(TransferOperation.TRANSFORM, down=99), BadOperandError, "A transform indexes nothing and has matrices of"),
    (rows(TransferOperation.PREDICT, columns=6), BadOperandError, "A prediction has a multiple of 4 channels, not 6"),
    (rows(TransferOperation.PREDICT, columns=4, planes=2), BadOperandError, "A prediction has one plane, no index, "),
    (rows(TransferOperation.ENCODE, skips=1, sent=1, follows=1), BadOperandError, "Skip code has no next part and no"),
    (rows(TransferOperation.ENCODE, maps=1), BadOperandError, "Only skip code has strings of masks alone"),
    (rows(TransferOperation.ENCODE, planes=2), BadOperandError, "Runs that are coded are rows of one plane, and not "),
]


def windows(words: int, transposed: bool = False) -> convolution.ConvolutionOperands:
    """Operands of an element of A at word 0, one row of B, and three words of C at word 4."""
    base = SimpleNamespace(base=0, offset=0)
    sizes = dict.fromkeys(("m", "k", "grid_columns", "grid_rows", "a_run", "a_runs", "map_rows", "map_columns"), 1)
    steps = dict.fromkeys((
        "a_origin", "a_stride", "a_row_step", "a_image_step", "a_run_step", "a_kernel_step", "b_run", "b_stride",
        "c_stride", "c_row_step", "c_image_step", "window_row", "window_column", "window_row_step",
        "window_column_step", "transpose_b"), 0)
    body = SimpleNamespace(**sizes, **steps, n=3, a=base, b=base, c=SimpleNamespace(base=0, offset=4),
                           transpose_a=int(transposed))
    return convolution.operands(np.zeros(words, np.uint32), body, [0], FP32)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_of_c_end_with_the_memory(transposed: bool) -> None:
    assert windows(7, transposed).c.tolist() == [4]
    with pytest.raises(IndexError, match="a row of C lies outside a memory of 6 words"):
        windows(6, transposed)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[message[:40] for *_, message in REFUSED])
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
