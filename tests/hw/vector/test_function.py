"""Function unit: bit-exact against the golden model, and the golden model's error against numpy."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.isa import functions
from plinth_hw.isa.vector_body import VectorFunction
from plinth_hw.vector.function import FunctionUnit
from plinth_sim.golden import function as golden
from plinth_sim.golden.function import evaluate

DIRECTED = [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x400000, 0x200000, 0x200001, 0x1FFFFF, 0x3FFFFF,
            0x600000, 0x800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x40000000,
            0x7F7FFFFF, 0x7F000000, 0x7E800000, 0x7E800001, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001,
            0x7FC00000, 0xFFC12345, 0x42B17217, 0x42B17218, 0x42B17219, 0xC2AEAC50, 0xC2AEAC4F,
            0xC2CFF1B4, 0xC2CFF1B5, 0xC2CFF1B6, 0x42FFFFFF, 0xC2FFFFFF, 0x43000000, 0xC3000000,
            0x33800000, 0xB3800000, 0x31000000]
#: Arguments of EXPONENTIAL with subnormal results, an even mantissa and the half behind it, which only bits that were
#: shifted out round up: for each distance the result is shifted by, all but its low two bits alone, the low two alone,
#: and, up to seven places, each bit alone.
ROUNDED_BY_STICKY = [
    0xC2AEAC7E, 0xC2B00FA4, 0xC2B0102C, 0xC2B010EB, 0xC2B17299, 0xC2B17337, 0xC2B1793C, 0xC2B2D5C8, 0xC2B2D643,
    0xC2B2D790, 0xC2B2DD97, 0xC2B2DE0C, 0xC2B438F1, 0xC2B43A25, 0xC2B43E25, 0xC2B43F52, 0xC2B4422A, 0xC2B4479D,
    0xC2B59C78, 0xC2B59D65, 0xC2B59E12, 0xC2B59F8F, 0xC2B5A105, 0xC2B5A3AD, 0xC2B5CB16, 0xC2B5CCC0, 0xC2B6FF6F,
    0xC2B7055F, 0xC2B7061E, 0xC2B70954, 0xC2B71593, 0xC2B716AA, 0xC2B717B5, 0xC2B73A65, 0xC2B78521, 0xC2B8612C,
    0xC2B9C560, 0xC2B9DCDE, 0xC2BB2812, 0xC2BC8AB2, 0xC2BC9C4B, 0xC2BDEC4D, 0xC2BF4F61, 0xC2C0B2A6, 0xC2C2164A,
    0xC2C36AD6, 0xC2C37AA1, 0xC2C4E08C, 0xC2C6498B, 0xC2C7B8DF, 0xC2C9348C, 0xC2CACF39, 0xC2CCB813, 0xC2CFD2AA]


EXACT: dict[VectorFunction, Any] = {VectorFunction.EXPONENTIAL: np.exp, VectorFunction.TANH: np.tanh,
                                     VectorFunction.RECIPROCAL: lambda x: 1 / x,
                                     VectorFunction.INVERSE_ROOT: lambda x: 1 / np.sqrt(x)}


def arguments(function: VectorFunction, count: int) -> np.ndarray:
    rng = np.random.default_rng(17 + function.value)
    any_bits = rng.integers(0, 1 << 32, count // 2, dtype=np.uint32)
    near: Any
    if function is VectorFunction.EXPONENTIAL:
        near = rng.uniform(-105, 90, count // 2).astype(np.float32).view(np.uint32)
    elif function is VectorFunction.TANH:
        exponents, fractions, signs = (rng.integers(low, high, count // 2, dtype=np.uint32) for low, high in (
            (127 - 14, 127 + 5), (0, 1 << 23), (0, 2)))
        edges = [exponent << 23 | top << 16 | low for exponent in range(127 - 14, 127 + 5) for top in range(0, 128, 8)
                 for low in (0, 1, 0x7FFFF)]
        near = np.concatenate([exponents << 23 | fractions | signs << 31, np.array(edges, dtype=np.uint32)])
    elif function is VectorFunction.INVERSE_ROOT:
        subnormal = rng.integers(1 << 22, 1 << 23, count // 4, dtype=np.uint32) >> rng.integers(0, 23, count // 4)
        positive = rng.integers(0, 1 << 31, count // 4)
        near = np.concatenate([subnormal, positive, np.arange(23) << 23, 1 << np.arange(23)]).astype(np.uint32)
    else:
        near = rng.integers(0, 1 << 25, count // 2, dtype=np.uint32) | (
            rng.integers(0, 128, count // 2).astype(np.uint32) << 25)
    return np.concatenate([np.array(DIRECTED, dtype=np.uint32), any_bits, near])


def test_unit_equals_golden_bit_for_bit() -> None:
    words = [(function, int(bits)) for function in functions.TABLES for bits in arguments(function, 2250)]
    words += [(VectorFunction.EXPONENTIAL, bits) for bits in ROUNDED_BY_STICKY]
    np.random.default_rng(5).shuffle(words)
    expected = [int(evaluate(VectorFunction(f), np.array([bits], dtype=np.uint32))[0]) for f, bits in words]
    dut = FunctionUnit()
    got: list[int] = []

    async def bench(ctx: Any) -> None:
        assert ctx.get(dut.o) == 0
        ctx.set(dut.wanted, 1)
        for function, bits in words + [words[0]] * dut.latency:
            ctx.set(dut.function, function)
            ctx.set(dut.i, bits)
            await ctx.tick()
            got.append(ctx.get(dut.o))
        ctx.set(dut.wanted, 0)
        await ctx.tick()
        assert ctx.get(dut.o) == 0

    simulate(dut, bench)
    for (function, bits), want, seen in zip(words, expected, got[dut.latency - 1:], strict=False):
        assert want == seen, f"{VectorFunction(function).name}({bits:#010x}): {seen:#010x}, not {want:#010x}"


def test_what_is_shifted_out_rounds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the unit is shown of it is what it is said to be."""
    rounded = golden._round

    def shown(value: Any, exponent: Any, down: Any = 0) -> Any:
        distance = 1 - exponent
        kept = value >> distance
        assert (kept & 0x3F == 0x10).all() and (kept << distance != value).all()
        result = rounded(value, exponent, down)
        assert (result == (kept >> 5) + 1).all()
        shifts.update(distance.tolist())
        return result

    shifts: set[int] = set()
    monkeypatch.setattr(golden, "_round", shown)
    evaluate(VectorFunction.EXPONENTIAL, np.array(ROUNDED_BY_STICKY, dtype=np.uint32))
    assert shifts == {*range(1, 23), 24}


