"""Golden model of the matrix engine.

Order of operations, for every output (m, n), with ``*`` and ``+`` each rounded to nearest even in the
accumulator's format::

    acc_0     = +0                       (or C[m, n] with ``accumulate``)
    acc_{k+1} = acc_k + (A[m, k] * B[k, n])        k = 0 .. K-1
    C[m, n]   = acc_K

Subnormals are kept; every NaN that an operation produces is the one quiet NaN ``0x7FC00000``. FP16
operands are converted to FP32 first, which makes their products exact.
"""

import numpy as np
from numpy.typing import NDArray

#: Bit pattern of the one quiet NaN.
QUIET_NAN = 0x7FC00000

FloatArray = NDArray[np.float32]


def canonical(values: FloatArray) -> FloatArray:
    """``values`` with every NaN replaced by the quiet NaN."""
    bits = np.where(np.isnan(values), np.uint32(QUIET_NAN), values.view(np.uint32))
    return bits.astype(np.uint32).view(np.float32)


def operand(matrix: NDArray[np.floating], transpose: bool = False) -> FloatArray:
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
