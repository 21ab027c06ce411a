"""Fixed-point units against whole numbers: small formats exhaustively, those of the dies directed and at random."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.fixed import FixedAdder, FixedMultiplier, FixedRounder, FixedScaler
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.arith.units import adder, multiplier
from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed, factor_value, factor_word
from plinth_sim.golden import arithmetic

SUMS = Q3_12.sums
Integers = NDArray[np.int64]


def signed(fmt: Fixed, patterns: NDArray) -> Integers:
    """Numbers of bit patterns."""
    shift = 64 - fmt.bits
    return patterns.astype(np.uint64).view(np.int64) << shift >> shift


def unsigned(fmt: Fixed, numbers: Integers) -> NDArray[np.uint64]:
    """Bit patterns of numbers."""
    return numbers.astype(np.int64).view(np.uint64) & np.uint64((1 << fmt.bits) - 1)


def numbers(fmt: Fixed, seed: int, count: int) -> Integers:
    """The ends, all around zero and the powers of two, and random numbers of all magnitudes."""
    rng = np.random.default_rng(seed)
    near = np.arange(-3, 4)
    powers = (1 << np.arange(fmt.bits - 1, dtype=np.int64))[:, None]
    edges = np.concatenate([(powers + near).ravel(), (-powers + near).ravel(),
                            [fmt.least, fmt.least + 1, fmt.most - 1, fmt.most]])
    spread = rng.integers(fmt.least, fmt.most, count, endpoint=True) >> rng.integers(0, fmt.bits, count)
    return np.concatenate([edges[(edges >= fmt.least) & (edges <= fmt.most)], spread])


def pairs(values: Integers, seed: int) -> tuple[Integers, Integers]:
    """Each of the first 300 with each, and all with all in another order."""
    rng = np.random.default_rng(seed)
    a, b = np.meshgrid(values[:300], values[:300])
    return np.concatenate([a.ravel(), values]), np.concatenate([b.ravel(), rng.permutation(values)])


def check(unit: Batch, operand: Fixed, result: Fixed, a: Integers, b: Integers,
          exact: Callable[[int, int], int]) -> None:
    """The unit's results are the exact ones, saturated."""
    got = signed(result, unit(unsigned(operand, a), unsigned(operand, b)))
    expected = [min(max(exact(int(x), int(y)), result.least), result.most) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected))


@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["generic", "ecp5"])
@pytest.mark.parametrize(("operand", "result"), [
    (Q3_12, SUMS), (Fixed(0, 7), Fixed(1, 14)), (Fixed(3, 0), Fixed(9, 0))], ids=str)
def test_products(operand: Fixed, result: Fixed, platform: Ecp5 | None) -> None:
    a, b = pairs(numbers(operand, 1, 20_000), 2)
    check(Batch(FixedMultiplier(operand, result), platform, MODELS), operand, result, a, b, lambda x, y: x * y)


@pytest.mark.parametrize("fmt", [SUMS, Fixed(7, 0), Fixed(1, 2)], ids=str)
def test_sums_saturate(fmt: Fixed) -> None:
    a, b = pairs(numbers(fmt, 3, 20_000), 4)
    check(Batch(FixedAdder(fmt)), fmt, fmt, a, b, lambda x, y: x + y)
    wider = Fixed(fmt.integer_bits + 1, fmt.fraction_bits)
    check(Batch(FixedAdder(fmt, exact=True)), fmt, wider, a, b, lambda x, y: x + y)


@pytest.mark.parametrize("fmt", [Q3_12, Fixed(1, 2)], ids=str)
def test_differences_saturate(fmt: Fixed) -> None:
    a, b = pairs(numbers(fmt, 3, 20_000), 4)
    check(Batch(FixedAdder(fmt, subtracts=True)), fmt, fmt, a, b, lambda x, y: x - y)


@pytest.mark.parametrize(("fmt", "result"), [
    (Q3_12, Q3_12), (Fixed(1, 2), Fixed(1, 2)), (Fixed(10, 7), Fixed(3, 6)), (Fixed(4, 29), Fixed(5, 28)),
    (Fixed(5, 28), Fixed(5, 28))], ids=str)
def test_multiples_are_rounded_once(fmt: Fixed, result: Fixed) -> None:
    """All shifts; ties, which factors of few bits make; ends."""
    rng = np.random.default_rng(8)
    a = np.concatenate([numbers(fmt, 9, 20_000)] * 4)
    mantissas = rng.integers(0, 1 << 16, len(a)) >> rng.integers(0, 16, len(a)) << rng.integers(0, 16, len(a)) & 0xFFFF
    shifts, turned = rng.integers(0, 32, len(a)), rng.integers(0, 2, len(a))
    words = mantissas | shifts << 16 | turned << 21
    got = signed(result, Batch(FixedScaler(fmt, result_format=result))(unsigned(fmt, a), words))
    halvings = fmt.fraction_bits - result.fraction_bits
    factors = [Fraction(int(mantissa) * (-1 if turn else 1), 1 << int(shift) + halvings)
               for mantissa, shift, turn in zip(mantissas, shifts, turned, strict=True)]
    expected = [min(max(nearest(int(x) * factor), result.least), result.most)
                for x, factor in zip(a, factors, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected))
    if fmt.bits == 16:
        steps = [arithmetic.updated(fmt, np.zeros(1, np.uint16), unsigned(fmt, a[i:i + 1]).astype(np.uint16),
                                    int(words[i])).words for i in range(0, len(a), 97)]
        np.testing.assert_array_equal(-signed(fmt, np.concatenate(steps)), np.minimum(
            np.array(expected)[::97], fmt.most).clip(-fmt.most))


