"""Vector engine against the golden model: the whole memory image, over programs, shapes and stalls."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from tests.support.amaranth_sim import randomly, simulate
from tests.support.engine_bench import body_words, run_tasks
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused
from tests.support.vector_programs import (
    REDUCTIONS,
    SHAPES,
    TWO_SOURCES,
    ProgramWriter,
    random_image,
    random_task,
)
from tests.support.verilated_engine import Outcome, VerilatedEngine

from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.functions import TABLES
from plinth_hw.isa.operations import ErrorCode, VectorOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.vector_body import VectorBody, VectorFunction, VectorOp
from plinth_hw.memory import banks
from plinth_hw.memory.banks import Bank
from plinth_hw.vector.checks import PROGRAM_BASE
from plinth_hw.vector.engine import VectorEngine
from plinth_hw.vector.units import units
from plinth_sim.golden import vector

pytestmark = pytest.mark.xdist_group("vector-engine")

TINY = preset("ndp-tiny")
#: Of 16-bit words.
FIXED = preset("fpga-tiny")
LATENCIES = units(TINY).latencies
WORDS = 1 << 15
BASES = [9 * number for number in range(16)]
SOURCE = (200, 8000)
DESTINATION = (8000, WORDS - 100)
#: Cycles between the programs of two tasks.
TASK_CYCLES = 14
PROGRAM = VectorOperation.PROGRAM.value


@cache
def engine(parameters: DieParameters) -> VerilatedEngine:
    return VerilatedEngine(VectorEngine(parameters), parameters, VectorBody, ["load_memory"], ["store_memory"])


def words_of(fields: dict[str, Any]) -> list[int]:
    return body_words(VectorBody, fields)


def golden(memory: np.ndarray, words: list[int], parameters: DieParameters) -> None:
    vector.execute(memory, words, BASES, beat_words=parameters.beat_words,
                   buffer_words=parameters.vector_buffer_words, fmt=parameters.memory_format)


def moved_words(fields: dict[str, Any]) -> int:
    """Words that a task loads and stores."""
    total = 0
    for move in fields["load"] + fields["store"]:
        region = fields["regions"][move["region"]]
        rows = 1 if region["is_row"] else fields["rows"]
        columns = 1 if region["is_column"] else fields["columns"]
        if region["is_column"]:
            rows, columns = 1, rows
        total += rows * (-(-columns // 2) if move["packed"] else columns)
    return total


def check_memory(memory: np.ndarray, expected: np.ndarray) -> None:
    wrong = np.nonzero(memory != expected)[0]
    assert not len(wrong), [(int(at), hex(memory[at]), hex(expected[at])) for at in wrong[:8]]


def run(fields: list[dict[str, Any]], parameters: DieParameters = TINY, image: np.ndarray | None = None,
        **settings: Any) -> Outcome:
    """Run tasks on engine and golden model; compare memory, errors and counters."""
    memory = random_image(np.random.default_rng(len(fields)), WORDS,
                          parameters.memory_format) if image is None else image.copy()
    expected = memory.copy()
    for body in fields:
        golden(expected, words_of(body), parameters)
    outcome = engine(parameters).run([(PROGRAM, words_of(body)) for body in fields], BASES, memory,
                                          **settings)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == [ErrorCode.NONE] * len(fields)
    assert [done.payload_words for done in outcome.done] == [moved_words(body) for body in fields]
    assert outcome.words == sum(done.payload_words for done in outcome.done)
    assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    return outcome


@pytest.mark.parametrize(("seed", "availability", "latency"), [
    (1, 1, 1), (2, 1, 60), (3, 0.5, 5), (4, 0.9, 20), (5, 0.1, 2)])
def test_random_programs(seed: int, availability: float, latency: int) -> None:
    """Up to 21 instructions on up to eight regions of 1 .. 20 rows and columns, packed and plain moves."""
    rng = np.random.default_rng(seed)
    run([random_task(TINY, rng, SOURCE, DESTINATION, BASES) for _ in range(150)],
        seed=seed, availability=availability, latency=latency)


@pytest.mark.parametrize(("seed", "availability", "latency"), [(1, 1, 1), (3, 0.5, 5), (4, 0.9, 20)])
def test_random_programs_in_fixed_point(seed: int, availability: float, latency: int) -> None:
    rng = np.random.default_rng(seed)
    run([random_task(FIXED, rng, SOURCE, DESTINATION, BASES) for _ in range(150)], FIXED,
        seed=seed, availability=availability, latency=latency)


@pytest.mark.slow
def test_random_programs_on_a_wider_engine() -> None:
    rng = np.random.default_rng(9)
    parameters = preset("ndp-demo")
    tasks = [random_task(parameters, rng, SOURCE, DESTINATION, BASES, largest=50) for _ in range(300)]
    run(tasks, parameters, availability=0.8, latency=20)


def single(op: VectorOp, shapes: tuple[str, ...], rows: int, columns: int, rng: np.random.Generator,
           at: int, **settings: Any) -> dict[str, Any]:
    """A task of one instruction: regions 0 <- 1, 2 of these shapes."""
    writer = ProgramWriter(TINY, rows, columns, list(shapes), rng)
    for number in (1, 2)[:len(shapes) - 1]:
        _, words = writer.words(number, False)
        writer.move("load", number, 0, int(rng.integers(SOURCE[0], SOURCE[1] - 500)), words + 1, False)
    writer.run(op, 0, 1, **{"b": 2, **settings})
    _, words = writer.words(0, False)
    writer.move("store", 0, 0, at, words, False)
    writer.body["immediates"] = random_image(rng, 4).tolist()
    return writer.body


@pytest.mark.parametrize("op", VectorOp)
def test_every_shape(op: VectorOp) -> None:
    """An instruction with every pair of shapes that it may have, in both directions."""
    rng = np.random.default_rng(op.value)
    tasks = []
    at = DESTINATION[0]
    sources = 2 if op in TWO_SOURCES else 1
    for shapes in product(SHAPES, repeat=1 + sources):
        dst, *rest = (SHAPES[shape] for shape in shapes)
        if op in REDUCTIONS:
            fits = (dst[0] - rest[0][0], dst[1] - rest[0][1]) in ((0, 1), (1, 0))
        else:
            fits = all(d <= s for source in rest for d, s in zip(dst, source, strict=True))
        for along, _ in product((False, True), range(3) if fits else ()):
            rows, columns = int(rng.integers(1, 21)), int(rng.integers(1, 17))
            settings: dict[str, Any] = {"lanes_along_rows": along, "immediate": int(rng.integers(0, 4))}
            if op is VectorOp.FUNCTION:
                settings["b"] = int(rng.choice([function.value for function in TABLES]))
            tasks.append(single(op, shapes, rows, columns, rng, at, **settings))
            at = DESTINATION[0] + (at + rows * columns - DESTINATION[0]) % 16000
    assert tasks
    run(tasks)


class JunkBank(Bank):
    """Reads junk where a word is read and written in the same cycle."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        met = Signal()
        with m.If(self.read_enable):
            m.d.sync += met.eq(self.write_enable & (self.write_line == self.read_line))
        with m.If(met):
            m.d.comb += self.read_data.eq(0xDEADBEEF)
        return m


