"""The function unit's golden model against its formulas in exact fractions, argument by argument."""

import math
from fractions import Fraction

import numpy as np
import pytest

from plinth_hw.isa import functions
from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.functions import (
    LOG2E,
    OFFSET_BITS,
    QUADRATIC_DROP,
    QUADRATIC_SHIFT,
    SEGMENT_BITS,
    TABLES,
    VALUE_BITS,
)
from plinth_hw.isa.vector_body import VectorFunction
from plinth_sim.golden import fixed_function
from plinth_sim.golden.function import evaluate
from plinth_sim.golden.lanes import lanes_of

NAN, INFINITY = 0x7FC00000, 0x7F800000
EXPONENTIAL, RECIPROCAL, TANH, INVERSE_ROOT = TABLES


def interpolated(function: VectorFunction, segment: int, offset: int) -> Fraction:
    c0, c1, c2 = functions.coefficients(function)[segment]
    bend = (c2 * (offset >> QUADRATIC_DROP)) >> QUADRATIC_SHIFT
    slope = c1 - 1 - bend if function is TANH else c1 + bend
    return Fraction(c0 + ((slope * offset) >> OFFSET_BITS), 1 << VALUE_BITS)


def rounded(value: Fraction) -> int:
    """Pattern of the nearest FP32 number, ties to even."""
    exponent = -126
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    mantissa = round(value / Fraction(2) ** (exponent - 23))
    return min(mantissa + (exponent + 126 << 23), INFINITY)


def exponential(sign: int, exponent: int, fraction: int) -> int:
    if exponent > 133:
        return 0 if sign else INFINITY
    mantissa = fraction + (1 << 23 if exponent else 0)
    turns = mantissa * LOG2E >> 23 + 133 - max(exponent, 1)
    whole, part = divmod(-turns if sign else turns, 1 << VALUE_BITS)
    return rounded(interpolated(EXPONENTIAL, part >> OFFSET_BITS, part % (1 << OFFSET_BITS)) * Fraction(2) ** whole)


def normal(exponent: int, fraction: int) -> tuple[int, int]:
    """Exponent, below 1 for subnormals but zero, and argument of the table."""
    if exponent == 0:
        while not fraction >> 23:
            fraction, exponent = fraction << 1, exponent - 1
        fraction, exponent = fraction - (1 << 23), exponent + 1
    return exponent, fraction << VALUE_BITS - 23


def reciprocal(sign: int, exponent: int, fraction: int) -> int:
    if exponent == 255:
        return sign << 31
    if exponent == 0 and fraction < 1 << 21:
        return INFINITY | sign << 31
    exponent, argument = normal(exponent, fraction)
    y = interpolated(RECIPROCAL, argument >> OFFSET_BITS, argument % (1 << OFFSET_BITS))
    return rounded(y * Fraction(2) ** (126 - exponent)) | sign << 31


def tanh(sign: int, exponent: int, fraction: int) -> int:
    e, half = exponent - 127, fraction >> 22
    if e < -12:
        return sign << 31 | exponent << 23 | fraction
    if (e, half) not in functions.TANH_BLOCKS:
        return sign << 31 | 0x3F800000
    bits, code = functions.TANH_BLOCKS[e, half]
    argument = fraction << bits >> 2
    y = interpolated(TANH, argument >> OFFSET_BITS ^ code, argument % (1 << OFFSET_BITS))
    if e <= -3:
        y += Fraction(2 * fraction, 1 << 23)
    return rounded(y * Fraction(2) ** min(e, 0) / 2) | sign << 31


def inverse_root(sign: int, exponent: int, fraction: int) -> int:
    if exponent == fraction == 0:
        return INFINITY | sign << 31
    if sign:
        return NAN
    if exponent == 255:
        return 0
    exponent, argument = normal(exponent, fraction)
    half, odd = divmod(exponent - 127, 2)
    y = interpolated(INVERSE_ROOT, odd << SEGMENT_BITS | argument >> OFFSET_BITS, argument % (1 << OFFSET_BITS))
    return rounded(y * Fraction(2) ** (-1 - half))