@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["generic", "ecp5"])
def test_multiples_of_registered_operands(platform: Ecp5 | None) -> None:
    """With mantissas below zero."""
    rng = np.random.default_rng(10)
    a = numbers(Q3_12, 11, 20_000)
    mantissas = rng.integers(-1 << 15, 1 << 16, len(a)) >> rng.integers(0, 16, len(a))
    shifts, turned = rng.integers(0, 32, len(a)), rng.integers(0, 2, len(a))
    unit = Batch(FixedScaler(Q3_12, signed_mantissa=True, registered=True), platform, MODELS)
    got = signed(Q3_12, unit(unsigned(Q3_12, a), mantissas < 0, mantissas & 0xFFFF | shifts << 16 | turned << 21))
    expected = [min(max(nearest(int(x) * Fraction(int(mantissa) * (-1 if turn else 1), 1 << int(shift))), Q3_12.least),
                    Q3_12.most) for x, mantissa, shift, turn in zip(a, mantissas, shifts, turned, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected))


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, -0.3, 0.1, 0.05 / 32, 1e-6, 2.0**-31, 2.0**-33, 3.0, 65535.0,
                                   65535.4])
def test_factors(value: float) -> None:
    """Half a unit in the last of sixteen bits off, or of what shifts reach."""
    rounded = factor_value(Q3_12, factor_word(Q3_12, value))
    assert abs(rounded - Fraction(value)) <= max(abs(Fraction(value)) / (1 << 16), Fraction(1, 1 << 32))
    assert factor_value(FP32, factor_word(FP32, value)) == Fraction(float(np.float32(value)))


@pytest.mark.parametrize("value", [-65536.0, 65536.0, float("inf"), float("nan")])
def test_factors_that_there_are_not(value: float) -> None:
    with refused(ValueError, match=f"must be above -65536 and below 65536, not {value}"):
        factor_word(Q3_12, value)


def nearest(value: Fraction) -> int:
    """Python rounds fractions to nearest, ties to even."""
    return round(value)


@pytest.mark.parametrize(("fmt", "result"), [(SUMS, Q3_12), (Fixed(5, 6), Fixed(2, 3)), (Fixed(3, 1), Fixed(4, 0))],
                         ids=str)
def test_numbers_are_rounded_once(fmt: Fixed, result: Fixed) -> None:
    """Every number of small formats; ties, their neighbours, and what rounding carries beyond the format."""
    values = np.arange(fmt.least, fmt.most + 1) if fmt.bits <= 16 else numbers(fmt, 5, 20_000)
    places = fmt.fraction_bits - result.fraction_bits
    if fmt.bits > 16:
        halves = np.concatenate([numbers(result, 6, 20_000), np.array([result.least - 1, result.most])]) * 2 + 1
        values = np.concatenate([values, *((halves << places - 1) + step for step in (-1, 0, 1))])
    got = signed(result, Batch(FixedRounder(fmt, result))(unsigned(fmt, values)))
    expected = [min(max(nearest(Fraction(value, 1 << places)), result.least), result.most) for value in values.tolist()]
    np.testing.assert_array_equal(got, np.array(expected))
    if result.bits == 16:
        np.testing.assert_array_equal(arithmetic.saturated(result, arithmetic.halved(values, places)),
                                      unsigned(result, got))


def test_units_follow_their_formats() -> None:
    assert (type(multiplier(Q3_12, SUMS)), type(adder(SUMS))) == (FixedMultiplier, FixedAdder)
    assert (type(multiplier(FP16, FP32)), type(adder(FP32))) == (FloatMultiplier, FloatAdder)
    with refused(ValueError, match="more than 6 integer bits to hold products of q3.12, not q8.22"):
        multiplier(Q3_12, Fixed(8, 22))
    with refused(TypeError, match="Result format must be a Fixed, not Float"):
        multiplier(Q3_12, FP32)
    with refused(TypeError, match="Operand format must be a Fixed, not Float"):
        multiplier(FP16, SUMS)


def test_formats_are_checked() -> None:
    with refused(ValueError, match="less than 12 fraction bits, not 24"):
        FixedRounder(Q3_12, SUMS)
    with refused(TypeError, match="Result format must be a Fixed, not Float"):
        FixedRounder(SUMS, FP32)
    with refused(ValueError, match="must have at most 34 bits, not 35 as q6.28 has"):
        FixedScaler(Fixed(6, 28))
    with refused(ValueError, match="must have 12 fraction bits or one less, not 10"):
        FixedScaler(Q3_12, result_format=Fixed(5, 10))
    with refused(ValueError, match="must have at most 18 bits, not 34 as q4.29 has"):
        FixedScaler(Fixed(4, 29), registered=True)
    with refused(TypeError, match="Adder format must be a Fixed, not Float"):
        FixedAdder(FP32)
