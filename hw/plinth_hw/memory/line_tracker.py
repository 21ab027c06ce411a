"""Lines of a vector memory for walks over a matrix, found by additions alone."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.memory.banks import line_bits


class LineTracker(wiring.Component):
    """Lines for a walk over a matrix in the order of a strided load or store.

    The walk goes over the rows of the *walked* matrix in ascending order from 0, within a row by steps
    of B from a first column in -B + 1 .. 0, as :class:`~plinth_hw.memory.channel.StridedLoad` gives its
    beats. With ``along_rows`` the walked matrix is the transpose of the stored one: lane l of the beat
    at (row, column) is element (column + l, row).

    Parameters
    ----------
    banks, lines : int
        As of the vector memory.
    row_bits, column_bits : int
        Widths of ``row`` (unsigned) and ``column`` (signed).

    Members
    -------
    base, capacity, along_rows : In
        Where the matrix lies; stable during a walk.
    row, column : In
        Position of lane 0 in the walked matrix, of the beat at hand.
    shift : In
        Columns of the walked matrix, fewer than B, from that at ``base`` to the walk's column 0; stable during a
        walk.
    take : In(1)
        The beat at hand is used up in this cycle; the next cycle shows the following one.
    line, skew, column_low : Out
        For the command of the beat at hand, in the same cycle.
    """

    def __init__(self, banks: int, lines: int, row_bits: int, column_bits: int):
        self.banks = banks
        self.lines = lines
        bits = line_bits(lines)
        lane_bits = exact_log2(banks)
        super().__init__({
            "base": In(bits), "capacity": In(bits), "along_rows": In(1),
            "row": In(row_bits), "column": In(signed(column_bits)), "shift": In(lane_bits), "take": In(1),
            "line": Out(bits), "skew": Out(lane_bits), "column_low": Out(lane_bits),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = line_bits(self.lines)
        lane_bits = exact_log2(self.banks)
        following = Signal(bits)
        start = Signal(bits)
        step = Signal(bits)
        first = Signal()
        first_row = Signal()
        row_low = Signal(lane_bits)
        column_low = Signal(lane_bits)
        shifted = Signal.like(self.column + self.shift)
        # Along rows: line of (0, row), which moves by D when the row enters the next B columns.
        stored_column = Signal(bits)
        column_line = Signal(bits)
        last_row_low = Signal(lane_bits)
        m.d.comb += [
            first.eq(self.column <= 0),
            first_row.eq(self.row == 0),
            row_low.eq(self.row[:lane_bits]),
            shifted.eq(self.column + self.shift),
            column_low.eq(shifted[:lane_bits]),
            self.skew.eq(row_low + column_low),
            self.column_low.eq(Mux(self.along_rows, row_low, column_low)),
            step.eq(Mux(self.along_rows, self.banks, self.capacity)),
        ]
        with m.If(first_row):
            m.d.comb += column_line.eq(self.base)
        with m.Elif((row_low == 0) & (last_row_low != 0)):
            m.d.comb += column_line.eq(stored_column + self.capacity)
        with m.Else():
            m.d.comb += column_line.eq(stored_column)
        with m.If(self.along_rows):
            m.d.comb += start.eq(column_line + shifted)
        with m.Else():
            m.d.comb += start.eq(self.base + self.row - Mux(shifted < 0, self.capacity, 0))
        m.d.comb += self.line.eq(Mux(first, start, following))
        with m.If(self.take):
            m.d.sync += [following.eq(self.line + step), stored_column.eq(column_line),
                         last_row_low.eq(row_low)]
        return m
