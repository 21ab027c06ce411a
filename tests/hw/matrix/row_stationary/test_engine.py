"""Row-stationary engine against the golden model: the whole memory image, over products, random tasks and stalls."""

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.engine_bench import body_words
from tests.support.refusal import refused
from tests.support.row_stationary import ADDRESS_MASK, C, W, X, random_body
from tests.support.row_stationary import memory as operands
from tests.support.verilated_engine import Outcome, VerilatedEngine

from plinth_hw.isa.formats import FP16, Q3_12, Float
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.row_stationary import derived
from plinth_hw.matrix.row_stationary.engine import RowStationaryEngine
from plinth_sim.golden import row_stationary

pytestmark = pytest.mark.xdist_group("row-stationary-engine")

PARAMETERS = {
    "tiny": preset("hypar-tiny"),
    # FP16 operands, two to a word.
    "mixed": preset("hypar-tiny", multiply_format=FP16),
    "fixed": preset("hypar-tiny", multiply_format=Q3_12),
    "fixed, as loops": preset("hypar-tiny", multiply_format=Q3_12),
    # A beat of several lines, a bank that is not a power of two.
    "4x6": preset("hypar-tiny", rows=4, columns=6, beat_words=8, operand_buffer_words=768, output_buffer_words=6 * 144,
                  flit_words=2, memory_words_per_cycle=8),
}
ENGINES = ["tiny", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixed", "fixed", "4x6"))]
WORDS = 1 << 16
BASES = [-9 * number & ADDRESS_MASK for number in range(16)]
ROW_STATIONARY = MatrixOperation.ROW_STATIONARY.value
#: Words from the psums of a task to those of the next.
SPACE = 1700


@cache
def engine(name: str) -> VerilatedEngine:
    return VerilatedEngine(RowStationaryEngine(PARAMETERS[name]), PARAMETERS[name], RowStationaryBody,
                           ["x_memory", "w_memory", "c_memory"], ["store_memory"],
                           "loops" if "loops" in name else "cells")


def words_of(body: Any) -> list[int]:
    return body_words(RowStationaryBody, body)


def body(name: str, **fields: Any) -> Any:
    """A task on a map at X, filters at W and psums at C, with what is not named 1, or 0 where it is a place."""
    die = PARAMETERS[name]
    pointers = {key: SimpleNamespace(offset=at, base=0) for key, at in (("x", X), ("w", W), ("c", C))}
    ones = dict.fromkeys((*row_stationary.COUNTS, "row_stride", "column_stride", "row_dilation", "column_dilation"), 1)
    zeros = dict.fromkeys(("row_origin", "column_origin", "accumulate", "x_image", "x_row", "x_column", "x_channel",
                           "w_row", "w_column", "w_channel", "w_filter", "c_image", "c_row", "c_column", "c_run"), 0)
    task = SimpleNamespace(**pointers, **(ones | zeros | {
        key: value & ADDRESS_MASK if key[:2] in ("x_", "w_", "c_") else value for key, value in fields.items()}))
    task.__dict__.update({key: value for key, value in derived(task, die).items() if key not in fields})
    return task


def run(name: str, tasks: Sequence[Any], kind: str = "plain", errors: list[ErrorCode] | None = None,
        operations: list[int] | None = None, **settings: Any) -> Outcome:
    """Run tasks on engine and golden model; compare memory, completions and strobes."""
    parameters = PARAMETERS[name]
    errors = errors or [ErrorCode.NONE] * len(tasks)
    memory = operands(np.random.default_rng(len(tasks)), kind, parameters, WORDS)
    expected = memory.copy()
    useful, stored, issued = [], [], 0
    for task, error in zip(tasks, errors, strict=True):
        if error != ErrorCode.NONE:
            useful.append(0)
            stored.append(0)
            continue
        useful.append(row_stationary.execute(expected, task, BASES, parameters).useful_macs)
        stored.append(task.images * task.rows * task.windows * task.filters)
        issued += _issued(task) * parameters.columns
    numbered = zip(operations or [ROW_STATIONARY] * len(tasks), map(words_of, tasks), strict=True)
    outcome = engine(name).run(list(numbered), BASES, memory, **settings)
    wrong = np.nonzero(memory != expected)[0]
    assert not len(wrong), [(int(at), hex(memory[at]), hex(expected[at])) for at in wrong[:8]]
    assert [done.error for done in outcome.done] == errors
    assert [done.useful_macs for done in outcome.done] == useful
    assert [done.payload_words for done in outcome.done] == stored
    assert outcome.useful_macs == sum(useful)
    assert outcome.issued_macs == issued
    assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    return outcome


def _issued(task: Any) -> int:
    """Multiply-adds of an array column."""
    passes = -(-task.filters // task.filter_step) * task.blocks * task.folds * task.segments
    windows = -(-task.windows // task.interleaved_windows) * task.interleaved_windows
    return (passes * windows * task.filter_step * task.tap_columns * task.tap_channels * task.sets * task.set_rows)


def random_tasks(name: str, seed: int, count: int) -> list[Any]:
    """Tasks whose psums lie apart, as far as there is room."""
    rng = np.random.default_rng(seed)
    tasks = [random_body(rng, PARAMETERS[name]) for _ in range(count)]
    for number, task in enumerate(tasks):
        task.c.offset = C + number % ((WORDS - C) // SPACE) * SPACE
        for pointer in (task.x, task.w, task.c):
            pointer.base = int(rng.integers(0, len(BASES)))
            pointer.offset += -BASES[pointer.base] & ADDRESS_MASK
    return tasks


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("seed", "availability", "latency", "kind"), [
    (1, 1, 1, "plain"), (2, 1, 60, "small"), (3, 0.5, 5, "special"), (4, 0.9, 20, "bits"), (5, 0.12, 2, "plain"),
    (6, 1, 6, "special")])
def test_random_tasks(name: str, seed: int, availability: float, latency: int, kind: str) -> None:
    """Tasks of any blocks, folds, segments, sets and remainders, operands that lie anyhow, one after another: each
    starts while the one before is still being stored."""
    for part in range(5):
        tasks = random_tasks(name, 10 * seed + part, 8)
        run(name, tasks, kind, seed=seed, availability=availability, latency=latency)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "special"])
def test_fixed_point_as_loops(kind: str) -> None:
    """The form of the array for simulation; special psums are beyond the format."""
    for seed in range(5):
        run("fixed, as loops", random_tasks("fixed, as loops", seed, 8), kind, latency=9)


def convolution(name: str, *, images: int, rows: int, columns: int, channels: int, filters: int, kernel: int,
                stride: int, padding: int, map_rows: int, map_columns: int, **mapping: Any) -> Any:
    """Rows of a convolution's outputs: maps [image, row, column, channel], filters [row, column, channel, filter]."""
    return body(name, **{
        "images": images, "rows": rows, "windows": columns, "filters": filters, "kernel_rows": kernel,
        "kernel_columns": kernel, "channels": channels, "map_rows": map_rows, "map_columns": map_columns,
        "row_origin": -padding, "column_origin": -padding, "row_stride": stride, "column_stride": stride,
        "x_image": map_rows * map_columns * channels, "x_row": map_columns * channels, "x_column": channels,
        "x_channel": 1, "w_row": kernel * channels * filters, "w_column": channels * filters, "w_channel": filters,
        "w_filter": 1, "c_image": rows * columns * filters, "c_row": columns * filters, "c_column": filters,
        **mapping})


def _mapping(**fields: int) -> dict[str, int]:
    return fields


PRODUCTS = {
    # 3x3, stride 1, padding 1, channels in blocks of 2, filters in groups with a remainder.
    "fprop": lambda name: convolution(
        name, images=1, rows=4, columns=7, channels=5, filters=11, kernel=3, stride=1, padding=1, map_rows=4,
        map_columns=7, **_mapping(set_rows=3, tap_columns=3, tap_channels=2, filter_step=4, filter_groups=2)),
    # 5x5 on 3 rows: two folds, two segments; stride 2; two images.
    "fprop, strided and folded": lambda name: convolution(
        name, images=2, rows=2, columns=4, channels=3, filters=6, kernel=5, stride=2, padding=2, map_rows=9,
        map_columns=8, **_mapping(set_rows=3, tap_columns=3, filter_step=6, interleaved_windows=2, accumulate=1)),
    # Filters swapped and turned: w[channel' = filter] backwards, neighbours are channels.
    "bprop": lambda name: convolution(
        name, images=2, rows=2, columns=6, channels=6, filters=3, kernel=3, stride=1, padding=1, map_rows=6,
        map_columns=6, **_mapping(
            set_rows=1, sets=3, tap_columns=3, tap_channels=2, filter_step=3, interleaved_windows=2, filter_groups=1,
            w_row=-3 * 18, w_column=-18, w_channel=1, w_filter=6)),
    # dw of a 3x3 layer of 4 channels, stride 2: windows are pairs of channels, the psums run over dz of two images.
    "updateGrad": lambda name: body(
        name, images=2, rows=2, windows=6, window_run=2, filters=5, filter_step=5, filter_groups=1, kernel_rows=4,
        kernel_columns=4, channels=2, set_rows=3, tap_columns=3, row_origin=-1, column_origin=-1, row_dilation=2,
        column_dilation=2, map_rows=8, map_columns=8, x_image=2, x_row=32, x_column=4, x_channel=256, w_row=20,
        w_column=5, w_channel=80, w_filter=1, c_image=10, c_row=60, c_column=20, c_run=5),
    # A[21, 30] B[30, 13] on 4 columns of 5 rows; one row of A more than the tasks have.
    "fc fprop": lambda name: body(
        name, rows=4, windows=5, filters=13, filter_step=4, filter_groups=2, channels=30, sets=3, tap_channels=8,
        map_rows=4, map_columns=5, interleaved_windows=2, x_row=150, x_column=30, x_channel=1, w_channel=13,
        w_filter=1, c_row=65, c_column=13),
    # The same with B[13, 30].
    "fc bprop": lambda name: body(
        name, rows=4, windows=5, filters=13, filter_step=8, filter_groups=1, channels=30, sets=3, tap_channels=7,
        map_rows=4, map_columns=5, x_row=150, x_column=30, x_channel=1, w_channel=1, w_filter=30, c_row=65,
        c_column=13),
    # A[12, 24]^T B[12, 9]: k in images of 6, rows of A along kernel columns and rows.
    "fc updateGrad": lambda name: body(
        name, images=4, windows=6, window_run=6, filters=9, filter_step=9, filter_groups=1, kernel_rows=3,
        kernel_columns=4, set_rows=3, tap_columns=4, map_rows=3, map_columns=4, x_image=6, x_row=96, x_column=24,
        w_row=36, w_column=9, w_filter=1, c_image=54, c_column=54, c_run=9),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("product", PRODUCTS)
def test_products(name: str, product: str) -> None:
    """Each of the products, also behind itself with psums that accumulate elsewhere."""
    task, other = PRODUCTS[product](name), PRODUCTS[product](name)
    other.accumulate, other.c.offset = 1, C + 4096
    run(name, [task, other, task])


#: Cycles that the last of three rows lags behind the first: (T - 1) S + 8 each, with 6 taps of 8 slots.
LAG = 2 * (5 * 8 + 8)


def window(outcome: Outcome) -> int:
    """Cycles from the first multiply-add to the last."""
    return outcome.last_busy - outcome.first_busy + 1


def layer(channels: int, name: str = "tiny", **changes: int) -> Any:
    """3 x 3 taps on 4 x 8 psums; passes of 8 windows of 6 taps and 8 filters, 384 cycles each."""
    return convolution(name, images=1, rows=4, columns=8, channels=channels, filters=16, kernel=3, stride=1,
                       padding=1, map_rows=4, map_columns=8, set_rows=3, tap_columns=3, tap_channels=2,
                       **{"filter_step": 8, **changes})


@pytest.mark.parametrize("latency", [3, 40])
def test_utilisation(latency: int) -> None:
    """A load more costs what its passes take in the array, whatever the latency of memory; of all of a task's cycles
    but few are not the array's."""
    few, many = (run("tiny", [layer(channels)], latency=latency) for channels in (20, 40))
    assert few.busy == window(few) and many.busy == window(many)
    assert window(few) == 2 * 10 * 384 + LAG and window(many) == 2 * 20 * 384 + LAG
    assert many.cycles - few.cycles == 2 * 10 * 384
    assert many.cycles <= 1.06 * 2 * 20 * 384


@pytest.mark.slow
def test_fixed_point_sums_need_fewer_slots() -> None:
    """A fixed-point sum is back after three cycles, so four slots of a tap hide it; rows follow each other sooner."""
    outcome = run("fixed", [layer(20, "fixed", filter_step=4)])
    assert window(outcome) == 4 * 10 * 8 * 6 * 4 + 2 * (5 * 4 + 3)


@pytest.mark.slow
def test_narrow_operands_halve_the_traffic() -> None:
    """FP16 operands, two to a word, take half the words of loads, and no more cycles."""
    words = run("tiny", [layer(20)])
    halves = run("mixed", [layer(20, "mixed")])
    stored = 4 * 8 * 16
    assert 2 * (halves.words - stored) == words.words - stored
    assert window(halves) == window(words) and halves.cycles <= words.cycles


@pytest.mark.parametrize("name", ["tiny", pytest.param("fixed", marks=pytest.mark.slow)])
def test_tasks_follow_each_other(name: str) -> None:
    """Tasks, batches and rounds follow each other without a pause: also where psums accumulate, and stores of the one
    go on while the next has begun."""
    tasks = [layer(8, name, accumulate=number & 1) for number in range(6)]
    for number, task in enumerate(tasks):
        task.c.offset += 512 * number
    for latency in (3, 40):
        outcome = run(name, tasks, latency=latency)
        assert window(outcome) == 6 * 2 * 4 * 384 + 2 * (5 * 8 + PARAMETERS[name].least_slots)


def test_stalls_have_their_cause() -> None:
    """Late operands and a missing response are told apart."""
    near, far = (run("tiny", [layer(4)], latency=latency) for latency in (4, 504))
    assert near.stall_output == far.stall_output == 0
    assert abs(far.stall_memory - near.stall_memory - 500) < 8
    assert far.stall_input - near.stall_input >= 500


@pytest.mark.parametrize("accumulate", [0, 1])
def test_batches_wait_for_the_store(accumulate: int) -> None:
    """Psums of one term: a batch is finished long before the one two before it is stored, and its region free."""
    task = body("tiny", rows=4, windows=8, filters=120, filter_step=8, map_rows=4, map_columns=8, x_row=8, x_column=1,
                w_filter=1, c_row=8 * 120, c_column=120, accumulate=accumulate)
    outcome = run("tiny", [task], availability=0.2)
    assert accumulate or outcome.stall_output > outcome.cycles // 3


#: Tasks that fill one of the scratchpads or buffers of hypar-tiny to the last word.
LIMITS: dict[str, dict[str, int]] = {
    "filters": {"channels": 110, "tap_channels": 56, "filters": 7, "filter_step": 4, "x_row": 110, "x_channel": 1,
                "w_channel": 7, "w_filter": 1, "c_row": 7, "rows": 2, "map_rows": 2},
    "filters, transposed": {"channels": 110, "tap_channels": 56, "filters": 7, "filter_step": 4, "x_row": 110,
                            "x_channel": 1, "w_channel": 1, "w_filter": 110, "c_row": 7, "rows": 2, "map_rows": 2},
    "ifmaps": {"windows": 5, "tap_columns": 2, "kernel_columns": 2, "column_dilation": 119, "filters": 3,
                 "filter_step": 2, "map_columns": 124, "x_row": 124, "x_column": 1, "w_column": 3, "w_filter": 1,
                 "c_row": 15, "c_column": 3, "rows": 3, "map_rows": 3},
    "windows of a PE": {"windows": 17, "interleaved_windows": 16, "filters": 3, "map_columns": 17, "x_row": 17,
                        "x_column": 1, "w_filter": 1, "c_row": 51, "c_column": 3, "rows": 4, "map_rows": 4},
    "windows of a bank": {"windows": 64, "filters": 5, "map_columns": 64, "x_row": 64, "x_column": 1, "w_filter": 1,
                          "c_row": 320, "c_column": 5, "rows": 4, "map_rows": 4, "accumulate": 1},
    "groups of a bank": {"filters": 70, "filter_groups": 64, "w_filter": 1, "c_row": 70, "rows": 4, "map_rows": 4,
                         "channels": 3, "x_row": 3, "x_channel": 1, "w_channel": 70},
    "ifmap buffer": {"channels": 3, "sets": 3, "windows": 42, "filters": 2, "map_columns": 42, "x_row": 42,
                       "x_column": 1, "x_channel": 168, "w_channel": 2, "w_filter": 1, "c_row": 84, "c_column": 2,
                       "rows": 3, "map_rows": 4, "images": 1, "row_origin": -1},
}
#: The ifmap buffer holds twice as many narrow operands.
NARROW_LIMITS = {**LIMITS, "ifmap buffer": {
    **LIMITS["ifmap buffer"], "windows": 48, "map_columns": 48, "x_row": 48, "x_channel": 336, "c_row": 96,
    "rows": 4, "row_stride": 2, "map_rows": 7}}


@pytest.mark.parametrize("name", ["tiny", pytest.param("mixed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("availability", [1, 0.3])
def test_limits(name: str, limit: str, availability: float) -> None:
    fields = (LIMITS if name == "tiny" else NARROW_LIMITS)[limit]
    task, other = body(name, **fields), body(name, **fields)
    other.c.offset += 4096
    run(name, [task, PRODUCTS["fprop"](name), other, task], availability=availability)


@pytest.mark.parametrize("taps", [40, 48])
def test_filters_that_go_round_in_their_ring(taps: int) -> None:
    """Rows of so many of its 112 lines: every third one leaves the ring's end free and begins anew, and small rows that
    follow must wait for what was left free, too, while the rows of two passes are still to go to the PEs."""
    big = body("tiny", channels=taps, tap_channels=taps, windows=3, filters=20, filter_step=4, filter_groups=5,
               map_columns=3, x_row=3 * taps, x_column=taps, x_channel=1, w_channel=20, w_filter=1, c_row=60,
               c_column=20)
    small = body("tiny", channels=8, tap_channels=8, windows=3, filters=16, filter_step=4, filter_groups=4,
                 map_columns=3, x_row=24, x_column=8, x_channel=1, w_channel=16, w_filter=1, c_row=48, c_column=16)
    small.c.offset += SPACE
    run("tiny", [big, small])


@pytest.mark.parametrize("change", [
    *({count: 0} for count in row_stationary.COUNTS), *({count: 0} for count in ("blocks", "folds", "segments", "ids",
                                                                                "id_rows", "stream_lines")),
    {"rows": 5}, {"images": 2, "rows": 3}, {"images": 300}, {"sets": 2, "set_rows": 2}, {"set_rows": 4},
    {"filter_step": 17}, {"filter_step": 6, "interleaved_windows": 3}, {"tap_columns": 57},
    {"tap_columns": 12, "filter_step": 17, "interleaved_windows": 1}, {"tap_columns": 29, "filter_step": 5},
    {"windows": 65}, {"windows": 64, "interleaved_windows": 3}, {"tap_columns": 2, "column_dilation": 120},
    {"rows": 2, "row_stride": 16, "windows": 32},
    *({count: 2} for count in ("blocks", "folds", "segments", "ids", "id_rows", "stream_lines", "stream_columns",
                               "tap_step", "window_step")),
    {"window_run": 2, "tap_channels": 2}, {"window_run": 2, "column_stride": 2}, {"tap_channels": 2, "x_channel": 3}])
@pytest.mark.parametrize("availability", [1, 0.4])
def test_bad_operand(change: dict[str, int], availability: float) -> None:
    """An unfit body is refused, memory is left alone, and the tasks beside it run."""
    good = [PRODUCTS[product]("tiny") for product in ("fprop", "fc bprop", "updateGrad")]
    for number, task in enumerate(good):
        task.c.offset += number * SPACE
    bad = body("tiny", **{"x_channel": 1, "w_filter": 1} | (change if all(change.values()) else {}))
    bad.__dict__.update(change)
    tasks = [bad, good[0], bad, bad, good[1], good[2], bad]
    run("tiny", tasks, errors=[ErrorCode.BAD_OPERAND if task is bad else ErrorCode.NONE for task in tasks],
        availability=availability)


def test_bad_operation() -> None:
    tasks = [PRODUCTS["fprop"]("tiny") for _ in range(5)]
    run("tiny", tasks, operations=[MatrixOperation.GEMM.value, ROW_STATIONARY, MatrixOperation.CONVOLUTION.value, 15,
                                   ROW_STATIONARY],
        errors=[ErrorCode.BAD_OPERATION, ErrorCode.NONE, ErrorCode.BAD_OPERATION, ErrorCode.BAD_OPERATION,
                ErrorCode.NONE])


@pytest.mark.parametrize(("changes", "message"), [
    ({"multiply_format": Float(5, 5)}, "Multiply format must have 32, 16 or 8 bits, not 11"),
    ({"beat_words": 4, "feed_words": 8}, "beat_words = 4 must be a multiple of feed_words = 8"),
    ({"filter_words": 4}, "filter_words = 4 must have at least half as many lines of 4 words as a beat has operands")])
def test_bad_parameters(changes: dict[str, int], message: str) -> None:
    with refused(ValueError, message):
        RowStationaryEngine(preset("hypar-tiny", **changes))
