"""The mapping that is taken is the best of all, by trying each (docs/row_mapping.md)."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from tests.support.refusal import refused
from tests.sw.machine.test_mappings import DIES, documented

from plinth.errors import UserError
from plinth.machine.choices import (
    MappedSamples,
    _choose,
    _cut_choices,
    _filter_choices,
    _Space,
    _tap_choices,
    balanced,
    choose,
    dense,
    dense_update,
)
from plinth.machine.mappings import Loops, Mapping, work
from plinth_hw.isa.parameters import DieParameters

TINY = replace(DIES["tiny"], filter_words=16, ifmap_words=48, psum_words=6, output_buffer_words=8 * 24)
MIXED = replace(DIES["demo-mixed"], rows=2, columns=3, filter_words=16, psum_words=4, output_buffer_words=6 * 16)


def _all(die: DieParameters, loops: Loops) -> Iterator[tuple[Mapping, float]]:
    """Every mapping that fits, with the tasks of its size that the product makes; the last run may be a part of one."""
    most = die.filter_words // die.feed_words
    units = loops.units > 1
    for r in balanced(loops.kernel_rows, die.rows):
        for sets in range(1, min(loops.channels, die.rows // r) + 1):
            for tc in balanced(loops.kernel_columns, most):
                for th in balanced(ceil(loops.channels / sets), most // tc) if loops.adjacent_channels else [1]:
                    for step in balanced(loops.filters, die.psum_words):
                        for together in range(1, min(die.psum_words // step, loops.columns * loops.units) + 1):
                            for run in balanced(loops.units, min(die.bank_words, die.ifmap_words)) if units else [1]:
                                if run % die.packing and run < loops.units:
                                    continue
                                blocks = loops.units // run if units else loops.images
                                rest = loops.units % run / run if units else 0
                                for high in balanced(loops.rows, die.columns):
                                    some = min(blocks, die.columns // high)
                                    for wide in balanced(loops.columns, die.bank_words // run):
                                        yield from _fitting(die, loops, Mapping(
                                            images=some, rows=high, columns=wide, run=run, set_rows=r, sets=sets,
                                            tap_columns=tc, tap_channels=th, filter_step=step,
                                            interleaved_windows=together, filter_groups=1), (
                                                ceil(loops.rows / high) * ceil(loops.columns / wide)
                                                * (ceil(blocks / some) + rest)))


def _fitting(die: DieParameters, loops: Loops, mapping: Mapping, tasks: float) -> Iterator[tuple[Mapping, float]]:
    """The mapping with as many groups of filters to a load as fit, if it fits at all."""
    run, th, taps, feed = mapping.run, mapping.tap_channels, mapping.tap_columns * mapping.tap_channels, die.feed_words
    windows, together, step = mapping.columns * run, mapping.interleaved_windows, mapping.filter_step
    ids = mapping.sets * mapping.images * ((mapping.rows - 1) * loops.row_stride
                                           + (mapping.set_rows - 1) * loops.row_dilation + 1)
    stream = (mapping.columns - 1) * loops.column_stride + (mapping.tap_columns - 1) * loops.column_dilation + 1
    lines = ceil(stream * th * run / feed)
    next_window = loops.column_stride * th if run == 1 else 1
    span = (mapping.tap_columns - 1) * loops.column_dilation * th * run + th
    padded = together * ceil(windows / together) * step
    fits = (taps * feed * ceil(step / feed) <= die.filter_words
            and (mapping.sets * mapping.set_rows + 1) * together * next_window + span + 2 * feed <= die.ifmap_words
            and ids * lines * feed <= die.packing * die.operand_buffer_words and padded <= die.bank_words
            and (run == 1 or (th == 1 and loops.column_stride == 1)))
    if fits:
        groups = ceil(loops.filters / step)
        most = min(die.bank_words // padded, groups, 255)
        yield replace(mapping, filter_groups=ceil(groups / ceil(groups / most))), tasks


LOOPS = {
    "kernels": Loops(images=2, rows=3, columns=4, filters=7, channels=3, kernel_rows=3, kernel_columns=2,
                     adjacent_channels=True),
    "strides": Loops(images=1, rows=5, columns=3, filters=4, channels=2, kernel_rows=2, kernel_columns=3, row_stride=2,
                     column_stride=3),
    "across": Loops(images=3, rows=2, columns=2, filters=13, channels=5, kernel_rows=2, kernel_columns=1,
                    adjacent_channels=True, adjacent_filters=False),
    "units": Loops(rows=2, columns=2, units=6, filters=5, channels=2, kernel_rows=3, kernel_columns=2, row_dilation=2,
                   column_dilation=2),
    "dense": Loops(rows=3, columns=2, filters=9, channels=11, adjacent_channels=True),
    "update": Loops(units=9, filters=10, kernel_rows=4, kernel_columns=2),
    "one": Loops(filters=1),
}


def _check(die: DieParameters, loops: Loops) -> None:
    costed = []
    for mapping, tasks in _all(die, loops):
        task = (mapping.images, mapping.rows, mapping.columns * mapping.run, mapping.run)
        row, around, read, written = map(float, documented(die, loops, mapping, *task, Fraction(23, 20)))
        costed.append((tasks * row + around, tasks * (read + written), mapping))
    fewest = min(cycles for cycles, *_ in costed)
    words = min(words for cycles, words, _ in costed if cycles <= 1.01 * fewest)
    best = [mapping for cycles, of, mapping in costed if cycles <= 1.01 * fewest and of == words]
    chosen = _choose.__wrapped__(die, loops, True)
    assert chosen in best
    assert choose(die, loops) in best


@pytest.mark.parametrize("die", [TINY, MIXED], ids=["tiny", "mixed"])
@pytest.mark.parametrize("name", LOOPS)
def test_the_best_of_all_is_taken(name: str, die: DieParameters) -> None:
    """Fewest cycles, loads 1.15 times as long; within a hundredth of them fewest words."""
    _check(die, LOOPS[name])


@pytest.mark.parametrize("seed", range(12))
def test_the_best_of_all_of_any_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = int(rng.integers(2, 8)) if seed % 3 == 0 else 1
    side, wide, kernel, other, filters, channels = (int(number) for number in rng.integers(1, (5, 5, 4, 4, 12, 6)))
    strides, dilations = (1, 1) if units > 1 else tuple(map(int, rng.integers(1, 4, 2))), tuple(
        map(int, rng.integers(1, 4, 2)))
    _check((TINY, MIXED)[seed % 2], Loops(
        images=1 if units > 1 else int(rng.integers(1, 5)), rows=side, columns=wide, units=units, filters=filters,
        channels=channels, kernel_rows=kernel, kernel_columns=other, row_stride=strides[0], column_stride=strides[1],
        row_dilation=dilations[0], column_dilation=dilations[1], adjacent_channels=bool(seed & 2),
        adjacent_filters=bool(seed & 4)))


@pytest.mark.parametrize(("channels", "kernel", "adjacent"), [
    (64, (3, 3), True), (3, (11, 11), True), (3, (11, 11), False), (256, (1, 1), True), (13, (5, 2), True)])
def test_likely_ways_to_hold_taps_have_fewest_slots(channels: int, kernel: tuple[int, int], adjacent: bool) -> None:
    die = DIES["paper"]
    likely, every = (_tap_choices(die, channels, *kernel, adjacent, all_of_them).tolist()
                     for all_of_them in (False, True))

    def slots(choice: list[float]) -> int:
        r, sets, tc, th = map(int, choice)
        return -(-channels // (sets * th)) * -(-kernel[0] // r) * -(-kernel[1] // tc) * tc * th

    by_slots = sorted(every, key=lambda choice: (slots(choice), -choice[2] * choice[3], choice))
    assert every == by_slots and likely == [
        choice for choice in by_slots if slots(choice) <= 2 * slots(by_slots[0])][:80]
    assert len(every) > len(likely)
    # As many taps as lines of filters fit a PE, sets as the array has rows.
    assert all(tc * th <= die.filter_words // die.feed_words and r * sets <= die.rows for r, sets, tc, th in every)
    assert any(r * sets == die.rows for r, sets, *_ in every)


@pytest.mark.parametrize(("images", "rows", "columns", "units"), [
    (4, 13, 13, 1), (1, 55, 55, 1), (3, 1, 40, 1), (1, 3, 3, 96), (1, 1, 1, 1000), (1, 11, 11, 7)])
@pytest.mark.parametrize("name", ["paper", "demo-mixed"])
def test_likely_cuts_have_fewest_columns_of_sums(name: str, images: int, rows: int, columns: int, units: int) -> None:
    die = DIES[name]
    runs = [run for run in (balanced(units, min(die.bank_words, die.ifmap_words)) if units > 1 else [1])
            if run == units or run % die.packing == 0]
    for highs, wides, most in ((4, 8, 32), (1000, 1000, 10 ** 6)):
        cuts = []
        for run in runs:
            whole, rest = divmod(units, run) if units > 1 else (images, 0)
            for high in balanced(rows, die.columns)[:highs]:
                together = min(whole, die.columns // high)
                for wide in balanced(columns, die.bank_words // run)[:wides]:
                    tasks = -(-rows // high) * -(-columns // wide) * (-(-whole // together) + rest / run)
                    cuts.append((tasks * wide * run, tasks, together, high, wide, run))
        got = _cut_choices(die, images, rows, columns, units, most > 32)
        assert got.tolist() == pytest.approx(np.array([cut[1:] for cut in sorted(cuts)[:most]]))


def test_filters_and_windows_fill_the_psums_of_a_pe() -> None:
    die = replace(DIES["tiny"], psum_words=6)
    assert _filter_choices(die, 7, 4).tolist() == [
        [4, 1], [3, 1], [3, 2], [2, 1], [2, 2], [2, 3], [1, 1], [1, 2], [1, 3], [1, 4]]
    assert _filter_choices(die, 2, 1).tolist() == [[2, 1], [1, 1]]


def test_a_window_that_no_scratchpad_holds_is_refused() -> None:
    """Two windows, a stride apart, a word, and two lines of four words."""
    loops = Loops(columns=4, filters=4, kernel_columns=3, column_stride=30)
    die = DIES["tiny"]
    assert choose(replace(die, ifmap_words=72), loops).interleaved_windows == 1
    with refused(UserError, "layer 'far' has no mapping onto the row-stationary machine: its smallest one needs 69 "
                            "words of a PE's ifmap scratchpad, of which there are 68"):
        choose(replace(die, ifmap_words=68), loops, "far")


def _alone(die: DieParameters, parts: tuple[MappedSamples, ...]) -> float:
    return work(die, [(part.loops, part.mapping) for part in parts]).alone


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("samples", [1, 2, 7, 9, 16, 29, 37, 64])
@pytest.mark.parametrize("name", ["tiny", "demo", "paper"])
def test_samples_of_connected_layers_are_rows_and_columns(name: str, samples: int, transposed: bool) -> None:
    """Of the three widest maps whose rows fill the array, that which takes least; samples that are left over alike."""
    die, inputs, outputs = DIES[name], 21, 10
    choices = []
    for columns in balanced(samples, max(1, min(-(-samples // die.columns), die.bank_words)))[:3]:
        rows = samples // columns
        loops = Loops(rows=rows, columns=columns, filters=outputs, channels=inputs, adjacent_channels=True,
                      adjacent_filters=not transposed)
        parts = (MappedSamples(0, loops, choose(die, loops)),)
        if samples % columns:
            parts += tuple(replace(part, start=part.start + rows * columns)
                           for part in dense(die, samples % columns, inputs, outputs, transposed))
        choices.append((_alone(die, parts), parts))
    assert dense.__wrapped__(die, samples, inputs, outputs, transposed) == min(choices, key=lambda choice: choice[0])[1]


def _fewest_slots(die: DieParameters, samples: int) -> int:
    """Samples of a kernel row so that all of them take fewest slots, of equal ones the fewest."""
    def slots(count: int) -> tuple[int, int]:
        return min((-(-(count // wide) // die.rows) * wide + (slots(count % wide)[0] if count % wide else 0), wide)
                    for wide in range(1, min(count, die.filter_words // die.feed_words) + 1))
    return slots(samples)[1]


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 7, 8, 12, 13, 14, 20, 33])
@pytest.mark.parametrize("die", [TINY, DIES["demo"], DIES["paper"]], ids=["few-taps", "demo", "paper"])
def test_samples_of_gradients_are_kernel_rows_and_columns(die: DieParameters, samples: int) -> None:
    """One a row, two, or what takes fewest slots; as many as a PE holds where samples are more than the array's."""
    most, inputs, outputs = min(samples, die.filter_words // die.feed_words), 9, 10
    few = samples <= most * die.rows
    choices = []
    for wide in sorted({1, min(2, most), _fewest_slots(die, samples)} if few else {most}):
        loops = Loops(units=inputs, filters=outputs, kernel_rows=samples // wide, kernel_columns=wide)
        parts = (MappedSamples(0, loops, choose(die, loops)),)
        if samples % wide:
            parts += tuple(replace(part, start=part.start + samples // wide * wide)
                           for part in dense_update(die, samples % wide, inputs, outputs))
        choices.append((_alone(die, parts), parts))
    chosen = dense_update.__wrapped__(die, samples, inputs, outputs)
    assert chosen == min(choices, key=lambda choice: choice[0])[1]
    assert sum(part.loops.kernel_rows * part.loops.kernel_columns for part in chosen) == samples


@pytest.mark.parametrize(("filters", "groups"), [(255, 255), (256, 128)])
def test_a_load_is_of_as_many_groups_of_filters_as_a_task_can_say(filters: int, groups: int) -> None:
    """A filter each, of which a bank would have room for more."""
    space = _Space(DIES["paper"], Loops(filters=filters), True)
    alone, first = np.flatnonzero((space.filters == 1).all(axis=1)), np.zeros(1, dtype=np.int64)
    mapping_fields, _, _ = space.costs(first, alone, first)
    assert mapping_fields[-1] == groups