def test_in_amaranth_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banks, "Bank", JunkBank)
    rng = np.random.default_rng(3)
    fields = [random_task(TINY, rng, SOURCE, DESTINATION, BASES, largest=9, instructions=6) for _ in range(4)]
    memory = MemoryModel(TINY, WORDS)
    memory.words[:] = random_image(rng, WORDS)
    expected = memory.words.copy()
    for body in fields:
        golden(expected, words_of(body), TINY)
    dut = VectorEngine(TINY)
    results: list[Any] = []
    simulate(dut, *run_tasks(dut.engine, VectorBody, [(PROGRAM, words_of(body)) for body in fields], BASES, results,
                             lambda: randomly(5, 0.3)),
             limit_cycles=20_000, background=memory.benches([dut.load_memory], [dut.store_memory], seed=4))
    check_memory(memory.words, expected)
    assert [result.error for result in results] == [ErrorCode.NONE] * len(fields)


@pytest.mark.parametrize("op", [VectorOp.SCALE, VectorOp.ADD], ids=["products", "sums"])
def test_numbers_at_an_end_are_counted(op: VectorOp) -> None:
    """Fixed point: of every shape, in both directions, and none twice."""
    rng = np.random.default_rng(8)
    memory = MemoryModel(FIXED, WORDS)
    memory.words[:] = rng.integers(0, 1 << 16, WORDS)
    fields = []
    for dst, along in product(SHAPES, (False, True)):
        rows, columns = int(rng.integers(1, 12)), int(rng.integers(1, 12))
        fields.append(single(op, (dst, dst, dst)[:2 + (op in TWO_SOURCES)], rows, columns, rng,
                             DESTINATION[0] + 500 * len(fields), lanes_along_rows=along))
        fields.append(random_task(FIXED, rng, SOURCE, (20000, WORDS - 100), BASES, largest=9, instructions=6))
    expected = memory.words.copy()
    ends = sum(vector.execute(expected, words_of(body), BASES, fmt=FIXED.memory_format) for body in fields)
    dut = VectorEngine(FIXED)
    counted: list[int] = []

    async def count(ctx: Any) -> None:
        async for *_, saturations in ctx.tick().sample(dut.ends):
            counted.append(saturations)

    results: list[Any] = []
    simulate(dut, *run_tasks(dut.engine, VectorBody, [(PROGRAM, words_of(body)) for body in fields], BASES, results),
             limit_cycles=40_000, background=[count, *memory.benches([dut.load_memory], [dut.store_memory], seed=4)])
    check_memory(memory.words, expected)
    assert sum(counted) == ends > 50


