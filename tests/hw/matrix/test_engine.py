"""Matrix engine against the golden model: the whole memory image, over shapes, storage and stalls."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from tests.support.engine_bench import body_words
from tests.support.refusal import refused
from tests.support.systolic import numbers
from tests.support.verilated_engine import Outcome, VerilatedEngine

from plinth_hw.isa.formats import FP16, FP32, Q3_12, Format, word_type
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.engine import MatrixEngine
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.matrix.systolic import SystolicArray
from plinth_sim.golden import matrix

pytestmark = pytest.mark.xdist_group("systolic-engine")

PARAMETERS = {
    "tiny": preset("ndp-tiny"),
    "mixed": preset("ndp-tiny", multiply_format=FP16, output_buffer_words=128),  # one tile
    "fixed": preset("fpga-tiny"),
    "fixed, as cells": preset("fpga-tiny", rows=2, columns=3, beat_words=4),
    # The fewest slots of an element.
    "fixed, 2 slots": preset("fpga-tiny", interleave=2),
    "6x10": preset("ndp-tiny", rows=6, columns=10, beat_words=16, output_buffer_words=1024,
                   operand_buffer_words=2048, memory_words_per_cycle=10),
    # More rows than a beat has words.
    "7x4": preset("fpga-tiny", rows=7, operand_buffer_words=2048),
}
GEOMETRIES = {name: Geometry(parameters) for name, parameters in PARAMETERS.items()}
ENGINES = ["tiny", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixed", "fixed", "6x10", "7x4"))]
WORDS = 1 << 18
#: Operands lie in the first part of memory, each task's C in a place of its own in the second.
DESTINATION = 1 << 16
BASES = [9 * number for number in range(16)]
GEMM = MatrixOperation.GEMM.value

Fields = dict[str, Any]
Pointer = dict[str, int]


@cache
def engine(name: str) -> VerilatedEngine:
    return VerilatedEngine(MatrixEngine(PARAMETERS[name]), PARAMETERS[name], MatrixBody,
                           ["a_memory", "b_memory", "c_memory"], ["store_memory"],
                           "cells" if "cells" in name else "loops")


def words_of(fields: Fields) -> list[int]:
    return body_words(MatrixBody, fields)


def image(name: str, rng: np.random.Generator, kind: str) -> np.ndarray:
    """Memory with operands and sums of a kind."""
    parameters = PARAMETERS[name]
    operands, sums = matrix.storage(parameters.multiply_format), matrix.stored(parameters.multiply_format)
    word = word_type(parameters.memory_format)
    return np.concatenate([numbers(rng, kind, (DESTINATION * parameters.packing,), operands).view(word),
                           numbers(rng, kind, (WORDS - DESTINATION,), sums).view(word)])


class Writer:
    """Tasks for one engine, C after C."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.packing = PARAMETERS[name].packing
        self.rng = rng
        self.at = DESTINATION
        self.tasks: list[Fields] = []

    def pointer(self, address: int) -> Pointer:
        base = int(self.rng.integers(0, 16))
        return {"base": base, "offset": address - BASES[base]}

    def source(self, rows: int, columns: int, lane: int | None, gap: int | None) -> tuple[Pointer, int]:
        """Pointer and stride of an operand anywhere, or at a given lane of a beat of 16 words."""
        words = -(-columns // self.packing)
        stride = words + (int(self.rng.integers(0, 20)) if gap is None else gap)
        room = DESTINATION - rows * stride - 256
        address = 256 + int(self.rng.integers(0, room))
        if lane is not None:
            address = address // 16 * 16 + lane
        return self.pointer(address), stride

    def gemm(self, m: int, n: int, k: int, option: int, *flags: bool, accumulate: bool = False,
             lanes: Sequence[int | None] = (None, None, None), gap: int | None = None) -> Fields:
        """Append a task; ``flags`` transpose A, transpose B, accumulate; ``lanes`` of A, B, C."""
        transpose_a, transpose_b, accumulate = (*flags, *(False, False, accumulate)[len(flags):])
        a, a_stride = self.source(*((k, m) if transpose_a else (m, k)), lanes[0], gap)
        b, b_stride = self.source(*((n, k) if transpose_b else (k, n)), lanes[1], gap)
        c_stride = n + (int(self.rng.integers(0, 6)) if gap is None else gap)
        if lanes[2] is None:
            self.at += int(self.rng.integers(0, 10))
        else:
            self.at = -(-self.at // 16) * 16 + lanes[2]
        fields = {"a": a, "a_stride": a_stride, "b": b, "b_stride": b_stride, "c": self.pointer(self.at),
                  "c_stride": c_stride, "m": m, "n": n, "k": k, "transpose_a": transpose_a,
                  "transpose_b": transpose_b, "accumulate": accumulate, "interleave_m_log2": option}
        self.at += m * c_stride
        assert self.at <= WORDS
        self.tasks.append(fields)
        return fields

    def random(self, largest: int, longest: int) -> Fields:
        """Append a task with sizes up to ``largest`` (``longest`` for K), small ones more often."""
        rng = self.rng

        def size(most: int) -> int:
            return int(most ** rng.random() + 0.5) if rng.random() < 0.6 else int(rng.integers(1, most + 1))

        return self.gemm(size(largest), size(largest), size(longest), int(rng.integers(0, 4)),
                         *map(bool, rng.integers(0, 2, 3)))


def golden(memory: np.ndarray, fields: Fields, parameters: DieParameters) -> None:
    """Run a task on the golden model."""
    packing, item = parameters.packing, memory.itemsize

    def block(pointer: Pointer, rows: int, columns: int, stride: int) -> np.ndarray:
        start = BASES[pointer["base"]] + pointer["offset"]
        return as_strided(memory[start:], (rows, columns), (item * stride, item))

    def operand(name: str, rows: int, columns: int) -> np.ndarray:
        words = block(fields[name], rows, -(-columns // packing), fields[f"{name}_stride"]).copy()
        return words.view(matrix.storage(parameters.multiply_format))[:, :columns]

    m, n, k = (fields[size] for size in "mnk")
    a = operand("a", *((k, m) if fields["transpose_a"] else (m, k)))
    b = operand("b", *((n, k) if fields["transpose_b"] else (k, n)))
    c = block(fields["c"], m, n, fields["c_stride"])
    start = c.copy().view(matrix.stored(parameters.multiply_format)) if fields["accumulate"] else None
    c[...] = matrix.multiply(parameters.multiply_format, a.T if fields["transpose_a"] else a,
                             b.T if fields["transpose_b"] else b, start).view(memory.dtype)


def macs(fields: Fields) -> int:
    return fields["m"] * fields["n"] * fields["k"]


def moved_words(fields: Fields, geometry: Geometry) -> int:
    """Words that a task with an operand a word loads and stores: a panel that is still there is not loaded
    again, which is A's while n advances, and B's while m advances if there is one n block."""
    m, n, k = (fields[size] for size in "mnk")
    option = fields["interleave_m_log2"]
    m_blocks, n_blocks = -(-m // geometry.a_span[option]), -(-n // geometry.b_span[option])
    resident = k <= 2 * geometry.panel_k[option]
    return (m * k * (1 if resident else n_blocks) + k * n * (1 if resident and n_blocks == 1 else m_blocks)
            + m * n * (1 + fields["accumulate"]))


def check_memory(memory: np.ndarray, expected: np.ndarray) -> None:
    wrong = np.nonzero(memory != expected)[0]
    assert not len(wrong), [(int(at), hex(memory[at]), hex(expected[at])) for at in wrong[:8]]


def run(name: str, tasks: list[Fields], kind: str = "plain", errors: list[ErrorCode] | None = None,
        operations: list[int] | None = None, **settings: Any) -> Outcome:
    """Run tasks on engine and golden model; compare memory, completions and strobes."""
    parameters = PARAMETERS[name]
    errors = errors or [ErrorCode.NONE] * len(tasks)
    ran = [fields if error == ErrorCode.NONE else None for fields, error in zip(tasks, errors, strict=True)]
    good = [fields for fields in ran if fields is not None]
    memory = image(name, np.random.default_rng(len(tasks)), kind)
    expected = memory.copy()
    for fields in good:
        golden(expected, fields, parameters)
    numbered = zip(operations or [GEMM] * len(tasks), map(words_of, tasks), strict=True)
    outcome = engine(name).run(list(numbered), BASES, memory, **settings)
    check_memory(memory, expected)
    assert [done.error for done in outcome.done] == errors
    assert [done.useful_macs for done in outcome.done] == [macs(fields) if fields else 0 for fields in ran]
    assert [done.payload_words for done in outcome.done] == [
        fields["m"] * fields["n"] if fields else 0 for fields in ran]
    assert outcome.useful_macs == sum(done.useful_macs for done in outcome.done)
    assert outcome.issued_macs == outcome.busy * parameters.rows * parameters.columns
    assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    if parameters.packing == 1:
        assert outcome.words == sum(moved_words(fields, GEOMETRIES[name]) for fields in good)
    return outcome


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("seed", "availability", "latency", "kind"), [
    (1, 1, 1, "plain"), (2, 1, 60, "small"), (3, 0.5, 5, "special"), (4, 0.9, 20, "bits"),
    (5, 0.12, 2, "plain")])
def test_random_tasks(name: str, seed: int, availability: float, latency: int, kind: str) -> None:
    """Tasks of any shape one after another: sizes are no multiples of anything, operands at any alignment."""
    writer = Writer(name, np.random.default_rng(seed))
    for _ in range(60):
        writer.random(70, 150)
    run(name, writer.tasks, kind, seed=seed, availability=availability, latency=latency)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "special"])
def test_fixed_point_as_cells(kind: str) -> None:
    """The form of the array for synthesis; special sums are beyond the format."""
    writer = Writer("fixed, as cells", np.random.default_rng(7))
    for _ in range(40):
        writer.random(20, 60)
    run("fixed, as cells", writer.tasks, kind, latency=9)


@pytest.mark.slow
def test_two_slots_are_enough_in_fixed_point() -> None:
    writer, rng = Writer("fixed, 2 slots", np.random.default_rng(8)), np.random.default_rng(9)
    for _ in range(40):
        m, n, k = (int(rng.integers(1, most)) for most in (40, 40, 80))
        writer.gemm(m, n, k, int(rng.integers(0, 2)), *map(bool, rng.integers(0, 2, 3)))
    run("fixed, 2 slots", writer.tasks, latency=9)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("option", range(4))
def test_sizes_round_a_tile_and_a_panel(name: str, option: int) -> None:
    """One less, as many, and one more than a tile has rows and columns, and than a panel, or two, has
    k steps; all flags."""
    geometry = GEOMETRIES[name]
    writer = Writer(name, np.random.default_rng(option))
    panel = geometry.panel_k[option]
    flags = list(product((False, True), repeat=3))
    for number, (more_m, more_n) in enumerate(product((-1, 0, 1), repeat=2)):
        for more, k in enumerate((panel - 1, panel, panel + 1, 2 * panel, 2 * panel + 1)):
            writer.gemm(geometry.a_span[option] + more_m, geometry.b_span[option] + more_n, k, option,
                        *flags[(3 * number + more) % len(flags)])
    run(name, writer.tasks)


@pytest.mark.parametrize("name", ENGINES)
def test_few_k_steps(name: str) -> None:
    """Tiles that end before the drain of the one before is far enough: K < R, with and without loads of C."""
    writer = Writer(name, np.random.default_rng(3))
    for option, k, accumulate in product(range(4), range(1, PARAMETERS[name].rows + 2), (False, True)):
        writer.gemm(50, 50, k, option, accumulate=accumulate)
    run(name, writer.tasks)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("availability", [0.15, 0.5])
def test_shapes_change_while_tiles_wait(name: str, availability: float) -> None:
    """Tasks of a few tiles with another interleave shape each, where stores are slow: tiles of the task
    before still lie in the output buffer."""
    writer = Writer(name, np.random.default_rng(11))
    for number in range(40):
        option = (0, 3, 1, 2, 3, 0, 2, 1)[number % 8]
        writer.gemm(GEOMETRIES[name].a_span[option] + 1, GEOMETRIES[name].b_span[option], 6, option,
                    accumulate=number % 3 == 0)
    run(name, writer.tasks, availability=availability, latency=1)


@pytest.mark.parametrize("name", ENGINES)
def test_alignment(name: str) -> None:
    """Every word of a beat that a row can start at, for each operand, and strides that keep and change it."""
    writer = Writer(name, np.random.default_rng(4))
    for a_lane, b_lane in product(range(0, 16, 3), range(16)):
        writer.gemm(5, 9, 11, 1, bool(a_lane & 1), bool(b_lane & 1), bool(b_lane & 2),
                    lanes=(a_lane, b_lane, (a_lane + 5 * b_lane) % 16), gap=(0, 1, 5)[b_lane % 3])
    run(name, writer.tasks)


@pytest.mark.parametrize("name", ENGINES)
def test_a_chain_of_sums_is_ascending(name: str) -> None:
    """A sum over several panels that any other order would round differently."""
    writer = Writer(name, np.random.default_rng(6))
    for option in range(4):
        writer.gemm(3, 3, 700, option, False, bool(option & 1))
    run(name, writer.tasks)


@pytest.mark.parametrize("change", [
    {"m": 0}, {"n": 0}, {"k": 0}, {"m": 0, "n": 0, "k": 0}, {"interleave_m_log2": 4},
    {"interleave_m_log2": 15}, {"k": 0, "accumulate": True}])
@pytest.mark.parametrize("availability", [1, 0.4])
def test_bad_operand(change: Fields, availability: float) -> None:
    """An unfit body is refused, memory is left alone, and the tasks beside it run."""
    writer = Writer("tiny", np.random.default_rng(1))
    good = [writer.gemm(9, 17, 20, 2), writer.gemm(30, 5, 3, 0, accumulate=True), writer.gemm(5, 40, 90, 1)]
    bad = writer.gemm(8, 16, 12, 1) | change
    tasks = [bad, good[0], bad, bad, good[1], good[2], bad]
    errors = [ErrorCode.BAD_OPERAND if fields is bad else ErrorCode.NONE for fields in tasks]
    run("tiny", tasks, errors=errors, availability=availability)


def test_bad_operation() -> None:
    writer = Writer("tiny", np.random.default_rng(2))
    tasks = [writer.gemm(9, 17, 20, option, accumulate=bool(option & 1)) for option in (0, 1, 2, 3, 1)]
    errors = [ErrorCode.BAD_OPERATION, ErrorCode.NONE, ErrorCode.BAD_OPERATION, ErrorCode.BAD_OPERATION,
              ErrorCode.NONE]
    run("tiny", tasks, errors=errors, operations=[2, GEMM, 15, GEMM + 2, GEMM])


def window(outcome: Outcome) -> int:
    """Cycles from the first multiply-add to the last."""
    return outcome.last_busy - outcome.first_busy + 1


@pytest.mark.parametrize("name", ENGINES)
def test_utilisation(name: str) -> None:
    """A large task on whole tiles, and what comes before and after it."""
    parameters, geometry = PARAMETERS[name], GEOMETRIES[name]
    writer = Writer(name, np.random.default_rng(7))
    fields = writer.gemm(8 * geometry.a_span[1], 4 * geometry.b_span[1], 128, 1, gap=0, lanes=(0, 0, 0))
    outcome = run(name, [fields])
    places = parameters.rows * parameters.columns
    assert macs(fields) >= 0.99 * window(outcome) * places
    assert macs(fields) >= 0.95 * outcome.cycles * places


def test_tasks_follow_each_other() -> None:
    """No pause from one task to the next, whatever the latency of memory; before the first panel is there, a
    k step or two may be late."""
    writer = Writer("tiny", np.random.default_rng(8))
    for number in range(6):
        writer.gemm(16, 32, 40, 1, bool(number & 1), bool(number & 2), gap=0, lanes=(0, 0, 0))
    for latency in (1, 30):
        outcome = run("tiny", writer.tasks, latency=latency)
        assert outcome.busy == sum(macs(fields) for fields in writer.tasks) // 16
        assert window(outcome) - outcome.busy <= 16


@pytest.mark.parametrize(("k", "accumulate"), [
    (1, False), (3, False), (5, False), (6, False), (40, False), (4, True), (5, True), (40, True)])
def test_cycles_of_a_tile(k: int, accumulate: bool) -> None:
    """What one tile more costs is what docs/matrix.md says."""
    rows, interleave = PARAMETERS["tiny"].rows, PARAMETERS["tiny"].interleave

    def cycles(tiles: int) -> int:
        writer = Writer("tiny", np.random.default_rng(9))
        writer.gemm(8, 16 * tiles, k, 1, accumulate=accumulate, gap=0, lanes=(0, 0, 0))
        return window(run("tiny", writer.tasks, latency=3))

    assert cycles(9) - cycles(8) == interleave * (k + rows + 1 if accumulate else max(k, rows + 1))


def test_stalls_have_their_cause() -> None:
    """Late operands, results without a place, and a missing response are told apart."""
    def stalls(m: int, n: int, k: int, latency: int) -> tuple[int, int, int]:
        writer = Writer("tiny", np.random.default_rng(10))
        writer.gemm(m, n, k, 1, gap=0, lanes=(0, 0, 0))
        outcome = run("tiny", writer.tasks, latency=latency)
        return outcome.stall_input, outcome.stall_output, outcome.stall_memory

    near, far = stalls(8, 16, 16, 4), stalls(8, 16, 16, 504)
    assert near[1] == far[1] == 0
    assert abs(far[0] - near[0] - 500) < 8  # a step of the feeder
    assert far[2] - near[2] == 500
    # Behind the last step of a tile only its store is waited for, however long its operands took.
    assert stalls(4, 4, 1, 4)[2] == stalls(4, 4, 64, 4)[2]
    few, many = stalls(8, 160, 2, 4), stalls(8, 320, 2, 4)  # three steps of the five that a store takes
    assert abs(sum(many) - sum(few) - 10 * 3 * 8) < 8
    assert many[1] - few[1] > 2 * (many[0] - few[0])


def test_bad_parameters() -> None:
    with refused(ValueError, "operand_buffer_words = 8 does not hold one k step"):
        MatrixEngine(preset("ndp-tiny", operand_buffer_words=8))


@pytest.mark.parametrize(("operands", "least"), [(FP32, 6), (Q3_12, 2)], ids=str)
def test_slots_hide_the_adder(operands: Format, least: int) -> None:
    with refused(ValueError, f"Interleave must be at least {least} for sums of"):
        SystolicArray(operands, replace(PARAMETERS["tiny"], multiply_format=operands).sum_format, 2, 2, least - 1)
