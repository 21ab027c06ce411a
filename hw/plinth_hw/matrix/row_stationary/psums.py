"""Psum buffer: a bank for each array column, in two regions, between the array's last row and its first.

::

    starts --> slot read --+--> FIFO --> array, row 0 ... array, last row --> slot write --> results
                           |                                                      |
    store  --> line read --+      banks (columns x F words side by side)          +-- line write <-- preload

The psums of a slot are a word of all banks; a line is F words of one bank, at any word. In a round every window's
psums are read, handed to the array, and written back to where they were; then the next round may read them, or, after
the final one of a batch, the store. Slots come first: lines wait while there is one. Batches use the two regions in
turn.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.rotator import rotate
from plinth_hw.matrix.row_stationary.jobs import COUNT_BITS, GROUP_BITS, Sizes, copied
from plinth_hw.matrix.row_stationary.spans import place_layout
from plinth_hw.memory.banks import BankArray
from plinth_hw.shapes import shape_of

#: Slots read ahead of the array.
SLOTS_AHEAD = 8
#: Rounds whose results may come.
ROUNDS = 4


def line_layout(sizes: Sizes) -> data.StructLayout:
    """F words of a bank to write, from word ``place`` on; ``mask``: which."""
    return data.StructLayout({"place": place_layout(sizes), "mask": unsigned(sizes.feed),
                              "words": data.ArrayLayout(sizes.word_bits, sizes.feed)})


class PsumBanks(wiring.Component):
    """The banks.

    Members
    -------
    slot_read : In(1), slot_word : In
        Read this word of all banks; ``slot`` Out, ``slot_latency`` cycles later.
    line_read : In stream of place
        Read F words; ``line`` Out, ``line_latency`` cycles later.
    slot_write : In(1), written_word, written : In
        Write this word of all banks.
    line_write : In stream of :func:`line_layout`

    Reads see what was written in cycles before. The memories' ports come from registers.
    """

    #: Cycles from ``slot_read`` to ``slot``, and from ``line_read`` to ``line``.
    slot_latency, line_latency = 2, 3

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        word = unsigned(sizes.psum_bits)
        super().__init__({
            "slot_read": In(1), "slot_word": In(word), "slot": Out(sizes.array.column_psums),
            "line_read": In(stream.Signature(place_layout(sizes))),
            "line": Out(data.ArrayLayout(sizes.word_bits, sizes.feed)),
            "slot_write": In(1), "written_word": In(word), "written": In(sizes.array.column_psums),
            "line_write": In(stream.Signature(line_layout(sizes))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        feed, feed_bits, columns, bits = sizes.feed, sizes.feed_bits, sizes.array.columns, sizes.word_bits
        m.submodules.banks = banks = BankArray(columns * feed, 2 * sizes.bank_words // feed, bits)
        read, write = banks.read, banks.write

        def lines(name: str, word: Signal) -> list[Signal]:
            """Line of each of the F memories of a bank, for words from ``word`` on."""
            bank_lines = [Signal(sizes.psum_bits - feed_bits, name=f"{name}_{number}") for number in range(feed)]
            m.d.comb += [line.eq(word[feed_bits:] + (number < word[:feed_bits]))
                         for number, line in enumerate(bank_lines)]
            return bank_lines

        word, place = Signal(sizes.psum_bits), self.line_read.payload
        m.d.comb += [
            self.line_read.ready.eq(~self.slot_read), word.eq(Mux(self.slot_read, self.slot_word, place.word)),
        ]
        m.d.sync += read.enable.eq(self.slot_read | self.line_read.valid)
        for number, line in enumerate(lines("read_line", word)):
            m.d.sync += [read.line[bank * feed + number].eq(line) for bank in range(columns)]
        low = delayed(m, "low", word[:feed_bits], self.slot_latency)
        column = delayed(m, "column", place.column, self.slot_latency)
        later, picked = Signal(feed_bits, name="later"), Signal(self.line.shape(), name="picked")
        m.d.sync += [later.eq(low), picked.eq(read.data.as_value().word_select(column, bits * feed))]
        for bank in range(columns):
            own = read.data.as_value()[bits * feed * bank:bits * feed * (bank + 1)]
            m.d.comb += self.slot[bank].eq(own.word_select(low, bits))
        turned = rotate(m, "line", [picked[number] for number in range(feed)], later, 0, feed_bits, up=False)
        m.d.comb += [self.line[number].eq(value) for number, value in enumerate(turned)]

        line = self.line_write.payload
        into = Signal(sizes.psum_bits)
        start = into[:feed_bits]
        words = rotate(m, "words", [line.words[number] for number in range(feed)], start, 0, feed_bits, up=True)
        mask = rotate(m, "mask", [line.mask[number] for number in range(feed)], start, 0, feed_bits, up=True)
        m.d.comb += [
            self.line_write.ready.eq(~self.slot_write),
            into.eq(Mux(self.slot_write, self.written_word, line.place.word)),
        ]
        # What is written in the next cycle: a word of all banks, or a line.
        of_slot, slot, line_words = Signal(name="of_slot"), Signal.like(self.written, name="slot_words"), Signal(
            data.ArrayLayout(bits, feed), name="line_words")
        m.d.sync += [
            write.enable.eq(self.slot_write | self.line_write.valid), of_slot.eq(self.slot_write),
            slot.eq(self.written), *(line_words[number].eq(value) for number, value in enumerate(words)),
        ]
        for number, at in enumerate(lines("write_line", into)):
            for bank in range(columns):
                index = bank * feed + number
                m.d.sync += [
                    write.line[index].eq(at),
                    write.mask[index].eq(Mux(self.slot_write, start == number,
                                             mask[number] & (line.place.column == bank))),
                ]
                m.d.comb += write.data[index].eq(Mux(of_slot, slot[bank], line_words[number]))
        return m


class Starts(wiring.Component):
    """What the array's psums start from.

    Throughput: a slot a cycle.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.psum_job``
    opened : In(1)
        Pulse: the next batch may use its region. ``again`` In(1), pulse: the next step's psums of a round that is not
        its batch's first are there.
    slot_read, slot_word, slot
        Those of :class:`PsumBanks`, from the other side; ``slot_read`` and ``slot_word`` come from registers.
    o : Out stream of a sum for each column
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.psum_job)),
            "opened": In(1), "again": In(1),
            "slot_read": Out(1), "slot_word": Out(sizes.psum_bits), "slot": In(sizes.array.column_psums),
            "o": Out(stream.Signature(sizes.array.column_psums)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        job, accepted = Signal(sizes.psum_job, name="job"), Signal(name="accepted")
        task = copied(m, self.task, "windows filter_step interleaved_windows accumulate", accepted)
        m.d.comb += accepted.eq(self.job.valid & self.job.ready)
        batches, steps = Signal(range(3), name="batches"), Signal(sizes.psum_bits + 1, name="steps")
        open_, step = Signal(name="open"), Signal(name="step")
        m.d.sync += [batches.eq(batches + self.opened - open_), steps.eq(steps + self.again - step)]

        m.submodules.ahead = ahead = FIFO(sizes.array.column_psums, SLOTS_AHEAD)
        wiring.connect(m, ahead.o, wiring.flipped(self.o))
        room = Signal(range(SLOTS_AHEAD + 1), init=SLOTS_AHEAD)
        slots, slot = Signal(sizes.filter_bits, name="slots"), Signal(sizes.filter_bits, name="slot")
        windows, group = Signal(COUNT_BITS, name="windows"), Signal(GROUP_BITS, name="group")
        word = Signal(sizes.psum_bits)
        gives, gave = Signal(name="gives"), Signal(1 + PsumBanks.slot_latency, name="gave")
        pops = self.o.valid & self.o.ready
        m.d.sync += [
            room.eq(room - gives + pops), gave.eq(Cat(gives, gave)),
            self.slot_read.eq(gives & (~job.first | task.accumulate)), self.slot_word.eq(word),
        ]
        read = delayed(m, "read", self.slot_read, PsumBanks.slot_latency)
        m.d.comb += [ahead.i.valid.eq(gave[-1]), ahead.i.payload.eq(Mux(read, self.slot, 0))]

        last_slot, last_step = Signal(name="last_slot"), Signal(name="last_step")
        m.d.comb += [last_slot.eq(slot == slots - 1), last_step.eq(windows <= task.interleaved_windows)]
        with m.FSM():
            with m.State("JOB"):
                m.d.comb += self.job.ready.eq(1)
                m.d.sync += [job.eq(self.job.payload), group.eq(0)]
                with m.If(accepted):
                    m.next = "OPEN"
            with m.State("OPEN"):
                m.d.sync += [slots.eq(task.filter_step * task.interleaved_windows), slot.eq(0),
                             windows.eq(task.windows), word.eq(Mux(job.region, sizes.bank_words, 0))]
                m.d.comb += open_.eq(job.first & (batches != 0))
                with m.If(open_ | ~job.first):
                    m.next = "STEPS"
            with m.State("STEPS"):
                m.d.comb += [gives.eq((room != 0) & (job.first | (slot != 0) | (steps != 0))),
                             step.eq(gives & ~job.first & (slot == 0))]
                with m.If(gives):
                    m.d.sync += [slot.eq(Mux(last_slot, 0, slot + 1)), word.eq(word + 1)]
                with m.If(gives & last_slot):
                    m.d.sync += windows.eq(windows - task.interleaved_windows)
                    with m.If(last_step):
                        m.d.sync += [windows.eq(task.windows), group.eq(group + 1)]
                        with m.If(group == job.groups - 1):
                            m.next = "JOB"
        return m


class Results(wiring.Component):
    """Psums that the array has finished.

    Throughput: a slot a cycle, from round to round. Latency: two cycles. What goes out comes from registers.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.psum_job``
    i : In of ``array.psums_out``
    slot_write, written_word, written
        As of :class:`PsumBanks`, from the other side.
    again : Out(1)
        Pulse: a step's psums are there for the next round. ``final`` Out(1), pulse: for the store.
    busy : Out(1)
        There is a round whose results are still to come.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.psum_job)),
            "i": In(sizes.array.psums_out),
            "slot_write": Out(1), "written_word": Out(sizes.psum_bits), "written": Out(sizes.array.column_psums),
            "again": Out(1), "final": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        #: A round: last filter of a window, last window of a step; whether a window has one filter, a step one window,
        #: a group one step, the round one group.
        record = data.StructLayout({
            "job": sizes.psum_job, "windows": unsigned(COUNT_BITS), "interleaved_windows": unsigned(8),
            "last_filter": unsigned(8), "last_interleaved": unsigned(8), "one_filter": unsigned(1),
            "one_window": unsigned(1), "one_step": unsigned(1), "one_group": unsigned(1)})
        m.submodules.rounds = rounds = FIFO(record, ROUNDS, Storage.HEAD)
        task, queued, head = self.task, rounds.i.payload, rounds.o.payload
        m.d.comb += [
            queued.job.eq(self.job.payload), rounds.i.valid.eq(self.job.valid), self.job.ready.eq(rounds.i.ready),
            queued.windows.eq(task.windows), queued.interleaved_windows.eq(task.interleaved_windows),
            queued.last_filter.eq(task.filter_step - 1), queued.last_interleaved.eq(task.interleaved_windows - 1),
            queued.one_filter.eq(task.filter_step == 1), queued.one_window.eq(task.interleaved_windows == 1),
            queued.one_step.eq(task.windows <= task.interleaved_windows),
            queued.one_group.eq(self.job.payload.groups == 1), self.busy.eq(rounds.o.valid),
        ]
        result = Signal(sizes.array.psums_out, name="result")
        m.d.sync += result.eq(self.i)
        # Numbers of the filter, the window of a step and the group at hand; windows of steps that are done.
        filters, interleaved = Signal(8, name="filters"), Signal(8, name="interleaved")
        groups, windows = Signal(GROUP_BITS, name="groups"), Signal(COUNT_BITS + 1, name="windows")
        word = Signal(sizes.psum_bits)
        # Whether one is the last is found when the one before it ends, and of the first one when the round comes. Steps
        # of a group end at least three cycles apart (``least_slots``), so there is time.
        first_filter, first_window, first_step, first_group = (
            Signal(init=1, name=name) for name in ("first_filter", "first_window", "first_step", "first_group"))
        following = Signal(COUNT_BITS + 2, name="following")
        last_filter, last_window, last_step, last_group = (
            Signal(name=name) for name in ("last_filter", "last_window", "last_step", "last_group"))
        filter_last, slot_last, step_last, group_last = (Signal(name=name) for name in (
            "filter_last", "slot_last", "step_last", "group_last"))
        m.d.sync += [following.eq(windows + head.interleaved_windows), last_step.eq(following >= head.windows),
                     last_group.eq(groups + 1 == head.job.groups)]
        m.d.comb += [
            filter_last.eq(result.valid & Mux(first_filter, head.one_filter, last_filter)),
            slot_last.eq(filter_last & Mux(first_window, head.one_window, last_window)),
            step_last.eq(slot_last & Mux(first_step, head.one_step, last_step)),
            group_last.eq(step_last & Mux(first_group, head.one_group, last_group)),
            rounds.o.ready.eq(group_last),
        ]
        m.d.sync += [
            self.slot_write.eq(result.valid), self.written.eq(result.words),
            self.written_word.eq(word + Mux(head.job.region, sizes.bank_words, 0)),
            self.again.eq(slot_last & ~head.job.final), self.final.eq(slot_last & head.job.final),
        ]
        with m.If(result.valid):
            m.d.sync += [filters.eq(filters + 1), first_filter.eq(0), last_filter.eq(filters + 1 == head.last_filter),
                         word.eq(word + 1)]
            with m.If(filter_last):
                m.d.sync += [filters.eq(0), first_filter.eq(1), interleaved.eq(interleaved + 1), first_window.eq(0),
                             last_window.eq(interleaved + 1 == head.last_interleaved)]
            with m.If(slot_last):
                m.d.sync += [interleaved.eq(0), first_window.eq(1), windows.eq(windows + head.interleaved_windows),
                             first_step.eq(0)]
            with m.If(step_last):
                m.d.sync += [windows.eq(0), groups.eq(groups + 1), first_step.eq(1), first_group.eq(0)]
            with m.If(group_last):
                m.d.sync += [groups.eq(0), word.eq(0), first_group.eq(1)]
        return m