@pytest.mark.parametrize("packed", [False, True])
def test_move_alignment(packed: bool) -> None:
    """Every lane that a row can start in, on both sides, with lengths round the beat."""
    rng = np.random.default_rng(6)
    tasks = []
    lanes = TINY.beat_words
    for source, destination in product(range(lanes), range(lanes)):
        columns = (1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes - 1, 2 * lanes, 2 * lanes + 1, 4 * lanes,
                   4 * lanes + 3)[(source + 3 * destination) % 10]
        writer = ProgramWriter(TINY, 3, columns, ["full", "row", "column"], rng)
        for number in range(3):
            _, words = writer.words(number, packed)
            writer.move("load", number, 0, 1000 + source + 300 * number, words + source, packed)
            writer.move("store", number, 0, 8000 + destination + 304 * number, words + destination, packed)
        tasks.append(writer.body)
    run(tasks)


def unfit(change: str, good: dict[str, Any]) -> list[int]:
    """Words of ``good`` with one thing that the engine must refuse."""
    lines = TINY.vector_buffer_words // TINY.beat_words
    regions = [dict(region) for region in good["regions"]]
    program = [dict(instruction) for instruction in good["program"]]
    load, store = ([dict(move) for move in good[kind]] for kind in ("load", "store"))
    counts = {}
    if change == "region beyond the end":
        regions[0]["line"] = lines - 1
    elif change == "wide region beyond the end":
        counts["columns"] = 8 * lines
    elif change == "load of region 8":
        load[0]["region"] = 8
    elif change == "store of region 15":
        store[0]["region"] = 15
    elif change in ("rows", "columns"):
        counts[change] = 0
    elif change in ("loads", "stores", "instructions"):
        counts[change] = {"loads": 5, "stores": 4, "instructions": 22}[change]
    elif change == "unknown instruction":
        words = words_of(good)
        words[PROGRAM_BASE] |= 31
        return words
    elif change == "lost dimension":
        program[0]["dst"] = 1
    elif change == "source that is not written":
        program[0]["a"] = 4
    elif change == "second source that is not written":
        program[0]["b"] = 4
    elif change == "store of what is not written":
        store[0]["region"] = 3
    elif change == "store of what a load that is not used would write":
        load[2:] = [dict(load[0], region=3)]
        store[0]["region"] = 3
    elif change == "nothing but a store":
        counts = {"loads": 0, "instructions": 0}
    elif change == "reduction of nothing":
        program[0] = {"op": VectorOp.SUM, "dst": 0, "a": 0}
    elif change == "reduction of everything":
        program[0] = {"op": VectorOp.MAXIMUM, "dst": 2, "a": 0}
    else:
        assert change == "reduction that grows"
        program[0] = {"op": VectorOp.SUM, "dst": 3, "a": 1}
    return words_of({**good, **counts, "regions": regions, "program": program, "load": load, "store": store})