def ulps(function: VectorFunction, argument: np.ndarray) -> float:
    """Largest error in units of the last place of the exact value, over finite results."""
    bits = argument.astype(np.float32).view(np.uint32)
    wide = bits.view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = EXACT[function](wide)
        got = evaluate(function, bits).view(np.float32).astype(np.float64)
        place = np.maximum(np.exp2(np.floor(np.log2(np.abs(exact))) - 23), 2.0**-149)
        error = np.abs(got - exact) / place
    finite = np.isfinite(got) & (np.abs(exact) < 3.4e38)
    return float(error[finite].max())


@pytest.mark.parametrize(("low", "high"), [(-104, 88.7), (-1, 1), (-104, -87), (-1e-3, 1e-3)])
def test_error_of_exponential(low: float, high: float) -> None:
    assert ulps(VectorFunction.EXPONENTIAL, np.linspace(low, high, 400_001)) < 0.65


@pytest.mark.parametrize(("low", "high"), [(0x3F800000, 0x40000000), (0x00200001, 0x01000000),
                                           (0x7E000000, 0x7F7FFFFF), (0xBF800000, 0xC0000000)])
def test_error_of_reciprocal(low: int, high: int) -> None:
    bits = np.linspace(low, high, 400_001).astype(np.uint32)
    assert ulps(VectorFunction.RECIPROCAL, bits.view(np.float32)) < 0.8


@pytest.mark.parametrize("place", range(23))
def test_inverse_root_of_subnormals(place: int) -> None:
    """Those with their leading one in this place."""
    bits = np.unique(np.linspace(1 << place, (2 << place) - 1, 1000).astype(np.uint32))
    assert ulps(VectorFunction.INVERSE_ROOT, bits.view(np.float32)) < 0.62
    assert (np.diff(evaluate(VectorFunction.INVERSE_ROOT, bits).astype(np.int64)) <= 0).all()


@pytest.mark.parametrize("exponent", [-126, -1, 0, 1, 2, 127])
def test_error_of_inverse_root(exponent: int) -> None:
    """Every sixteenth argument of a binade of either parity, and a few of each binade."""
    bits = np.arange(127 + exponent << 23, 128 + exponent << 23, 16, dtype=np.uint32)
    assert ulps(VectorFunction.INVERSE_ROOT, bits.view(np.float32)) < 0.62
    corners = np.arange(1, 255, dtype=np.uint32)[:, None] << 23 | np.array([0, 1, 0x400000, 0x7FFFFF], dtype=np.uint32)
    assert ulps(VectorFunction.INVERSE_ROOT, corners.ravel().view(np.float32)) < 0.62


def test_inverse_root_never_rises() -> None:
    """Ends of all segments of two binades and the numbers beside them, and runs of neighbours."""
    ends: Any = np.arange(127 << 23, (129 << 23) + 1, 1 << 16)[:, None] + np.arange(-8, 9)
    runs: Any = np.random.default_rng(6).integers(0, 0x7F7FFFFF - 2000, (200, 1)) + np.arange(2000)
    for bits in (ends, runs):
        assert (np.diff(evaluate(VectorFunction.INVERSE_ROOT, bits.astype(np.uint32)).astype(np.int64)) <= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0, 1])
