"""Filter loader: filters of one array row after another, into a ring of their own and from there onto the filter bus.

::

    job -> groups -> rows (set, r) -> spans: s, c, f -> slice -> RowLoad -> VectorMemory -> lines of F words -> bus
                                                                    |        (a ring)
                                                                read port

In the ring the filters of an array row are a matrix of taps t (rows) and filters f (columns). Neighbours in memory are
filters (``w_filter`` = 1: a span a tap), channels (``w_channel`` = 1: a span a kernel column and filter), or neither
(spans of a word); the vector memory takes rows and columns alike and is read by rows, so the second case is a
transpose. Taps that the filter does not have are +0 and not read.

A row's lines go out when its PEs have a free half. Latency: 5 cycles from a job to its first request, 6 from the last
beat of a row to its first line on the bus. Throughput: a beat a cycle in and a line a cycle out, less two of either a
row. Loads run ahead as far as the ring has room.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.lib.count import LapCounter
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.row_stationary.jobs import CHANNEL_BITS, COUNT_BITS, GROUP_BITS, Sizes, copied, copied_less
from plinth_hw.memory.banks import line_bits
from plinth_hw.memory.channel import RowLoad
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import VectorMemory
from plinth_hw.shapes import shape_of

#: Array rows in the ring, at most.
ROWS = 8


class FilterLoader(wiring.Component):
    """Loads filters.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.filter_job``
    port : Out(ReadPort)
    filters, loaded, released
        ``filters``, ``filters_loaded`` and ``filters_released`` of
        :class:`~plinth_hw.matrix.row_stationary.array.RowArray`, from the other side.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self.lines = 2 * sizes.array.filter_lines
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.filter_job)),
            "port": Out(ReadPort(sizes.parameters)), "filters": Out(sizes.array.filter_write),
            "loaded": Out(sizes.array.rows), "released": In(sizes.array.rows),
            "words": Out(sizes.parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        count = unsigned(bits_for(self.lines))
        #: An array row in the ring: base, lines of the ring that it takes (with those left out at the end of the
        #: ring), taps, filters and lines of a tap, steps of t and f from span to span, ``across``: spans are columns
        #: of the matrix; last row of its pass.
        row = data.StructLayout({
            "base": unsigned(line_bits(self.lines)), "takes": count, "taps": unsigned(sizes.tap_bits),
            "filters": unsigned(sizes.filter_bits), "chunk": unsigned(sizes.tap_bits), "across": unsigned(1),
            "tap_lines": unsigned(bits_for(-(-sizes.parameters.psum_words // sizes.feed))), "last": unsigned(1)})
        m.submodules.load = load = RowLoad(sizes.parameters, 1, 8, clipped=True, packing=sizes.parameters.packing,
                                           far=True)
        m.submodules.memory = memory = VectorMemory(sizes.lanes, self.lines, sizes.operand_bits)
        m.submodules.written = written = FIFO(row, ROWS, Storage.HEAD)
        m.submodules.drained = drained = FIFO(row, ROWS, Storage.HEAD)
        wiring.connect(m, wiring.flipped(self.port), load.port)
        # Rows and lines of the ring that are free.
        taken, freed = Signal(count, name="taken"), Signal(count, name="freed")
        rows, free = Signal(range(ROWS + 1), init=ROWS, name="rows"), Signal(count, init=self.lines, name="free")
        m.d.sync += [free.eq(free - taken + freed), rows.eq(rows - (taken != 0) + (freed != 0))]
        self._walk(m, load, written.i, Mux(rows == 0, 0, free), taken)
        self._write(m, load, memory, written.o)
        m.d.comb += [drained.i.payload.eq(written.o.payload), drained.i.valid.eq(written.o.ready)]
        self._drain(m, memory, drained.o, freed)
        return m

    def _walk(self, m: Module, load: RowLoad, rows: Any, free: Value, taken: Signal) -> None:
        """Jobs to spans."""
        sizes, record = self.sizes, rows.payload
        job, accepted = Signal(sizes.filter_job, name="job"), Signal(name="accepted")
        task = copied(m, self.task, "w_row w_column w_channel w_filter w_set w_group filter_step tap_channels "
                                    "tap_columns", accepted)
        less = copied_less(m, self.task, "tap_columns tap_channels set_rows sets", accepted)
        m.d.comb += accepted.eq(self.job.valid & self.job.ready)
        address = unsigned(sizes.operand_address_bits)
        at = Signal(data.StructLayout(dict.fromkeys(("group", "set", "row", "s", "c", "f"), address)), name="at")
        left = Signal(data.StructLayout({"groups": GROUP_BITS, "filters": COUNT_BITS, "channels": CHANNEL_BITS,
                                         "rows": COUNT_BITS}), name="left")

        # What is the same for all spans of a group.
        straight, together = Signal(), Signal()
        m.d.comb += together.eq((task.w_channel == 1) & (task.w_filter != 1))
        chunk, last_c, last_f, filters = (Signal(8, name=name) for name in ("chunk", "last_c", "last_f", "filters"))
        sets, r, s, c, f = (LapCounter(8, name, last) for name, last in (
            ("set", less.sets), ("r", less.set_rows), ("s", less.tap_columns), ("c", last_c), ("f", last_f)))
        taps = Signal(sizes.tap_bits)
        size = Signal(range(self.lines + 1))
        place = Signal(line_bits(self.lines))
        # Of the place and the size a cycle ago: they are the same when a row asks for room. ``empty`` may come late.
        wraps, empty = Signal(name="wraps"), Signal(name="empty")
        around = Signal.like(record.takes, name="around")
        m.d.sync += [empty.eq(free == self.lines), wraps.eq(place + size > self.lines),
                     around.eq(size + self.lines - place)]
        m.d.comb += [
            record.base.eq(Mux(wraps | empty, 0, place)), record.takes.eq(Mux(wraps & ~empty, around, size)),
            record.taps.eq(taps), record.filters.eq(filters), record.chunk.eq(chunk), record.across.eq(~straight),
            record.tap_lines.eq((task.filter_step + sizes.feed - 1) >> sizes.feed_bits),
            record.last.eq(sets.at_last & r.at_last),
        ]

        # Spans are cut from registers.
        m.submodules.spans = spans = FIFO(load.i.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, spans.o, load.i)
        span, there, rest = spans.i.payload, Signal(name="there"), Signal(CHANNEL_BITS, name="rest")
        m.d.comb += [
            there.eq((left.rows != 0) & (s.number < job.columns) & (rest != 0)),
            span.address.eq(at.f), span.task.eq(job.number), span.any.eq(there), span.low.eq(0),
            span.columns.eq(Mux(straight, filters, chunk)),
            span.high.eq(Mux(straight, filters, Mux(rest < chunk, rest, chunk)) - 1),
            span.last.eq(s.at_last & c.at_last & f.at_last),
        ]
        with m.FSM():
            with m.State("JOB"):
                m.d.comb += self.job.ready.eq(1)
                payload = self.job.payload
                m.d.sync += [job.eq(payload), at.group.eq(payload.address), left.groups.eq(payload.groups),
                             left.filters.eq(payload.filters),
                             taps.eq(self.task.tap_columns * self.task.tap_channels)]
                with m.If(accepted):
                    m.next = "GROUP"
            with m.State("GROUP"):
                m.d.sync += [
                    straight.eq(task.w_filter == 1),
                    filters.eq(Mux(left.filters < task.filter_step, left.filters, task.filter_step)),
                    chunk.eq(Mux(together, task.tap_channels, 1)), last_c.eq(Mux(together, 0, less.tap_channels)),
                    at.set.eq(at.group), at.row.eq(at.group), left.channels.eq(job.channels), left.rows.eq(job.rows),
                    *sets.start(), *r.start(),
                ]
                # Columns of B filters, of a line a tap each.
                most = -(-sizes.parameters.psum_words // sizes.lanes)
                m.d.sync += size.eq(taps * sum((task.filter_step > number * sizes.lanes for number in range(1, most)),
                                               1))
                m.next = "PLACE"
            with m.State("PLACE"):
                m.d.sync += last_f.eq(Mux(straight, 0, filters - 1))
                m.next = "ROW"
            with m.State("ROW"):
                m.d.sync += [at.s.eq(at.row), at.c.eq(at.row), at.f.eq(at.row), *s.start(), *c.start(), *f.start(),
                             rest.eq(left.channels)]
                with m.If(record.takes <= free):
                    m.d.comb += [rows.valid.eq(1), taken.eq(record.takes)]
                    m.d.sync += place.eq(record.base + size)
                    m.next = "SPANS"
            with m.State("SPANS"):
                m.d.comb += spans.i.valid.eq(1)
                following = {name: Signal(address, name=f"following_{name}") for name in ("c", "s", "row", "set")}
                m.d.comb += [
                    following["c"].eq(at.c + sizes.step(task.w_channel)),
                    following["s"].eq(at.s + sizes.step(task.w_column)),
                    following["row"].eq(at.row + sizes.step(task.w_row)),
                    following["set"].eq(at.set + sizes.step(task.w_set)),
                ]
                with m.If(spans.i.ready):
                    m.d.sync += [at.f.eq(at.f + sizes.step(task.w_filter)), *f.step()]
                    with m.If(f.at_last):
                        m.d.sync += [at.c.eq(following["c"]), at.f.eq(following["c"]), *c.step(),
                                     rest.eq(Mux(rest < chunk, 0, rest - chunk))]
                    with m.If(f.at_last & c.at_last):
                        m.d.sync += [at.s.eq(following["s"]), at.c.eq(following["s"]), at.f.eq(following["s"]),
                                     *s.step(), rest.eq(left.channels)]
                    with m.If(span.last):
                        m.d.sync += [at.row.eq(following["row"]), *r.step(),
                                     left.rows.eq(Mux(left.rows == 0, 0, left.rows - 1))]
                        m.next = "ROW"
                        with m.If(r.at_last):
                            m.d.sync += [
                                at.set.eq(following["set"]), at.row.eq(following["set"]), *sets.step(),
                                left.rows.eq(job.rows),
                                left.channels.eq(Mux(left.channels > task.tap_channels,
                                                     left.channels - task.tap_channels, 0)),
                            ]
                        with m.If(record.last):
                            m.d.sync += [at.group.eq(at.group + sizes.step(task.w_group)),
                                         left.groups.eq(left.groups - 1),
                                         left.filters.eq(left.filters - task.filter_step)]
                            m.next = "GROUP"
                            with m.If(left.groups == 1):
                                m.next = "JOB"

    def _write(self, m: Module, load: RowLoad, memory: VectorMemory, rows: Any) -> None:
        """Beats into the ring, written from registers; a row is taken when it is complete: it is read two cycles after
        the last write at the earliest."""
        sizes, record = self.sizes, rows.payload
        lane_bits = sizes.lane_bits
        beat = Signal(load.o.payload.shape(), name="beat")
        valid = Signal()
        m.d.comb += load.o.ready.eq(1)
        m.d.sync += [valid.eq(load.o.valid), beat.eq(load.o.payload)]
        # Tap and filter of the span; line of its column of B filters; lane 0 of the beat, and its line.
        tap, filter_ = Signal(sizes.tap_bits, name="tap"), Signal(sizes.filter_bits, name="filter")
        column_line = Signal(line_bits(self.lines))
        row_line = Signal(line_bits(self.lines))
        first = Signal()
        write = memory.write
        column = beat.column
        low = column[:lane_bits]
        line = Signal.like(write.line, name="line")
        m.d.comb += first.eq(column <= 0)
        m.d.sync += [
            write.enable.eq(valid), write.mask.eq(beat.mask), write.capacity.eq(record.taps), write.line.eq(line),
            write.along_rows.eq(record.across),
            *(write.data[lane].eq(Mux(beat.real[lane], beat.data[lane], 0)) for lane in range(sizes.lanes)),
        ]
        with m.If(record.across):
            m.d.comb += line.eq(record.base + column_line + tap + column)
            m.d.sync += [write.column_low.eq(filter_[:lane_bits]),
                         write.skew.eq(tap[:lane_bits] + low + filter_[:lane_bits])]
        with m.Else():
            m.d.comb += line.eq(Mux(first, record.base + tap - Mux(column < 0, record.taps, 0), row_line))
            m.d.sync += [write.column_low.eq(low), write.skew.eq(tap[:lane_bits] + low)]
        with m.If(valid):
            m.d.sync += row_line.eq(line + record.taps)
            with m.If(beat.row_last):
                with m.If(~record.across):
                    m.d.sync += tap.eq(tap + 1)
                with m.Elif(filter_ == record.filters - 1):
                    m.d.sync += [filter_.eq(0), column_line.eq(0), tap.eq(tap + record.chunk)]
                with m.Else():
                    m.d.sync += filter_.eq(filter_ + 1)
                    with m.If(filter_[:lane_bits] == sizes.lanes - 1):
                        m.d.sync += column_line.eq(column_line + record.taps)
            with m.If(beat.last):
                m.d.sync += [tap.eq(0), filter_.eq(0), column_line.eq(0)]
        m.d.comb += [rows.ready.eq(valid & beat.last),
                     self.words.eq(Mux(load.o.valid, sizes.words(load.o.payload.words), 0))]

    def _drain(self, m: Module, memory: VectorMemory, rows: Any, freed: Signal) -> None:
        """The ring onto the bus. Rows without filters take part in a pass: they get their pulse after the last row
        that has some."""
        sizes, record = self.sizes, rows.payload
        shape = sizes.array
        row, half = Signal(range(shape.rows), name="row"), Signal(name="half")
        idle = Signal()
        free = Array(Signal(range(3), init=2, name=f"free_{number}") for number in range(shape.rows))
        begins, ends, reads = Signal(name="begins"), Signal(name="ends"), Signal(name="reads")
        tap, line = Signal(sizes.tap_bits, name="tap"), Signal.like(record.tap_lines, name="line")
        address = Signal(range(shape.filter_lines))
        # Of the line's first filter.
        filter_ = Signal(sizes.filter_bits)
        column_line = Signal(line_bits(self.lines))
        lane_bits = sizes.lane_bits
        read = memory.read
        line_last, last = Signal(name="line_last"), Signal(name="last")
        m.d.comb += [line_last.eq(line == record.tap_lines - 1), last.eq(line_last & (tap == record.taps - 1))]
        for number, count in enumerate(free):
            m.d.sync += count.eq(count + self.released[number] - (begins & (row == number)))
        with m.FSM():
            with m.State("ROW"):
                m.d.sync += [tap.eq(0), line.eq(0), address.eq(0), filter_.eq(0), column_line.eq(0)]
                with m.If((idle | rows.valid) & (free[row] != 0)):
                    m.d.comb += begins.eq(1)
                    with m.If(idle):
                        m.d.comb += ends.eq(1)
                    with m.Else():
                        m.next = "LINES"
            with m.State("LINES"):
                m.d.comb += reads.eq(1)
                m.d.sync += [line.eq(line + 1), address.eq(address + 1), filter_.eq(filter_ + sizes.feed)]
                if sizes.parameters.psum_words > sizes.lanes:
                    with m.If(filter_[:lane_bits] == sizes.lanes - sizes.feed):
                        m.d.sync += column_line.eq(column_line + record.taps)
                with m.If(line_last):
                    m.d.sync += [line.eq(0), tap.eq(tap + 1), filter_.eq(0), column_line.eq(0)]
                with m.If(last):
                    m.d.comb += [ends.eq(1), rows.ready.eq(1), freed.eq(record.takes)]
                    m.next = "ROW"
        with m.If(ends):
            m.d.sync += [row.eq(row + 1), idle.eq(idle | record.last)]
            with m.If(row == shape.rows - 1):
                m.d.sync += [row.eq(0), half.eq(~half), idle.eq(0)]

        m.d.sync += [
            read.enable.eq(reads), read.line.eq(record.base + column_line + tap),
            read.skew.eq(tap[:lane_bits] + filter_[:lane_bits]), read.column_low.eq(filter_[:lane_bits]),
            read.capacity.eq(record.taps),
        ]
        m.d.comb += read.along_rows.eq(0)
        place = delayed(m, "place", Cat(reads, ends, row, half, address), 1 + memory.read_latency)
        valid, ended = Signal(name="valid"), Signal(name="ended")
        which = Signal(range(shape.rows))
        write = Signal(shape.filter_write)
        m.d.comb += [
            Cat(valid, ended, which, write.half, write.address).eq(place),
            write.valid.eq(valid), write.row.eq(which),
            *(write.words[word].eq(read.data[word]) for word in range(sizes.feed)),
            self.filters.eq(write), self.loaded.eq(Mux(ended, 1 << which, 0)),
        ]
