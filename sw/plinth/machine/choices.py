"""Which mapping a product has on the row-stationary machine, and how a fully connected layer becomes products.

Every mapping within the limits of the machine is looked at, the one with the fewest cycles is taken, of equal ones that
which moves fewest words. A mapping is a way to hold taps, a step of filters and a cut of the sums. It takes at least
the cycles in which its passes multiply, and those in which they keep either bus; each is a product of two numbers::

    multiplications     of the taps                 x   of filters and cut
    the map's bus       of taps and cut             x   groups of filters
    the filters' bus    of taps and filters         x   tasks of the cut

So most pairs of taps and filters, that with any cut are worse than some good mapping, are left out before cuts are
looked at; what is left is costed in full.
"""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import inf

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.machine.mappings import (
    Loops,
    Mapping,
    costs,
    filter_cycles,
    map_cycles,
    map_lines,
    map_rows,
    rounds_of,
    stream_columns,
    tap_slots,
    up,
    work,
)
from plinth_hw.isa.parameters import DieParameters

#: Whole numbers as well: all that are here are exact.
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

#: How much slower memory is taken to be when a mapping is chosen, for other engines use it as well.
SLOWER = 1.15
#: Cycles that count as the same: up to this many times the fewest.
SAME = 1.01
#: Ways to hold taps, ways to cut sums, that are costed at most; the best by their own count of cycles.
MOST_TAPS, MOST_CUTS = 80, 32