def test_inverse_root_over_every_argument(exponent: int) -> None:
    """Of one parity, up to the next binade: the error as documented, and no step up."""
    for start in range(127 + exponent << 23, 128 + exponent << 23, 1 << 20):
        bits = np.arange(start, start + (1 << 20) + 1, dtype=np.uint32)
        assert ulps(VectorFunction.INVERSE_ROOT, bits.view(np.float32)) < 0.61
        assert (np.diff(evaluate(VectorFunction.INVERSE_ROOT, bits).astype(np.int64)) <= 0).all()


@pytest.mark.parametrize("exponent", range(-14, 4))
def test_error_of_tanh(exponent: int) -> None:
    """Every sixteenth argument of a binade. The error is odd, and no value is above 1."""
    bits = np.arange(127 + exponent << 23, 128 + exponent << 23, 16, dtype=np.uint32)
    assert ulps(VectorFunction.TANH, bits.view(np.float32)) < 1.4
    values = evaluate(VectorFunction.TANH, bits)
    assert (values <= 0x3F800000).all()
    assert (evaluate(VectorFunction.TANH, bits | np.uint32(0x80000000)) == values | 0x80000000).all()


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "count"), [(2, 4, 355), (4, 8, 475), (0.0625, 0.125, 1)])
def test_tanh_steps_back_as_documented(low: float, high: float, count: int) -> None:
    """Every argument: where it is below its neighbour's, then by one unit of its last place."""
    first, last = (int(np.float32(end).view(np.uint32)) for end in (low, high))
    back = []
    for start in range(first, last, 1 << 18):
        bits = np.arange(start, start + (1 << 18) + 1, dtype=np.uint32)
        steps = np.diff(evaluate(VectorFunction.TANH, bits).astype(np.int64))
        assert steps.min() >= -1
        back += bits[1:][steps < 0].view(np.float32).tolist()
    assert len(back) == count
    assert count > 1 or back == [0.109375]


def test_tanh_is_its_argument_or_one() -> None:
    """Below 2^-12 the argument, subnormals and zeros among them; one place above 9.02."""
    small = np.concatenate([np.arange(0, 127 - 12 << 23, 9973), [1, 0x7FFFFF, 0x800000]]).astype(np.uint32)
    for sign in (np.uint32(0), np.uint32(0x80000000)):
        assert (evaluate(VectorFunction.TANH, small | sign) == small | sign).all()
        large: Any = np.concatenate([np.linspace(9.02, 40, 1000), [1e30, np.inf]]).astype(np.float32).view(np.uint32)
        assert (evaluate(VectorFunction.TANH, large | sign) == 0x3F800000 | sign).all()


def test_special_values() -> None:
    def value(function: VectorFunction, *floats: float) -> list[float]:
        patterns = np.array(floats, dtype=np.float32).view(np.uint32)
        return evaluate(function, patterns).view(np.float32).tolist()

    inf = float("inf")
    assert value(VectorFunction.EXPONENTIAL, 0.0, -0.0, inf, -inf, 89.0, -104.0, 1e-40) == [
        1, 1, inf, 0, inf, 0, 1]
    assert str(value(VectorFunction.RECIPROCAL, 0.0, -0.0, inf, -inf, 2.0, -0.25)) == str(
        [inf, -inf, 0.0, -0.0, 0.5, -4.0])
    assert value(VectorFunction.INVERSE_ROOT, 0.0, -0.0, inf, 1.0, 4.0, 0.25) == [inf, -inf, 0, 1, 0.5, 2]
    negative = np.array([0xBF800000, 0x80000001, 0x80800000, 0xFF7FFFFF, 0xFF800000], dtype=np.uint32)
    assert (evaluate(VectorFunction.INVERSE_ROOT, negative) == 0x7FC00000).all()
    assert evaluate(VectorFunction.INVERSE_ROOT, np.array([0x7F800000], np.uint32))[0] == 0
    for function in functions.TABLES:
        assert evaluate(VectorFunction(function), np.array([0xFF812345], np.uint32))[0] == 0x7FC00000
    powers = np.exp2(np.arange(-126, 127)).astype(np.float32)
    assert (evaluate(VectorFunction.RECIPROCAL, powers.view(np.uint32)).view(np.float32) == 1 / powers).all()
    powers = np.exp2(np.arange(-148, 128, 2)).astype(np.float32)
    assert (evaluate(VectorFunction.INVERSE_ROOT, powers.view(np.uint32)).view(np.float32) == 1 / np.sqrt(powers)).all()


@pytest.mark.parametrize(("function", "checksum"), [
    (VectorFunction.EXPONENTIAL, 1580460459021833611),
    (VectorFunction.RECIPROCAL, 1101434358607805029),
    (VectorFunction.TANH, 164228401745532833),
    (VectorFunction.INVERSE_ROOT, 1659437210124080387)])
def test_tables_are_what_they_were(function: VectorFunction, checksum: int) -> None:
    """The tables are part of the contract: a change must be meant."""
    check = 0
    for entry in functions.coefficients(function):
        for number in entry:
            check = (check * 1_000_003 + number) % (1 << 61)
    assert check == checksum
