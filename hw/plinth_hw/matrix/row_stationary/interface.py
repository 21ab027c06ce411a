# amaranth: UnusedElaboratable=no
# The adder is made to ask for its latency.
"""What goes into and comes out of the row-stationary array, and the limits of it.

A *window* is a position of the filter over the map. A *step* is ``interleaved_windows`` of them: what a row of the
array runs without a pause, T taps of P slots each. A *line* is ``feed_words`` neighbouring words.
"""

from dataclasses import dataclass
from functools import partial

from amaranth.hdl import unsigned
from amaranth.lib import data

from plinth_hw.arith.units import adder
from plinth_hw.isa.formats import Format
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.matrix_bodies import RowStationaryBody

_bits = partial(field_bits, RowStationaryBody)
#: Width of an id, the number of a row of the map on the multicast bus.
ID_BITS = _bits("ids")
#: Width of counts of windows and of lines of a stream.
COUNT_BITS = _bits("windows")


class Pass(data.Struct):
    """What all rows of the array do with one load of their filters; every count is at least 1."""

    #: Columns of the kernel, and channels of each. Tap t = column * tap_channels + channel.
    tap_columns: _bits("tap_columns")
    tap_channels: _bits("tap_channels")
    #: Words of the stream between neighbouring columns of the kernel, and between windows.
    tap_step: _bits("tap_step")
    window_step: _bits("window_step")
    #: Windows; the last step may have fewer than the others: its absent ones run too.
    windows: unsigned(COUNT_BITS)
    #: Filters, and windows that are run together; their product is at most ``psum_words``.
    filter_step: _bits("filter_step")
    interleaved_windows: _bits("interleaved_windows")
    #: Lines of the stream.
    lines: unsigned(COUNT_BITS)
    #: Rows that multiply; the others hand psums on unchanged.
    active: _bits("set_rows")


@dataclass(frozen=True, kw_only=True)
class ArrayShape:
    """Sizes of a row-stationary array.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a size is not positive, ``ifmap_words`` or ``feed_words`` not a power of two, a scratchpad not whole
        lines, ``feed_words`` 1, or ``psum_words`` below ``least_slots``.
    """

    multiply_format: Format
    accumulate_format: Format
    #: PEs.
    rows: int
    columns: int
    #: One half (of two) of a PE's filters.
    filter_words: int
    #: Ring of a PE's ifmaps.
    ifmap_words: int
    #: Slots of a step, at most.
    psum_words: int
    #: Words of a line.
    feed_words: int

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "filter_words", "ifmap_words", "psum_words", "feed_words"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be positive, not {value!r}")
        for name in ("ifmap_words", "feed_words"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value!r}")
        for name in ("filter_words", "ifmap_words"):
            value = getattr(self, name)
            if value % self.feed_words:
                raise ValueError(f"{name} must be a multiple of feed_words = {self.feed_words}, not {value!r}")
        if self.ifmap_words < 2 * self.feed_words:
            raise ValueError(f"ifmap_words must be at least two lines of feed_words = {self.feed_words}, "
                             f"not {self.ifmap_words!r}")
        if self.feed_words < 2:
            raise ValueError(f"feed_words must be at least 2, not {self.feed_words!r}")
        if self.psum_words < self.least_slots:
            raise ValueError(f"psum_words must be at least {self.least_slots}, not {self.psum_words!r}")

    @property
    def least_slots(self) -> int:
        """Slots of a tap, at least: the way of a sum through the adder, its memory and the register behind it."""
        return adder(self.accumulate_format).latency + 2

    @property
    def filter_lines(self) -> int:
        """Lines of one half of a PE's filters."""
        return self.filter_words // self.feed_words

    @property
    def ifmap_lines(self) -> int:
        """Lines of a PE's ring of ifmaps."""
        return self.ifmap_words // self.feed_words

    @property
    def operand_line(self) -> data.ArrayLayout:
        """Words of a line of filters or ifmaps."""
        return data.ArrayLayout(self.multiply_format.bits, self.feed_words)

    @property
    def column_psums(self) -> data.ArrayLayout:
        """A sum of every column."""
        return data.ArrayLayout(self.accumulate_format.bits, self.columns)

    @property
    def filter_write(self) -> data.StructLayout:
        """A line of filters of a row: line ``tap * ceil(filter_step / feed_words) + filter / feed_words`` of a half."""
        return data.StructLayout({
            "valid": 1, "row": range(self.rows), "half": 1, "address": range(self.filter_lines),
            "words": self.operand_line,
        })

    @property
    def ifmap_write(self) -> data.StructLayout:
        """The next line of the streams of all PEs with this id."""
        return data.StructLayout({"valid": 1, "id": ID_BITS, "words": self.operand_line})

    @property
    def id_write(self) -> data.StructLayout:
        """Part ``index`` (a row, or a column) of the ids: the id of PE (i, j) is row part i + column part j."""
        return data.StructLayout({
            "valid": 1, "is_column": 1, "index": range(max(self.rows, self.columns)), "value": ID_BITS,
        })

    @property
    def psums_out(self) -> data.StructLayout:
        """Finished psums of a slot."""
        return data.StructLayout({"valid": 1, "words": self.column_psums})
