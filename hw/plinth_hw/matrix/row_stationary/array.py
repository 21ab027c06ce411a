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
from plinth_hw.matrix.row_stationary.head import PassPreparation, PsumEntry
from plinth_hw.matrix.row_stationary.interface import ID_BITS, ArrayShape, Pass
from plinth_hw.matrix.row_stationary.row import LINE_BITS, Row


class RowArray(wiring.Component):
    """R x C processing elements; see :mod:`plinth_hw.matrix.row_stationary.interface` for the layouts.

    Parameters
    ----------
    multiply_format, accumulate_format : Format
        Formats of the operands and of the psums.
    rows, columns, filter_words, ifmap_words, psum_words, feed_words : int
        Sizes, as of :class:`~plinth_hw.matrix.row_stationary.interface.ArrayShape`.

    Members
    -------
    passes : In(stream.Signature(Pass))
        Passes, in order. May be offered before anything else of the pass; one is taken ahead of the one whose
        steps row 0 begins. An idle row 0 begins a pass 5 + max(tap_columns - 1, interleaved_windows) cycles after
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
    ifmaps : In(ifmap_write)
        Acts in the cycle in which ``valid`` is set; no backpressure. All PEs whose id is ``id`` store the line
        at their ring's current place. The place is free if lines done - lines released < ifmap_lines.
    line_done : In(1)
        Pulse: all lines of the current place were written, in this cycle or before; writes of later cycles go
        to the next place. Lines number on from pass to pass, ``lines`` of them for each pass.
    lines_released : Out(1)
        Pulse: one line more, in order, that no row needs any longer, and that was done before. All ``lines`` of a
        pass are released in the end, used or not.
    ids : In(id_write)
        Holds for ifmap writes of later cycles, and not for those of this one or earlier.
    psums : In(stream.Signature(ArrayLayout(accumulate bits, columns)))
        What the psums start from, slot by slot: step, interleaved window, filter; idle slots have none.
        At most two steps are taken ahead of the one that row 0 runs.
    results : Out(psums_out)
        The finished psums, in the same order; no backpressure: there must be room for all. A step's P valid cycles
        are consecutive.
    issued : Out(rows)
        Bit i: row i multiplies in this cycle, in all columns (not: idle slots, rows that are not active).
    """

    def __init__(self, multiply_format: Format, accumulate_format: Format, rows: int, columns: int,
                 filter_words: int, ifmap_words: int, psum_words: int, feed_words: int) -> None:
        self.shape = shape = ArrayShape(
            multiply_format=multiply_format, accumulate_format=accumulate_format, rows=rows, columns=columns,
            filter_words=filter_words, ifmap_words=ifmap_words, psum_words=psum_words, feed_words=feed_words)
        super().__init__({
            "passes": In(stream.Signature(Pass)),
            "filters": In(shape.filter_write),
            "filters_loaded": In(rows),
            "filters_released": Out(rows),
            "ifmaps": In(shape.ifmap_write),
            "line_done": In(1),
            "lines_released": Out(1),
            "ids": In(shape.id_write),
            "psums": In(stream.Signature(shape.column_psums)),
            "results": Out(shape.psums_out),
            "issued": Out(rows),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.preparation = preparation = PassPreparation(shape)
        m.submodules.entry = entry = PsumEntry(shape)
        rows = [Row(shape) for _ in range(shape.rows)]
        for r, row in enumerate(rows):
            emit.place(m, platform, row, name=f"row_{r}", module=row.module_name)
        wiring.connect(m, wiring.flipped(self.passes), preparation.passes)
        wiring.connect(m, wiring.flipped(self.psums), entry.psums)
        wiring.connect(m, preparation.o_passes, rows[0].passes)
        m.d.comb += [
            rows[0].chain.eq(entry.o_chain), rows[0].arrived.eq(entry.arrived),
            entry.slots.eq(rows[0].slots), entry.begins.eq(rows[0].begins), entry.read.eq(rows[0].read),
        ]
        for r, (above, below) in enumerate(itertools.pairwise(rows)):
            wiring.connect(m, above.o_passes, below.passes)
            # Steps that the row above has begun, and those whose psums come in time, less those begun below.
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
        self._ifmaps(m, rows)
        return m

    def _filters(self, m: Module, rows: list[Row]) -> None:
        """Writes of filters, one cycle later."""
        filters, loaded = Signal.like(self.filters, name="filters"), Signal.like(self.filters_loaded, name="loaded")
        m.d.sync += [filters.eq(self.filters), loaded.eq(self.filters_loaded)]
        line = Signal(range(2 * self.shape.filter_lines))
        m.d.comb += line.eq(filters.address + Mux(filters.half, self.shape.filter_lines, 0))
        for r, row in enumerate(rows):
            m.d.comb += [
                row.filters.enable.eq(filters.valid & (filters.row == r)), row.filters.line.eq(line),
                row.filters.words.eq(filters.words), row.filters_loaded.eq(loaded[r]),
            ]

    def _ifmaps(self, m: Module, rows: list[Row]) -> None:
        """Writes of ifmaps, two cycles later; between, rows take their part from the id."""
        shape = self.shape
        arrival = data.StructLayout({"ifmaps": shape.ifmap_write, "done": 1, "ids": shape.id_write})
        early, late = Signal(arrival, name="early"), Signal(arrival, name="late")
        m.d.sync += [
            early.ifmaps.eq(self.ifmaps), early.done.eq(self.line_done), early.ids.eq(self.ids), late.eq(early),
        ]
        column_parts = Signal(data.ArrayLayout(ID_BITS, shape.columns))
        with m.If(late.ids.valid & late.ids.is_column):
            m.d.sync += column_parts[late.ids.index].eq(late.ids.value)
        done, released = Signal(LINE_BITS, name="done"), Signal(LINE_BITS, name="released")
        m.d.comb += self.lines_released.eq((released != done) & (released != rows[-1].first_line))
        m.d.sync += [done.eq(done + late.done), released.eq(released + self.lines_released)]
        for r, row in enumerate(rows):
            part, offset = Signal(ID_BITS, name=f"row_part_{r}"), Signal(ID_BITS, name=f"offset_{r}")
            with m.If(early.ids.valid & ~early.ids.is_column & (early.ids.index == r)):
                m.d.sync += part.eq(early.ids.value)
            m.d.sync += offset.eq(early.ifmaps.id - part)
            m.d.comb += [
                row.ifmaps.valid.eq(late.ifmaps.valid), row.ifmaps.offset.eq(offset),
                row.ifmaps.line.eq(done), row.ifmaps.words.eq(late.ifmaps.words),
                row.column_parts.eq(column_parts), row.lines_done.eq(done),
            ]