def balanced(size: int, most: int) -> list[int]:
    """Largest parts of ``size`` cut in 1, 2, 3, ... parts as equal as can be, of at most ``most``; descending."""
    parts: list[int] = []
    part = min(size, most)
    while part:
        part = -(-size // -(-size // part))
        parts.append(part)
        part -= 1
    return parts


@lru_cache(maxsize=4096)
def _tap_choices(die: DieParameters, channels: int, kernel_rows: int, kernel_columns: int, adjacent: bool, every: bool
                 ) -> Numbers:
    """Set rows, sets, tap columns, tap channels that a PE and the array can hold: the best by slots, or all."""
    choices = []
    most = die.filter_words // die.feed_words
    for set_rows in balanced(kernel_rows, die.rows):
        for sets in range(1, min(channels, die.rows // set_rows) + 1):
            for tap_columns in balanced(kernel_columns, most):
                share = -(-channels // sets)
                wide = balanced(share, most // tap_columns) if adjacent else [1]
                for tap_channels in wide:
                    slots = (-(-channels // (sets * tap_channels)) * -(-kernel_rows // set_rows)
                             * -(-kernel_columns // tap_columns) * tap_columns * tap_channels)
                    choices.append((slots, -tap_columns * tap_channels, set_rows, sets, tap_columns, tap_channels))
    choices.sort()
    if not every:
        least = choices[0][0]
        choices = [choice for choice in choices if choice[0] <= 2 * least][:MOST_TAPS]
    return np.array([choice[2:] for choice in choices], dtype=np.float64)


@lru_cache(maxsize=4096)
def _cut_choices(die: DieParameters, images: int, rows: int, columns: int, units: int, every: bool) -> Numbers:
    """Images, rows, columns and run of a task, and how many tasks those are: the best by their columns of sums, or
    all."""
    choices = []
    runs = balanced(units, min(units, die.bank_words, die.ifmap_words)) if units > 1 else [1]
    bands = [(high, -(-rows // high)) for high in balanced(rows, die.columns)[:None if every else 4]]
    for run in runs:
        # Runs begin at words.
        if run % die.packing and run < units:
            continue
        blocks, rest = units // run if units > 1 else images, units % run / run
        strips = [(wide, -(-columns // wide))
                  for wide in balanced(columns, min(columns, die.bank_words // run))[:None if every else 8]]
        for high, down in bands:
            some = min(blocks, die.columns // high)
            for wide, across in strips:
                tasks = down * across * (-(-blocks // some) + rest)
                choices.append((tasks * wide * run, tasks, some, high, wide, run))
    choices.sort()
    return np.array([choice[1:] for choice in (choices if every else choices[:MOST_CUTS])], dtype=np.float64)


@lru_cache(maxsize=4096)
def _filter_choices(die: DieParameters, filters: int, windows: int) -> Numbers:
    """Filter steps and interleaved windows, of so many in a row of sums."""
    return np.array([(step, together) for step in balanced(filters, die.psum_words)
                     for together in range(1, min(die.psum_words // step, windows) + 1)], dtype=np.float64)


@dataclass(frozen=True)
class _Fields:
    """Fields of mappings as arrays."""

    set_rows: Numbers
    sets: Numbers
    tap_columns: Numbers
    tap_channels: Numbers
    filter_step: Numbers
    interleaved_windows: Numbers
    filter_groups: Numbers | None = None


class _Space:
    """Mappings that are looked at: each way to hold taps with each step of filters and each cut of the sums, and cycles
    that their passes take at least; infinitely many where they do not fit the machine."""

    def __init__(self, die: DieParameters, loops: Loops, every: bool):
        self.die, self.loops = die, loops
        self.taps = _tap_choices(die, loops.channels, loops.kernel_rows, loops.kernel_columns, loops.adjacent_channels,
                                 every)
        self.filters = _filter_choices(die, loops.filters, loops.columns * loops.units)
        self.cuts = _cut_choices(die, loops.images, loops.rows, loops.columns, loops.units, every)
        # Along axes of their own: [taps, filters, cuts].
        set_rows, sets, tap_columns, tap_channels = (column.reshape(-1, 1, 1) for column in self.taps.T)
        filter_step, together = (column.reshape(1, -1, 1) for column in self.filters.T)
        tasks, images, rows, columns, run = (column.reshape(1, 1, -1) for column in self.cuts.T)
        windows, taps = columns * run, tap_columns * tap_channels
        groups, turns = up(loops.filters, filter_step), up(windows, together)
        padded = turns * together * filter_step
        mapping_fields = _Fields(set_rows, sets, tap_columns, tap_channels, filter_step, together)
        rounds, ids = rounds_of(loops, mapping_fields), map_rows(loops, mapping_fields, images, rows)
        lines = map_lines(die, mapping_fields, stream_columns(loops, mapping_fields, windows, run), run)
        # Words of the ifmap scratchpad: for each of the windows that are interleaved, and beside them.
        each = (sets * set_rows + 1) * np.where(run > 1, 1, loops.column_stride * tap_channels)
        beside = (tap_columns - 1) * loops.column_dilation * tap_channels * run + tap_channels + 2 * die.feed_words
        filter_words = taps * up(filter_step, die.feed_words) * die.feed_words
        map_words = up(ids * lines * die.feed_words, die.packing)
        # Runs of units are windows of the same column: no strides, no channels of a tap beside them.
        runs = (run == 1) | ((tap_channels == 1) & (loops.column_stride == 1))
        #: Words of a PE's ifmap scratchpad that the smallest mapping needs: a single window is as small as its strides
        #: let it be, all else of a mapping has parts of one.
        self.least_words = int(np.min(each * together.min() + beside))
        #: Windows that are interleaved, and the most that may be, by [taps, cuts].
        self.together, self.most_together = self.filters[:, 1], np.floor((die.ifmap_words - beside) / each)[:, 0]
        #: Words of a bank that sums of a group of filters take, by [filters, cuts].
        self.padded = padded[0]
        # Cycles of the passes: of multiplications slots by [filters, cuts] times taps, of the map's bus those by [taps,
        # cuts] times groups of filters, of the filters' bus those by [taps, filters] times tasks.
        self.slots = np.where(padded <= die.bank_words, turns * tap_slots(die, mapping_fields) * groups * tasks, inf)[0]
        self.map_cycles = np.where(runs & (map_words <= die.operand_buffer_words), rounds * tasks * map_cycles(
            lines, ids), inf)[:, 0]
        self.filter_cycles = np.where(filter_words <= die.filter_words,
                                      rounds * groups * filter_cycles(die, mapping_fields), inf)[..., 0]
        self.tap_rounds, self.groups, self.tasks = (rounds * taps)[:, 0, 0], groups[0, :, 0], tasks[0, 0]

    def least(self) -> Numbers:
        """Cycles of [taps, filters] with any cut, at least."""
        cycles = np.maximum(self.tap_rounds[:, None] * self.slots.min(axis=1),
                            self.map_cycles.min(axis=1)[:, None] * self.groups)
        np.maximum(cycles, self.filter_cycles * self.tasks.min(), out=cycles)
        cycles[self.together > self.most_together.max(axis=1)[:, None]] = inf
        return cycles

    def bounds(self, taps: Places, filters: Places) -> Numbers:
        """Cycles of some pairs of taps and filters with each cut: [pair, cut]."""
        cycles = np.maximum(self.tap_rounds[taps, None] * self.slots[filters],
                            self.map_cycles[taps] * self.groups[filters, None])
        np.maximum(cycles, self.filter_cycles[taps, filters, None] * self.tasks, out=cycles)
        cycles[self.together[filters, None] > self.most_together[taps]] = inf
        return cycles

    def costs(self, taps: Places, filters: Places, cuts: Places) -> tuple[tuple[Numbers, ...], Numbers, Numbers]:
        """Of some mappings: fields, as those of :class:`Mapping` follow each other, cycles and words."""
        tasks, images, rows, columns, run = self.cuts[cuts].T
        groups = self.groups[filters]
        # As many groups of filters to a load of the map as a bank has room for, in loads as equal as can be.
        most = np.minimum(np.minimum(np.floor(self.die.bank_words / self.padded[filters, cuts]), groups), 255)
        mapping_fields = (*self.taps[taps].T, *self.filters[filters].T, up(groups, up(groups, most)))
        row, around, read, written = costs(self.die, self.loops, _Fields(*mapping_fields), images, rows, columns * run,
                                           run, SLOWER)
        return (images, rows, columns, run, *mapping_fields), tasks * row + around, tasks * (read + written)

    def enough(self, least: Numbers) -> float:
        """Cycles of a good mapping, if one is found at once: of each way to hold taps with the filters of the least
        cycles, the best cut."""
        taps, filters = np.arange(len(least)), least.argmin(axis=1)
        bounds = self.bounds(taps, filters)
        cuts = bounds.argmin(axis=1)
        fit = np.isfinite(bounds[taps, cuts])
        return float(self.costs(taps[fit], filters[fit], cuts[fit])[1].min(initial=inf))


def choose(die: DieParameters, loops: Loops, name: str = "a product") -> Mapping:
    """The mapping that is taken.

    Raises
    ------
    UserError
        If none fits the machine; the message says what the smallest one needs, for the layer ``name``.
    """
    choice = _choose(die, loops)
    if not isinstance(choice, Mapping):
        choice = _choose(die, loops, True)
    if isinstance(choice, Mapping):
        return choice
    raise UserError(f"layer {name!r} has no mapping onto the row-stationary machine: its smallest one needs {choice} "
                    f"words of a PE's ifmap scratchpad, of which there are {die.ifmap_words}")


@lru_cache(maxsize=4096)
def _choose(die: DieParameters, loops: Loops, every: bool = False) -> Mapping | int:
    """The best mapping of the likely ones or of ``every`` one; or the words of a PE's ifmap scratchpad that the
    smallest one needs, where none fits."""
    space = _Space(die, loops, every)
    least = space.least()
    most = SAME * space.enough(least)
    taps, filters = np.nonzero(least <= most)
    bounds = space.bounds(taps, filters)
    pairs, cuts = np.nonzero((bounds <= most) & np.isfinite(bounds))
    if not len(pairs):
        return space.least_words
    mapping_fields, cycles, words = space.costs(taps[pairs], filters[pairs], cuts)
    best = int(np.where(cycles <= cycles.min() * SAME, words, inf).argmin())
    return Mapping(**{field.name: int(values[best])
                      for field, values in zip(fields(Mapping), mapping_fields, strict=True)})


@dataclass(frozen=True)
class MappedSamples:
    """Samples of a fully connected layer, from ``start`` on, that one product is made of, and its mapping."""

    start: int
    loops: Loops
    mapping: Mapping


@lru_cache(maxsize=4096)
def dense(die: DieParameters, samples: int, inputs: int, outputs: int, transposed: bool, name: str = "a product",
          ) -> tuple[MappedSamples, ...]:
    """Parts of samples x inputs times inputs x outputs, weights or their transpose: samples as rows x columns of a map,
    those left over likewise."""
    choices: list[tuple[float, tuple[MappedSamples, ...]]] = []
    for columns in balanced(samples, max(1, min(-(-samples // die.columns), die.bank_words)))[:3]:
        loops = Loops(rows=samples // columns, columns=columns, filters=outputs, channels=inputs,
                      adjacent_channels=True, adjacent_filters=not transposed)
        parts: tuple[MappedSamples, ...] = (MappedSamples(0, loops, choose(die, loops, name)),)
        rest = samples % columns
        if rest:
            parts += tuple(replace(part, start=part.start + samples - rest)
                           for part in dense(die, rest, inputs, outputs, transposed, name))
        choices.append((work(die, [(part.loops, part.mapping) for part in parts]).alone, parts))
    return min(choices, key=lambda choice: choice[0])[1]


def _folds(die: DieParameters, samples: int) -> list[tuple[int, int]]:
    """For each number of samples in a kernel row, slots of all of them; those left over likewise."""
    folds = [(0, 0)]
    for count in range(1, samples + 1):
        folds.append(min((-(-(count // wide) // die.rows) * wide + folds[count % wide][0], wide)
                         for wide in range(1, min(count, die.filter_words // die.feed_words) + 1)))
    return folds


@lru_cache(maxsize=4096)
def dense_update(die: DieParameters, samples: int, inputs: int, outputs: int, name: str = "a product",
                 ) -> tuple[MappedSamples, ...]:
    """Parts of inputs x samples times samples x outputs: samples as kernel rows x columns, those left over likewise."""
    most = min(samples, die.filter_words // die.feed_words)
    # Of equal slots more than one tap is better, for stores hide behind it, if a load of the map does as well.
    wides = {1, min(2, most), _folds(die, samples)[samples][1]} if samples <= most * die.rows else {most}
    choices = []
    for wide in sorted(wides):
        loops = Loops(units=inputs, filters=outputs, kernel_rows=samples // wide, kernel_columns=wide)
        parts: tuple[MappedSamples, ...] = (MappedSamples(0, loops, choose(die, loops, name)),)
        rest = samples % wide
        if rest:
            parts += tuple(replace(part, start=part.start + samples - rest)
                           for part in dense_update(die, rest, inputs, outputs, name))
        choices.append((work(die, [(part.loops, part.mapping) for part in parts]).alone, parts))
    return min(choices, key=lambda choice: choice[0])[1]
