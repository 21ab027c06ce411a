"""Golden model of the matrix engine.

Order of operations, for every output (m, n), with ``*`` and ``+`` each rounded to nearest even in the
accumulator's format::

    acc_0     = +0                       (or C[m, n] with ``accumulate``)
    acc_{k+1} = acc_k + (A[m, k] * B[k, n])        k = 0 .. K-1
    C[m, n]   = acc_K

Subnormals are kept; every NaN that an operation produces is the one quiet NaN ``0x7FC00000``. FP16
operands are converted to FP32 first, which makes their products exact.

Fixed-point operands are whole numbers of their last places; their products are exact, and so are sums in the format
:attr:`~plinth_hw.isa.formats.Fixed.sums` but where one leaves it: then it becomes the largest or least number there is,
and goes on from there. C has the operands' format: the sums start from it exactly, and end rounded once, to nearest
even, and saturated.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import FP16, FP32, Fixed, Format
from plinth_sim.golden.arithmetic import halved, saturated

#: Bit pattern of the one quiet NaN.
QUIET_NAN = 0x7FC00000

FloatArray = NDArray[np.float32]


def canonical(values: FloatArray) -> FloatArray:
    """``values`` with every NaN replaced by the quiet NaN."""
    bits = np.where(np.isnan(values), np.uint32(QUIET_NAN), values.view(np.uint32))
    return bits.astype(np.uint32).view(np.float32)


def operand(matrix: NDArray[np.floating], transpose: bool) -> FloatArray:
    """op(matrix) in FP32.

    Raises
    ------
    TypeError
        If the matrix is neither float16 nor float32.
    ValueError
        If it has not two dimensions.
    """
    if matrix.dtype not in (np.dtype(np.float16), np.dtype(np.float32)):
        raise TypeError(f"Operands must be float16 or float32, not {matrix.dtype}")
    if matrix.ndim != 2:
        raise ValueError(f"Operands must have two dimensions, not {matrix.ndim}")
    values = matrix.astype(np.float32)
    return np.ascontiguousarray(values.T if transpose else values)


def storage(fmt: Format) -> np.dtype[Any]:
    """What operands of a format are in memory.

    Raises
    ------
    ValueError
        If the matrix engines have no such operands.
    """
    if isinstance(fmt, Fixed) and fmt.bits == 16:
        return np.dtype(np.int16)
    for known, dtype in ((FP32, np.float32), (FP16, np.float16)):
        if fmt == known:
            return np.dtype(dtype)
    raise ValueError(f"Operands must be {FP32}, {FP16} or fixed-point of 16 bits, not {fmt}")


def stored(fmt: Format) -> np.dtype[Any]:
    """What sums of products of operands of a format are in memory."""
    return storage(fmt if isinstance(fmt, Fixed) else FP32)


def multiply(fmt: Format, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any] | None = None) -> NDArray[Any]:
    """``a b``, or ``c + a b``, of operands of a format as they lie in memory: FP32, or fixed point as the operands.

    Parameters
    ----------
    a, b : arrays of ``storage(fmt)``
        ``[M, K]`` and ``[K, N]``.
    c : array of ``stored(fmt)``, optional
        ``[M, N]``, what the sums start from; 0 without it.
    """
    if not isinstance(fmt, Fixed):
        return gemm(a, b, c)
    finer = fmt.sums.fraction_bits - fmt.fraction_bits
    total = _fixed_sums(fmt, a, b, None if c is None else c.astype(np.int64) << finer)
    return saturated(fmt, halved(total, finer)).view(np.int16)


def at_ends(fmt: Format, stored: NDArray[Any]) -> int:
    """How many stored sums are the ends of a fixed-point format; 0 of others."""
    if not isinstance(fmt, Fixed):
        return 0
    return int(np.count_nonzero((stored == fmt.least) | (stored == fmt.most)))


def _fixed_sums(fmt: Fixed, a: NDArray[np.int16], b: NDArray[np.int16],
                c: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """In units of the last place of the sums' format."""
    sums = fmt.sums
    left, right = a.astype(np.float64), b.astype(np.float64)
    start = np.zeros((len(a), b.shape[1]), dtype=np.int64) if c is None else c
    largest = np.abs(start).max(initial=0) + len(b) * np.abs(left).max(initial=0) * np.abs(right).max(initial=0)
    if largest <= sums.most:
        # No order of adding leaves the format, nor what binary64 holds exactly.
        return start + (left @ right).astype(np.int64)
    total = start
    for k in range(len(b)):
        products = np.multiply.outer(a[:, k].astype(np.int64), b[k].astype(np.int64))
        total = np.clip(total + products, sums.least, sums.most)
    return total


def gemm(a: NDArray[np.floating], b: NDArray[np.floating], c: FloatArray | None = None, *,
         transpose_a: bool = False, transpose_b: bool = False) -> FloatArray:
    """``op(a) op(b)``, or ``c + op(a) op(b)``, in the order of the matrix engine.

    Parameters
    ----------
    a, b : float16 or float32 arrays
        As stored: ``[M, K]`` and ``[K, N]``, or ``[K, M]`` with ``transpose_a``, ``[N, K]`` with
        ``transpose_b``.
    c : float32 array, optional
        ``[M, N]``, what the sums start from; +0 without it.

    Raises
    ------
    TypeError
        If an operand has another element type.
    ValueError
        If shapes do not fit; the message names both.
    """
    left, right = operand(a, transpose_a), operand(b, transpose_b)
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"Inner dimensions must be equal, not {left.shape[1]} and {right.shape[0]}")
    shape = (left.shape[0], right.shape[1])
    if c is None:
        total = np.zeros(shape, dtype=np.float32)
    else:
        if c.dtype != np.float32:
            raise TypeError(f"The accumulated matrix must be float32, not {c.dtype}")
        if c.shape != shape:
            raise ValueError(f"The accumulated matrix must have shape {shape}, not {c.shape}")
        total = c.copy()
    columns = np.ascontiguousarray(left.T)
    product = np.empty(shape, dtype=np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for k in range(right.shape[0]):
            np.multiply(columns[k][:, None], right[k][None, :], out=product)
            np.add(total, product, out=total)
    return canonical(total) if right.shape[0] else total
