"""Preload buffer: a tile of C, loaded ahead, and played into the array in the order of its load.

One tile: the next one is loaded once the array has taken the present one. Latency: ``start`` in cycle x,
word (row 0, slot 0) on ``data`` in cycle x + ``LATENCY``, then R I words without gaps.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.conversion import from_memory
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.matrix.window import GridRows
from plinth_hw.memory.banks import line_bits
from plinth_hw.memory.channel import RowLoad
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import VectorMemory, give

#: Cycles from ``start`` to the first word on ``data`` of a preload buffer.
LATENCY = 2 + VectorMemory.read_latency


class SlotWalk(wiring.Component):
    """Order of drains and loads: row 0 slots 0..I-1, row 1 slots 0..I-1, ...

    Members
    -------
    option : In
    step : In(1)
        Move on after this cycle.
    line, skew, column_low : Out
        Command for lanes (im R + r, jn C ..) of a tile that begins at line 0 with row capacity R Im.
    capacity : Out
    last, nears : Out(1)
        Last row, last slot; the one before it.
    """

    def __init__(self, geometry: Geometry, lines: int):
        self.geometry = geometry
        lane_bits = exact_log2(geometry.parameters.beat_words)
        super().__init__({
            "option": In(geometry.option_bits), "step": In(1),
            "line": Out(line_bits(lines)), "capacity": Out(line_bits(lines)),
            "skew": Out(lane_bits), "column_low": Out(lane_bits), "last": Out(1), "nears": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        banks = parameters.beat_words
        slot = Signal(geometry.interleave_log2)
        row = Signal(range(parameters.rows))
        slot_last, before = Signal(), parameters.rows * parameters.interleave - 2
        index = Cat(slot, self.option)
        line = geometry.by_slot(lambda option, im, jn:
                                jn * parameters.columns // banks * geometry.a_span[option]
                                + im * parameters.rows)
        low = geometry.by_slot(lambda option, im, jn: jn * parameters.columns % banks)
        skew = geometry.by_slot(lambda option, im, jn:
                                (im * parameters.rows + jn * parameters.columns) % banks)
        m.d.comb += [
            slot_last.eq(slot == parameters.interleave - 1),
            self.last.eq(slot_last & (row == parameters.rows - 1)),
            self.nears.eq((slot == before % parameters.interleave) & (row == before // parameters.interleave)),
            self.line.eq(lookup(m, "slot_line", index, line) + row),
            self.column_low.eq(lookup(m, "slot_column", index, low)),
            self.skew.eq(lookup(m, "slot_skew", index, skew) + row),
            self.capacity.eq(lookup(m, "slot_capacity", self.option, geometry.a_span)),
        ]
        with m.If(self.step):
            m.d.sync += slot.eq(slot + 1)
            with m.If(slot_last):
                m.d.sync += row.eq(Mux(self.last, 0, row + 1))
        return m


class PreloadBuffer(wiring.Component):
    """Loads tiles of C and plays them.

    Members
    -------
    job : In stream of ``geometry.tile_job``
    port : Out(ReadPort)
    full : Out(1)
        The tile is there.
    start : In(1)
        Play it, from the next cycle on; only while ``full``.
    data : Out
        C words of one row and slot.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        parameters = geometry.parameters
        super().__init__({
            "job": In(stream.Signature(geometry.tile_job)),
            "port": Out(ReadPort(parameters)),
            "full": Out(1),
            "start": In(1),
            "data": Out(data.ArrayLayout(geometry.chain_format.bits, parameters.columns)),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        banks, lines = parameters.beat_words, max(geometry.tile_lines)
        m.submodules.rows = rows = GridRows(parameters, geometry.a_bits, geometry.b_bits)
        m.submodules.load = load = RowLoad(parameters, geometry.a_bits, geometry.b_bits)
        m.submodules.memory = memory = VectorMemory(banks, lines, parameters.word_bits)
        m.submodules.tracker = tracker = LineTracker(banks, lines, geometry.a_bits)
        m.submodules.walk = walk = SlotWalk(geometry, lines)
        m.submodules.jobs = jobs = FIFO(geometry.tile_job, 2, Storage.HEAD)
        job, present = jobs.o.payload, jobs.o.valid
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        wiring.connect(m, rows.o, load.i)
        wiring.connect(m, wiring.flipped(self.port), load.port)
        # The job stays at the head until its tile has been played.
        loading, playing, ends = (Signal(name=name) for name in ("loading", "playing", "ends"))
        write, read = memory.write, memory.read
        m.d.comb += [
            rows.command.valid.eq(present & ~(loading | self.full | playing)), rows.grid.eq(job.grid),
            rows.command.payload.start.eq(job.start), rows.command.payload.offset.eq(job.offset),
            rows.command.payload.rows.eq(job.rows), rows.command.payload.columns.eq(job.columns),
            load.o.ready.eq(1),
            tracker.base.eq(0), tracker.along_rows.eq(0), tracker.capacity.eq(walk.capacity),
            tracker.row.eq(load.o.payload.row), tracker.column.eq(load.o.payload.column),
            tracker.take.eq(load.o.valid),
            *give(write, tracker.command),
            write.mask.eq(delayed(m, "mask", load.o.payload.mask, tracker.latency)),
            *(write.data[lane].eq(delayed(m, f"data_{lane}", load.o.payload.data[lane], tracker.latency,
                                          reset_less=True)) for lane in range(banks)),
            walk.option.eq(job.option), walk.step.eq(playing),
            read.along_rows.eq(0),
            jobs.o.ready.eq(ends),
            self.words.eq(Mux(load.o.valid, load.o.payload.words, 0)),
        ]
        words = from_memory(parameters, geometry.chain_format,
                            [read.data[column] for column in range(parameters.columns)])
        m.d.comb += [self.data[column].eq(word) for column, word in enumerate(words)]
        m.d.sync += [ends.eq(playing & walk.nears), read.enable.eq(playing), read.line.eq(walk.line),
                     read.capacity.eq(walk.capacity), read.skew.eq(walk.skew), read.column_low.eq(walk.column_low)]
        with m.If(rows.command.valid & rows.command.ready):
            m.d.sync += loading.eq(1)
        # The last beat is written before the first one can be read.
        with m.If(load.o.valid & load.o.payload.last):
            m.d.sync += [loading.eq(0), self.full.eq(1)]
        with m.If(self.start):
            m.d.sync += [self.full.eq(0), playing.eq(1)]
        with m.Elif(ends):
            m.d.sync += playing.eq(0)
        return m
