"""Vector engine against the golden model: whole memory image, over programs, shapes and stalls."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, simulate
from tests.support.engine_bench import body_words, run_tasks
from tests.support.memory_model import MemoryModel
from tests.support.vector_programs import random_image, random_task

from plinth_hw.isa.parameters import preset
from plinth_hw.isa.tasks import ErrorCode, VectorBody, VectorOperation
from plinth_hw.vector.engine import VectorEngine
from plinth_sim.golden import vector

PARAMETERS = preset("ndp-tiny")
B = PARAMETERS.beat_words
WORDS = 1 << 14
BASES = [9 * number for number in range(16)]
SOURCE = (200, 4000)
DESTINATION = (8000, WORDS - 100)
PROGRAM = VectorOperation.PROGRAM.value


def golden(words: np.ndarray, fields: dict[str, Any]) -> None:
    vector.execute(words, fields, BASES, beat_words=B, buffer_words=PARAMETERS.vector_buffer_words)


def moved_words(fields: dict[str, Any]) -> int:
    """Words that a task loads and stores."""
    total = 0
    for move in fields["load"] + fields["store"]:
        region = fields["regions"][move["region"]]
        rows, columns = (1 if region["is_row"] else fields["rows"],
                         1 if region["is_column"] else fields["columns"])
        if region["is_column"]:
            rows, columns = 1, rows
        total += rows * (-(-columns // 2) if move["packed"] else columns)
    return total


def run(fields: list[dict[str, Any]], seed: int = 0, stall: bool = False, availability: float = 0.5,
        latency: int = 6) -> tuple[Any, list[Any]]:
    """Run tasks on the engine and the golden model; compare memory, errors and counters."""
    memory = MemoryModel(PARAMETERS, WORDS)
    memory.words[:] = random_image(np.random.default_rng(seed), WORDS)
    expected = memory.words.copy()
    for body in fields:
        golden(expected, body)
    dut = VectorEngine(PARAMETERS)
    results: list[Any] = []
    strobes: list[tuple[int, ...]] = []

    async def watch(ctx: Any) -> None:
        while True:
            *_, sample = await ctx.tick().sample(dut.engine.strobes)
            states = (sample.busy, sample.stall_input, sample.stall_output, sample.stall_memory)
            assert sum(states) <= 1
            strobes.append((*states, sample.words))

    simulate(dut, *run_tasks(dut.engine, [(PROGRAM, body_words(VectorBody, body)) for body in fields], BASES,
                             results, lambda: randomly(5, 0.3)),
             limit_cycles=100_000, background=[watch, *memory.benches(
                 [dut.load_memory], [dut.store_memory], seed=seed if stall else None,
                 latency=latency, availability=availability, response_delay=latency)])
    wrong = np.nonzero(memory.words != expected)[0]
    assert not len(wrong), [(at, hex(memory.words[at]), hex(expected[at])) for at in wrong[:8]]
    counted = np.array(strobes).sum(axis=0)
    assert [result.error for result in results] == [ErrorCode.NONE] * len(fields)
    assert [result.payload_words for result in results] == [moved_words(body) for body in fields]
    assert counted[4] == sum(result.payload_words for result in results)
    assert counted[1:4].sum() == sum(result.stall_cycles for result in results)
    return counted, results


@pytest.mark.parametrize(("seed", "stall", "availability", "latency"), [
    (1, False, 1, 1), (2, False, 1, 30), (3, True, 0.5, 3), (4, True, 0.9, 9), (5, True, 0.2, 1)])
def test_random_programs(seed: int, stall: bool, availability: float, latency: int) -> None:
    rng = np.random.default_rng(seed)
    run([random_task(PARAMETERS, rng, SOURCE, DESTINATION, BASES) for _ in range(10)],
        seed, stall, availability, latency)
