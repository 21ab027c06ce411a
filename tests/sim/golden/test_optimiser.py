"""Updates against real arithmetic that knows no halves, tables or factors; the generator against its definition."""

import numpy as np
import pytest

from plinth_hw.isa.formats import Q3_12, factor_value, factor_word
from plinth_hw.isa.operations import OptimiserOperation
from plinth_sim.golden import optimiser
from plinth_sim.golden.optimiser import Number

UNIT, FINE = 2.0**-12, 2.0**-28
COUNT = 4096


def words(rng: np.random.Generator, most: int = 1 << 15, count: int = COUNT) -> np.ndarray:
    """Numbers of all magnitudes."""
    sizes = (2.0 ** rng.uniform(0, np.log2(most), count)).astype(np.int64)
    sizes *= rng.choice([-1, 0, 1], count, p=[0.45, 0.1, 0.45])
    return np.clip(sizes, -most, most - 1).astype(np.int16).view(np.uint16)


def number(rng: np.random.Generator, wide: bool, most: int = 1 << 15) -> Number:
    low = rng.integers(-1 << 15, 1 << 15, COUNT).astype(np.int16).view(np.uint16) if wide else None
    return Number(words(rng, most), low)


def copied(one: Number) -> Number:
    return Number(one.high.copy(), None if one.low is None else one.low.copy())


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("operation", OptimiserOperation)
def test_updates_are_those_of_real_numbers(operation: OptimiserOperation, wide: bool) -> None:
    """Within what rounding a state and a weight, the table and the ends of Q account for."""
    rng = np.random.default_rng(operation.value * 2 + wide)
    g, weights = words(rng, 1 << 14), number(rng, wide, 1 << 14)
    squares = operation in optimiser.SQUARES
    state = None if operation is OptimiserOperation.SGD else number(rng, wide, 1 << 13)
    if squares and state is not None:
        state = Number((state.high & 0x7FFF).astype(np.uint16), state.low)
    rate, decay, epsilon = factor_word(Q3_12, 0.0123), factor_word(Q3_12, 0.9), 1 << (14 if wide else 18)
    real_rate, real_decay = (float(factor_value(Q3_12, word)) for word in (rate, decay))
    before, old = weights.value() * FINE, None if state is None else state.value() * FINE
    optimiser.update(operation, g, weights, state, rate=rate, decay=decay, epsilon=epsilon)
    grad = g.view(np.int16) * UNIT
    rounding = FINE / 2 if wide else UNIT / 2
    if state is None or old is None:
        step = grad
    else:
        wanted = old + grad**2 if squares else real_decay * old + grad
        limit = 8 - (2.0**-13 + FINE if wide else UNIT)
        assert np.all(np.abs(state.value() * FINE - np.clip(wanted, -8, limit)) <= rounding * 1.01)
        stored = state.value() * FINE  # what is stored is what counts
        if operation is OptimiserOperation.MOMENTUM:
            step = stored
        else:
            sums = np.maximum(stored, 0) + epsilon * FINE
            step = grad / (np.sqrt(sums) if operation is OptimiserOperation.ADAGRAD else sums)
            step = np.clip(step, -16, 16)
    wanted = np.clip(before - real_rate * step, -8, 8 - (2.0**-13 if wide else UNIT))
    slack = np.abs(real_rate * step) * 2.0**-12 + 2 * rounding + FINE
    assert np.all(np.abs(weights.value() * FINE - wanted) <= slack)
    assert np.any(weights.value() * FINE != before)


def test_the_inverse_root_is_close_everywhere() -> None:
    spread = (2.0 ** np.linspace(0, 31.9999, 200_000)).astype(np.int64)
    arguments = np.unique(np.concatenate([np.arange(1, 5000), spread, [(1 << 32) - 1]]))
    root, z = optimiser.inverse_root(arguments)
    assert np.all((root >= 1 << 15) & (root < 1 << 16)) and np.all(z % 2 == 0)
    exact = 2.0**16 / np.sqrt(arguments * 2.0**z / 2.0**30)
    assert np.max(np.abs(root / exact - 1)) < 2.0**-14
    assert np.all(np.diff(root[z == 0]) <= 0)


def test_random_bits_are_the_generators() -> None:
    """Doubling up gives what step after step does."""
    state, found = 0x12345678, []
    for _ in range(1000):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        found.append(state)
    assert optimiser.random_words(0x12345678, 1000).tolist() == found
    assert not optimiser.random_words(0, 5).any()


def test_rounding_at_random_is_right_in_the_mean() -> None:
    """A step of a tenth of a last place moves a tenth of the weights."""
    weights = Number(np.zeros(1 << 16, np.uint16), None)
    g = np.full(1 << 16, 4096, np.uint16)
    made = optimiser.update(OptimiserOperation.SGD, g, weights, None, rate=factor_word(Q3_12, UNIT / 10), generator=1)
    found = weights.high.view(np.int16)
    assert set(found) == {-1, 0} and abs(-found.mean() - 0.1) < 0.005
    assert made.generator == optimiser.random_words(1, 1 << 16)[-1]
    nearest = Number(np.zeros(1 << 16, np.uint16), None)
    optimiser.update(OptimiserOperation.SGD, g, nearest, None, rate=factor_word(Q3_12, UNIT / 10))
    assert not nearest.high.any()


def test_wide_weights_keep_what_narrow_ones_lose() -> None:
    wide = Number(np.zeros(1, np.uint16), np.zeros(1, np.uint16))
    for _ in range(100):
        optimiser.update(OptimiserOperation.SGD, np.array([4096], np.uint16), wide, None,
                         rate=factor_word(Q3_12, UNIT / 10))
    assert wide.value()[0] * FINE == pytest.approx(-10 * UNIT, rel=1e-3)


def test_ends_are_counted_and_kept() -> None:
    for wide in (False, True):
        high = np.array([0x7FFF, 0x8000, 0], np.uint16)
        weights = Number(high, np.zeros(3, np.uint16) if wide else None)
        g = np.array([0x8000, 0x7FFF, 0x7FFF], np.uint16)
        made = optimiser.update(OptimiserOperation.SGD, g, weights, None, rate=factor_word(Q3_12, 1.0))
        assert made.saturated == 2
        assert weights.high.tolist() == [0x7FFF, 0x8000, 0x8001]


@pytest.mark.parametrize(("operation", "epsilon", "beyond"), [
    (OptimiserOperation.SGD, 1, 0), (OptimiserOperation.MOMENTUM, 1, 0), (OptimiserOperation.ADAGRAD, 1 << 8, 0),
    (OptimiserOperation.ADAGRAD_PRINTED, 1 << 11, 2), (OptimiserOperation.ADAGRAD_PRINTED, 1 << 20, 0)])
def test_quotients_beyond_their_ends_count(operation: OptimiserOperation, epsilon: int, beyond: int) -> None:
    """Of gradients of 0, 2^-12 and 2^-11, whose squares a narrow state does not hold, and of a quarter."""
    g = np.array([0, 1, -2, 1 << 10], np.int16).view(np.uint16)
    weights, state = (Number(np.zeros(4, np.uint16), None) for _ in range(2))
    made = optimiser.update(operation, g, weights, None if operation is OptimiserOperation.SGD else state,
                            rate=factor_word(Q3_12, 0.01), decay=factor_word(Q3_12, 0.9), epsilon=epsilon)
    assert made.saturated == beyond
