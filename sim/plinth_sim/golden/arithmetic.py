"""Arithmetic of the die on numpy arrays, bit for bit what ``plinth_hw.arith`` computes.

``add(a, b) = RN32(a + b)``, ``sub(a, b) = RN32(a + (-b))``, ``multiply(a, b) = RN32(a * b)``,
``fp16_multiply(a, b) = a * b`` (binary16 operands, exact in binary32), ``to_fp16(a) = RN16(a)``,
``from_fp16(a) = a``. RN rounds to nearest, ties to even; subnormals are kept; every NaN that comes out is the
format's one quiet NaN.

Arrays are of floats (``float32``, ``float16``) or of their bit patterns (``uint32``, ``uint16``); what comes
out is of the kind that went in.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import FP16, FP32

Array = NDArray[Any]

_PATTERN: dict[Any, Any] = {np.dtype(np.float32): np.uint32, np.dtype(np.float16): np.uint16}
_QUIET_NAN: dict[Any, int] = {np.dtype(np.float32): FP32.quiet_nan, np.dtype(np.float16): FP16.quiet_nan}


def canonical(values: Array) -> Array:
    """``values`` (floats) with every NaN replaced by the format's quiet NaN; may be the same array."""
    nan = np.isnan(values)
    if not nan.any():
        return values
    patterns = values.view(_PATTERN[values.dtype]).copy()
    patterns[nan] = _QUIET_NAN[values.dtype]
    return patterns.view(values.dtype)


def _apply(function: Callable[..., Array], kind: type, *operands: Array) -> Array:
    arrays = [np.asarray(operand) for operand in operands]
    expected = np.dtype(kind)
    patterns = all(array.dtype == _PATTERN[expected] for array in arrays)
    if not patterns and not all(array.dtype == expected for array in arrays):
        raise TypeError(f"operands must all be {expected} or all {np.dtype(_PATTERN[expected])}, "
                        f"not {', '.join(str(array.dtype) for array in arrays)}")
    with np.errstate(all="ignore"):
        result = canonical(np.asarray(function(*(array.view(expected) for array in arrays))))
    return result.view(_PATTERN[result.dtype]) if patterns else result


def add(a: Array, b: Array) -> Array:
    """``a + b`` in binary32."""
    return _apply(np.add, np.float32, a, b)


def sub(a: Array, b: Array) -> Array:
    """``a + (-b)`` in binary32."""
    return _apply(np.subtract, np.float32, a, b)


def multiply(a: Array, b: Array) -> Array:
    """``a * b`` in binary32."""
    return _apply(np.multiply, np.float32, a, b)


def fp16_multiply(a: Array, b: Array) -> Array:
    """``a * b`` of binary16 operands, exact in binary32."""
    return _apply(lambda x, y: x.astype(np.float32) * y.astype(np.float32), np.float16, a, b)


def to_fp16(a: Array) -> Array:
    """Binary32 rounded to binary16."""
    return _apply(lambda x: x.astype(np.float16), np.float32, a)


def from_fp16(a: Array) -> Array:
    """Binary16 widened to binary32."""
    return _apply(lambda x: x.astype(np.float32), np.float16, a)
