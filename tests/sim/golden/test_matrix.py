"""The matrix engine's golden model against a scalar loop and against float64."""

from fractions import Fraction

import numpy as np
import pytest

from plinth_hw.isa.formats import Q3_12, Fixed
from plinth_sim.golden.matrix import at_ends, gemm, multiply, storage


def scalar(a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    out = np.zeros((a.shape[0], b.shape[1]), np.float32) if c is None else c.copy()
    for m in range(a.shape[0]):
        for n in range(b.shape[1]):
            total = np.float32(out[m, n])
            for k in range(a.shape[1]):
                total = np.float32(total + np.float32(np.float32(a[m, k]) * np.float32(b[k, n])))
            out[m, n] = total
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("accumulate", [False, True])
def test_order(dtype: type, accumulate: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 17)).astype(dtype), rng.normal(size=(17, 6)).astype(dtype)
    c = rng.normal(size=(5, 6)).astype(np.float32) if accumulate else None
    result = gemm(a, b, c)
    assert result.tobytes() == scalar(a, b, c).tobytes()
    exact = a.astype(np.float64) @ b.astype(np.float64) + (0 if c is None else c)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)


def test_transposes() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(4, 9)).astype(np.float32), rng.normal(size=(9, 3)).astype(np.float32)
    plain = gemm(a, b).tobytes()
    assert gemm(a.T.copy(), b, transpose_a=True).tobytes() == plain
    assert gemm(a, b.T.copy(), transpose_b=True).tobytes() == plain


def test_special_values() -> None:
    a = np.array([[np.inf, 1.0], [-0.0, 1e-40], [np.nan, 1.0]], np.float32)
    b = np.array([[0.0, 1.0], [1.0, 1.0]], np.float32)
    bits = gemm(a, b).view(np.uint32)
    assert bits[0, 0] == bits[2, 0] == 0x7FC00000
    assert bits[0, 1] == 0x7F800000
    assert bits[1, 0] == np.float32(1e-40).view(np.uint32)
    assert gemm(np.array([[-0.0]], np.float32), np.ones((1, 1), np.float32)).view(np.uint32)[0, 0] == 0


def whole(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, fmt: Fixed) -> np.ndarray:
    """Fixed-point products, added one by one to whole numbers, rounded once."""
    sums, out = fmt.sums, np.zeros((a.shape[0], b.shape[1]), np.int16)
    for m, n in np.ndindex(out.shape):
        total = 0 if c is None else int(c[m, n]) << fmt.fraction_bits
        for k in range(a.shape[1]):
            total = min(max(total + int(a[m, k]) * int(b[k, n]), sums.least), sums.most)
        out[m, n] = min(max(round(Fraction(total, 1 << fmt.fraction_bits)), fmt.least), fmt.most)
    return out


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("small", [0, 1, 3, 9])
@pytest.mark.parametrize("fmt", [Q3_12, Fixed(0, 15)], ids=str)
def test_fixed_point_is_rounded_once_and_saturates(fmt: Fixed, small: int, accumulate: bool) -> None:
    """Of numbers over the whole format nearly all sums are beyond it, of small ones none."""
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(-1 << 15, 1 << 15, shape).astype(np.int16) >> small
               for shape in ((20, 40), (40, 30), (20, 30)))
    product = multiply(fmt, a, b, c if accumulate else None)
    np.testing.assert_array_equal(product, whole(a, b, c if accumulate else None, fmt))
    assert (at_ends(fmt, product) > 0) == (small < 3)


def test_ties_go_to_even() -> None:
    """Half a unit in the last place is 2^11 of a sum."""
    halves = np.arange(-9, 10, dtype=np.int16)
    rounded = multiply(Q3_12, halves[:, None], np.array([[1 << 11]], np.int16))
    assert rounded.ravel().tolist() == [round(Fraction(int(half), 2)) for half in halves]


def test_a_sum_beyond_its_format_stays_at_the_end() -> None:
    """Three of the largest products more than a sum has room for, and more taken away than there was room for: exactly
    2^31 + 2^17, of a sum that stays at 2^47 - 1 it leaves 2^17 - 1, in 2^-24."""
    above, below = (1 << 17) + 2, (1 << 17) + 4
    a = np.full((1, above + below), -1 << 15, np.int16)
    b = np.where(np.arange(above + below) < above, -1 << 15, (1 << 15) - 1).astype(np.int16)[:, None]
    assert multiply(Q3_12, a, b)[0, 0] == 32


def test_operands_of_no_engine() -> None:
    with pytest.raises(ValueError, match=r"fixed-point of 16 bits, not q3\.4"):
        storage(Fixed(3, 4))


def test_messages() -> None:
    ones = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="3 and 2"):
        gemm(ones, ones)
    with pytest.raises(TypeError, match="float64"):
        gemm(ones.astype(np.float64), ones.T)
    with pytest.raises(ValueError, match="shape"):
        gemm(ones, ones.T.copy(), ones)
