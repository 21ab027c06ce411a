"""Optimiser against the golden model: the whole memory, over rules, shapes, stalls and refusals."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.engine_bench import body_words
from tests.support.refusal import refused
from tests.support.updates import halves, random_update, squares
from tests.support.verilated_engine import Outcome, VerilatedEngine

from plinth_hw.isa.layout import unpack
from plinth_hw.isa.operations import ErrorCode, OptimiserOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.update_bodies import OptimiserBody
from plinth_hw.optimiser.engine import OptimiserEngine
from plinth_sim.golden import optimiser
from plinth_sim.golden.vector import BadOperandError

pytestmark = pytest.mark.xdist_group("optimiser-engine")

TINY, DEMO = preset("fpga-tiny"), preset("fpga-demo")
SLOTS, SLOT_WORDS = 8, 1024
BASES = [64 * number for number in range(16)]
#: Slots begin here.
FIRST = BASES[-1]
SGD, MOMENTUM, ADAGRAD, PRINTED = OptimiserOperation
Task = tuple[int, dict[str, Any]]


@cache
def engine(parameters: DieParameters) -> VerilatedEngine:
    return VerilatedEngine(OptimiserEngine(parameters), parameters, OptimiserBody, ["read"], ["write"])


def image(seed: int) -> np.ndarray:
    """Slots of numbers, of which half are for the most part not below zero."""
    rng = np.random.default_rng(seed)
    words = halves(rng, FIRST + SLOTS * SLOT_WORDS)
    words[:len(words) // 2] = squares(rng, words[:len(words) // 2])
    return words


def execute(memory: np.ndarray, task: Task, parameters: DieParameters) -> None:
    operation, fields = task
    body = unpack(OptimiserBody, np.array(body_words(OptimiserBody, fields), np.uint32))
    optimiser.execute(memory, OptimiserOperation(operation), body, BASES, parameters.beat_words)


def moved_words(task: Task) -> int:
    """Words that a task reads and writes."""
    operation, body = task
    state = 0 if operation == SGD.value else 1 + body["wide_state"]
    return body["rows"] * body["columns"] * (1 + 2 * (state + 1 + body["wide_weights"]))


def run(tasks: list[Task], parameters: DieParameters = DEMO, seed: int = 1, **settings: Any) -> Outcome:
    """Run tasks on engine and golden model; compare memory and what is counted."""
    memory = image(seed)
    expected = memory.copy()
    for task in tasks:
        execute(expected, task, parameters)
    outcome = engine(parameters).run([(operation, body_words(OptimiserBody, body)) for operation, body in tasks], BASES,
                                     memory, seed=seed, **settings)
    wrong = np.flatnonzero(memory != expected)
    assert not len(wrong), [(int(at), hex(memory[at]), hex(expected[at])) for at in wrong[:8]]
    assert [done.error for done in outcome.done] == [ErrorCode.NONE] * len(tasks)
    assert [done.payload_words for done in outcome.done] == [moved_words(task) for task in tasks]
    assert outcome.words == sum(done.payload_words for done in outcome.done)
    assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    return outcome


def tasks(seed: int, count: int, parameters: DieParameters = DEMO) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [random_update(rng, parameters.beat_words, SLOTS, SLOT_WORDS, BASES) for _ in range(count)]


def plain(operation: OptimiserOperation, **fields: Any) -> Task:
    """A task of a row, its vectors in the slots."""
    body = {"columns": 960, "rows": 1, "stride": 960, "state_stride": 960, "rate": 1 | 4 << 16, "decay": 7 | 3 << 16,
            "epsilon": 1 << 20, "wide_weights": 0, "wide_state": 0, "stochastic": 0}
    pointers = {name: {"offset": FIRST + SLOT_WORDS * slot, "base": 0} for slot, name in enumerate(
        ("gradient", "state", "state_low", "weights", "weights_low", "generator"))}
    return operation.value, body | pointers | fields


@pytest.mark.parametrize(("seed", "availability", "latency"), [
    (1, 1, 1), (2, 1, 60), (3, 0.5, 5), (4, 0.9, 20), (5, 0.1, 2)])
def test_random_updates(seed: int, availability: float, latency: int) -> None:
    run(tasks(seed, 200), seed=seed, availability=availability, latency=latency)


def test_random_updates_of_narrow_beats() -> None:
    run(tasks(7, 200, TINY), TINY, availability=0.8, latency=9)


@pytest.mark.parametrize("operation", OptimiserOperation)
@pytest.mark.parametrize("wide", [0, 1])
def test_a_word_a_cycle(operation: OptimiserOperation, wide: int) -> None:
    """Long rows: all cycles but those before the first word and after the last one are of words."""
    outcome = run([plain(operation, wide_weights=wide, wide_state=wide)], latency=20)
    assert outcome.busy == 960 and outcome.last_busy - outcome.first_busy == 959


@pytest.mark.parametrize(("operation", "fields", "error"), [
    (4, {}, ErrorCode.BAD_OPERATION), (15, {"columns": 0}, ErrorCode.BAD_OPERATION),
    (0, {"columns": 0}, ErrorCode.BAD_OPERAND), (1, {"rows": 0}, ErrorCode.BAD_OPERAND),
    (2, {"epsilon": 0}, ErrorCode.BAD_OPERAND), (3, {"epsilon": 0}, ErrorCode.BAD_OPERAND),
    (1, {"epsilon": 0}, ErrorCode.NONE), (0, {"stride": 964}, ErrorCode.BAD_OPERAND),
    (0, {"state_stride": 961}, ErrorCode.BAD_OPERAND),
    *((operation, {name: {"offset": FIRST + 1022, "base": 0}, **flags}, error) for operation, name, flags, error in (
        (0, "gradient", {}, ErrorCode.BAD_OPERAND), (0, "weights", {}, ErrorCode.BAD_OPERAND),
        (0, "weights_low", {"wide_weights": 1}, ErrorCode.BAD_OPERAND), (0, "weights_low", {}, ErrorCode.NONE),
        (1, "state", {}, ErrorCode.BAD_OPERAND), (0, "state", {"wide_state": 1}, ErrorCode.NONE),
        (2, "state_low", {"wide_state": 1}, ErrorCode.BAD_OPERAND), (2, "state_low", {}, ErrorCode.NONE),
        (0, "state_low", {"wide_state": 1}, ErrorCode.NONE),
        (3, "generator", {"stochastic": 1}, ErrorCode.BAD_OPERAND), (3, "generator", {}, ErrorCode.NONE)))])
def test_refusals(operation: int, fields: dict[str, Any], error: ErrorCode) -> None:
    """A task that is refused leaves memory as it is; the next one runs. The golden model refuses the same."""
    refused_task, next_task = (operation, plain(SGD, **fields)[1]), plain(MOMENTUM, columns=33)
    memory = image(3)
    expected = memory.copy()
    if error is ErrorCode.NONE:
        execute(expected, refused_task, DEMO)
    elif error is ErrorCode.BAD_OPERAND:
        with pytest.raises(BadOperandError):
            execute(expected, refused_task, DEMO)
    execute(expected, next_task, DEMO)
    both = [(number, body_words(OptimiserBody, body)) for number, body in (refused_task, next_task)]
    outcome = engine(DEMO).run(both, BASES, memory)
    assert [done.error for done in outcome.done] == [error, ErrorCode.NONE]
    np.testing.assert_array_equal(memory, expected)


def test_dies_of_floating_point_have_none() -> None:
    with refused(ValueError, match="updates fixed-point weights, not float32"):
        OptimiserEngine(preset("ndp-tiny"))