def good_task(rng: np.random.Generator) -> dict[str, Any]:
    """Region 0 full, 1 row, 2 a single, 3 column: 0 = 0 + 1."""
    writer = ProgramWriter(TINY, 5, 11, ["full", "row", "single", "column"], rng)
    writer.move("load", 0, 0, 300, 13, False)
    writer.move("load", 1, 0, 500, 13, False)
    writer.run(VectorOp.ADD, 0, 0, 1)
    writer.move("store", 0, 0, 9000, 11, False)
    return writer.body


@pytest.mark.parametrize("change", [
    "region beyond the end", "wide region beyond the end", "load of region 8", "store of region 15", "rows",
    "columns", "loads", "stores", "instructions", "unknown instruction", "lost dimension",
    "source that is not written", "second source that is not written", "store of what is not written",
    "store of what a load that is not used would write", "nothing but a store",
    "reduction of nothing", "reduction of everything", "reduction that grows"])
def test_bad_operand(change: str) -> None:
    """An unfit body is refused, memory is left alone, and the tasks beside it run."""
    rng = np.random.default_rng(1)
    fields = good_task(rng)
    good, bad = words_of(fields), unfit(change, fields)
    memory = random_image(rng, WORDS)
    expected = memory.copy()
    with pytest.raises(vector.BadOperandError):
        golden(expected.copy(), bad, TINY)
    golden(expected, good, TINY)
    outcome = engine(TINY).run([(PROGRAM, bad), (PROGRAM, good), (PROGRAM, bad)], BASES, memory)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == [
        ErrorCode.BAD_OPERAND, ErrorCode.NONE, ErrorCode.BAD_OPERAND]
    assert [done.payload_words for done in outcome.done] == [0, moved_words(fields), 0]


@pytest.mark.parametrize("parameters", [TINY, FIXED])
def test_functions_that_lanes_lack_are_refused(parameters: DieParameters) -> None:
    """Every number that the field has room for."""
    rng = np.random.default_rng(3)
    memory = random_image(rng, WORDS, parameters.memory_format)
    expected = memory.copy()
    numbers = range(1 << VectorFunction.bits)
    known = [number in {function.value for function in units(parameters).functions} for number in numbers]
    bodies = []
    for number in numbers:
        writer = ProgramWriter(parameters, 3, 5, ["full"], rng)
        writer.move("load", 0, 0, 300, 5, False)
        writer.run(VectorOp.FUNCTION, 0, 0, number)
        writer.move("store", 0, 0, 9000 + 20 * number, 5, False)
        bodies.append(words_of(writer.body))
        if known[number]:
            golden(expected, bodies[-1], parameters)
        else:
            with refused(vector.BadOperandError, match="VectorFunction|no function of these lanes"):
                golden(expected, bodies[-1], parameters)
    outcome = engine(parameters).run([(PROGRAM, body) for body in bodies], BASES, memory)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == [
        ErrorCode.NONE if good else ErrorCode.BAD_OPERAND for good in known]


