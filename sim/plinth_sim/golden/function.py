"""Golden model of the vector engine's function unit: FP32 bits in, FP32 bits out, integers between.

EXPONENTIAL, x = (-1)^s M 2^(E - 150)::

    T = floor(M * LOG2E / 2^23 / 2^(133 - E)), n.f = (-1)^s T / 2^28    (n the floor, f in [0, 1))
    exp(x) = round(Y(f) * 2^n)

with |x| >= 128 taken as infinite. RECIPROCAL, x = (-1)^s 1.F 2^(E - 127)::

    1 / x = (-1)^s round(Y(F) * 2^(126 - E))                            (Y(F) = 2 / 1.F)

INVERSE_ROOT, x = 1.F 2^(E - 127), in the half of the table that p = E mod 2 chooses::

    1 / sqrt(x) = round(Y(F) * 2^(63 - ceil(E / 2)))                   (Y(F) = 2 / sqrt(1.F 2^(1 - p)))

with -0 giving -infinity and other negative numbers NaN. E of a subnormal is below 1.

TANH, x = (-1)^s 1.F 2^e with 2^-12 <= |x| < 12, in the block that F's upper bit and e choose::

    T = floor(F 2^bits / 4),  segment.offset = T / 2^21
    tanh(x) = (-1)^s round(Y * 2^min(e, 0) / 2)

where up to e = -3 twice F is added to Y. Below that tanh(x) = x, above it is 1.

Y is the table's quadratic, see ``plinth_hw.isa.functions``. The rounding is to nearest even, of the
interpolated value, and covers subnormal results. The errors against the exact function, found by
sweeps, stand in ``docs/vector.md``.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import functions
from plinth_hw.isa.functions import (
    LOG2E,
    LOG2E_BITS,
    OFFSET_BITS,
    QUADRATIC_DROP,
    QUADRATIC_SHIFT,
    SEGMENT_BITS,
    VALUE_BITS,
)
from plinth_hw.isa.vector_body import VectorFunction

Bits = NDArray[np.uint32]
Integers = NDArray[np.int64]

#: Bit patterns.
QUIET_NAN, INFINITY = 0x7FC00000, 0x7F800000

#: Biased exponent of the largest argument of EXPONENTIAL that is not taken as infinite.
_EXPONENTIAL_LARGEST = 133
#: Low bits of M * LOG2E that no argument needs.
_PRODUCT_DROP = LOG2E_BITS - VALUE_BITS - (_EXPONENTIAL_LARGEST - 150)
#: Bits of Y below the last one of a normal result.
_GUARD_BITS = VALUE_BITS - 23
#: Right shift that leaves nothing.
_SHIFT_LARGEST = 31


@cache
def _columns(function: VectorFunction) -> tuple[Integers, Integers, Integers]:
    table = np.array(functions.coefficients(function), dtype=np.int64)
    return table[:, 0], table[:, 1], table[:, 2]


def _interpolate(function: VectorFunction, argument: Integers, code: Integers | int = 0, bend: int = 0) -> Integers:
    """Y of an argument with VALUE_BITS fraction bits; with ``bend`` -1 the quadratic term's complement is added."""
    c0, c1, c2 = _columns(function)
    segment = (argument >> OFFSET_BITS) ^ code
    offset = argument & ((1 << OFFSET_BITS) - 1)
    slope = c1[segment] + (((c2[segment] * (offset >> QUADRATIC_DROP)) >> QUADRATIC_SHIFT) ^ bend)
    return c0[segment] + ((slope * offset) >> OFFSET_BITS)


def _round(value: Integers, exponent: Integers, down: Integers | int = 0) -> Integers:
    """``value * 2^(-VALUE_BITS - down) * 2^(exponent - 127)`` as positive FP32 bits."""
    shift = np.clip(1 - exponent, 0, _SHIFT_LARGEST) + down
    kept = value >> shift
    sticky = (kept << shift) != value
    mantissa = kept >> _GUARD_BITS
    rest = kept & ((1 << _GUARD_BITS) - 1)
    half = 1 << (_GUARD_BITS - 1)
    up = (rest > half) | ((rest == half) & (sticky | (mantissa & 1 == 1)))
    bits = (np.maximum(exponent, 1) - 1 << 23) + mantissa + up
    return np.minimum(bits, INFINITY)


