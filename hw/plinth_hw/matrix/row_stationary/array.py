# amaranth: UnusedElaboratable=no
# Rows that share a module are elaborated once, however often they are placed.
"""Row-stationary array."""

import itertools
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.isa.formats import Format
from plinth_hw.matrix.row_stationary.head import PassPreparation, SumEntry
from plinth_hw.matrix.row_stationary.interface import ID_BITS, ArrayShape, Pass
from plinth_hw.matrix.row_stationary.row import LINE_BITS, Row


class RowArray(wiring.Component):
    """R x C processing elements; see :mod:`plinth_hw.matrix.row_stationary.interface` for the layouts.

    Parameters
    ----------
    multiply_format, accumulate_format : Format
        Formats of the operands and of the sums.
    rows, columns, filter_words, feature_words, sums, feed_words : int
        Sizes, as of :class:`~plinth_hw.matrix.row_stationary.interface.ArrayShape`.

    Members
    -------
    passes : In(stream.Signature(Pass))
        Passes, in order. May be offered before anything else of the pass; one is taken ahead of the one whose
        windows row 0 begins. An idle row 0 begins a pass 5 + max(tap_columns - 1, interleaved_windows) cycles after
        it was taken.
    filters : In(filter_write)
        Acts in the cycle in which ``valid`` is set; no backpressure. The k-th pass since reset uses half k mod 2 in
        every row.
    filters_loaded : In(rows)
        Bit i, one pulse a pass: all lines of row i's next half were written, in this cycle or before. Rows that are
        not active take part (they need the pulse, and release), but nothing has to be written for them.
    filters_released : Out(rows)
        Bit i, one pulse a pass: row i reads no more from the half that it has used; it may be written from the
        cycle of the pulse on. Two halves are free at reset.
    features : In(feature_write)
        Acts in the cycle in which ``valid`` is set; no backpressure. All PEs whose id is ``id`` store the line
        at their ring's current place. The place is free if lines done - lines released < feature_lines.
    line_done : In(1)
        Pulse: all lines of the current place were written, in this cycle or before; writes of later cycles go
        to the next place. Lines number on from pass to pass, ``lines`` of them for each pass.
    lines_released : Out(1)
        Pulse: one line more, in order, that no row needs any longer, and that was done before. All ``lines`` of a
        pass are released in the end, used or not.
    ids : In(id_write)
        Holds for feature writes of later cycles, and not for those of this one or earlier.
    sums : In(stream.Signature(ArrayLayout(accumulate bits, columns)))
        What the sums start from, slot by slot: window, interleaved window, filter; idle slots have none.
        At most two windows are taken ahead of the one that row 0 runs.
    results : Out(sums_out)
        The finished sums, in the same order; no backpressure: there must be room for all. A window's P valid cycles
        are consecutive.
    issued : Out(rows)
        Bit i: row i multiplies in this cycle, in all columns (not: idle slots, rows that are not active).
    """

    def __init__(self, multiply_format: Format, accumulate_format: Format, rows: int, columns: int,
                 filter_words: int, feature_words: int, sums: int, feed_words: int) -> None:
        self.shape = shape = ArrayShape(
            multiply_format=multiply_format, accumulate_format=accumulate_format, rows=rows, columns=columns,
            filter_words=filter_words, feature_words=feature_words, sums=sums, feed_words=feed_words)
        super().__init__({
            "passes": In(stream.Signature(Pass)),
            "filters": In(shape.filter_write),
            "filters_loaded": In(rows),
            "filters_released": Out(rows),
            "features": In(shape.feature_write),
            "line_done": In(1),
            "lines_released": Out(1),
            "ids": In(shape.id_write),
            "sums": In(stream.Signature(shape.sum_words)),
            "results": Out(shape.sums_out),
            "issued": Out(rows),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.preparation = preparation = PassPreparation(shape)
        m.submodules.entry = entry = SumEntry(shape)
        rows = [Row(shape) for _ in range(shape.rows)]
        for r, row in enumerate(rows):
            emit.place(m, platform, row, name=f"row_{r}", module=row.module_name)
        wiring.connect(m, wiring.flipped(self.passes), preparation.passes)
        wiring.connect(m, wiring.flipped(self.sums), entry.sums)
        wiring.connect(m, preparation.o_passes, rows[0].passes)
        m.d.comb += [
            rows[0].chain.eq(entry.o_chain), rows[0].arrived.eq(entry.arrived),
            entry.slots.eq(rows[0].slots), entry.begins.eq(rows[0].begins), entry.read.eq(rows[0].read),
        ]
        for r, (above, below) in enumerate(itertools.pairwise(rows)):
            wiring.connect(m, above.o_passes, below.passes)
            # Windows that the row above has begun, and those whose sums come in time, less those begun below.
            begun, arrived = Signal(range(3), name=f"begun_{r}"), Signal(range(3), name=f"arrived_{r}")
            m.d.sync += [
                begun.eq(begun + above.begins - below.begins),
                arrived.eq(arrived + above.arriving - below.begins),
            ]
            m.d.comb += [
                below.chain.eq(above.o_chain), below.arrived.eq(arrived != 0), above.room.eq(begun < 2),
            ]
        last = rows[-1]
        m.d.comb += [
            last.o_passes.ready.eq(1), last.room.eq(1),
            self.results.eq(last.o_chain), self.issued.eq(Cat(row.issued for row in rows)),
            self.filters_released.eq(Cat(row.filters_released for row in rows)),
        ]
        self._filters(m, rows)
        self._features(m, rows)
        return m

    def _filters(self, m: Module, rows: list[Row]) -> None:
        """Writes of filters, one cycle later."""
        filters, loaded = Signal.like(self.filters), Signal.like(self.filters_loaded)
        m.d.sync += [filters.eq(self.filters), loaded.eq(self.filters_loaded)]
        line = Signal(range(2 * self.shape.filter_lines))
        m.d.comb += line.eq(filters.address + Mux(filters.half, self.shape.filter_lines, 0))
        for r, row in enumerate(rows):
            m.d.comb += [
                row.filters.enable.eq(filters.valid & (filters.row == r)), row.filters.line.eq(line),
                row.filters.words.eq(filters.words), row.filters_loaded.eq(loaded[r]),
            ]

    def _features(self, m: Module, rows: list[Row]) -> None:
        """Writes of features, two cycles later; between, rows take their part from the id."""
        shape = self.shape
        arrival = data.StructLayout({"features": shape.feature_write, "done": 1, "ids": shape.id_write})
        early, late = Signal(arrival), Signal(arrival)
        m.d.sync += [
            early.features.eq(self.features), early.done.eq(self.line_done), early.ids.eq(self.ids), late.eq(early),
        ]
        column_parts = Signal(data.ArrayLayout(ID_BITS, shape.columns))
        with m.If(late.ids.valid & late.ids.is_column):
            m.d.sync += column_parts[late.ids.index].eq(late.ids.value)
        done, released = Signal(LINE_BITS), Signal(LINE_BITS)
        m.d.comb += self.lines_released.eq((released != done) & (released != rows[-1].first_line))
        m.d.sync += [done.eq(done + late.done), released.eq(released + self.lines_released)]
        for r, row in enumerate(rows):
            part, offset = Signal(ID_BITS, name=f"row_part_{r}"), Signal(ID_BITS, name=f"offset_{r}")
            with m.If(early.ids.valid & ~early.ids.is_column & (early.ids.index == r)):
                m.d.sync += part.eq(early.ids.value)
            m.d.sync += offset.eq(early.features.id - part)
            m.d.comb += [
                row.features.valid.eq(late.features.valid), row.features.offset.eq(offset),
                row.features.line.eq(done), row.features.words.eq(late.features.words),
                row.column_parts.eq(column_parts), row.lines_done.eq(done),
            ]
