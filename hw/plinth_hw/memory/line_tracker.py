"""Lines of a vector memory for walks over a matrix, found by additions alone."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, chosen_sum, table_sum
from plinth_hw.memory.banks import line_bits
from plinth_hw.memory.rows import near_column_bits
from plinth_hw.memory.scratchpad import vector_command


class LineTracker(wiring.Component):
    """Commands to a vector memory for a walk over a matrix in the order of a strided load or store.

    The walk goes over the rows of the *walked* matrix in ascending order from 0, within a row by steps
    of W, a power of two of at most B, from a first column in -W + 1 .. 0, as
    :class:`~plinth_hw.memory.channel.StridedLoad` gives its beats. With ``along_rows`` the walked matrix is
    the transpose of the stored one: lane l of the beat at (row, column) is element (column + l, row).

    Latency: :attr:`latency` cycles. Throughput: a beat a cycle. Each stage has one sum::

        column's first line -> where a row begins, or how far its next beat is -> line

    Parameters
    ----------
    banks, lines : int
        As of the vector memory.
    row_bits, column_bits : int
        Widths of ``row`` (unsigned) and ``column`` (signed): those of beats, unless told.
    words : int or None
        W, if it is less than B.

    Members
    -------
    base, capacity, along_rows : In
        Where the matrix lies; of the walk of the beat at hand.
    row, column : In
        Position of lane 0 in the walked matrix, of the beat at hand; of a column above 0 only the low part matters.
    shift : In
        Columns of the walked matrix, fewer than B, from that at ``base`` to the walk's column 0; stable during a
        walk.
    take : In(1)
        There is a beat at hand, and it is used up in this cycle.
    command : Out, :func:`~plinth_hw.memory.scratchpad.vector_command`
        Of the beat that was taken ``latency`` cycles ago.
    """

    #: Cycles from a beat to its command.
    latency = 2

    def __init__(self, banks: int, lines: int, row_bits: int, column_bits: int | None = None, *,
                 words: int | None = None):
        self.banks = banks
        self.lines = lines
        self.words = banks if words is None else words
        bits = line_bits(lines)
        lane_bits = exact_log2(banks)
        super().__init__({
            "base": In(bits), "capacity": In(bits), "along_rows": In(1),
            "row": In(row_bits),
            "column": In(signed(near_column_bits(banks) if column_bits is None else column_bits)),
            "shift": In(lane_bits), "take": In(1),
            "command": Out(wiring.Signature(vector_command(banks, lines))),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits, lane_bits = line_bits(self.lines), exact_log2(self.banks)
        command = self.command
        shifted = Signal.like(self.column + self.shift)
        m.d.comb += shifted.eq(self.column + self.shift)

        # Where the row begins: ``base + row``; along rows the line of (0, row), which is ``base`` of the first row, and
        # moves by D when the row enters the next B columns.
        row_low, last_row_low = self.row[:lane_bits], Signal(lane_bits)
        begin_now, last_begin = Signal(bits), Signal(bits)
        goes_on, enters = Signal(), Signal()
        m.d.comb += [
            goes_on.eq(self.along_rows & (self.row != 0)),
            enters.eq(goes_on & (row_low == 0) & (last_row_low != 0)),
            begin_now.eq(chosen_sum(
                m, platform, "next_begin", goes_on, last_begin, self.base,
                Mux(self.along_rows, Mux(enters, self.capacity, 0), self.row[:bits]))),
        ]
        with m.If(self.take):
            m.d.sync += [last_begin.eq(begin_now), last_row_low.eq(row_low)]

        # Either where the row begins, and how far off this beat is; or how far the next one is from the one before.
        first, left, entered = Signal(), Signal(), Signal()
        column = shifted[:lane_bits]
        m.d.comb += [first.eq(self.column <= 0), left.eq(first & ~self.along_rows & (shifted < 0)),
                     entered.eq(~first & (column[exact_log2(self.words):] == 0))]
        there, begins, back = Signal(name="there"), Signal(name="begins"), Signal(name="back")
        begin, distance, capacity = (Signal(bits, name=name) for name in ("begin", "distance", "row_capacity"))
        skew, column_low = Signal(lane_bits, name="skew"), Signal(lane_bits, name="column_low")
        along_rows = Signal(name="along")
        m.d.sync += [
            there.eq(self.take), begins.eq(first), back.eq(left), capacity.eq(self.capacity),
            along_rows.eq(self.along_rows), skew.eq(row_low + column),
            column_low.eq(Mux(self.along_rows, row_low, column)),
            begin.eq(begin_now),
            # Along rows as far as it is from the first column, or W more; else D more where the next B columns begin
            # within these W, or to the left D less, with the carry.
            distance.eq(Mux(self.along_rows, Mux(first, shifted, self.words),
                            (self.capacity ^ left.replicate(bits)) & (entered | left).replicate(bits))),
        ]

        m.d.sync += [command.enable.eq(there), command.capacity.eq(capacity), command.skew.eq(skew),
                     command.column_low.eq(column_low), command.along_rows.eq(along_rows)]
        with m.If(there):
            m.d.sync += command.line.eq(table_sum(m, platform, "next_line", [
                Digits((distance, begins, begin, command.line),
                       lambda d, s, b, x: (b & s) | (x & ~s), lambda d, s, b, x: d)], carry=back))
        return m
