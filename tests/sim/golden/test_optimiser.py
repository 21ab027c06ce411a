"""Updates against real arithmetic that knows no halves, tables or factors; the generator against its definition."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.sim.golden.test_device import TASKS, WORDS, at, error, filled, run, status, task

from plinth_hw.isa import inverse_root
from plinth_hw.isa.formats import Q3_12, factor_value, factor_word
from plinth_hw.isa.operations import Engine, ErrorCode, OptimiserOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register
from plinth_sim.golden import optimiser
from plinth_sim.golden.optimiser import StoredNumbers

UNIT, FINE = 2.0**-12, 2.0**-28
COUNT = 4096


def words(rng: np.random.Generator, most: int = 1 << 15, count: int = COUNT) -> np.ndarray:
    """Numbers of all magnitudes."""
    sizes = (2.0 ** rng.uniform(0, np.log2(most), count)).astype(np.int64)
    sizes *= rng.choice([-1, 0, 1], count, p=[0.45, 0.1, 0.45])
    return np.clip(sizes, -most, most - 1).astype(np.int16).view(np.uint16)


def number(rng: np.random.Generator, wide: bool, most: int = 1 << 15) -> StoredNumbers:
    low = rng.integers(-1 << 15, 1 << 15, COUNT).astype(np.int16).view(np.uint16) if wide else None
    return StoredNumbers(words(rng, most), low)


def copied(stored: StoredNumbers) -> StoredNumbers:
    return StoredNumbers(stored.high.copy(), None if stored.low is None else stored.low.copy())


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("operation", OptimiserOperation)
def test_updates_are_those_of_real_numbers(operation: OptimiserOperation, wide: bool) -> None:
    """Within what rounding a state and a weight, the table and the ends of Q account for."""
    rng = np.random.default_rng(operation.value * 2 + wide)
    g, weights = words(rng, 1 << 14), number(rng, wide, 1 << 14)
    squares = operation in optimiser.SQUARES
    state = None if operation is OptimiserOperation.SGD else number(rng, wide, 1 << 13)
    if squares and state is not None:
        state = StoredNumbers((state.high & 0x7FFF).astype(np.uint16), state.low)
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


@pytest.mark.parametrize("operation", [OptimiserOperation.ADAGRAD, OptimiserOperation.ADAGRAD_PRINTED])
def test_sums_of_squares_and_epsilon_end_at_all_ones(operation: OptimiserOperation) -> None:
    """Then the root is that of 2^32 - 1, however far they go beyond."""
    most, state_most = (1 << 32) - 1, (1 << 31) - (1 << 15) - 1
    found = []
    for epsilon in (most - state_most, most - state_most + 1, most - state_most + 2, most):
        weights, state = (StoredNumbers(np.array([high], np.int16).view(np.uint16), np.zeros(1, np.uint16))
                          for high in (0, 0x7FFF))
        g = np.array([1 << 14], np.int16).view(np.uint16)
        optimiser.update(operation, g, weights, state, rate=factor_word(Q3_12, 1), epsilon=epsilon)
        assert state.value()[0] == state_most
        found.append(int(weights.value()[0]))
    assert len(set(found)) == 1
    assert abs(found[0] * FINE + (1 / 4 if operation is OptimiserOperation.ADAGRAD_PRINTED else 1)) < 2.0**-12


def test_knots_are_the_nearest_numbers() -> None:
    """To 2^18 / sqrt(1 + s / 64), but for the first; with R of 16 bits everywhere."""
    first, *knots = inverse_root.knots()
    assert len(knots) == 192 and (first + 2) // 4 == 65535 and (first + 3) // 4 == 65536
    for s, knot in enumerate(knots, 1):
        assert (2 * knot - 1) ** 2 * (64 + s) < 4 * 64 * 2**36 < (2 * knot + 1) ** 2 * (64 + s)


def test_random_bits_are_the_generators() -> None:
    """Doubling up gives what step after step does."""
    state, generated = 0x12345678, []
    for _ in range(1000):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        generated.append(state)
    assert optimiser.random_words(0x12345678, 1000).tolist() == generated
    assert not optimiser.random_words(0, 5).any()


def test_rounding_at_random_is_right_in_the_mean() -> None:
    """A step of a tenth of a last place moves a tenth of the weights."""
    weights = StoredNumbers(np.zeros(1 << 16, np.uint16), None)
    g = np.full(1 << 16, 4096, np.uint16)
    counts = optimiser.update(OptimiserOperation.SGD, g, weights, None, rate=factor_word(Q3_12, UNIT / 10), generator=1)
    moves = weights.high.view(np.int16)
    assert set(moves) == {-1, 0} and abs(-moves.mean() - 0.1) < 0.005
    assert counts.generator == optimiser.random_words(1, 1 << 16)[-1]
    nearest = StoredNumbers(np.zeros(1 << 16, np.uint16), None)
    optimiser.update(OptimiserOperation.SGD, g, nearest, None, rate=factor_word(Q3_12, UNIT / 10))
    assert not nearest.high.any()


def test_wide_weights_keep_what_narrow_ones_lose() -> None:
    wide = StoredNumbers(np.zeros(1, np.uint16), np.zeros(1, np.uint16))
    for _ in range(100):
        optimiser.update(OptimiserOperation.SGD, np.array([4096], np.uint16), wide, None,
                         rate=factor_word(Q3_12, UNIT / 10))
    assert wide.value()[0] * FINE == pytest.approx(-10 * UNIT, rel=1e-3)


def test_ends_are_counted_and_kept() -> None:
    for wide in (False, True):
        high = np.array([0x7FFF, 0x8000, 0], np.uint16)
        weights = StoredNumbers(high, np.zeros(3, np.uint16) if wide else None)
        g = np.array([0x8000, 0x7FFF, 0x7FFF], np.uint16)
        counts = optimiser.update(OptimiserOperation.SGD, g, weights, None, rate=factor_word(Q3_12, 1.0))
        assert counts.saturated == 2
        assert weights.high.tolist() == [0x7FFF, 0x8000, 0x8001]


@pytest.mark.parametrize(("weight", "gradient", "low", "beyond"), [
    (0x7FFF, -1, 0, 1), (0x7FFF, -1, -1, 0), (0x7FFE, -1, 0, 0), (-0x8000, 1, 0, 1), (-0x8000, 1, 1 << 14, 1),
    (-0x7FFF, 1, 0, 0)])
def test_the_first_sum_beyond_its_end_counts(weight: int, gradient: int, low: int, beyond: int) -> None:
    """Of 2^-12 at a rate of one: 8 and what is above it, and what is below -8, not 8 - 2^-28 and -8."""
    weights = StoredNumbers(*(np.array([each], np.int16).view(np.uint16) for each in (weight, low)))
    counts = optimiser.update(OptimiserOperation.SGD, np.array([gradient], np.int16).view(np.uint16), weights, None,
                              rate=factor_word(Q3_12, 1.0))
    assert counts.saturated == beyond


@pytest.mark.parametrize(("operation", "epsilon", "beyond"), [
    (OptimiserOperation.SGD, 1, 0), (OptimiserOperation.MOMENTUM, 1, 0), (OptimiserOperation.ADAGRAD, 1 << 8, 0),
    (OptimiserOperation.ADAGRAD_PRINTED, 1 << 11, 2), (OptimiserOperation.ADAGRAD_PRINTED, 1 << 20, 0)])
def test_quotients_beyond_their_ends_count(operation: OptimiserOperation, epsilon: int, beyond: int) -> None:
    """Of gradients of 0, 2^-12 and 2^-11, whose squares a narrow state does not hold, and of a quarter."""
    g = np.array([0, 1, -2, 1 << 10], np.int16).view(np.uint16)
    weights, state = (StoredNumbers(np.zeros(4, np.uint16), None) for _ in range(2))
    counts = optimiser.update(operation, g, weights, None if operation is OptimiserOperation.SGD else state,
                              rate=factor_word(Q3_12, 0.01), decay=factor_word(Q3_12, 0.9), epsilon=epsilon)
    assert counts.saturated == beyond


FIXED = preset("fpga-tiny")
BEAT = FIXED.beat_words
ROWS, COLUMNS, STRIDE, STATE_STRIDE = 3, 7, 5 * BEAT, 4 * BEAT
#: Base registers, and the operands' offsets and bases: all words differ.
BASES = {3: 2 * BEAT, 5: 7 * BEAT, 11: 31 * BEAT}
OPERANDS = {"gradient": (0, 3), "state": (101 * BEAT, 0), "state_low": (140 * BEAT, 5), "weights": (30 * BEAT, 11),
            "weights_low": (200 * BEAT, 3), "generator": (251 * BEAT, 5)}


def address(name: str) -> int:
    offset, base = OPERANDS[name]
    return offset + BASES.get(base, 0)


def body(operation: OptimiserOperation, wide_weights: int, wide_state: int, stochastic: int, **fields: Any
         ) -> dict[str, Any]:
    """Pointers that are not used lead to no beat, and beyond the memory."""
    used = {"gradient", "weights"} | ({"weights_low"} if wide_weights else set()) | (
        {"generator"} if stochastic else set())
    if operation is not OptimiserOperation.SGD:
        used |= {"state", "state_low"} if wide_state else {"state"}
    pointers = {name: at(*place) if name in used else at(WORDS + 1) for name, place in OPERANDS.items()}
    return {"wide_weights": wide_weights, "wide_state": wide_state, "stochastic": stochastic, **pointers,
            "columns": COLUMNS, "rows": ROWS, "stride": STRIDE, "state_stride": STATE_STRIDE,
            "rate": factor_word(Q3_12, -0.37), "decay": factor_word(Q3_12, 0.83), "epsilon": 77, **fields}


class Image:
    """Words of 16 bits, signed, in whole numbers of Python."""

    def __init__(self, words: np.ndarray):
        self.words = [int(word) for word in words.view(np.int16)]
        self.beyond = 0

    def clipped(self, value: int, bits: int) -> int:
        """To the ends of signed numbers; counted where it is beyond."""
        limited = min(max(value, -1 << bits - 1), (1 << bits - 1) - 1)
        self.beyond += limited != value
        return limited

    def load(self, high: int, low: int | None) -> int:
        return (self.words[high] << 16) + (0 if low is None else self.words[low])

    def store(self, value: int, high: int, low: int | None, noise: int | None) -> int:
        if low is not None:
            value = min(value, (1 << 31) - (1 << 15) - 1)
            self.words[high] = value + (1 << 15) >> 16
            self.words[low] = value - (self.words[high] << 16)
        else:
            rounded = round(Fraction(value, 1 << 16)) if noise is None else value + noise >> 16
            self.words[high] = min(max(rounded, -1 << 15), (1 << 15) - 1)
        return self.load(high, low)


def root_of(argument: int) -> tuple[int, int]:
    """R and z, by the formula of the table."""
    z = next(z for z in range(0, 32, 2) if argument << z >= 1 << 30)
    m, knots = argument << z, inverse_root.knots()
    s, d = (m >> 24) - 64, (m >> 14) % 1024
    return (knots[s] + (knots[s + 1] - knots[s]) * d // 1024 + 2) // 4, z


def updated(image: Image, operation: OptimiserOperation, fields: dict[str, Any]) -> None:
    """The task word by word, in rational numbers."""
    rate, decay = (Fraction(factor_value(Q3_12, fields[name])) for name in ("rate", "decay"))
    generator = None
    if fields["stochastic"]:
        low, high = (word % (1 << 16) for word in image.words[address("generator"):address("generator") + 2])
        generator = low + (high << 16)
    for row, column in itertools.product(range(ROWS), range(COLUMNS)):
        near, far = row * STRIDE + column, row * STATE_STRIDE + column
        noise: tuple[int | None, int | None] = (None, None)
        if generator is not None:
            generator ^= generator << 13 & 0xFFFFFFFF
            generator ^= generator >> 17
            generator ^= generator << 5 & 0xFFFFFFFF
            noise = generator % (1 << 16), generator >> 16
        g = image.words[address("gradient") + near]
        weight = address("weights") + near, address("weights_low") + far if fields["wide_weights"] else None
        state = address("state") + far, address("state_low") + far if fields["wide_state"] else None
        if operation is OptimiserOperation.SGD:
            quotient = g << 17
        elif operation is OptimiserOperation.MOMENTUM:
            total = image.clipped(round(decay * image.load(*state)) + (g << 16), 32)
            quotient = 2 * image.store(total, *state, noise[1])
        else:
            stored = image.store(image.clipped(image.load(*state) + 16 * g * g, 32), *state, noise[1])
            root, z = root_of(min(max(stored, 0) + fields["epsilon"], (1 << 32) - 1))
            quotient = image.clipped(g * root << z // 2 if operation is OptimiserOperation.ADAGRAD
                                     else round(Fraction(g * root * root << z, 1 << 17)), 34)
        image.store(image.clipped(image.load(*weight) - round(rate * quotient / 2), 32), *weight, noise[0])
    if generator is not None:
        pair = np.array([generator], dtype=np.uint32).view(np.int16)
        image.words[address("generator"):address("generator") + 2] = [int(word) for word in pair]


@pytest.mark.parametrize(("wide_weights", "wide_state", "stochastic"), list(itertools.product((0, 1), repeat=3)))
@pytest.mark.parametrize("operation", OptimiserOperation)
def test_tasks_change_just_their_words(operation: OptimiserOperation, wide_weights: int, wide_state: int,
                                       stochastic: int) -> None:
    """To the bit, in all of a die's memory; rows and operands apart from each other, numbers at the ends among them."""
    rng = np.random.default_rng([operation.value, wide_weights, wide_state, stochastic])
    image = words(rng, count=WORDS)
    image[rng.random(WORDS) < 0.03] = 0x8000
    image[rng.random(WORDS) < 0.03] = 0x7FFF
    for rate, epsilon in ((-0.37, 77), (3.0, 1 << 20)):
        fields = body(operation, wide_weights, wide_state, stochastic, rate=factor_word(Q3_12, rate), epsilon=epsilon)
        array, (before,) = filled(FIXED, image, [task((operation, fields))], bases=BASES)
        wanted = Image(before)
        updated(wanted, operation, fields)
        run(array)
        assert (status(array), *error(array)) == (2, 0, 0, 0)
        assert array.dies[0].read_memory(0, WORDS).view(np.int16).tolist() == wanted.words
        assert array.dies[0].read_register(Register.RESULTS_BEYOND) == wanted.beyond


