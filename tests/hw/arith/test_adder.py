"""The adder, and the textbook one, against the golden model, SoftFloat and exact arithmetic."""

import numpy as np
import pytest
from tests.support.arith import OPERATIONS, check, check_exhaustively, directed, random
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.reference import ReferenceAdder
from plinth_hw.isa.formats import FP32, Float
from plinth_sim.golden.lanes import maximum

OPERATION = OPERATIONS["add"]
UNITS = pytest.mark.parametrize("unit", [FloatAdder, ReferenceAdder])
BATCHES = {
    "adder": lambda: Batch(FloatAdder(FP32)),
    "adder-ecp5": lambda: Batch(FloatAdder(FP32), Ecp5(), MODELS),
    "reference": lambda: Batch(ReferenceAdder(FP32)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_special_numbers(name) -> None:
    operands = directed(OPERATION)
    assert len(operands[0]) >= 46_000
    check(BATCHES[name](), OPERATION, operands)


@pytest.mark.parametrize("name", BATCHES)
def test_random_numbers(name, arith_cases) -> None:
    batch = BATCHES[name]()
    for operands in random(OPERATION, 1, arith_cases):
        check(batch, OPERATION, operands)


@pytest.mark.parametrize("fmt", [Float(4, 3), Float(3, 5), Float(5, 2)], ids=str)
@UNITS
def test_every_pair_of_a_small_format(unit, fmt) -> None:
    check_exhaustively(Batch(unit(fmt)), fmt, fmt, np.add)


def test_adding_negative_zero_changes_nothing() -> None:
    values = directed(OPERATIONS["to_fp16"])[0]
    values = values[(values & 0x7FFFFFFF) <= FP32.infinity]
    np.testing.assert_array_equal(Batch(FloatAdder(FP32))(values, np.full_like(values, 1 << 31)), values)


def test_the_larger_of_both() -> None:
    batch = Batch(FloatAdder(FP32, chooses=True))
    for a, b in (directed(OPERATION), *random(OPERATION, 3, 100_000)):
        # Sums in between, so that neither is for the other to leave traces in.
        larger = np.random.default_rng(len(a)).integers(0, 2, len(a))
        expected = np.where(larger, maximum(a, b), OPERATION.by_golden(a, b))
        np.testing.assert_array_equal(batch(a, b, larger), expected)


def test_format_is_checked() -> None:
    with refused(TypeError, match="Adder format must be a Float, not 32"):
        FloatAdder(32)
