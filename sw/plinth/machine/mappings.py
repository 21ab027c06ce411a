"""Mappings of products onto the row-stationary machine: what they are, their tasks, and what they cost.

A product is a set of :class:`Loops`. Array columns hold (image, row) pairs of its sums, array rows hold kernel rows,
in ``sets`` for several groups of channels; a PE holds T = tap_columns tap_channels taps and runs through the windows of
its row of sums, ``filter_step`` filters and ``interleaved_windows`` windows at a time, so P = their product slots a
tap, or the die's ``least_slots`` if that is more. A task does it for some images, rows, columns and units of the sums:

    passes    = blocks folds segments groups           blocks   = ceil(channels / (sets tap_channels))
    slots     = ceil(windows / interleaved_windows)    folds    = ceil(kernel rows / set_rows)
                T P            of a pass               segments = ceil(kernel columns / tap_columns)
                                                       groups   = ceil(filters / filter_step)

docs/row_mapping.md has all formulas; :mod:`plinth.machine.choices` takes one of all mappings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plinth.machine.memory import SPAN_CYCLES
from plinth_hw.isa.parameters import DieParameters

#: Cycles, about: of a task beside its rounds, and from the end of one with a single round to the first load of the next
#: but one; of a load beside its beats, and from the release of a half of the ifmap buffer to the first beat of the
#: next load there; of sums from the last row back to the first.
TASK_CYCLES, START_CYCLES, LOAD_CYCLES, HALF_CYCLES, RETURN_CYCLES = 20, 190, 6, 100, 20
#: Largest fields of a body.
LONGEST = (1 << 16) - 1


@dataclass(frozen=True, kw_only=True)
class Loops:
    """Sizes of a product: sums are [image, row, column, unit, filter], each over [channel, kernel row, kernel column].

    Units are neighbours in the map and in the kernel's row of windows; where there are several, the images are one.
    """

    images: int = 1
    rows: int = 1
    columns: int = 1
    units: int = 1
    filters: int
    channels: int = 1
    kernel_rows: int = 1
    kernel_columns: int = 1
    row_stride: int = 1
    column_stride: int = 1
    row_dilation: int = 1
    column_dilation: int = 1
    #: Channels are neighbours in the map; filters are neighbours in the weights.
    adjacent_channels: bool = False
    adjacent_filters: bool = True

    @property
    def macs(self) -> int:
        """Multiply-adds, padding and all."""
        return (self.images * self.rows * self.columns * self.units * self.filters * self.channels * self.kernel_rows
                * self.kernel_columns)


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """How a product lies on the machine; names as in a task's body. ``rows`` x ``columns`` sums of ``images`` images,
    or of as many runs of ``run`` units, a task at most."""

    images: int
    rows: int
    columns: int
    run: int
    set_rows: int
    sets: int
    tap_columns: int
    tap_channels: int
    filter_step: int
    interleaved_windows: int
    filter_groups: int


@dataclass(frozen=True)
class Piece:
    """Sums of one task: from an image, row, column, unit on so many of them; ``run`` units in each of the images."""

    image: int
    row: int
    column: int
    unit: int
    images: int
    rows: int
    columns: int
    run: int

    @property
    def windows(self) -> int:
        """Windows of a row of sums."""
        return self.columns * self.run


@dataclass(frozen=True)
class Work:
    """What tasks take: cycles from the first operand's request to the last result, cycles that they add behind others,
    words read and written."""

    alone: float
    row: float
    read: float
    written: float


def pieces(loops: Loops, mapping: Mapping) -> Iterator[Piece]:
    """The tasks of a product."""
    runs = [(0, loops.units // mapping.run, mapping.run)] if loops.units >= mapping.run else []
    if loops.units % mapping.run:
        runs.append((loops.units - loops.units % mapping.run, 1, loops.units % mapping.run))
    for unit, blocks, run in runs:
        images = blocks if loops.units > 1 else loops.images
        for image in range(0, images, mapping.images):
            some = min(mapping.images, images - image)
            for row in range(0, loops.rows, mapping.rows):
                for column in range(0, loops.columns, mapping.columns):
                    yield Piece(
                        0 if loops.units > 1 else image, row, column, unit + (image * run if loops.units > 1 else 0),
                        some, min(mapping.rows, loops.rows - row), min(mapping.columns, loops.columns - column), run)


def _sizes(loops: Loops, mapping: Mapping) -> list[tuple[int, int, int, int, int]]:
    """Images, rows, windows and run of the tasks of a product, and how many are like that: :func:`pieces`, counted."""
    def parts(size: int, most: int) -> list[tuple[int, int]]:
        return [(part, count) for part, count in ((most, size // most), (size % most, 1)) if part and count]

    return [(images, rows, columns * run, run, some * bands * strips)
            for run, blocks in parts(loops.units, mapping.run)
            for images, some in parts(blocks if loops.units > 1 else loops.images, mapping.images)
            for rows, bands in parts(loops.rows, mapping.rows)
            for columns, strips in parts(loops.columns, mapping.columns)]


def tasks(loops: Loops, mapping: Mapping) -> int:
    """Tasks of a product."""
    return sum(count for *_, count in _sizes(loops, mapping))


def up(dividend: Any, divisor: Any) -> Any:
    """Quotients of whole numbers, rounded up: exact below 2**52."""
    return np.ceil(dividend / divisor)


def stream_columns(loops: Loops, mapping: Any, windows: Any, run: Any) -> Any:
    """Columns of the map that a row of it brings."""
    return (up(windows, run) - 1) * loops.column_stride + (mapping.tap_columns - 1) * loops.column_dilation + 1


def map_rows(loops: Loops, mapping: Any, images: Any, rows: Any) -> Any:
    """Rows of the map that a load brings."""
    return mapping.sets * images * ((rows - 1) * loops.row_stride + (mapping.set_rows - 1) * loops.row_dilation + 1)


def tap_slots(die: DieParameters, mapping: Any) -> Any:
    """Slots of a tap."""
    return np.maximum(die.least_slots, mapping.filter_step * mapping.interleaved_windows)


def rounds_of(loops: Loops, mapping: Any) -> Any:
    """Rounds of a task."""
    return (up(loops.channels, mapping.sets * mapping.tap_channels) * up(loops.kernel_rows, mapping.set_rows)
            * up(loops.kernel_columns, mapping.tap_columns))


def map_lines(die: DieParameters, mapping: Any, columns: Any, run: Any) -> Any:
    """Lines of the map's bus that a row of the map with so many columns takes."""
    return up(columns * mapping.tap_channels * run, die.feed_words)


