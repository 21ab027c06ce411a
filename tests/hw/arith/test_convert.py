"""Conversions against the golden model and SoftFloat."""

import numpy as np
import pytest
from tests.support.arith import OPERATIONS, check, decode, directed, random, rounded
from tests.support.batch import Batch
from tests.support.refusal import refused

from plinth_hw.arith.convert import FloatConverter
from plinth_hw.isa.formats import FP16, FP32, Float

NAMES = pytest.mark.parametrize("name", ["to_fp16", "from_fp16"])


def unit(name: str) -> Batch:
    operation = OPERATIONS[name]
    return Batch(FloatConverter(operation.operand, operation.result))


@NAMES
def test_special_numbers(name) -> None:
    operands = directed(OPERATIONS[name])
    assert len(operands[0]) >= (65_536 if name == "from_fp16" else 46_000)
    check(unit(name), OPERATIONS[name], operands)


@NAMES
def test_random_numbers(name, arith_cases) -> None:
    batch = unit(name)
    for operands in random(OPERATIONS[name], 3, arith_cases):
        check(batch, OPERATIONS[name], operands)


@pytest.mark.parametrize(("fmt", "result"), [
    (Float(4, 3), FP16), (Float(4, 10), Float(5, 12)), (Float(4, 3), Float(4, 6)), (FP16, Float(4, 3)),
    (FP16, Float(5, 2)), (Float(4, 6), Float(3, 6)), (FP16, FP16),
], ids=str)
def test_every_number_of_other_formats(fmt, result) -> None:
    patterns = np.arange(1 << fmt.bits, dtype=np.uint32)
    expected = rounded(result, decode(fmt, patterns))
    converted = Batch(FloatConverter(fmt, result))(patterns)
    got = decode(result, converted)
    assert (converted[np.isnan(got)] == result.quiet_nan).all()
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


def test_formats_are_checked() -> None:
    with refused(TypeError, match="Operand format must be a Float, not 16"):
        FloatConverter(16, FP32)
    with refused(ValueError, match="must be wider or narrower than float16e5m10 in exponent and"):
        FloatConverter(FP16, Float(8, 7))
