"""Conversions against the golden model and SoftFloat."""

import pytest
from tests.support.arith import OPERATIONS, check, directed, random
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


def test_formats_are_checked() -> None:
    with refused(TypeError, match="Operand format must be a Float, not 16"):
        FloatConverter(16, FP32)
    with refused(ValueError, match="must be wider or narrower than float16e5m10 in exponent and"):
        FloatConverter(FP16, Float(8, 7))