SCALAR = {EXPONENTIAL: exponential, RECIPROCAL: reciprocal, TANH: tanh, INVERSE_ROOT: inverse_root}


def arguments(function: VectorFunction) -> list[int]:
    """Both ends and one number within every binade and sign, numbers round the limits, and what overflows."""
    rng = np.random.default_rng(function.value)
    edges = [0, 1, 0x1FFFFF, 0x200000, 0x200001, 0x3FFFFF, 0x400000, 0x400001, 0x600000, 0x7FFFFF]
    positive = [exponent << 23 | fraction for exponent in range(256)
                for fraction in (*(edges if exponent in (0, 1, 255) else (0, 1, 0x400000, 0x7FFFFF)),
                                 *map(int, rng.integers(0, 1 << 23, 2)))]
    positive += [1 << place | int(rng.integers(0, 1 << place)) for place in range(23)]
    near = {EXPONENTIAL: (0x42800000, 0x43010000), RECIPROCAL: (0, 0x01000000), TANH: (0x39000000, 0x41500000),
            INVERSE_ROOT: (0, 0x01000000)}
    positive += [int(bits) for bits in rng.integers(*near[function], 600)]
    return positive + [bits | 1 << 31 for bits in positive]


@pytest.mark.parametrize("function", list(TABLES))
def test_every_step_is_the_formula(function: VectorFunction) -> None:
    bits = arguments(function)
    computed = evaluate(function, np.array(bits, dtype=np.uint32))
    for argument, result in zip(bits, map(int, computed), strict=True):
        sign, exponent, fraction = argument >> 31, argument >> 23 & 0xFF, argument & 0x7FFFFF
        wanted = NAN if exponent == 255 and fraction else SCALAR[function](sign, exponent, fraction)
        assert result == wanted, f"{function.name}({argument:#010x}): {result:#010x}, not {wanted:#010x}"


def test_arguments_are_bit_patterns() -> None:
    with pytest.raises(TypeError, match="uint32"):
        evaluate(TANH, np.zeros(1, dtype=np.float32))


#: Of a real number, those of fixed-point dies.
EXACT = {VectorFunction.TANH: math.tanh, VectorFunction.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
         VectorFunction.EXPONENTIAL: math.exp, VectorFunction.RECIPROCAL: lambda x: 1 / x if x else math.inf}


@pytest.mark.parametrize("function", list(EXACT))
def test_fixed_functions_of_all_numbers(function: VectorFunction) -> None:
    """One unit in the last place off at most; they rise or fall where the function does, and are odd if it is."""
    units = np.arange(-1 << 15, 1 << 15)
    computed = lanes_of(Q3_12).function(function, units.astype(np.int16).view(np.uint16)).view(np.int16).astype(int)
    exact = np.array([EXACT[function](unit / 4096) for unit in units]) * 4096
    wanted = np.clip(exact, -1 << 15, (1 << 15) - 1)
    assert np.abs(computed - wanted).max() <= 1
    assert (np.abs(computed - np.floor(wanted + 0.5)) > 0).mean() < 0.05
    order = np.diff(computed)
    if function is VectorFunction.RECIPROCAL:
        assert (order[units[:-1] != -1] <= 0).all() and computed[1 << 15] == (1 << 15) - 1
    else:
        assert (order >= 0).all()
    if function in (VectorFunction.TANH, VectorFunction.RECIPROCAL):
        np.testing.assert_array_equal(np.maximum(computed[1:1 << 15], 1 - (1 << 15)),
                                      -np.minimum(computed[:1 << 15:-1], (1 << 15) - 1))
    if function is VectorFunction.SIGMOID:
        np.testing.assert_array_equal(computed[1:1 << 15], 4096 - computed[:1 << 15:-1])


def test_fixed_arguments_are_bit_patterns() -> None:
    with pytest.raises(TypeError, match="uint16"):
        fixed_function.evaluate(VectorFunction.TANH, np.zeros(1, dtype=np.int16))
