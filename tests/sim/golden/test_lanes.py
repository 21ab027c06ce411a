"""Lanes of fixed-point dies against whole numbers and fractions of Python."""

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.refusal import refused

from plinth_hw.isa.formats import FP32, Q3_12, Format, factor_value, factor_word, word_type
from plinth_hw.isa.vector_body import VectorFunction, VectorOp
from plinth_sim.golden import vector
from plinth_sim.golden.lanes import FixedLanes, FloatLanes, lanes_of
from plinth_sim.golden.vector import BadOperandError

LEAST, MOST, UNIT = Q3_12.least, Q3_12.most, 1 << 12
LANES = FixedLanes(Q3_12)


def image(seed: int, *shape: int) -> NDArray[np.uint16]:
    """Numbers of all magnitudes, and the ends."""
    rng = np.random.default_rng(seed)
    plain = rng.integers(LEAST, MOST, shape, endpoint=True) >> rng.integers(0, 16, shape)
    return np.where(rng.random(shape) < 0.2, rng.choice([LEAST, LEAST + 1, -1, 0, 1, MOST], shape), plain).astype(
        np.int16).view(np.uint16)


def numbers(words: NDArray[np.unsignedinteger]) -> list[int]:
    return [int(word) for word in words.view(np.int16).ravel()]


def limited(value: int) -> tuple[int, int]:
    """Within the format, and whether it was not."""
    return min(max(value, LEAST), MOST), int(not LEAST <= value <= MOST)


@pytest.mark.parametrize(("op", "exact"), [
    (VectorOp.ADD, lambda x, y: x + y), (VectorOp.SUB, lambda x, y: x - y),
    (VectorOp.MUL, lambda x, y: round(Fraction(x * y, UNIT))), (VectorOp.MAX, max),
    (VectorOp.RELU, lambda x, _: max(x, 0)), (VectorOp.RELU_MASK, lambda x, y: x if y > 0 else 0),
    (VectorOp.COPY, lambda x, _: x)])
def test_each_element_is_rounded_once_and_saturates(op: VectorOp, exact: Callable[[int, int], int]) -> None:
    a, b = image(1, 40, 50), image(2, 40, 50)
    computed, ends = LANES.apply(op, a, b, 0)
    wanted = [limited(exact(x, y)) for x, y in zip(numbers(a), numbers(b), strict=True)]
    assert numbers(computed) == [value for value, _ in wanted]
    assert ends == sum(beyond for _, beyond in wanted)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -3.7, 100.0, -1e-4, 2.0**-12])
def test_scale_is_by_a_factor(value: float) -> None:
    a, word = image(3, 2000), factor_word(Q3_12, value)
    wanted = [limited(round(x * factor_value(Q3_12, word))) for x in numbers(a)]
    computed, ends = LANES.apply(VectorOp.SCALE, a, None, word)
    assert (numbers(computed), ends) == ([each for each, _ in wanted], sum(beyond for _, beyond in wanted))
    assert abs(factor_value(Q3_12, word) - Fraction(value)) <= abs(Fraction(value)) / (1 << 16)


def test_an_immediate_is_the_low_half_of_its_word() -> None:
    a = image(4, 2000)
    computed, _ = LANES.apply(VectorOp.ADD_IMMEDIATE, a, None, 0xABCD_F001)
    assert numbers(computed) == [limited(x - UNIT + 1)[0] for x in numbers(a)]


@pytest.mark.parametrize("op", [op for op in VectorOp if op not in (
    VectorOp.FUNCTION, VectorOp.SUM, VectorOp.MAXIMUM)])
def test_numbers_of_float_dies_have_no_ends(op: VectorOp) -> None:
    """Infinities and NaN included."""
    a = np.array([[0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7FC00000, 0x80000000]], np.uint32)
    assert FloatLanes().apply(op, a, a[:, ::-1].copy(), 0)[1] == 0
    assert FloatLanes().sums(a[:, 2:3], 1)[1] == 0


@pytest.mark.parametrize("fmt", [FP32, Q3_12])
def test_largest_numbers_and_functions_have_no_ends(fmt: Format) -> None:
    """Of however large numbers."""
    words = np.full((2, 3), 0x7FFF if fmt is Q3_12 else 0x7F7FFFFF, word_type(fmt))
    for op, shape in ((VectorOp.MAXIMUM, (1, 3)), (VectorOp.FUNCTION, (2, 3))):
        instruction = SimpleNamespace(op=op, b=VectorFunction.EXPONENTIAL.value)
        found, ends = vector.compute(lanes_of(fmt), instruction, words, None, 0, shape, True)  # type: ignore[arg-type]
        assert (found.shape, ends) == (shape, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_saturate_step_by_step(axis: int) -> None:
    x = image(5, 30, 20)
    wanted, ends = [], 0
    for row in (x.T if axis == 0 else x):
        total, *rest = numbers(np.ascontiguousarray(row))
        for element in rest:
            total, beyond = limited(total + element)
            ends += beyond
        wanted.append(total)
    sums, counted = LANES.sums(x, axis)
    assert (numbers(sums), counted) == (wanted, ends)
    assert sums.shape == ((1, 20) if axis == 0 else (30, 1)) and ends
    assert numbers(LANES.largest(x, axis)) == [max(numbers(np.ascontiguousarray(row)))
                                               for row in (x.T if axis == 0 else x)]


def body(**fields: object) -> dict[str, object]:
    return {"rows": 1, "columns": 1, "loads": 0, "stores": 0, "instructions": 0, "regions": [{}] * 8, "load": [],
            "store": [], "immediates": [0] * 4, "program": [], **fields}


@pytest.mark.parametrize(("fmt", "fields", "match"), [
    (FP32, {"instructions": 1, "program": [{"op": VectorOp.FUNCTION, "b": VectorFunction.SIGMOID.value}]},
     "SIGMOID is no function"),
    (Q3_12, {"instructions": 1, "program": [{"op": VectorOp.FUNCTION, "b": VectorFunction.INVERSE_ROOT.value}]},
     "INVERSE_ROOT is no function"),
    (Q3_12, {"instructions": 1, "program": [{"op": VectorOp.NARROW}]}, "NARROW is no instruction"),
    (Q3_12, {"instructions": 1, "program": [{"op": VectorOp.WIDEN}]}, "WIDEN is no instruction"),
    (Q3_12, {"loads": 1, "load": [{"packed": 1}]}, "hold one number"),
    (Q3_12, {"stores": 1, "store": [{"packed": 1}]}, "hold one number")])
def test_what_lanes_do_not_have_is_refused(fmt: object, fields: dict[str, object], match: str) -> None:
    with refused(BadOperandError, match=match):
        vector.execute(np.zeros(8, np.uint16), body(**fields), [0] * 16, fmt=fmt)  # type: ignore[arg-type]


def test_lanes_are_those_of_the_memory() -> None:
    assert type(lanes_of(FP32)).__name__ == "FloatLanes" and isinstance(lanes_of(Q3_12), FixedLanes)