def test_bad_operation() -> None:
    rng = np.random.default_rng(2)
    good = words_of(good_task(rng))
    memory = random_image(rng, WORDS)
    expected = memory.copy()
    golden(expected, good, TINY)
    outcome = engine(TINY).run([(PROGRAM + 1, good), (PROGRAM, good), (15, [0] * BODY_WORDS)], BASES,
                                    memory)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == [
        ErrorCode.BAD_OPERATION, ErrorCode.NONE, ErrorCode.BAD_OPERATION]


def test_refuses_what_the_golden_model_refuses() -> None:
    """Bodies with a random bit changed where the engine checks; among them tasks that run."""
    rng = np.random.default_rng(8)
    memory = random_image(rng, WORDS)
    expected = memory.copy()
    tasks: list[tuple[int, list[int]]] = []
    errors = []
    bodies = [words_of(random_task(TINY, rng, SOURCE, DESTINATION, BASES)) for _ in range(40)]
    while len(tasks) < 150:
        good = bodies[int(rng.integers(0, len(bodies)))]
        words = list(good)
        index = int(rng.choice([0, 1, *range(2, 10), 12, 15, 18, 21, 24, 27, 30, *range(35, BODY_WORDS)]))
        words[index] ^= 1 << int(rng.integers(0, 32))
        try:
            vector.check_fit(program := vector.decode(words), TINY.beat_words, TINY.vector_buffer_words)
            vector.check_written(program)
        except vector.BadOperandError:
            tasks.append((PROGRAM, words))
            errors.append(ErrorCode.BAD_OPERAND)
            continue
        if rng.random() < 0.1:
            golden(expected, good, TINY)
            tasks.append((PROGRAM, good))
            errors.append(ErrorCode.NONE)
    outcome = engine(TINY).run(tasks, BASES, memory, seed=3, availability=0.7)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == errors


@pytest.mark.parametrize("op", VectorOp)
def test_cycles_of_an_instruction(op: VectorOp) -> None:
    """What one instruction more costs is what docs/vector.md says."""
    rng = np.random.default_rng(0)
    lanes = TINY.beat_words
    rows, columns = 5, 4 * lanes + 1
    shapes = ["row" if op in REDUCTIONS else "full", "full", "row"]

    def cycles(count: int) -> int:
        body = single(op, tuple(shapes), rows, columns, np.random.default_rng(0), DESTINATION[0],
                      b=1 if op is VectorOp.FUNCTION else 2)
        body["program"] *= count
        body["instructions"] = count
        return run([body], image=random_image(rng, WORDS)).cycles

    groups = -(-columns // lanes)
    steps = {VectorOp.FUNCTION: rows * columns}.get(
        op, 8 * -(-groups // 4) * rows if op in REDUCTIONS else 2 * groups * rows)
    assert cycles(5) - cycles(4) == steps + 10 + LATENCIES[op]


def test_tasks_overlap() -> None:
    """Loads and stores of a long run hide behind computing, whatever memory's latency."""
    rng = np.random.default_rng(4)
    tasks = []
    for index in range(12):
        writer = ProgramWriter(TINY, 8, 24, ["full", "row"], rng)
        writer.move("load", 0, 0, 400 + 192 * index, 24, False)
        writer.move("load", 1, 0, 300, 24, False)
        writer.run(VectorOp.ADD, 0, 0, 1)
        writer.run(VectorOp.RELU, 0, 0)
        writer.move("store", 0, 0, 9000 + 192 * index, 24, False)
        tasks.append(writer.body)
    compute = 2 * (2 * (8 * 24 // TINY.beat_words) + 10 + LATENCIES[VectorOp.ADD])
    fast, slow = (run(tasks, latency=latency).cycles for latency in (2, 30))
    assert fast - run(tasks[:11], latency=2).cycles == compute + TASK_CYCLES
    # The first load and the last response, and the request of the last store.
    assert slow - fast == 2 * 28


def test_bad_parameters() -> None:
    with refused(ValueError, "Lines must be at least banks"):
        VectorEngine(preset("ndp-tiny", vector_buffer_words=8))