def map_cycles(lines: Any, rows: Any) -> Any:
    """Cycles that the map's bus takes for a pass: some rows of the map of so many lines."""
    return lines * (rows + 1) + 4


def filter_cycles(die: DieParameters, mapping: Any) -> Any:
    """Cycles that the filters' bus takes for a pass."""
    taps, active = mapping.tap_columns * mapping.tap_channels, mapping.sets * mapping.set_rows
    return active * (taps * up(mapping.filter_step, die.feed_words) + 3) + die.rows - active


def costs(die: DieParameters, loops: Loops, mapping: Any, images: Any, rows: Any, windows: Any, run: Any,
          slower: float = 1.0) -> Any:
    """Cost of a task of the row-stationary machine: cycles in a row, cycles before and behind it, words read, words
    written. Numbers or arrays; memory is ``slower`` than it could be."""
    lanes = die.beat_words * die.packing
    beat = die.beat_words
    taps = mapping.tap_columns * mapping.tap_channels
    active = mapping.sets * mapping.set_rows
    rounds, slots = rounds_of(loops, mapping), tap_slots(die, mapping)
    groups = up(loops.filters, mapping.filter_step)
    batches = up(groups, mapping.filter_groups)
    # The map: streams, loaded column by column unless columns are neighbours.
    ids, stream = map_rows(loops, mapping, images, rows), stream_columns(loops, mapping, windows, run)
    words = mapping.tap_channels * run
    whole = words == (loops.units if loops.units > 1 else loops.channels if loops.adjacent_channels else 1)
    whole = whole & (words % die.packing == 0)
    spans = np.where(whole, 1, stream)
    beats = ids * spans * _beats(stream * words / spans, lanes)
    load = slower * np.maximum(beats + ids, SPAN_CYCLES * ids * spans) + LOAD_CYCLES
    # Filters, row by row.
    filter_spans = active * np.where(loops.adjacent_filters, taps, mapping.tap_columns * mapping.filter_step)
    filter_words = np.where(loops.adjacent_filters, mapping.filter_step, mapping.tap_channels)
    filter_beats = filter_spans * _beats(filter_words, lanes)
    filters = slower * np.maximum(filter_beats + active + 3, SPAN_CYCLES * filter_spans)
    # A pass, and the rounds of all batches: sums come back to the first row before they go on.
    lag = (taps - 1) * slots + die.least_slots
    lags = active * lag + (die.rows - active) * die.least_slots
    through = lags + slots + RETURN_CYCLES
    one_pass = up(windows, mapping.interleaved_windows) * slots * taps
    one_pass = np.maximum(one_pass, (lags + one_pass + RETURN_CYCLES) / 3)
    one_pass = np.maximum(np.maximum(one_pass, map_cycles(map_lines(die, mapping, stream, run), ids)),
                          np.maximum(filters, filter_cycles(die, mapping)))
    last_rounds = np.maximum(groups * one_pass, batches * load)
    last_rounds = np.maximum(last_rounds, (groups * one_pass + batches * (load + HALF_CYCLES)) / 2)
    stored = images * rows * windows * groups * _beats(mapping.filter_step, beat)
    read = beat * rounds * (batches * beats + groups * filter_beats)
    row = np.maximum((rounds - 1) * np.maximum(last_rounds, batches * through) + last_rounds, stored)
    row = np.maximum(row, (read + beat * stored) / float(die.memory_words_per_cycle))
    # Of two tasks of one round each, the second begins when the first one's sums are complete.
    start = (START_CYCLES + load + through + groups * one_pass) / 2
    row = np.where(rounds * batches == 1, np.maximum(row, start), row)
    # Of one tap a slot, sums pass through their banks in every cycle; stores wait.
    row = row + np.where(taps == 1, stored, 0) + TASK_CYCLES
    around = load + filters + through + stored / batches
    return row, around, read, beat * stored


def _beats(words: Any, beat: int) -> Any:
    """Beats that neighbouring words lie in: whole ones, else of any first word the mean."""
    beats = words / beat
    return np.where(beats == np.floor(beats), beats, (words - 1) / beat + 1)


def work(die: DieParameters, products: Sequence[tuple[Loops, Mapping]]) -> Work:
    """Cycles and memory words of the tasks of products, one behind the other."""
    row = read = written = around = 0.0
    for loops, mapping in products:
        *sizes, counts = np.array(_sizes(loops, mapping), dtype=np.float64).T
        cycles, more, loaded, stored = costs(die, loops, mapping, *sizes)
        row, read, written = (float(sum_ + counts @ of) for sum_, of in (
            (row, cycles), (read, loaded), (written, stored)))
        around = max(around, float(np.max(more)))
    return Work(row + around, row, read, written)