LAST = ROWS * STRIDE - STRIDE + COLUMNS


@pytest.mark.parametrize(("operation", "fields", "code"), [
    (OptimiserOperation.SGD, {"rows": 0}, ErrorCode.BAD_OPERAND),
    (OptimiserOperation.SGD, {"columns": 0}, ErrorCode.BAD_OPERAND),
    (OptimiserOperation.SGD, {"stride": STRIDE + 1}, ErrorCode.BAD_OPERAND),
    (OptimiserOperation.SGD, {"state_stride": STATE_STRIDE + 2}, ErrorCode.BAD_OPERAND),
    *((OptimiserOperation.MOMENTUM, {name: at(offset + 1, base)}, ErrorCode.BAD_OPERAND)
      for name, (offset, base) in OPERANDS.items()),
    *((OptimiserOperation.MOMENTUM, {name: at(WORDS - BEAT)}, ErrorCode.BAD_ADDRESS)
      for name in OPERANDS if name != "generator"),
    (OptimiserOperation.MOMENTUM, {"generator": at(WORDS)}, ErrorCode.BAD_ADDRESS),
    (OptimiserOperation.ADAGRAD, {"epsilon": 0}, ErrorCode.BAD_OPERAND),
    (OptimiserOperation.ADAGRAD_PRINTED, {"epsilon": 0}, ErrorCode.BAD_OPERAND),
    (OptimiserOperation.MOMENTUM, {"epsilon": 0}, None), (OptimiserOperation.SGD, {"epsilon": 0}, None),
    (OptimiserOperation.SGD, {"gradient": at(WORDS - LAST // BEAT * BEAT - BEAT)}, None),
    (OptimiserOperation.SGD, {"gradient": at(WORDS - LAST // BEAT * BEAT)}, ErrorCode.BAD_ADDRESS)])
def test_tasks_that_are_refused_touch_nothing(operation: OptimiserOperation, fields: dict[str, Any],
                                              code: ErrorCode | None) -> None:
    image = words(np.random.default_rng(5), count=WORDS)
    array, (before,) = filled(FIXED, image, [task((operation, body(operation, 1, 1, 1, **fields)))], bases=BASES)
    run(array)
    changed = bool((array.dies[0].read_memory(0, WORDS) != before).any())
    if code is None:
        assert status(array) == 2 and changed
    else:
        assert error(array) == (code.value, TASKS, Engine.OPTIMISER.value) and not changed