def _exponential(sign: Integers, exponent: Integers, fraction: Integers) -> Integers:
    mantissa = fraction + np.where(exponent > 0, 1 << 23, 0)
    distance = np.clip(_EXPONENTIAL_LARGEST - np.maximum(exponent, 1), 0, 63)
    turns = ((mantissa * LOG2E) >> _PRODUCT_DROP) >> distance
    turns = np.where(sign == 1, -turns, turns)
    result = _round(_interpolate(VectorFunction.EXPONENTIAL, turns & ((1 << VALUE_BITS) - 1)),
                    (turns >> VALUE_BITS) + 127)
    large = exponent > _EXPONENTIAL_LARGEST
    result = np.where(large, np.where(sign == 1, 0, INFINITY), result)
    return np.where((exponent == 255) & (fraction != 0), QUIET_NAN, result)


def _normal(exponent: Integers, fraction: Integers) -> tuple[Integers, Integers]:
    """Exponent and argument of a table with equal segments, subnormals as normal numbers of exponents below 1."""
    mantissa = fraction + np.where(exponent > 0, 1 << 23, 0)
    zeros = 24 - np.frexp(mantissa)[1]
    return np.maximum(exponent, 1) - zeros, ((mantissa << zeros) & (1 << 23) - 1) << (VALUE_BITS - 23)


def _reciprocal(sign: Integers, exponent: Integers, fraction: Integers) -> Integers:
    normal_exponent, argument = _normal(exponent, fraction)
    result = _round(_interpolate(VectorFunction.RECIPROCAL, argument), 253 - normal_exponent)
    result = np.where(exponent == 255, 0, result) | (sign << 31)
    return np.where((exponent == 255) & (fraction != 0), QUIET_NAN, result)


def _inverse_root(sign: Integers, exponent: Integers, fraction: Integers) -> Integers:
    normal_exponent, argument = _normal(exponent, fraction)
    even = ~normal_exponent & 1
    result = _round(_interpolate(VectorFunction.INVERSE_ROOT, argument, even << SEGMENT_BITS),
                    190 - (normal_exponent + 1 >> 1))
    zero = (exponent == 0) & (fraction == 0)
    result = np.where(exponent == 255, 0, np.where(zero, INFINITY | sign << 31, result))
    return np.where((exponent == 255) & (fraction != 0) | (sign == 1) & ~zero, QUIET_NAN, result)


@cache
def _blocks() -> tuple[Integers, Integers]:
    """Codes and bits of TANH's blocks, by exponent above the lowest and upper bit of the fraction."""
    blocks = np.array([[functions.TANH_BLOCKS.get((exponent, half), (0, functions.TANH_TWO)) for half in (0, 1)]
                       for exponent in sorted(functions.TANH_SEGMENTS)], dtype=np.int64)
    return blocks[..., 1], blocks[..., 0]


def _tanh(sign: Integers, exponent: Integers, fraction: Integers) -> Integers:
    codes, bits = _blocks()
    binade = exponent - 127 - functions.TANH_LOWEST
    half = fraction >> 22
    tiny = binade < 0
    saturated = (binade >= len(codes)) | ((binade == len(codes) - 1) & (half == 1))
    inside = np.clip(binade, 0, len(codes) - 1)
    argument = (fraction << (VALUE_BITS - 23)) >> (SEGMENT_BITS - bits[inside, half])
    argument = np.where(tiny | saturated, 0, argument)
    code = np.where(saturated | (tiny & (exponent > 0)), functions.TANH_TWO,
                    np.where(tiny, functions.TANH_ZERO, codes[inside, half]))
    value = _interpolate(VectorFunction.TANH, argument, code, -1)
    value += np.where(exponent - 127 <= functions.TANH_DIFFERENCE, fraction << (VALUE_BITS - 22), 0)
    below = (value >> (VALUE_BITS + 1) == 0) & ~tiny
    result = _round(value, np.clip(exponent, 1, 127) - below, 1 - below) | (sign << 31)
    return np.where((exponent == 255) & (fraction != 0), QUIET_NAN, result)


_FUNCTIONS = {VectorFunction.EXPONENTIAL: _exponential, VectorFunction.RECIPROCAL: _reciprocal,
              VectorFunction.TANH: _tanh, VectorFunction.INVERSE_ROOT: _inverse_root}


def evaluate(function: VectorFunction, values: Bits) -> Bits:
    """``function`` of every FP32 bit pattern of ``values``.

    Raises
    ------
    TypeError
        If ``values`` is not an array of uint32.
    """
    if values.dtype != np.uint32:
        raise TypeError(f"Function arguments must be uint32 bit patterns, not {values.dtype}")
    bits = values.astype(np.int64)
    return _FUNCTIONS[function](bits >> 31, (bits >> 23) & 0xFF, bits & 0x7FFFFF).astype(np.uint32)


__all__ = ["evaluate"]
