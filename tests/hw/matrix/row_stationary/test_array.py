# amaranth: UnusedElaboratable=no
# A row is made to ask for its latencies.
"""The row-stationary array: every sum in its order, under any delays, and without a pause where none is due."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from tests.support.refusal import refused
from tests.support.row_array import ALWAYS, Placement, Program, VerilatedRows, Work, check

from plinth_hw import emit
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.matrix.row_stationary.array import RowArray
from plinth_hw.matrix.row_stationary.row import Row

pytestmark = pytest.mark.xdist_group("row-stationary-array")

#: Small scratchpads, so that rings and halves are full; lines of more words than a window has psums.
ARRAYS = {
    "3x4": (FP32, FP32, 3, 4, 64, 64, 16, 4),
    "2x3": (FP16, FP32, 2, 3, 40, 32, 12, 2),
    "2x2": (FP32, FP32, 2, 2, 128, 64, 8, 16),
}
GATES = {"always": ALWAYS, "slow passes": (4, 256, 256, 256), "slow filters": (256, 50, 256, 256),
         "slow ifmaps": (256, 256, 30, 256), "slow psums": (256, 256, 256, 40), "all": (20, 120, 120, 120)}


@cache
def array(name, form):
    return VerilatedRows(RowArray(*ARRAYS[name]), form)


def random_placement(rng, shape):
    sets = int(rng.integers(1, shape.rows + 1))
    images = int(rng.integers(1, shape.columns + 1))
    return Placement(sets=sets, set_rows=int(rng.integers(1, shape.rows // sets + 1)), images=images,
                     image_rows=int(rng.integers(1, shape.columns // images + 1)),
                     row_stride=int(rng.integers(1, 4)), row_dilation=int(rng.integers(1, 3)))


def random_work(rng, shape):
    """A pass that fits the scratchpads."""
    while True:
        channels, dilation = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        interleaved = int(rng.choice([1, 1, 2, 3, 4]))
        run = int(rng.choice([1, 1, 3])) if channels == 1 else 1
        work = Work(
            tap_columns=int(rng.integers(1, 6)), tap_channels=channels, tap_step=dilation * channels * run,
            window_step=int(rng.integers(1, 5)) * channels if run == 1 else 1, windows=int(rng.integers(1, 9)),
            filter_step=int(rng.integers(1, shape.psum_words // interleaved + 1)), interleaved_windows=interleaved,
            further_lines=int(rng.choice([0, 0, 1, shape.ifmap_lines])))
        filters = work.taps * -(-work.filter_step // shape.feed_words)
        if filters <= shape.filter_lines and work.reach(shape.feed_words) <= shape.ifmap_words:
            return work


@pytest.mark.parametrize("kind", ["plain", "bits", "small", "special"])
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize(("name", "form"), list(product(ARRAYS, emit.ARRAY_FORMS)))
def test_random_passes(name, form, gates, kind):
    rows = array(name, form)
    rng = np.random.default_rng([len(gates), len(kind)])
    program = Program(rows.shape, rng, kind)
    for _ in range(5):
        placement = random_placement(rng, rows.shape)
        program.place(placement)
        for _ in range(int(rng.integers(1, 5))):
            program.add(placement, random_work(rng, rows.shape))
    run = rows.run(program, GATES[gates], seed=int(rng.integers(1 << 32)))
    check(program, run)


#: Passes whose filters, ifmaps and psums come faster than they are used.
STEADY = {
    "long": Work(tap_columns=4, tap_channels=2, tap_step=2, window_step=2, windows=9, filter_step=8,
                 interleaved_windows=1),
    "interleaved": Work(tap_columns=3, tap_channels=1, tap_step=1, window_step=1, windows=10, filter_step=5,
                        interleaved_windows=2),
    "shortest": Work(tap_columns=1, tap_channels=1, tap_step=1, window_step=1, windows=2, filter_step=4,
                     interleaved_windows=2),
    "idle slots": Work(tap_columns=3, tap_channels=1, tap_step=1, window_step=1, windows=10, filter_step=3,
                       interleaved_windows=2),
}


@pytest.mark.parametrize("work", STEADY)
def test_no_pause(work):
    """Windows and passes follow each other without a pause; rows follow as soon as the first sum comes."""
    rows, work = array("3x4", "cells"), STEADY[work]
    shape, row = rows.shape, Row(rows.shape)
    program = Program(shape, np.random.default_rng(3))
    placement = Placement(sets=1, set_rows=3, images=1, image_rows=2)
    program.place(placement)
    passes = 5
    for _ in range(passes):
        program.add(placement, work)
    run = rows.run(program)
    check(program, run)

    slots = max(work.slots, shape.least_slots)
    cycles = passes * work.groups * work.taps * slots
    tap = np.arange(slots) < work.slots
    expected = np.tile(tap, cycles // slots)
    lag = (work.taps - 1) * slots + shape.least_slots
    first = run.issued[:, 0].argmax()
    for r in range(shape.rows):
        issued = run.issued[first + r * lag:, r]
        np.testing.assert_array_equal(issued[:cycles], expected, f"row {r}")
        assert not run.issued[:first + r * lag, r].any() and not issued[cycles:].any(), f"row {r}"
    result = first + (shape.rows - 1) * lag + (work.taps - 1) * slots + row.result_stage
    assert run.result_cycles[0] == result


@pytest.mark.parametrize("work", [
    Work(tap_columns=3, tap_channels=1, tap_step=1, window_step=1, windows=10, filter_step=4, interleaved_windows=2),
    Work(tap_columns=5, tap_channels=1, tap_step=1, window_step=1, windows=10, filter_step=8, interleaved_windows=1),
])
def test_latencies(work):
    """From the last thing that row 0 waits for to its first slot."""
    rows = array("3x4", "loops")
    placement = Placement(sets=1, set_rows=1, images=1, image_rows=4)

    def run(*gates):
        program = Program(rows.shape, np.random.default_rng(8))
        program.place(placement)
        program.add(placement, work)
        trace = rows.run(program, gates)
        check(program, trace)
        return trace, trace.issued[:, 0].argmax()

    trace, first = run(1, 256, 256, 256)
    assert first - trace.pass_cycles[0] == 6 + max(work.tap_columns - 1, work.interleaved_windows)
    trace, first = run(256, 3, 256, 256)
    assert first - trace.loaded_cycles[0] == 3
    trace, first = run(256, 256, 10, 256)
    line = ((work.interleaved_windows - 1) * work.window_step + work.span - 1) // rows.shape.feed_words
    assert first - trace.line_cycles[line] == 5


def test_rows_that_only_pass_sums_on():
    """What a row that is not active hands on has every bit of what came, whatever lies in its scratchpads."""
    rows = array("3x4", "cells")
    program = Program(rows.shape, np.random.default_rng(5), "special")
    full, single = (Placement(sets=1, set_rows=count, images=1, image_rows=4) for count in (3, 1))
    work = Work(tap_columns=2, tap_channels=1, tap_step=1, window_step=1, windows=6, filter_step=3,
                interleaved_windows=2)
    for placement in (full, single, full, single, single):
        program.place(placement)
        program.add(placement, work)
    check(program, rows.run(program))


@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"rows": 0}, ValueError, "rows must be positive, not 0"),
    ({"columns": 2.0}, TypeError, "columns must be an integer, not 2.0"),
    ({"ifmap_words": 96}, ValueError, "ifmap_words must be a power of two, not 96"),
    ({"filter_words": 42}, ValueError, "filter_words must be a multiple of feed_words = 4, not 42"),
    ({"ifmap_words": 4}, ValueError, "ifmap_words must be at least two lines of feed_words = 4, not 4"),
    ({"feed_words": 1}, ValueError, "feed_words must be at least 2, not 1"),
    ({"psum_words": 7}, ValueError, "psum_words must be at least 8, not 7"),
])
def test_refusals(changes, error, words):
    sizes = {"rows": 3, "columns": 4, "filter_words": 64, "ifmap_words": 64, "psum_words": 16, "feed_words": 4}
    with refused(error, words):
        RowArray(FP32, FP32, **{**sizes, **changes})
