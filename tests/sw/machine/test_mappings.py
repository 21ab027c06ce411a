"""Costs of tasks on the row-stationary machine, by the tables of docs/row_mapping.md in whole numbers and fractions."""

from dataclasses import fields, replace
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.row_stationary import task_work

from plinth.machine.mappings import (
    Loops,
    Mapping,
    Work,
    costs,
    filter_cycles,
    map_cycles,
    map_lines,
    map_rows,
    pieces,
    rounds_of,
    stream_columns,
    tap_slots,
    tasks,
    work,
)
from plinth_hw.isa.parameters import DieParameters, preset

DIES = {name: preset(f"hypar-{name}") for name in ("tiny", "demo", "demo-mixed", "demo-fixed", "paper")}


def beats(words: int, beat: int) -> Fraction:
    """Of neighbouring words: whole ones, or the mean over where they begin."""
    return Fraction(words, beat) if words % beat == 0 else Fraction(words - 1, beat) + 1


def documented(die: DieParameters, loops: Loops, mapping: Mapping, images: int, rows: int, windows: int, run: int,
               slower: Fraction) -> tuple[Fraction, ...]:
    """Cycles in a row, cycles beside them, words read, words written of a task; names as the page has them."""
    r, sets, tc, th, step = (mapping.set_rows, mapping.sets, mapping.tap_columns, mapping.tap_channels,
                             mapping.filter_step)
    taps, active, elements, feed = tc * th, r * sets, die.beat_words * die.packing, die.feed_words
    span = Fraction(56, 32)
    rounds = ceil(loops.channels / (sets * th)) * ceil(loops.kernel_rows / r) * ceil(loops.kernel_columns / tc)
    groups = ceil(loops.filters / step)
    batches = ceil(groups / mapping.filter_groups)
    ids = sets * images * ((rows - 1) * loops.row_stride + (r - 1) * loops.row_dilation + 1)
    stream = (ceil(windows / run) - 1) * loops.column_stride + (tc - 1) * loops.column_dilation + 1
    lines = ceil(stream * th * run / feed)
    slots = max(step * mapping.interleaved_windows, die.least_slots)
    lags = active * ((taps - 1) * slots + die.least_slots) + (die.rows - active) * die.least_slots
    through = lags + slots + 20
    # Words of the map: a stream in one span where its columns are neighbours.
    place = th * run
    all_of_it = loops.units if loops.units > 1 else loops.channels if loops.adjacent_channels else 1
    spans = 1 if place == all_of_it and place % die.packing == 0 else stream
    map_beats = ids * spans * beats(stream * place // spans, elements)
    load: Any = slower * max(map_beats + ids, span * ids * spans) + 6
    filter_spans = active * (taps if loops.adjacent_filters else tc * step)
    filter_beats = filter_spans * beats(step if loops.adjacent_filters else th, elements)
    filters: Any = slower * max(filter_beats + active + 3, span * filter_spans)
    multiplies = ceil(windows / mapping.interleaved_windows) * taps * slots
    one: Any = max(multiplies, Fraction(lags + multiplies + 20, 3), lines * (ids + 1) + 4,
              active * (taps * ceil(step / feed) + 3) + die.rows - active, filters)
    last: Any = max(groups * one, batches * load, (groups * one + batches * (load + 100)) / 2)
    every = max(last, batches * through)
    stored = images * rows * windows * groups * beats(step, die.beat_words)
    read = die.beat_words * rounds * (batches * map_beats + groups * filter_beats)
    written = die.beat_words * stored
    row: Any = max((rounds - 1) * every + last, stored, (read + written) / Fraction(die.memory_words_per_cycle))
    if rounds * batches == 1:
        row = max(row, (190 + load + through + groups * one) / 2)
    row += (stored if taps == 1 else 0) + 20
    return row, load + filters + through + stored / batches, read, written


def random_task(rng: np.random.Generator, die: DieParameters) -> tuple[Loops, Mapping, tuple[int, int, int, int]]:
    """Sizes of any kind, whether they fit the machine or not."""
    def some(most: int) -> int:
        return int(rng.integers(1, most + 1))

    units = some(40) if rng.random() < 0.4 else 1
    run = some(units)
    loops = Loops(images=1 if units > 1 else some(4), rows=some(9), columns=some(12), units=units, filters=some(70),
                  channels=some(20), kernel_rows=some(5), kernel_columns=some(5), row_stride=some(3),
                  column_stride=some(3), row_dilation=some(3), column_dilation=some(3),
                  adjacent_channels=bool(rng.integers(2)), adjacent_filters=bool(rng.integers(2)))
    sets = some(3)
    channels = loops.channels if rng.random() < 0.3 else some(loops.channels)
    mapping = Mapping(images=some(4), rows=some(loops.rows), columns=some(loops.columns), run=run,
                      set_rows=min(some(loops.kernel_rows), max(1, die.rows // sets)), sets=sets,
                      tap_columns=some(loops.kernel_columns), tap_channels=1 if rng.random() < 0.4 else channels,
                      filter_step=some(min(16, loops.filters)), interleaved_windows=some(8), filter_groups=some(5))
    return loops, mapping, (some(4), mapping.rows, mapping.columns * run, run)


@pytest.mark.parametrize("name", DIES)
def test_costs_are_the_documented_ones(name: str) -> None:
    die, rng = DIES[name], np.random.default_rng(len(name))
    for number in range(150):
        loops, mapping, task = random_task(rng, die)
        slower = Fraction(23, 20) if number % 2 else Fraction(1)
        expected = documented(die, loops, mapping, *task, slower)
        got = costs(die, loops, mapping, *task, float(slower)) if number % 2 else costs(die, loops, mapping, *task)
        assert [float(value) for value in got] == pytest.approx([float(value) for value in expected], rel=1e-12), (
            loops, mapping, task)


def test_small_tasks_of_a_round_wait_for_each_other() -> None:
    """Half of 190 cycles and of a task's load, its sums' way and its passes."""
    die = DIES["demo"]
    loops = Loops(filters=4, channels=2, adjacent_channels=True)
    mapping = Mapping(images=1, rows=1, columns=1, run=1, set_rows=1, sets=1, tap_columns=1, tap_channels=2,
                      filter_step=4, interleaved_windows=1, filter_groups=1)
    # A beat of two words, more than a span takes; six rows of PEs 8 cycles apart, the
    # first with two taps of 8; the pass waits for a row's lags, which are more than its 16 cycles of products.
    load, through = 9 / 8 + 1 + 6, (8 + 8) + 5 * 8 + 8 + 20
    one_pass = (56 + 16 + 20) / 3
    row, *_ = costs(die, loops, mapping, 1, 1, 1, 1)
    assert row == pytest.approx((190 + load + through + one_pass) / 2 + 20)


def test_parts_of_a_cost() -> None:
    die = DIES["demo"]
    loops = Loops(filters=9, channels=7, kernel_rows=5, kernel_columns=3, row_stride=2, column_stride=3, row_dilation=4,
                  column_dilation=5)
    mapping = Mapping(images=2, rows=3, columns=6, run=2, set_rows=2, sets=3, tap_columns=2, tap_channels=2,
                      filter_step=5, interleaved_windows=2, filter_groups=1)
    # Two blocks of six channels, three folds of two rows, two segments of two columns.
    assert rounds_of(loops, mapping) == 2 * 3 * 2
    assert tap_slots(die, mapping) == 10 and tap_slots(DIES["tiny"], mapping) == 10
    few = replace(mapping, filter_step=1)
    assert (tap_slots(die, few), tap_slots(DIES["demo-fixed"], few)) == (8, 3)
    # Six columns of the map, three apart, and five to the second tap; three rows, two apart, and four to the second.
    assert stream_columns(loops, mapping, 12, 2) == stream_columns(loops, mapping, 11, 2) == 5 * 3 + 5 + 1
    assert map_rows(loops, mapping, 2, 3) == 3 * 2 * (2 * 2 + 4 + 1)
    assert [map_lines(die, mapping, columns, 2) for columns in (1, 2, 3)] == [1, 2, 3]
    assert map_cycles(3, 10) == 3 * 11 + 4
    # All six rows of the array take four taps of two lines.
    assert filter_cycles(die, mapping) == 6 * (4 * 2 + 3)
    assert filter_cycles(DIES["paper"], mapping) == 6 * (4 * 2 + 3) + 6
    assert loops.macs == 9 * 7 * 5 * 3
    large = Loops(images=2, rows=3, columns=5, units=7, filters=11, channels=13, kernel_rows=17, kernel_columns=19)
    assert large.macs == 2 * 3 * 5 * 7 * 11 * 13 * 17 * 19


@pytest.mark.parametrize(("units", "run", "images", "expected"), [
    # Runs of 3 of 8 units, two at a time, and the two units that are left; or images, two at a time.
    (8, 3, 1, [(0, 0, 2, 3), (0, 6, 1, 2)]), (9, 3, 1, [(0, 0, 2, 3), (0, 6, 1, 3)]), (3, 3, 1, [(0, 0, 1, 3)]),
    (1, 1, 5, [(0, 0, 2, 1), (2, 0, 2, 1), (4, 0, 1, 1)]), (1, 1, 2, [(0, 0, 2, 1)])])
def test_pieces_by_hand(units: int, run: int, images: int, expected: list[tuple[int, int, int, int]]) -> None:
    loops = Loops(images=images, rows=5, columns=7, units=units, filters=1)
    mapping = Mapping(images=2, rows=3, columns=4, run=run, set_rows=1, sets=1, tap_columns=1, tap_channels=1,
                      filter_step=1, interleaved_windows=1, filter_groups=1)
    got = list(pieces(loops, mapping))
    assert [(piece.image, piece.unit, piece.images, piece.run) for piece in got[::4]] == expected
    assert [(piece.row, piece.column, piece.rows, piece.columns) for piece in got[:4]] == [
        (0, 0, 3, 4), (0, 4, 3, 3), (3, 0, 2, 4), (3, 4, 2, 3)]
    assert tasks(loops, mapping) == len(got) == 4 * len(expected)
    assert [piece.windows for piece in got] == [piece.columns * piece.run for piece in got]


def test_two_units_are_runs_of_one_image() -> None:
    mapping = Mapping(images=1, rows=1, columns=1, run=1, set_rows=1, sets=1, tap_columns=1, tap_channels=1,
                      filter_step=1, interleaved_windows=1, filter_groups=1)
    for loops, places in ((Loops(units=2, filters=1), [(0, 0), (0, 1)]),
                          (Loops(images=2, filters=1), [(0, 0), (1, 0)])):
        assert [(piece.image, piece.unit) for piece in pieces(loops, mapping)] == places
        assert tasks(loops, mapping) == 2


def test_tasks_follow_each_other() -> None:
    """Cycles and words of all tasks of all products; what stands before and behind them once, of that with most."""
    die, rng = DIES["demo"], np.random.default_rng(7)
    products = [random_task(rng, die)[:2] for _ in range(12)]
    totals, around = np.zeros(3), 0.0
    for loops, mapping in products:
        for piece in pieces(loops, mapping):
            row, beside, read, written = costs(die, loops, mapping, piece.images, piece.rows, piece.windows, piece.run)
            totals, around = totals + np.array((row, read, written)), max(around, beside)
    got = work(die, products)
    assert [getattr(got, field.name) for field in fields(Work)] == pytest.approx([totals[0] + around, *totals])
    assert work(die, []) == Work(0, 0, 0, 0)


def test_a_body_costs_what_its_fields_say() -> None:
    die, rng = DIES["demo-mixed"], np.random.default_rng(8)
    names = ("filters", "channels", "kernel_rows", "kernel_columns", "row_stride", "column_stride", "row_dilation",
             "column_dilation")
    for number in range(40):
        loops, mapping, (images, rows, windows, run) = random_task(rng, die)
        adjacent = number % 2 == 0
        sizes = {name: getattr(loops, name) for name in names}
        body = vars(mapping) | sizes | {"images": images, "rows": rows, "windows": windows, "window_run": run,
                                        "w_filter": 1 if adjacent else 6}
        # What a body does not say: how many units and neighbouring channels there are beside the task's.
        bare = Loops(**sizes, adjacent_filters=adjacent)
        row, around, read, written = map(float, documented(die, bare, mapping, images, rows, windows, run, Fraction(1)))
        got = task_work(die, SimpleNamespace(**body))
        assert [got.alone, got.row, got.read, got.written] == pytest.approx([row + around, row, read, written])
