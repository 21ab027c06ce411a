"""Mappings of products onto the row-stationary machine: which there are, what they cost, which one is taken.

A product is a set of :class:`Loops`. Array columns hold (image, row) pairs of its sums, array rows hold kernel rows,
in ``sets`` for several groups of channels; a PE holds T = tap_columns tap_channels taps and runs through the windows of
its row of sums, ``filter_step`` filters and ``interleaved_windows`` windows at a time, so P = their product slots a
tap, or the die's ``least_slots`` if that is more. A task does it for some images, rows, columns and units of the sums:

    passes    = blocks folds segments groups           blocks   = ceil(channels / (sets tap_channels))
    slots     = ceil(windows / interleaved_windows)    folds    = ceil(kernel rows / set_rows)
                T P            of a pass               segments = ceil(kernel columns / tap_columns)
                                                       groups   = ceil(filters / filter_step)

docs/row_mapping.md has all formulas. Every mapping within the limits of the machine is costed, the one with the fewest
cycles is taken, of equal ones that which moves fewest words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth_hw.isa.parameters import DieParameters

Counts = NDArray[np.int64]

#: Cycles, about: of a task beside its rounds, and from the end of one with a single round to the first load of the next
#: but one; of a load beside its beats, and from the release of a half of the feature buffer to the first beat of the
#: next load there; of sums from the last row back to the first.
TASK_CYCLES, START_CYCLES, LOAD_CYCLES, HALF_CYCLES, RETURN_CYCLES = 20, 190, 6, 100, 20
#: Largest fields of a body.
LONGEST = (1 << 16) - 1
#: Cycles of each span of neighbouring words, at least: memory's latency over the spans that a load has in flight.
SPAN_CYCLES = 56 / 32
#: How much slower memory is taken to be when a mapping is chosen, for other engines use it as well.
SLOWER = 1.15
#: Cycles that count as the same: up to this many times the fewest.
SAME = 1.01
#: Ways to hold taps, ways to cut sums, that are costed at most; the best by their own count of cycles.
MOST_TAPS, MOST_CUTS = 80, 32


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


def balanced(size: int, most: int) -> list[int]:
    """Largest parts of ``size`` cut in 1, 2, 3, ... parts as equal as can be, of at most ``most``; descending."""
    found: list[int] = []
    part = min(size, most)
    while part:
        part = -(-size // -(-size // part))
        found.append(part)
        part -= 1
    return found


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


def _up(one: Any, two: Any) -> Any:
    return -(-one // two)


def _stream(loops: Loops, mapping: Any, windows: Any, run: Any) -> Any:
    """Columns of the map that a row of it brings."""
    return (_up(windows, run) - 1) * loops.column_stride + (mapping.tap_columns - 1) * loops.column_dilation + 1


def _ids(loops: Loops, mapping: Any, images: Any, rows: Any) -> Any:
    """Rows of the map that a load brings."""
    return mapping.sets * images * ((rows - 1) * loops.row_stride + (mapping.set_rows - 1) * loops.row_dilation + 1)


def _slots(die: DieParameters, mapping: Any) -> Any:
    """Slots of a tap."""
    return np.maximum(die.least_slots, mapping.filter_step * mapping.interleaved_windows)


def _rounds(loops: Loops, mapping: Any) -> Any:
    """Rounds of a task."""
    return (_up(loops.channels, mapping.sets * mapping.tap_channels) * _up(loops.kernel_rows, mapping.set_rows)
            * _up(loops.kernel_columns, mapping.tap_columns))


def _pass(die: DieParameters, loops: Loops, mapping: Any, images: Any, rows: Any, windows: Any, run: Any,
          times: Any = 1, groups: Any = 1) -> tuple[Any, Any, Any]:
    """Cycles of a pass, at least: of its multiplications, of the map's bus, of the filters'; of ``times`` x ``groups``
    passes, where factors that differ in the same dimensions of arrays are multiplied first."""
    taps, active = mapping.tap_columns * mapping.tap_channels, mapping.sets * mapping.set_rows
    words = _stream(loops, mapping, windows, run) * mapping.tap_channels * run
    return (_up(windows, mapping.interleaved_windows) * (_slots(die, mapping) * groups) * (taps * times),
            (_up(words, die.feed_words) * (_ids(loops, mapping, images, rows) + 1) + 4) * times * groups,
            (active * (taps * _up(mapping.filter_step, die.feed_words) + 3) + die.rows - active) * groups * times)


def _costs(die: DieParameters, loops: Loops, mapping: Any, images: Any, rows: Any, windows: Any, run: Any,
           slower: float = 1.0) -> Any:
    """Of a task: cycles in a row, cycles before and behind it, words read, words written. Numbers or arrays; memory is
    ``slower`` than it could be."""
    lanes = die.beat_words * die.packing
    beat = die.beat_words
    taps = mapping.tap_columns * mapping.tap_channels
    active = mapping.sets * mapping.set_rows
    rounds, slots = _rounds(loops, mapping), _slots(die, mapping)
    groups = _up(loops.filters, mapping.filter_step)
    batches = _up(groups, mapping.filter_groups)
    one_pass, feed_lines, filter_lines = _pass(die, loops, mapping, images, rows, windows, run)
    # The map: streams, loaded column by column unless columns are neighbours.
    ids, stream = _ids(loops, mapping, images, rows), _stream(loops, mapping, windows, run)
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
    one_pass = np.maximum(one_pass, (lags + one_pass + RETURN_CYCLES) / 3)
    one_pass = np.maximum(np.maximum(one_pass, feed_lines), np.maximum(filters, filter_lines))
    last_rounds = np.maximum(groups * one_pass, batches * load)
    last_rounds = np.maximum(last_rounds, (groups * one_pass + batches * (load + HALF_CYCLES)) / 2)
    stored = images * rows * windows * groups * _beats(mapping.filter_step, beat)
    read = beat * rounds * (batches * beats + groups * filter_beats)
    row = np.maximum((rounds - 1) * np.maximum(last_rounds, batches * through) + last_rounds, stored)
    row = np.maximum(row, (read + beat * stored) / float(die.memory_words_per_cycle))
    # Of two tasks of one round each, the second begins when the first one's sums are complete.
    start = np.where(rounds * batches == 1, (START_CYCLES + load + through + groups * one_pass) / 2, 0)
    # Of one tap a slot, sums pass through their banks in every cycle; stores wait.
    row = np.maximum(row, start) + np.where(taps == 1, stored, 0) + TASK_CYCLES
    around = load + filters + through + stored / batches
    return row, around, read, beat * stored


def _bound(die: DieParameters, loops: Loops, mapping: Any, tasks: Any, images: Any, rows: Any, windows: Any, run: Any
           ) -> Any:
    """Cycles of the passes of tasks: no more than :func:`_costs`, and much quicker to compute."""
    found, *buses = _pass(die, loops, mapping, images, rows, windows, run, tasks * _rounds(loops, mapping),
                          1.0 * _up(loops.filters, mapping.filter_step))
    for bus in buses:
        np.maximum(found, bus, out=found)
    return found


def _beats(words: Any, beat: int) -> Any:
    """Beats that neighbouring words lie in: whole ones, else of any first word the mean."""
    beats = words / beat
    return np.where(beats == np.floor(beats), beats, (words - 1) / beat + 1)


@lru_cache(maxsize=4096)
def _tap_choices(die: DieParameters, channels: int, kernel_rows: int, kernel_columns: int, adjacent: bool, every: bool
                 ) -> Counts:
    """Set rows, sets, tap columns, tap channels that a PE and the array can hold: the best by slots, or all."""
    found = []
    most = die.filter_words // die.feed_words
    for set_rows in balanced(kernel_rows, die.rows):
        for sets in range(1, min(channels, die.rows // set_rows) + 1):
            for tap_columns in balanced(kernel_columns, most):
                share = _up(channels, sets)
                wide = balanced(share, most // tap_columns) if adjacent else [1]
                for tap_channels in wide:
                    slots = (_up(channels, sets * tap_channels) * _up(kernel_rows, set_rows)
                             * _up(kernel_columns, tap_columns) * tap_columns * tap_channels)
                    found.append((slots, -tap_columns * tap_channels, set_rows, sets, tap_columns, tap_channels))
    found.sort()
    if not every:
        least = found[0][0]
        found = [choice for choice in found if choice[0] <= 2 * least][:MOST_TAPS]
    return np.array([choice[2:] for choice in found], dtype=np.int64)


def _cut_choices(die: DieParameters, loops: Loops, every: bool) -> Counts:
    """Images, rows, columns and run of a task, and how many tasks those are: the best by their columns of sums, or
    all."""
    found = []
    runs = balanced(loops.units, min(loops.units, die.bank_words, die.feature_words)) if loops.units > 1 else [1]
    for run in runs:
        # Runs begin at words.
        if run % die.packing and run < loops.units:
            continue
        images = loops.units // run if loops.units > 1 else loops.images
        rest = loops.units % run / run
        for rows in balanced(loops.rows, die.columns)[:None if every else 4]:
            some = min(images, die.columns // rows)
            bands = _up(loops.rows, rows)
            for columns in balanced(loops.columns, min(loops.columns, die.bank_words // run))[:None if every else 8]:
                tasks = bands * _up(loops.columns, columns) * (_up(images, some) + rest)
                found.append((tasks * columns * run, tasks, some, rows, columns, run))
    found.sort()
    return np.array([choice[1:] for choice in (found if every else found[:MOST_CUTS])], dtype=np.float64)


def _filter_choices(die: DieParameters, loops: Loops) -> Counts:
    """Filter steps and interleaved windows."""
    return np.array([(step, windows) for step in balanced(loops.filters, die.sums)
                     for windows in range(1, min(die.sums // step, loops.columns * loops.units) + 1)], dtype=np.int64)


@dataclass(frozen=True)
class _Choices:
    """Fields of mappings as arrays."""

    set_rows: Counts
    sets: Counts
    tap_columns: Counts
    tap_channels: Counts
    filter_step: Counts
    interleaved_windows: Counts
    filter_groups: Counts


def choose(die: DieParameters, loops: Loops, name: str = "a product") -> Mapping:
    """The mapping that is taken.

    Raises
    ------
    UserError
        If none fits the machine; the message says what the smallest one needs, for the layer ``name``.
    """
    found = _choose(die, loops)
    if not isinstance(found, Mapping):
        found = _choose(die, loops, True)
    if isinstance(found, Mapping):
        return found
    what, need, there = found
    raise UserError(f"layer {name!r} has no mapping onto the row-stationary machine: its smallest one needs {need} "
                    f"{what}, of which there are {there}")


@lru_cache(maxsize=4096)
def _choose(die: DieParameters, loops: Loops, every: bool = False) -> Mapping | tuple[str, int, int]:
    """The best mapping of the likely ones or of ``every`` one; or what none fits into, how much of it is needed and how
    much there is."""
    taps = _tap_choices(die, loops.channels, loops.kernel_rows, loops.kernel_columns, loops.adjacent_channels, every)
    cuts = _cut_choices(die, loops, every)
    filters = _filter_choices(die, loops)
    set_rows, sets, tap_columns, tap_channels = (taps[:, place].reshape(-1, 1, 1) for place in range(4))
    filter_step, together = (filters[:, place].reshape(1, -1, 1) for place in range(2))
    images, rows, columns, run = (cuts[:, place].astype(np.int64).reshape(1, 1, -1) for place in range(1, 5))
    tasks = cuts[:, 0].reshape(1, 1, -1)
    windows = columns * run
    padded = _up(windows, together) * together * filter_step
    most = np.minimum(np.minimum(die.bank_words // padded, _up(loops.filters, filter_step)), 255)
    groups = _up(loops.filters, filter_step)
    even = _up(groups, np.maximum(1, _up(groups, np.maximum(1, most))))
    choices = _Choices(set_rows, sets, tap_columns, tap_channels, filter_step, together, even)
    step = np.where(run > 1, 1, loops.column_stride * tap_channels)
    span = (tap_columns - 1) * loops.column_dilation * tap_channels * run + tap_channels
    lines = _up(_stream(loops, choices, windows, run) * tap_channels * run, die.feed_words)
    steps = _up(filter_step, die.feed_words) * die.feed_words
    held = (sets * set_rows + 1) * step
    beside = span + 2 * die.feed_words
    limits: dict[str, tuple[Any, int]] = {
        "words of a PE's filter scratchpad": (tap_columns * tap_channels * steps, die.filter_words),
        "words of the feature buffer": (
            _up(_ids(loops, choices, images, rows) * lines * die.feed_words, die.packing), die.operand_buffer_words),
        "words of a bank of sums": (padded, die.bank_words),
    }
    # Runs of units are windows of the same column: no strides, no channels of a tap beside them.
    unfit = (run > 1) & ((tap_channels > 1) | (loops.column_stride > 1))
    # held x together + beside words of a PE's feature-map scratchpad.
    unfit = unfit | (together > (die.feature_words - beside) // held)
    for need, there in limits.values():
        unfit = unfit | (need > there)
    if unfit.all():
        limits["words of a PE's feature-map scratchpad"] = (held * together + beside, die.feature_words)
        what, (need, there) = max(limits.items(), key=lambda limit: int(np.min(limit[1][0])) / limit[1][1])
        return what, int(np.min(need)), there
    bound = _bound(die, loops, choices, tasks, images, rows, windows, run)
    # What fits stays finite.
    bound[unfit] = inf

    def costs(places: Counts) -> tuple[tuple[Counts, ...], Any, Any]:
        # Fields of mappings, by their places among the bounds, their cycles and words.
        tap, step, cut = np.unravel_index(places, bound.shape)
        held = (*taps[tap].T, *filters[step].T, even[0, step, cut])
        many, some, high, wide, joined = (of[0, 0, cut] for of in (tasks, images, rows, columns, run))
        row, around, read, written = _costs(die, loops, _Choices(*held), some, high, wide * joined, joined, SLOWER)
        return (some, high, wide, joined, *held), many * row + around, many * (read + written)

    # Of each way to hold taps the mapping of the least bound, then all whose bound is not above the best of these.
    flat = bound.reshape(-1)
    firsts = bound.reshape(len(taps), -1).argmin(axis=1) + np.arange(len(taps)) * (len(flat) // len(taps))
    _, cycles, _ = costs(firsts[np.isfinite(flat[firsts])])
    found, cycles, words = costs(np.flatnonzero(flat <= cycles.min() * SAME))
    best = int(np.where(cycles <= cycles.min() * SAME, words, inf).argmin())
    return Mapping(**{field.name: int(values[best]) for field, values in zip(fields(Mapping), found, strict=True)})


def work(die: DieParameters, products: Sequence[tuple[Loops, Mapping]]) -> Work:
    """What the tasks of products take, one behind the other."""
    row = read = written = around = 0.0
    for loops, mapping in products:
        *sizes, counts = np.array(_sizes(loops, mapping), dtype=np.int64).T
        cycles, more, loaded, stored = _costs(die, loops, mapping, *sizes)
        row, read, written = (float(sum_ + counts @ of) for sum_, of in (
            (row, cycles), (read, loaded), (written, stored)))
        around = max(around, float(np.max(more)))
    return Work(row + around, row, read, written)


def task_work(die: DieParameters, body: Any) -> Work:
    """What a task takes; ``body`` has the fields of ``RowStationaryBody`` as attributes."""
    loops = Loops(
        filters=body.filters, channels=body.channels, kernel_rows=body.kernel_rows, kernel_columns=body.kernel_columns,
        row_stride=body.row_stride, column_stride=body.column_stride, row_dilation=body.row_dilation,
        column_dilation=body.column_dilation, adjacent_filters=body.w_filter == 1)
    row, around, read, written = map(float, _costs(die, loops, body, body.images, body.rows, body.windows,
                                                   body.window_run))
    return Work(row + around, row, read, written)


@dataclass(frozen=True)
class Part:
    """Samples of a fully connected layer, from ``start`` on, that one product is made of, and its mapping."""

    start: int
    loops: Loops
    mapping: Mapping


@lru_cache(maxsize=4096)
def dense(die: DieParameters, samples: int, inputs: int, outputs: int, transposed: bool, name: str = "a product",
          ) -> tuple[Part, ...]:
    """Parts of samples x inputs times inputs x outputs, weights or their transpose: samples as rows x columns of a map,
    those left over likewise."""
    found: list[tuple[float, tuple[Part, ...]]] = []
    for columns in balanced(samples, max(1, min(-(-samples // die.columns), die.bank_words)))[:3]:
        loops = Loops(rows=samples // columns, columns=columns, filters=outputs, channels=inputs,
                      adjacent_channels=True, adjacent_filters=not transposed)
        parts: tuple[Part, ...] = (Part(0, loops, choose(die, loops, name)),)
        rest = samples % columns
        if rest:
            parts += tuple(replace(part, start=part.start + samples - rest)
                           for part in dense(die, rest, inputs, outputs, transposed, name))
        found.append((work(die, [(part.loops, part.mapping) for part in parts]).alone, parts))
    return min(found, key=lambda choice: choice[0])[1]


def _folds(die: DieParameters, samples: int) -> list[tuple[int, int]]:
    """For each number of samples in a kernel row, slots of all of them; those left over likewise."""
    found = [(0, 0)]
    for count in range(1, samples + 1):
        found.append(min((-(-(count // wide) // die.rows) * wide + found[count % wide][0], wide)
                         for wide in range(1, min(count, die.filter_words // die.feed_words) + 1)))
    return found


@lru_cache(maxsize=4096)
def dense_update(die: DieParameters, samples: int, inputs: int, outputs: int, name: str = "a product",
                 ) -> tuple[Part, ...]:
    """Parts of inputs x samples times samples x outputs: samples as kernel rows x columns, those left over likewise."""
    most = min(samples, die.filter_words // die.feed_words)
    # Of equal slots more than one tap is better, for stores hide behind it, if a load of the map does as well.
    wides = {1, min(2, most), _folds(die, samples)[samples][1]} if samples <= most * die.rows else {most}
    found = []
    for wide in sorted(wides):
        loops = Loops(units=inputs, filters=outputs, kernel_rows=samples // wide, kernel_columns=wide)
        parts: tuple[Part, ...] = (Part(0, loops, choose(die, loops, name)),)
        rest = samples % wide
        if rest:
            parts += tuple(replace(part, start=part.start + samples - rest)
                           for part in dense_update(die, rest, inputs, outputs, name))
        found.append((work(die, [(part.loops, part.mapping) for part in parts]).alone, parts))
    return min(found, key=lambda choice: choice[0])[1]
