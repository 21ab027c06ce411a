"""Arithmetic of the die on numpy arrays, bit for bit what ``plinth_hw.arith`` computes.

``add(a, b) = RN32(a + b)``, ``sub(a, b) = RN32(a + (-b))``, ``multiply(a, b) = RN32(a * b)``,
``fp16_multiply(a, b) = a * b`` (binary16 operands, exact in binary32), ``to_fp16(a) = RN16(a)``,
``from_fp16(a) = a``. RN rounds to nearest, ties to even; subnormals are kept; every NaN that comes out is the
format's one quiet NaN.

Arrays are of floats (``float32``, ``float16``) or of their bit patterns (``uint32``, ``uint16``); what comes
out is of the kind that went in.

``add_words`` and ``updated`` are what the engines do with words of a die's memory, as bit patterns
(:func:`~plinth_hw.isa.formats.word_type`): FP32 as above, or fixed point, where what is beyond the format becomes its
least or largest number::

    FP32    add_words = RN32(a + b)       updated = RN32(w - RN32(rate * total))
    fixed   add_words = S(a + b)          updated = S(w - S(RN(rate * total)))       rate = mantissa / 2^shift, exact
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import FP16, FP32, Factor, Fixed, Format
from plinth_hw.isa.layout import unpack

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


def numbers(fmt: Fixed, words: Array) -> NDArray[np.int64]:
    """Fixed-point numbers of 16 bits in units of their last place."""
    return words.view(np.int16).astype(np.int64)


def saturated(fmt: Fixed, units: Array) -> Array:
    """Words of whole units, those beyond the format at its ends."""
    return np.clip(units, fmt.least, fmt.most).astype(np.int16).view(np.uint16)


class CountedWords(NamedTuple):
    """Words, and how many of their numbers were beyond a fixed-point format: 0 of others."""

    words: Array
    ends: int


def counted(fmt: Fixed, units: Array) -> CountedWords:
    """Words of whole units, those beyond the format at its ends, and how many those are."""
    return CountedWords(saturated(fmt, units), int(np.count_nonzero((units < fmt.least) | (units > fmt.most))))


def halved(units: Array, places: int | Array) -> Array:
    """``units / 2^places``, rounded to nearest, ties to even."""
    down = units >> places
    rest = units - (down << places) << 1
    return down + ((rest > 1 << places) | ((rest == 1 << places) & (down & 1 == 1)))


def scaled(units: Array, factor: int, halvings: int = 0) -> Array:
    """Whole units times a factor as tasks hold it, halved so often, rounded to nearest, ties to even."""
    fields = unpack(Factor, [factor])
    product = halved(units * fields.mantissa, fields.shift + halvings)
    return -product if fields.negative else product


def add_words(fmt: Format, a: Array, b: Array) -> CountedWords:
    """Sums of words."""
    return counted(fmt, numbers(fmt, a) + numbers(fmt, b)) if isinstance(fmt, Fixed) else CountedWords(add(a, b), 0)


def updated(fmt: Format, weights: Array, total: Array, rate: int) -> CountedWords:
    """``weights - rate * total``; ``rate`` as tasks hold it (:func:`~plinth_hw.isa.formats.factor_word`). Products and
    differences that are beyond the format count each."""
    if not isinstance(fmt, Fixed):
        return CountedWords(sub(weights, multiply(np.full_like(total, rate), total)), 0)
    steps = counted(fmt, scaled(numbers(fmt, total), rate))
    differences = counted(fmt, numbers(fmt, weights) - numbers(fmt, steps.words))
    return CountedWords(differences.words, steps.ends + differences.ends)
