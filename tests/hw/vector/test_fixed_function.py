"""The function unit of fixed-point dies: every argument of every function, against golden model and exact values."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.batch import Batch
from tests.support.refusal import refused

from plinth_hw.isa.fixed_functions import CURVES
from plinth_hw.isa.vector_body import VectorFunction
from plinth_hw.vector.fixed_function import FixedFunctionUnit
from plinth_sim.golden.fixed_function import evaluate

NUMBERS = np.arange(-1 << 15, 1 << 15)
WORDS = NUMBERS.astype(np.int16).view(np.uint16)


@pytest.fixture(scope="module")
def unit():
    return Batch(FixedFunctionUnit())


@pytest.mark.parametrize("function", list(CURVES))
def test_every_argument(unit, function):
    got = unit(np.full(len(WORDS), function.value), WORDS, np.ones(len(WORDS))).astype(np.uint16)
    np.testing.assert_array_equal(got.view(np.int16), evaluate(function, WORDS).view(np.int16))


def test_functions_one_after_the_other(unit):
    rng = np.random.default_rng(1)
    functions, words = rng.integers(0, len(CURVES), 20_000), rng.integers(0, 1 << 16, 20_000).astype(np.uint16)
    expected = np.zeros_like(words)
    for function in CURVES:
        mine = functions == function.value
        expected[mine] = evaluate(function, words[mine])
    wanted = rng.integers(0, 2, len(words))
    # Whether a value is wanted is said a cycle before it.
    later = np.roll(wanted, FixedFunctionUnit.latency - 1)
    known = slice(0, -FixedFunctionUnit.latency)
    np.testing.assert_array_equal(unit(functions, words, later)[known], np.where(wanted, expected, 0)[known])


def exact(function):
    """In units of the last place, as far as numbers reach."""
    x = NUMBERS / 4096
    with np.errstate(divide="ignore", over="ignore"):
        values = {VectorFunction.EXPONENTIAL: np.exp(x), VectorFunction.TANH: np.tanh(x),
                  VectorFunction.SIGMOID: 1 / (1 + np.exp(-x)), VectorFunction.RECIPROCAL: 1 / np.abs(x) * np.where(
                      x < 0, -1, 1)}[function]
    return np.clip(4096 * values, -1 << 15, (1 << 15) - 1)


@pytest.mark.parametrize(("function", "name"), [
    (VectorFunction.EXPONENTIAL, "exp(a)"), (VectorFunction.RECIPROCAL, "1 / a"), (VectorFunction.TANH, "tanh(a)"),
    (VectorFunction.SIGMOID, "sigmoid(a)")])
def test_errors_are_those_of_the_page(function, name):
    """Below a unit in the last place; rounded up to three digits as docs/vector.md states them."""
    error = np.abs(evaluate(function, WORDS).view(np.int16) - exact(function)).max()
    assert error < 1
    page = Path(__file__).parents[3] / "docs" / "vector.md"
    assert f"| `{name}` | {np.ceil(1000 * error) / 1000:.3f} |" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", list(CURVES))
def test_they_rise_and_fall_as_the_functions(function):
    steps = np.diff(evaluate(function, WORDS).view(np.int16).astype(int))
    if function is VectorFunction.RECIPROCAL:
        assert (steps[NUMBERS[:-1] < -1] <= 0).all() and (steps[NUMBERS[:-1] >= 0] <= 0).all()
    else:
        assert (steps >= 0).all()


def test_ends():
    def of(function, *values):
        words = (np.array(values) * 4096).astype(np.int16).view(np.uint16)
        return (evaluate(function, words).view(np.int16) / 4096).tolist()

    assert of(VectorFunction.RECIPROCAL, 0, 0.125, -0.125, 1, -8) == [32767 / 4096, 32767 / 4096, -8, 1, -0.125]
    assert of(VectorFunction.EXPONENTIAL, -8, 0, 2.5) == [1 / 4096, 1, 32767 / 4096]
    assert of(VectorFunction.TANH, -8, 0, 7) == [-1, 0, 1]
    assert of(VectorFunction.SIGMOID, -8, 0, 8 - 2**-12) == [1 / 4096, 0.5, 4095 / 4096]


def test_other_words_are_refused():
    with refused(TypeError, match="must be uint16 bit patterns, not uint32"):
        evaluate(VectorFunction.TANH, np.zeros(1, np.uint32))
