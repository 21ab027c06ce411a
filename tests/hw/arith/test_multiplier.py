"""The multiplier in all its forms against the golden model, SoftFloat and exact arithmetic."""

import numpy as np
import pytest
from tests.support.arith import OPERATIONS, check, check_exhaustively, directed, random
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.arith.reference import ReferenceMultiplier
from plinth_hw.isa.formats import FP16, FP32, Float

UNITS = {
    "fp32": (lambda: Batch(FloatMultiplier(FP32, FP32)), "multiply"),
    "fp32-ecp5": (lambda: Batch(FloatMultiplier(FP32, FP32), Ecp5(), MODELS), "multiply"),
    "fp32-reference": (lambda: Batch(ReferenceMultiplier(FP32)), "multiply"),
    "fp16": (lambda: Batch(FloatMultiplier(FP16, FP32)), "fp16_multiply"),
    "fp16-ecp5": (lambda: Batch(FloatMultiplier(FP16, FP32), Ecp5(), MODELS), "fp16_multiply"),
}


@pytest.mark.parametrize("name", UNITS)
def test_special_numbers(name) -> None:
    make, operation = UNITS[name]
    operands = directed(OPERATIONS[operation])
    assert len(operands[0]) >= 46_000
    check(make(), OPERATIONS[operation], operands)


@pytest.mark.parametrize("name", UNITS)
def test_random_numbers(name, arith_cases) -> None:
    make, operation = UNITS[name]
    unit = make()
    for operands in random(OPERATIONS[operation], 2, arith_cases):
        check(unit, OPERATIONS[operation], operands)


@pytest.mark.parametrize(("fmt", "result"), [
    (Float(4, 3), Float(4, 3)), (Float(3, 5), Float(3, 5)), (Float(5, 2), Float(5, 2)),
    (Float(4, 3), FP16), (Float(3, 3), Float(4, 4)), (Float(4, 3), FP32),
], ids=str)
def test_every_pair_of_a_small_format(fmt, result) -> None:
    check_exhaustively(Batch(FloatMultiplier(fmt, result)), fmt, result, np.multiply)


def test_reference_with_every_pair_of_a_small_format() -> None:
    check_exhaustively(Batch(ReferenceMultiplier(Float(4, 3))), Float(4, 3), Float(4, 3), np.multiply)


def test_formats_are_checked() -> None:
    with refused(TypeError, match="Operand format must be a Float, not 32"):
        FloatMultiplier(32, FP32)
    with refused(TypeError, match="Result format must be a Float, not None"):
        FloatMultiplier(FP32, None)
