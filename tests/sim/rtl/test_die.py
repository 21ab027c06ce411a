"""Compiled co-simulation of whole dies against the golden model: same driver, same graphs, same memory."""

import numpy as np
import pytest
from tests.support.compiled import compare
from tests.support.dies import FIXED, MIXED, ROWS, ROWS_FIXED
from tests.support.dies import NDP as TINY
from tests.support.graphs import random_program

from plinth.driver.driver import DieError, Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa.operations import Engine, MatrixOperation, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 18


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dies", [1, 2, 4])
def test_random_graphs_give_equal_memory(dies: int, seed: int) -> None:
    program, buffers = random_program(TINY, dies, seed, 40, MEMORY_WORDS)
    compare(program, buffers, seed, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("die", [MIXED, FIXED, ROWS, ROWS_FIXED],
                         ids=["mixed", "fixed", "rows", "fixed rows"])
def test_random_graphs_of_other_dies(die: DieParameters, seed: int) -> None:
    program, buffers = random_program(die, 2, seed, 40, MEMORY_WORDS)
    compare(program, buffers, seed, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("die", [FIXED, ROWS_FIXED], ids=["fixed", "fixed rows"])
def test_numbers_at_the_ends_of_their_format_are_counted_as_in_the_golden_model(die: DieParameters) -> None:
    program, buffers = random_program(die, 2, 3, 60, MEMORY_WORDS)
    saturations = []
    for make in (CosimArray, GoldenArray):
        array, generator = make(die, 2, MEMORY_WORDS), np.random.default_rng(0)
        driver = Driver(array, program, memory_words=MEMORY_WORDS)
        for number in range(2):
            for buffer in buffers:
                shape = buffer.rows, buffer.columns
                values = np.where(generator.random(shape) < 0.1, 2.0**26, 10 * generator.standard_normal(shape))
                driver.write_floats(number, buffer, values.astype(np.float32))
        driver.step(0)
        driver.clear_counters()
        driver.step(0)
        saturations.append([driver.saturations(number) for number in range(2)])
    assert saturations[0] == saturations[1]
    assert all(sum(counts[name] for counts in saturations[0]) > 0 for name in ("sums", "results"))


@pytest.mark.parametrize(("memory_latency", "write_latency", "link_latency"), [(1, 1, 1), (200, 100, 40)])
def test_latencies_change_nothing_in_memory(memory_latency: int, write_latency: int,
                                            link_latency: int) -> None:
    program, buffers = random_program(TINY, 3, 77, 40, MEMORY_WORDS)
    compare(program, buffers, 77, memory_words=MEMORY_WORDS, memory_latency=memory_latency,
            write_latency=write_latency, link_latency=link_latency)


def test_threads_that_come_and_go_change_no_cycle() -> None:
    """However many there are, and whichever of them runs which die when."""
    program, buffers = random_program(TINY, 4, 5, 40, MEMORY_WORDS)
    outcomes = []
    for threads, unrest in ((1, 0), (2, 0), (4, 0), (2, 1), (4, 2)):
        with CosimArray(TINY, 4, MEMORY_WORDS, threads=threads, unrest=unrest) as rtl:
            driver = Driver(rtl, program, memory_words=MEMORY_WORDS)
            for die in range(4):
                for buffer in buffers:
                    driver.write_floats(die, buffer, np.ones((buffer.rows, buffer.columns), dtype=np.float32))
            driver.clear_counters()
            cycles = driver.step(0)
            outcomes.append((cycles, [(driver.records(die), driver.counters(die), rtl.dies[die].memory.tobytes())
                                      for die in range(4)]))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def single(engine: Engine, operation, body, *, task_changes=None):
    """A graph of one task, its descriptor's words changed by ``task_changes``."""
    builder = GraphBuilder(TINY)
    place = builder.allocate("x", 8, 8)
    builder.add("victim", engine, operation, body(place), reads=[place])
    program = assemble([ring_setup(TINY, [0, 1], die, 0) for die in range(2)],
                       [builder, builder], memory_words=MEMORY_WORDS)
    return program, task_changes or {}


def gemm_body(place, **changes):
    return {"a": place.pointer, "a_stride": 8, "b": place.pointer, "b_stride": 8, "c": place.pointer,
            "c_stride": 8, "m": 4, "n": 4, "k": 4, **changes}


@pytest.mark.parametrize(("body", "changes", "code"), [
    (lambda place: gemm_body(place, m=0), {}, "BAD_OPERAND"),
    (lambda place: gemm_body(place, a={"offset": MEMORY_WORDS + 64, "base": 0}), {}, "BAD_ADDRESS"),
    (lambda place: gemm_body(place, c={"offset": MEMORY_WORDS - 8, "base": 0}), {}, "BAD_ADDRESS"),
    (gemm_body, {0: lambda word: word | 0xF}, "BAD_ENGINE"),
    (gemm_body, {0: lambda word: word | MatrixOperation.CONVOLUTION.value << 4}, "BAD_OPERAND"),
    (gemm_body, {0: lambda word: word | 0xF0}, "BAD_OPERATION"),
    (gemm_body, {2: lambda word: 200, 3: lambda word: word | 1}, "BAD_COUNTER"),
])
def test_a_bad_descriptor_is_reported_with_its_task(body, changes, code: str) -> None:
    program, _ = single(Engine.MATRIX, MatrixOperation.GEMM, body)
    for make in (CosimArray, GoldenArray):
        array = make(TINY, 2, MEMORY_WORDS)
        driver = Driver(array, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
        address = program.step[1].address
        words = array.dies[1].read_memory(address, 64)
        for index, change in changes.items():
            words[index] = change(int(words[index]))
        array.dies[1].write_memory(address, words)
        if not changes:
            # The other die runs the same graph without the fault.
            good = assemble([ring_setup(TINY, [0, 1], die, 0) for die in range(2)],
                            [_good_builder(), _good_builder()], memory_words=MEMORY_WORDS)
            array.dies[0].write_memory(address, np.array(good.step[0].tasks[0].words, dtype=np.uint32))
        with pytest.raises(DieError, match=rf"die 1: task 'victim' at word {address:#x} stopped with {code}"):
            driver.step(0)


def _good_builder() -> GraphBuilder:
    builder = GraphBuilder(TINY)
    place = builder.allocate("x", 8, 8)
    builder.add("victim", Engine.TRANSFER, TransferOperation.COPY, {
        "source": place.pointer, "destination": place.pointer, "columns": 4, "rows": 1, "planes": 1},
        reads=[place])
    return builder


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
def test_a_wait_that_is_never_met_is_named_with_its_counter(make) -> None:
    program, _ = single(Engine.MATRIX, MatrixOperation.GEMM, gemm_body)
    array = make(TINY, 2, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS, watchdog_cycles=5_000)
    for die in range(2):
        address = program.step[die].address
        words = array.dies[die].read_memory(address, 64)
        words[2], words[3], words[4] = 9, words[3] | 1, 3
        array.dies[die].write_memory(address, words)
    with pytest.raises(DieError, match=r"TIMEOUT; matrix engine of die \d \(victim\) waits for counter 9 to "
                                       r"reach 3, it is 0"):
        driver.step(0)


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
def test_dies_are_started_and_awaited_one_by_one(make) -> None:
    """Nobody waits for a die that has not been started; dies that were started together end in any order."""
    program = assemble([ring_setup(TINY, [0, 1], die, 0) for die in range(2)], [_good_builder(), _good_builder()],
                       memory_words=MEMORY_WORDS)
    array = make(TINY, 2, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    for order in ([0], [1], [0, 1], [1, 0]):
        before = driver.cycles
        for die in sorted(order):
            driver.start(die, 0)
        cycles = [driver.wait(die) for die in order]
        assert driver.cycles - before == sum(cycles)
        for die in order:
            assert [record.task for record in driver.records(die)] == ["victim"]
        with pytest.raises(ValueError, match=rf"die {order[0]} was not started"):
            driver.wait(order[0])
