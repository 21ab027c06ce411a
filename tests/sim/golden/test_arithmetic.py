"""The arithmetic that golden models share: roundings, subnormals, NaN, and what operands may be."""

from collections.abc import Callable

import numpy as np
import pytest

from plinth_sim.golden import arithmetic

SPECIAL = np.array([0, 0x80000000, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800001, 0x40490FDB, 0x7F7FFFFF,
                    0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345], dtype=np.uint32)
NAN = 0x7FC00000
BINARY: dict[Callable, Callable] = {arithmetic.add: np.add, arithmetic.sub: np.subtract,
                                    arithmetic.multiply: np.multiply}


@pytest.mark.parametrize("function", list(BINARY))
def test_single_roundings_and_one_nan(function: Callable) -> None:
    rng = np.random.default_rng(1)
    a = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), rng.integers(0, 1 << 32, 500, dtype=np.uint32)])
    b = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), rng.integers(0, 1 << 32, 500, dtype=np.uint32)])
    with np.errstate(all="ignore"):
        exact = BINARY[function](a.view(np.float32).astype(np.float64), b.view(np.float32).astype(np.float64))
        wanted = exact.astype(np.float32).view(np.uint32)
        # Binary64 holds products, and rounds sums without a trace (53 bits are 2 x 24 + 2 and more).
        wanted[np.isnan(exact)] = NAN
    computed = function(a, b)
    assert computed.dtype == np.uint32
    assert computed.tolist() == wanted.tolist()
    floats = function(a.view(np.float32), b.view(np.float32))
    assert floats.dtype == np.float32 and floats.view(np.uint32).tolist() == wanted.tolist()


def test_halves() -> None:
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    wide = arithmetic.from_fp16(every)
    assert wide.dtype == np.uint32
    values = every.view(np.float16)
    nan = np.isnan(values)
    assert (wide[nan] == NAN).all()
    assert (wide[~nan].view(np.float32).astype(np.float64) == values[~nan].astype(np.float64)).all()
    back = arithmetic.to_fp16(wide)
    assert back.dtype == np.uint16
    assert (back[~nan] == every[~nan]).all() and (back[nan] == 0x7E00).all()
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519.996, 65520.0, 2**-25, 1.5 * 2**-24], dtype=np.float32)
    assert arithmetic.to_fp16(ties).view(np.uint16).tolist() == [0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0, 2]
    a, b = every[::97], every[::-97]
    with np.errstate(all="ignore"):
        exact = a.view(np.float16).astype(np.float64) * b.view(np.float16).astype(np.float64)
    products = arithmetic.fp16_multiply(a, b)
    nan = np.isnan(exact)
    assert (products[nan] == NAN).all()
    assert (products[~nan].view(np.float32).astype(np.float64) == exact[~nan]).all()


@pytest.mark.parametrize("operands", [
    (np.zeros(2, np.float32), np.zeros(2, np.uint32)), (np.zeros(2, np.uint32), np.zeros(2, np.float32)),
    (np.zeros(2, np.float64), np.zeros(2, np.float64)), (np.zeros(2, np.float16), np.zeros(2, np.float32))])
def test_operands_of_another_kind_are_refused(operands: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(TypeError, match="operands must all be float32 or all uint32, not "):
        arithmetic.add(*operands)
