"""Operands for arithmetic units, what must come out by two independent oracles, and the comparison.

Directed operands follow the idea of Berkeley TestFloat's level 1: exponents and significands where
something happens, every one with every other. Random operands are uniform bit patterns, and patterns whose
exponents are close enough that cancellation, rounding, overflow and underflow are frequent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import softfloatpy as softfloat
from numpy.typing import NDArray
from tests.support.batch import Batch

from plinth_hw.isa.formats import FP16, FP32, Float
from plinth_sim.golden import arithmetic

Patterns = NDArray[np.uint32]
#: Cases that are in memory at once.
CHUNK = 1 << 18

_SOFT: dict[Float, Any] = {FP16: softfloat.Float16, FP32: softfloat.Float32}


@dataclass(frozen=True)
class Operation:
    """An operation by numpy (the golden model) and by SoftFloat.

    ``kind`` says which exponents make it interesting: their difference, their sum, or each alone.
    """

    golden: Callable[..., NDArray[Any]]
    soft: Callable[..., Any]
    operand: Float
    result: Float
    kind: Literal["add", "multiply", "convert"]

    @property
    def operands(self) -> int:
        """Number of operands."""
        return 1 if self.kind == "convert" else 2

    def by_golden(self, *operands: Patterns) -> Patterns:
        """Results by the golden model."""
        kind = np.uint16 if self.operand == FP16 else np.uint32
        return self.golden(*(array.astype(kind) for array in operands)).astype(np.uint32)

    def by_soft(self, *operands: Patterns) -> Patterns:
        """Results by SoftFloat; its NaNs carry payloads."""
        size = self.operand.bits // 8
        make, soft = _SOFT[self.operand].from_bytes, self.soft
        columns = [array.astype(f">u{size}").tobytes() for array in operands]
        converted = [[make(column[at:at + size]) for at in range(0, len(column), size)] for column in columns]
        raw = b"".join([soft(*numbers).to_bytes() for numbers in zip(*converted, strict=True)])
        return np.frombuffer(raw, f">u{self.result.bits // 8}").astype(np.uint32)


def _soft_fp16_multiply(a: Any, b: Any) -> Any:
    return softfloat.f32_mul(softfloat.f16_to_f32(a), softfloat.f16_to_f32(b))


OPERATIONS = {
    "add": Operation(arithmetic.add, softfloat.f32_add, FP32, FP32, "add"),
    "multiply": Operation(arithmetic.multiply, softfloat.f32_mul, FP32, FP32, "multiply"),
    "fp16_multiply": Operation(arithmetic.fp16_multiply, _soft_fp16_multiply, FP16, FP32, "multiply"),
    "to_fp16": Operation(arithmetic.to_fp16, softfloat.f32_to_f16, FP32, FP16, "convert"),
    "from_fp16": Operation(arithmetic.from_fp16, softfloat.f16_to_f32, FP16, FP32, "convert"),
}


def special_exponents(fmt: Float) -> list[int]:
    """Biased exponents around which results change: the range's ends, one, and distances of a significand."""
    bias, width, top = fmt.bias, fmt.fraction_bits + 1, fmt.exponent_maximum
    chosen = {0, 1, 2, bias // 2, bias - width, bias - 1, bias, bias + 1, bias + width - 1, bias + width,
              bias + bias // 2, top - 2, top - 1, top}
    return sorted(exponent for exponent in chosen if 0 <= exponent <= top)


def special_fractions(fmt: Float) -> list[int]:
    """Fractions that round differently: ends, single bits, runs of ones, and their neighbours."""
    ones, half = (1 << fmt.fraction_bits) - 1, 1 << (fmt.fraction_bits - 1)
    middle = 1 << (fmt.fraction_bits // 2)
    return [0, 1, 2, middle - 1, middle, half - 1, half, half + 1, ones - 1, ones, ones // 3, ones & ~middle]


def _assemble(fmt: Float, sign: Any, exponent: Any, fraction: Any) -> Patterns:
    pattern = (sign << (fmt.bits - 1)) | (exponent << fmt.fraction_bits) | fraction
    return np.asarray(pattern).astype(np.uint32)


def directed(operation: Operation) -> tuple[Patterns, ...]:
    """Every special number with every other; for conversions every FP16, or every exponent of FP32 with many
    fractions. At least 46,000 cases."""
    fmt = operation.operand
    if operation.operands == 2:
        values = np.array([_assemble(fmt, sign, exponent, fraction) for sign in (0, 1)
                           for exponent in special_exponents(fmt) for fraction in special_fractions(fmt)])
        a, b = np.meshgrid(values, values, indexing="ij")
        return a.ravel(), b.ravel()
    if fmt.bits <= 16:
        return (np.arange(1 << fmt.bits, dtype=np.uint32),)
    width = fmt.fraction_bits
    fractions = {0, (1 << width) - 1}
    for bit in range(width):
        fractions |= {1 << bit, (1 << bit) - 1, (1 << width) - (1 << bit), (1 << width) - 1 - (1 << bit),
                      (3 << bit) & ((1 << width) - 1)}
    sign, exponent, fraction = np.meshgrid([0, 1], np.arange(1 << fmt.exponent_bits), sorted(fractions))
    return (_assemble(fmt, sign, exponent, fraction).ravel(),)


def _fractions(rng: np.random.Generator, fmt: Float, count: int) -> NDArray[np.int64]:
    """Fractions with few ones, few zeros, and anything between."""
    first, second, third = rng.integers(0, 1 << fmt.fraction_bits, (3, count))
    sparse = first & second & third
    dense = sparse ^ ((1 << fmt.fraction_bits) - 1)
    return np.choose(rng.integers(0, 3, count), [sparse, dense, first])


def _close(rng: np.random.Generator, operation: Operation, count: int) -> tuple[Patterns, ...]:
    fmt = operation.operand
    top, width = fmt.exponent_maximum, fmt.fraction_bits + 1
    first = rng.integers(0, top + 1, count)
    near = rng.integers(-width - 3, width + 4, count)
    if operation.kind == "convert":
        edge = rng.choice([fmt.bias + 1 - FP16.bias, fmt.bias + FP16.bias, 0, top], count)
        exponents = [np.clip(edge + near, 0, top)]
    elif operation.kind == "add":
        exponents = [first, np.clip(first + near, 0, top)]
    else:
        edge = rng.choice([fmt.bias, fmt.bias + top], count)
        exponents = [first, np.clip(edge - first + near, 0, top)]
    return tuple(_assemble(fmt, rng.integers(0, 2, count), exponent, _fractions(rng, fmt, count))
                 for exponent in exponents)


def random(operation: Operation, seed: int, cases: int) -> Iterator[tuple[Patterns, ...]]:
    """``cases`` uniform bit patterns and as many close ones, in chunks."""
    rng = np.random.default_rng(seed)
    for start in range(0, cases, CHUNK):
        count = min(CHUNK, cases - start)
        yield tuple(rng.integers(0, 1 << operation.operand.bits, count, dtype=np.uint32)
                    for _ in range(operation.operands))
        yield _close(rng, operation, count)


def _is_nan(fmt: Float, patterns: Patterns) -> NDArray[np.bool_]:
    return (patterns & ((1 << (fmt.bits - 1)) - 1)) > fmt.infinity


def check(unit: Batch, operation: Operation, operands: tuple[Patterns, ...]) -> None:
    """The unit's results are the golden model's bit for bit, SoftFloat's but for the NaN's payload, and
    every NaN is the one quiet NaN."""
    got, fmt = unit(*operands), operation.result
    nan = _is_nan(fmt, got)
    assert (got[nan] == fmt.quiet_nan).all(), "a NaN is not the quiet NaN"
    golden, soft = operation.by_golden(*operands), operation.by_soft(*operands)
    soft = np.where(_is_nan(fmt, soft), np.uint32(fmt.quiet_nan), soft)
    for name, expected in (("the golden model", golden), ("SoftFloat", soft)):
        wrong = np.flatnonzero(got != expected)
        if len(wrong):
            lines = [" ".join(f"{array[i]:0{operation.operand.bits // 4}x}" for array in operands)
                     + f" -> {got[i]:x}, not {expected[i]:x}" for i in wrong[:8]]
            raise AssertionError(f"{len(wrong)} of {len(got)} results differ from {name}: "
                                 + "; ".join(lines))


def decode(fmt: Float, patterns: NDArray[Any]) -> NDArray[np.float64]:
    """Values of a format of at most 11 exponent bits."""
    patterns = patterns.astype(np.int64)
    exponent = (patterns >> fmt.fraction_bits) & fmt.exponent_maximum
    fraction = patterns & ((1 << fmt.fraction_bits) - 1)
    significand = fraction + np.where(exponent > 0, 1 << fmt.fraction_bits, 0)
    value = np.ldexp(significand.astype(np.float64),
                     np.maximum(exponent, 1) - fmt.bias - fmt.fraction_bits)
    value = np.where(exponent == fmt.exponent_maximum, np.where(fraction == 0, np.inf, np.nan), value)
    return np.where((patterns >> (fmt.bits - 1)) & 1 == 1, -value, value)


def rounded(fmt: Float, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exact values rounded to a format, ties to even."""
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(values)[1] - 1, 1 - fmt.bias)
        unit = np.ldexp(1.0, exponent - fmt.fraction_bits)
        near = np.rint(values / unit) * unit
        return np.where(np.abs(near) >= 2.0 ** (fmt.exponent_maximum - fmt.bias),
                        np.copysign(np.inf, near), near)


def check_exhaustively(unit: Batch, fmt: Float, result: Float, exact: Callable[..., Any]) -> None:
    """Every pair of operands of a small format against exact arithmetic in float64."""
    values = np.arange(1 << fmt.bits)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values, indexing="ij"))
    with np.errstate(all="ignore"):
        expected = rounded(result, exact(decode(fmt, a), decode(fmt, b)))
    patterns = unit(a, b)
    got = decode(result, patterns)
    assert (patterns[np.isnan(got)] == result.quiet_nan).all()
    np.testing.assert_array_equal(got, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
