"""Ifmap buffer: streams of rows of the map, loaded round by round into two halves.

::

    job -> widths of the map's part -> ids: set, image, row -> spans -> slice -> RowLoad -> BankArray <- feeder
           (SIZE, WORDS)                    columns of a stream                     |
                                                                                read port

The stream of an id is its row's columns one behind the other, each ``run`` = tap_channels window_run operands. It is
read as one span if these are neighbours in memory, else a span a column. What lies outside the map is +0 and not read:
a whole stream in one span. Streams follow each other in whole lines.

Latency: 7 cycles from a job to its first request; a load counts as full 4 cycles after its last beat. Throughput: a
beat a cycle, less one an id.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.row_stationary.jobs import (
    CHANNEL_BITS,
    COLUMN_SHAPE,
    COUNT_BITS,
    ROW_SHAPE,
    Sizes,
    copied,
    copied_less,
)
from plinth_hw.memory.banks import BankArray, BankReadPort
from plinth_hw.memory.channel import RowLoad
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import VectorWriter
from plinth_hw.shapes import shape_of

#: Cycles from a beat of the load to where a read sees it.
WRITE_CYCLES = 3


class IfmapBuffer(wiring.Component):
    """Two halves of streams, and their loader.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.ifmap_job``
        Loads, in order, into halves in turn.
    full : Out(2)
        Halves that are loaded and not yet released.
    released : In(1)
        Pulse: the half loaded first is not read any more.
    port : Out(ReadPort)
    read : In(BankReadPort)
        Operand a of half h lies in bank a mod E, line (h ``half_words`` + a) div E.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self.lines = 2 * sizes.half_words // sizes.lanes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.ifmap_job)),
            "full": Out(range(3)), "released": In(1), "port": Out(ReadPort(sizes.parameters)),
            "read": In(BankReadPort(sizes.lanes, self.lines, sizes.operand_bits)),
            "words": Out(sizes.parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        bits = sizes.stream_bits
        record = data.StructLayout({"half": unsigned(1), "pitch": unsigned(bits), "run": unsigned(bits),
                                    "ids": unsigned(COUNT_BITS)})
        m.submodules.load = load = RowLoad(sizes.parameters, 1, bits, clipped=True, packing=sizes.parameters.packing,
                                           far=True)
        m.submodules.records = records = FIFO(record, 2)
        wiring.connect(m, wiring.flipped(self.port), load.port)
        self._walk(m, load, records.i)
        self._write(m, load, records.o)
        return m

    def _walk(self, m: Module, load: RowLoad, loads: Any) -> None:
        """Jobs to spans."""
        sizes, record = self.sizes, loads.payload
        bits = sizes.stream_bits
        job = Signal(sizes.ifmap_job)
        taken = Signal()
        task = copied(m, self.task, "x_image x_row x_column x_set images sets ids id_rows stream_columns stream_lines "
                                    "tap_channels window_run map_rows map_columns", taken)
        less = copied_less(m, self.task, "stream_columns", taken)
        free = Signal(range(3), init=2)
        half = Signal()
        m.d.comb += taken.eq(self.job.valid & self.job.ready)
        m.d.sync += free.eq(free + self.released - taken)

        # Words of a run, and of a stream: all, those before the map, those before the map's end.
        run = Signal(bits)
        columns = Array(Signal(COUNT_BITS, name=f"columns_{name}") for name in ("all", "low", "high"))
        words = Array(Signal(bits, name=f"words_{name}") for name in ("all", "low", "high"))
        which = Signal(range(3))
        merged = Signal()
        # Columns of the stream before the map, and before its end, of both signs.
        before, rest = Signal(COLUMN_SHAPE, name="before"), Signal(COLUMN_SHAPE, name="rest")
        m.d.comb += [record.half.eq(half), record.run.eq(run), record.ids.eq(task.ids),
                     record.pitch.eq(task.stream_lines << sizes.feed_bits)]

        # Where the walk is: address of the set, image, row and column; what is left.
        address = unsigned(sizes.operand_address_bits)
        at = Signal(data.StructLayout(dict.fromkeys(("set", "image", "row", "column"), address)), name="at")
        left = Signal(data.StructLayout({"sets": 8, "images": COUNT_BITS, "rows": COUNT_BITS}), name="left")
        channels = Signal(CHANNEL_BITS)
        row = Signal(ROW_SHAPE)
        column = Signal(COUNT_BITS)
        whole, absent = Signal(name="whole"), Signal(name="absent")
        # Of a run, that there is.
        last_word = Signal(bits, name="last_word")
        # Spans are cut from registers.
        m.submodules.spans = spans = FIFO(load.i.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, spans.o, load.i)
        span = spans.i.payload
        inside = Signal()
        m.d.comb += [
            inside.eq((column >= columns[1]) & (column < columns[2])),
            span.address.eq(at.column), span.task.eq(job.number),
            span.last.eq(whole | (column == less.stream_columns)),
            span.columns.eq(Mux(whole, words[0], run)),
            span.low.eq(Mux(whole, words[1], 0)),
            span.high.eq(Mux(whole, words[2] - 1, last_word)),
            span.any.eq(~absent & (whole | inside)),
        ]
        following = Signal(address)
        m.d.comb += following.eq(at.row + sizes.step(task.x_row))
        with m.FSM():
            with m.State("JOB"):
                m.d.comb += self.job.ready.eq(free != 0)
                m.d.sync += [job.eq(self.job.payload), which.eq(0)]
                with m.If(taken):
                    m.next = "SIZE"
            with m.State("SIZE"):
                m.d.sync += [
                    run.eq(Mux(task.tap_channels == 1, task.window_run, task.tap_channels)),
                    columns[0].eq(task.stream_columns),
                    before.eq(-job.column), rest.eq(task.map_columns - job.column),
                    at.set.eq(job.address), at.image.eq(job.address), at.row.eq(job.address),
                    left.sets.eq(task.sets), left.images.eq(task.images), left.rows.eq(task.id_rows),
                    channels.eq(job.channels), row.eq(job.row),
                ]
                m.next = "WORDS"
            with m.State("WORDS"):
                m.d.sync += [words[which].eq(columns[which][:bits] * run), which.eq(which + 1),
                             merged.eq(task.x_column == run)]
                with m.If(which == 0):
                    m.d.sync += [columns[1].eq(_clamped(before, task.stream_columns)),
                                 columns[2].eq(_clamped(rest, task.stream_columns))]
                with m.If((which == 2) & loads.ready):
                    m.d.comb += loads.valid.eq(1)
                    m.d.sync += half.eq(~half)
                    m.next = "ROW"
            with m.State("ROW"):
                outside = Signal()
                m.d.comb += outside.eq((row < 0) | (row >= task.map_rows) | (channels == 0)
                                       | (columns[2] <= columns[1]))
                m.d.sync += [absent.eq(outside), whole.eq(outside | (merged & (channels >= task.tap_channels))),
                             at.column.eq(at.row), column.eq(0),
                             last_word.eq(Mux(channels < task.tap_channels, channels, run) - 1)]
                m.next = "SPANS"
            with m.State("SPANS"):
                m.d.comb += spans.i.valid.eq(1)
                with m.If(spans.i.ready):
                    m.d.sync += [at.column.eq(at.column + sizes.step(task.x_column)), column.eq(column + 1)]
                with m.If(spans.i.ready & span.last):
                    m.d.sync += [at.row.eq(following), left.rows.eq(left.rows - 1), row.eq(row + 1)]
                    m.next = "ROW"
                    with m.If(left.rows == 1):
                        m.d.sync += [at.row.eq(at.image + sizes.step(task.x_image)),
                                     at.image.eq(at.image + sizes.step(task.x_image)), left.rows.eq(task.id_rows),
                                     left.images.eq(left.images - 1), row.eq(job.row)]
                        with m.If(left.images == 1):
                            m.d.sync += [
                                *(place.eq(at.set + sizes.step(task.x_set)) for place in (at.row, at.image, at.set)),
                                left.images.eq(task.images),
                                left.sets.eq(left.sets - 1),
                                channels.eq(Mux(channels > task.tap_channels, channels - task.tap_channels, 0)),
                            ]
                            with m.If(left.sets == 1):
                                m.next = "JOB"

    def _write(self, m: Module, load: RowLoad, loads: Any) -> None:
        """Beats into the banks."""
        sizes, record = self.sizes, loads.payload
        bits, lane_bits = sizes.stream_bits, sizes.lane_bits
        m.submodules.banks = banks = BankArray(sizes.lanes, self.lines, sizes.operand_bits)
        m.submodules.writer = writer = VectorWriter(sizes.lanes, self.lines, sizes.operand_bits)
        wiring.connect(m, wiring.flipped(self.read), banks.read)
        wiring.connect(m, writer.o, banks.write)
        # Place of the id's and the span's first word, and of lane 0.
        first, place, lane_0 = Signal(bits, name="first"), Signal(bits, name="place"), Signal(bits, name="lane_0")
        ids = Signal(COUNT_BITS)
        active, ends = Signal(name="active"), Signal(name="ends")
        beat, taken = load.o.payload, Signal(name="taken")
        write = writer.i
        m.d.comb += [load.o.ready.eq(active), taken.eq(active & load.o.valid),
                     ends.eq(taken & beat.last & (ids == 1)), loads.ready.eq(ends),
                     write.capacity.eq(1), write.along_rows.eq(0)]
        with m.If(~active):
            m.d.sync += [active.eq(loads.valid), ids.eq(record.ids), first.eq(Mux(record.half, sizes.half_words, 0)),
                         place.eq(Mux(record.half, sizes.half_words, 0))]
        with m.Elif(taken & beat.last):
            m.d.sync += [first.eq(first + record.pitch), place.eq(first + record.pitch), ids.eq(ids - 1),
                         active.eq(ids != 1)]
        with m.Elif(taken & beat.row_last):
            m.d.sync += place.eq(place + record.run)
        m.d.comb += lane_0.eq(place + beat.column)
        m.d.sync += [
            write.enable.eq(taken), write.line.eq(lane_0[lane_bits:]), write.skew.eq(lane_0[:lane_bits]),
            write.column_low.eq(lane_0[:lane_bits]), write.mask.eq(beat.mask),
            *(write.data[lane].eq(Mux(beat.real[lane], beat.data[lane], 0)) for lane in range(sizes.lanes)),
        ]
        loaded = delayed(m, "loaded", ends, WRITE_CYCLES)
        m.d.sync += self.full.eq(self.full + loaded - self.released)
        m.d.comb += self.words.eq(Mux(taken, sizes.words(beat.words), 0))


def _clamped(value: object, most: object) -> object:
    """A signed value, at least 0 and at most ``most``."""
    return Mux(value < 0, 0, Mux(value > most, most, value))  # type: ignore[operator]
