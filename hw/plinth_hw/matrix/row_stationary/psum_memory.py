"""Psums between memory and the psum buffer: preload of tasks that accumulate, and store.

::

    preload:  batch -> PsumSpans -> RowLoad -> lines of F words -> slice -> banks -> opened
    store:    batch -> PsumSpans (a step at a time, as results come) -> RowStore -> lines of F words -> slice <- banks
                                                                          |
                                                                       responses -> end of task

A beat is a span of filters of one window and array column, or a part of it, and takes a cycle for each line of F words
in which it has some; a line of sums becomes one of words there, and back (``conversion.py``). The store takes a
batch when it has read all psums of the one before: then that one's region is free, and the sequencer may go on to the
next batch but one. It has the end of a task reported when memory has answered all of it, and only then begins the next
task's.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.conversion import from_memory, store_latency, to_memory
from plinth_hw.matrix.row_stationary.jobs import Sizes
from plinth_hw.matrix.row_stationary.psums import PsumBanks, line_layout
from plinth_hw.matrix.row_stationary.spans import PsumSpans, place_layout
from plinth_hw.memory.channel import RowLoad, RowStore
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.shapes import shape_of

#: Spans whose data are still to come.
SPANS = 32
#: Beats fetched ahead of the port: more than the cycles from a beat's first read to its place being free again.
FETCHES = 16
#: Stored batches whose answers may be missing.
UNANSWERED = 7


class LinesOfBeat(wiring.Component):
    """Cuts beats of spans into lines of F words of a bank.

    Members
    -------
    i : In stream of ``{place, column, mask, last}``
        Place of the span in the buffer, span's word (signed) in lane 0, and lanes that count.
    o : Out stream of ``{place, mask, number, beat_last, last}``
        Places of words ``number`` F to ``number`` F + F - 1 of the beat, of those that have some.
    """

    def __init__(self, sizes: Sizes, column_shape: Any):
        self.sizes = sizes
        place = place_layout(sizes)
        self.numbers = sizes.beat_words // sizes.feed
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "place": place, "column": column_shape, "mask": sizes.beat_words, "last": 1}))),
            "o": Out(stream.Signature(data.StructLayout({
                "place": place, "mask": sizes.feed, "number": range(max(2, self.numbers)), "beat_last": 1,
                "last": 1}))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes, numbers = self.sizes, self.numbers
        beat = Signal.like(self.i.payload)
        pending, rest = Signal(numbers, name="pending"), Signal(numbers, name="rest")
        o = self.o.payload
        for number in reversed(range(numbers)):
            with m.If(pending[number]):
                m.d.comb += o.number.eq(number)
        m.d.comb += [
            rest.eq(pending & (pending - 1)[:numbers]),
            self.o.valid.eq(pending != 0), o.beat_last.eq(rest == 0), o.last.eq(beat.last & o.beat_last),
            o.mask.eq(beat.mask.word_select(o.number, sizes.feed)),
            o.place.column.eq(beat.place.column),
            o.place.word.eq(beat.place.word + beat.column + (o.number << sizes.feed_bits)),
            self.i.ready.eq((pending == 0) | (self.o.ready & o.beat_last)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += pending.eq(rest)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += beat.eq(self.i.payload)
            for number in range(numbers):
                m.d.sync += pending[number].eq(self.i.payload.mask[number * sizes.feed:(number + 1) * sizes.feed] != 0)
        return m


class Preload(wiring.Component):
    """Opens regions for batches, with C in them if the task accumulates.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.batch_job``
        Batches whose regions are free.
    port : Out(ReadPort)
    line_write
        As of :class:`~plinth_hw.matrix.row_stationary.psums.PsumBanks`, from the other side.
    opened : Out(1)
        Pulse: the next batch's region holds what its psums start from.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.batch_job)),
            "port": Out(ReadPort(sizes.parameters)), "line_write": Out(stream.Signature(line_layout(sizes))),
            "opened": Out(1),
            "words": Out(sizes.parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.spans = spans = PsumSpans(sizes)
        m.submodules.load = load = RowLoad(sizes.parameters, 1, sizes.filter_bits, row_depth=SPANS, far=True)
        m.submodules.places = places = FIFO(place_layout(sizes), SPANS)
        m.submodules.lines = lines = LinesOfBeat(sizes, load.o.payload.shape()["column"].shape)
        wiring.connect(m, wiring.flipped(self.port), load.port)
        loading, take = Signal(name="loading"), Signal(name="take")
        m.d.comb += [
            take.eq(self.job.valid & ~loading),
            self.job.ready.eq(~loading & (~self.task.accumulate | spans.job.ready)),
            spans.task.eq(self.task), spans.job.payload.eq(self.job.payload),
            spans.job.valid.eq(take & self.task.accumulate), spans.allowed.eq(1),
        ]
        with m.If(spans.job.valid & spans.job.ready):
            m.d.sync += loading.eq(1)
        with m.Elif(self.opened):
            m.d.sync += loading.eq(0)

        beat = load.o.payload
        kept = Signal(beat["data"].shape())
        joined = Signal()
        m.d.comb += [
            joined.eq(load.i.ready & places.i.ready),
            load.i.payload.eq(spans.o.payload.span), load.i.valid.eq(spans.o.valid & places.i.ready),
            places.i.payload.eq(spans.o.payload.place), places.i.valid.eq(spans.o.valid & load.i.ready),
            spans.o.ready.eq(joined),
            lines.i.valid.eq(load.o.valid), load.o.ready.eq(lines.i.ready),
            lines.i.payload.place.eq(places.o.payload), lines.i.payload.column.eq(beat.column),
            lines.i.payload.mask.eq(beat.mask), lines.i.payload.last.eq(beat.last),
            places.o.ready.eq(load.o.valid & load.o.ready & beat.row_last),
            self.words.eq(Mux(load.o.valid & load.o.ready, beat.words, 0)),
        ]
        # What the banks are told comes from registers.
        m.submodules.given = given = FIFO(data.StructLayout({
            "line": line_layout(sizes), "last": unsigned(1)}), 2, Storage.HEAD)
        line, write = lines.o.payload, given.i.payload.line
        bits = sizes.parameters.word_bits
        words = kept.as_value().word_select(line.number, bits * sizes.feed)
        m.d.comb += [
            given.i.valid.eq(lines.o.valid), lines.o.ready.eq(given.i.ready),
            self.line_write.payload.eq(given.o.payload.line), self.line_write.valid.eq(given.o.valid),
            given.o.ready.eq(self.line_write.ready), given.i.payload.last.eq(line.last),
            self.opened.eq((take & ~self.task.accumulate)
                           | (given.o.valid & given.o.ready & given.o.payload.last)),
            write.place.eq(line.place), write.mask.eq(line.mask),
            Cat(write.words).eq(Cat(from_memory(sizes.parameters, sizes.parameters.sum_format, [
                words.word_select(number, bits) for number in range(sizes.feed)]))),
        ]
        with m.If(lines.i.valid & lines.i.ready):
            m.d.sync += kept.eq(beat["data"])
        return m


class Store(wiring.Component):
    """Stores batches.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.batch_job``
        Batches, or errors to report.
    final : In(1)
        Pulse: results of a step are in the buffer.
    line_read, line
        As of :class:`~plinth_hw.matrix.row_stationary.psums.PsumBanks`, from the other side.
    blocked : Out(1)
        A batch waits for the one before.
    port : Out(WritePort)
    ended : Out stream of ErrorCode
        A task has ended; all its stores are answered.
    words : Out
        Words stored in this cycle.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.batch_job)), "final": In(1),
            "line_read": Out(stream.Signature(place_layout(sizes))),
            "line": In(data.ArrayLayout(sizes.word_bits, sizes.feed)),
            "blocked": Out(1), "port": Out(WritePort(sizes.parameters)),
            "ended": Out(stream.Signature(shape_of(ErrorCode))), "words": Out(sizes.parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.spans = spans = PsumSpans(sizes)
        m.submodules.store = store = RowStore(sizes.parameters, 1, sizes.filter_bits, fetch_depth=FETCHES, far=True)
        m.submodules.places = places = FIFO(place_layout(sizes), SPANS)
        m.submodules.lines = lines = LinesOfBeat(sizes, store.fetch.payload.shape()["column"].shape)
        m.submodules.fetched = fetched = FIFO(store.i.payload.shape(), FETCHES)
        wiring.connect(m, fetched.o, store.i)
        wiring.connect(m, wiring.flipped(self.port), store.port)
        # Steps whose results are there.
        steps = Signal(sizes.psum_bits + 1)
        freed = Signal()
        m.d.sync += steps.eq(steps + self.final - spans.begins)
        m.submodules.given = given = FIFO(lines.o.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, lines.o, given.i)
        fetch, line = store.fetch.payload, given.o
        m.d.comb += [
            spans.task.eq(self.task), spans.job.payload.eq(self.job.payload), spans.allowed.eq(steps != 0),
            store.i_rows.payload.eq(spans.o.payload.span), store.i_rows.valid.eq(spans.o.valid & places.i.ready),
            places.i.payload.eq(spans.o.payload.place), places.i.valid.eq(spans.o.valid & store.i_rows.ready),
            spans.o.ready.eq(store.i_rows.ready & places.i.ready),
            lines.i.valid.eq(store.fetch.valid), store.fetch.ready.eq(lines.i.ready),
            lines.i.payload.place.eq(places.o.payload), lines.i.payload.column.eq(fetch.column),
            lines.i.payload.mask.eq(fetch.mask), lines.i.payload.last.eq(fetch.last),
            places.o.ready.eq(store.fetch.valid & store.fetch.ready & fetch.row_last),
            self.line_read.valid.eq(line.valid), self.line_read.payload.eq(line.payload.place),
            line.ready.eq(self.line_read.ready), freed.eq(line.valid & line.ready & line.payload.last),
            self.blocked.eq(self.job.valid & ~self.job.ready), self.words.eq(store.words),
        ]

        # Lines back to beats.
        read = data.StructLayout({"valid": 1, "ends": 1, "number": line.payload.number.shape()})
        reads = Signal(read)
        m.d.comb += [reads.valid.eq(line.valid & line.ready), reads.ends.eq(line.payload.beat_last),
                     reads.number.eq(line.payload.number)]
        parameters = sizes.parameters
        reads = delayed(m, "read", reads, PsumBanks.line_latency + store_latency(parameters))
        words = to_memory(m, platform, parameters, parameters.sum_format,
                          [self.line[number] for number in range(sizes.feed)])
        beat, whole = (Signal(parameters.beat_bits, name=name) for name in ("beat", "whole"))
        m.d.comb += whole.eq(beat)
        with m.If(reads.valid):
            m.d.comb += whole.word_select(reads.number, parameters.word_bits * sizes.feed).eq(Cat(words))
            m.d.sync += beat.eq(whole)
        m.d.comb += [fetched.i.payload.eq(whole), fetched.i.valid.eq(reads.valid & reads.ends)]
        self._end(m, spans, store, freed)
        return m

    def _end(self, m: Module, spans: PsumSpans, store: RowStore, freed: Signal) -> None:
        """Batches one after another, each until all its psums are read (``freed``); then the answers of a task."""
        job = Signal(self.sizes.batch_job)
        unanswered = Signal(range(UNANSWERED + 1))
        failed, taken = Signal(name="failed"), Signal(name="taken")
        m.d.comb += [failed.eq(self.job.payload.error != ErrorCode.NONE), taken.eq(self.job.valid & self.job.ready),
                     self.ended.payload.eq(job.error)]
        m.d.sync += unanswered.eq(unanswered + (taken & ~failed) - store.done)
        with m.FSM():
            with m.State("BATCH"):
                m.d.sync += job.eq(self.job.payload)
                m.d.comb += [spans.job.valid.eq(self.job.valid & ~failed & (unanswered != UNANSWERED)),
                             self.job.ready.eq(failed | (spans.job.ready & (unanswered != UNANSWERED)))]
                with m.If(taken & failed):
                    m.next = "ANSWERS"
                with m.Elif(taken):
                    m.next = "FETCH"
            with m.State("FETCH"), m.If(freed):
                m.next = "BATCH"
                with m.If(job.task_last):
                    m.next = "ANSWERS"
            with m.State("ANSWERS"):
                m.d.comb += self.ended.valid.eq(unanswered == 0)
                with m.If(self.ended.valid & self.ended.ready):
                    m.next = "BATCH"
