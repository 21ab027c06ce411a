# amaranth: UnusedElaboratable=no
# Elements are made to ask for their latencies.
"""A row of the row-stationary array: the elements, and the control that they share.

::

    pass from the row above --> plan: next step, what it needs --begin--> walk: one slot a cycle
              |                                                                |
              v                                                          delays by stage
    pass for the row below                                                     |
                                                                               v
    lines, psums from above -----------------------------------------------> elements --> psums for the row below

The *plan* holds the pass whose steps begin next. It runs ahead of the walk, so that a step, and a pass,
begins in the cycle after the last slot of the one before if all that it needs is there. The walk goes through
a step without a pause: tap by tap, in each the interleaved windows, in each the filters.

The row below may begin a step before its psums are complete: it reads them in the order in which they come,
one a cycle. ``arriving`` says so ``arriving_stage`` cycles after the addresses of the first of them.

Source: HyPar, section 5; Eyeriss.
"""

import itertools
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.formats import identifiers
from plinth_hw.lib.delay import delayed
from plinth_hw.matrix.row_stationary.element import element_control
from plinth_hw.matrix.row_stationary.elements import RowElements
from plinth_hw.matrix.row_stationary.interface import COUNT_BITS, ID_BITS, ArrayShape

#: Lines are numbered modulo 2**LINE_BITS: the lines of a pass, of both signs, and a ring of them.
LINE_BITS = COUNT_BITS + 2


def word_bits(shape: ArrayShape) -> int:
    """Width of a place in a stream, in words: its lines, and the absent windows behind the last."""
    return COUNT_BITS + max(exact_log2(shape.feed_words), shape.psum_words.bit_length()) + 1


def ready_pass(shape: ArrayShape) -> data.StructLayout:
    """A pass with all that rows would otherwise have to multiply for; counts less one where named ``last``."""
    ring = exact_log2(shape.ifmap_words)
    return data.StructLayout({
        "last_column": 8, "last_channel": 8, "tap_step": ring, "window_step": ring,
        "windows": COUNT_BITS, "interleaved_windows": range(shape.psum_words + 1),
        "last_filter": range(shape.psum_words), "last_interleaved": range(shape.psum_words),
        #: Slots with psums, of a step's tap.
        "slots": range(shape.psum_words + 1),
        #: Lines of filters of a tap.
        "tap_lines": range(shape.filter_lines + 1),
        #: Words from a step to the next, and the last word of the first one.
        "step": word_bits(shape), "reach": word_bits(shape),
        "lines": COUNT_BITS,
        #: Rows that multiply, from this one on.
        "active": 8,
    })


def step_start(shape: ArrayShape) -> data.StructLayout:
    """What the walk takes over when a step begins; ``place`` is that of its first word in the ring."""
    return data.StructLayout({
        "pass": ready_pass(shape), "begins_pass": 1, "ends_pass": 1, "place": exact_log2(shape.ifmap_words),
    })


class Row(wiring.Component):
    """Control of a row, and its C elements.

    Parameters
    ----------
    shape : ArrayShape

    Members
    -------
    passes : In(stream.Signature(ready_pass))
    o_passes : Out(stream.Signature(ready_pass))
        For the row below, in the cycles after this row has taken it.
    filters : In
        Line of filters that is written: ``enable``, ``line`` of both halves, ``words``.
    filters_loaded : In(1)
    filters_released : Out(1)
        Pulse: the last line of the half is read in this cycle, and may be written from the next one on.
    ifmaps : In
        Line of ifmaps that is written: ``valid``, ``offset`` (the id less the row's part), ``line``, ``words``.
    column_parts : In
        Parts of the ids.
    lines_done : In(LINE_BITS)
        Number of the line that is not done yet.
    first_line : Out(LINE_BITS)
        Number of the first line that this row still needs.
    begins : Out(1)
        A step begins: its first slot is in the next cycle.
    slots : Out
        Psums that this step has; valid with ``begins``.
    arrived : In(1)
        The psums of the step that begins next are there, or will be in time.
    room : In(1)
        The row below has room for a step of psums; the last row's results always have.
    arriving : Out(1)
        Pulse: the row below may begin a step, from the next cycle on.
    read : Out(1)
        A word of psums is read; its place may be written from the next cycle on.
    chain, o_chain : In, Out
        Psums from the row above, and for the row below: ``valid``, ``words``.
    issued : Out(1)
        The row multiplies in this cycle.

    Attributes
    ----------
    start_stage, result_stage : int
        Cycles from the addresses of a slot until its starting value is chosen, and until its sum is there.
    arriving_stage : int
        Cycles from the addresses of the first slot of the last tap to ``arriving``.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        elements = RowElements(shape)
        # Elements are told which lines to read by registers.
        self.start_stage = 1 + elements.start_stage
        self.result_stage = 1 + elements.result_stage
        self.arriving_stage = self.result_stage - self.start_stage - 1
        prepared = stream.Signature(ready_pass(shape))
        super().__init__({
            "passes": In(prepared), "o_passes": Out(prepared),
            "filters": In(data.StructLayout({
                "enable": 1, "line": range(2 * shape.filter_lines), "words": shape.operand_line})),
            "filters_loaded": In(1), "filters_released": Out(1),
            "ifmaps": In(data.StructLayout({
                "valid": 1, "offset": ID_BITS, "line": range(shape.ifmap_lines), "words": shape.operand_line})),
            "column_parts": In(data.ArrayLayout(ID_BITS, shape.columns)),
            "lines_done": In(LINE_BITS), "first_line": Out(LINE_BITS),
            "begins": Out(1), "slots": Out(range(shape.psum_words + 1)),
            "arrived": In(1), "room": In(1), "arriving": Out(1), "read": Out(1),
            "chain": In(shape.psums_out), "o_chain": Out(shape.psums_out),
            "issued": Out(1),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that all equal rows share."""
        shape = self.shape
        return (f"plinth_stationary_row_{identifiers(shape.multiply_format, shape.accumulate_format)}_c{shape.columns}"
                f"_w{shape.filter_words}_x{shape.ifmap_words}_s{shape.psum_words}_f{shape.feed_words}")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.elements = elements = RowElements(self.shape)
        control = Signal(element_control(self.shape))
        start = Signal(step_start(self.shape))
        waiting = Signal()
        self._plan(m, start, waiting)
        stages = self._walk(m, control, start, waiting)
        self._psums(m, control, stages)
        m.d.comb += [
            control.filter_enable.eq(self.filters.enable), control.filter_write.eq(self.filters.line),
            control.ifmap_write.eq(self.ifmaps.line),
        ]
        chosen = stages[self.start_stage]
        m.d.comb += [
            elements.control.eq(control), elements.filter_words.eq(self.filters.words),
            elements.ifmaps.valid.eq(self.ifmaps.valid), elements.ifmaps.offset.eq(self.ifmaps.offset),
            elements.ifmaps.words.eq(self.ifmaps.words), elements.column_parts.eq(self.column_parts),
            elements.chosen.eq(chosen.real), elements.completes.eq(chosen.last),
            elements.chain.eq(self.chain.words), self.o_chain.words.eq(elements.o_chain),
        ]
        return m

    def _plan(self, m: Module, start: Any, waiting: Any) -> None:
        """Holds the pass whose steps begin next, and begins the next one while the walk is ``waiting``."""
        line_log2 = exact_log2(self.shape.feed_words)
        offer = self.passes.payload
        plan = Signal(ready_pass(self.shape))
        planned, fresh, offered = (Signal(name=name) for name in ("planned", "fresh", "offered"))
        #: First lines of this pass and of the one behind it, and the lines that the next step needs done.
        origin, following, need = (Signal(LINE_BITS, name=name) for name in ("origin", "following", "need"))
        left = Signal(COUNT_BITS)
        base, last = (Signal(word_bits(self.shape), name=name) for name in ("base", "last"))

        taken = Signal()
        m.d.comb += [
            self.passes.ready.eq(~planned & ~offered),
            taken.eq(self.passes.valid & self.passes.ready),
            self.o_passes.valid.eq(offered),
            self.o_passes.payload.eq(plan),
            self.o_passes.payload.active.eq(plan.active - (plan.active != 0)),
        ]
        m.d.sync += offered.eq(taken | (offered & ~self.o_passes.ready))

        # Whether the lines of the next step have come is found in three cycles; steps are longer than that.
        # The stream may lack lines of absent windows.
        settled, reach = Signal(3, name="settled"), Signal(word_bits(self.shape), name="reach")
        lines_there = Signal()
        first_line = Signal(LINE_BITS)
        m.d.comb += first_line.eq(origin + (base >> line_log2))
        m.d.sync += [
            settled.eq(Mux(planned & ~self.begins, Cat(1, settled), 0)),
            reach.eq((last >> line_log2) + 1),
            need.eq(origin + Mux(reach < plan.lines, reach, plan.lines)),
            lines_there.eq(~(self.lines_done - need)[LINE_BITS - 1] | (plan.active == 0)),
        ]

        filters = Signal(range(3))
        m.d.comb += [
            self.begins.eq(settled[-1] & waiting & lines_there & self.arrived & (~fresh | (filters != 0)) & self.room),
            self.slots.eq(plan.slots),
            start["pass"].eq(plan), start.begins_pass.eq(fresh),
            start.ends_pass.eq(left <= plan.interleaved_windows),
            start.place.eq(Cat(base[:line_log2], first_line)),
        ]
        m.d.sync += filters.eq(filters + self.filters_loaded - (self.begins & fresh))
        with m.If(self.begins):
            m.d.sync += [
                planned.eq(~start.ends_pass), fresh.eq(0), left.eq(left - plan.interleaved_windows),
                base.eq(base + plan.step), last.eq(last + plan.step),
            ]
        with m.If(taken):
            m.d.sync += [
                plan.eq(offer), planned.eq(1), fresh.eq(1), left.eq(offer.windows), base.eq(0), last.eq(offer.reach),
                origin.eq(following), following.eq(following + offer.lines),
            ]
        with m.If(waiting):
            m.d.sync += self.first_line.eq(Mux(planned, first_line, following))

    def _walk(self, m: Module, control: Any, start: Any, waiting: Any) -> list[Any]:
        """Addresses of a slot's operands, a slot a cycle; returns the slot by stage."""
        shape = self.shape
        word_log2 = exact_log2(shape.feed_words)
        now = Signal(ready_pass(shape))
        running, final, passive = Signal(name="running"), Signal(name="final"), Signal(name="passive")
        half = Signal(init=1)
        slot, filter_, interleaved = (Signal(range(shape.psum_words), name=name)
                                      for name in ("slot", "filter", "interleaved"))
        idle, first = Signal(name="idle"), Signal(name="first")
        column, channel = Signal.like(now.last_column, name="column"), Signal.like(now.last_channel, name="channel")
        filter_tap, filter_line = (Signal(range(2 * shape.filter_lines), name=name)
                                   for name in ("filter_tap", "filter_line"))
        column_place, tap_place, place = (Signal(exact_log2(shape.ifmap_words), name=name)
                                          for name in ("column_place", "tap_place", "place"))

        ends_channels, ends_filters, last, ends_slots, ends_tap, ends_step = (
            Signal(name=name) for name in
            ("ends_channels", "ends_filters", "last", "ends_slots", "ends_tap", "ends_step"))
        # A tap has more slots than it takes to find out in registers whether it is the last one, and which slot is its
        # last.
        last_slot, is_last = Signal.like(slot, name="last_slot"), Signal(name="is_last")
        m.d.comb += [
            ends_channels.eq(channel == now.last_channel),
            last.eq(passive | (ends_channels & (column == now.last_column))),
            ends_filters.eq(filter_ == now.last_filter),
            ends_slots.eq(idle | (ends_filters & (interleaved == now.last_interleaved))),
            ends_step.eq(ends_tap & is_last), waiting.eq(~running | ends_step),
        ]
        m.d.sync += [
            slot.eq(slot + 1), is_last.eq(last), ends_tap.eq(running & ~ends_tap & (slot + 1 == last_slot)),
            running.eq(self.begins | (running & ~ends_step)),
            self.filters_released.eq(ends_step & final),
        ]
        with m.If(ends_filters):
            m.d.sync += [
                filter_.eq(0), filter_line.eq(filter_tap), interleaved.eq(interleaved + 1),
                place.eq(place + now.window_step), idle.eq(ends_slots),
            ]
        with m.Else():
            m.d.sync += [
                filter_.eq(filter_ + 1), filter_line.eq(filter_line + filter_[:word_log2].all()),
                idle.eq(ends_slots),
            ]
        with m.If(ends_tap):
            m.d.sync += [
                slot.eq(0), filter_.eq(0), interleaved.eq(0), idle.eq(0), first.eq(0),
                filter_tap.eq(filter_tap + now.tap_lines), filter_line.eq(filter_tap + now.tap_lines),
            ]
            with m.If(ends_channels):
                after = (column_place + now.tap_step)[:len(place)]
                m.d.sync += [channel.eq(0), column.eq(column + 1),
                             column_place.eq(after), tap_place.eq(after), place.eq(after)]
            with m.Else():
                m.d.sync += [channel.eq(channel + 1), tap_place.eq(tap_place + 1), place.eq(tap_place + 1)]
        with m.If(self.begins):
            half_start = Mux(half ^ start.begins_pass, shape.filter_lines, 0)
            m.d.sync += [
                now.eq(start["pass"]), final.eq(start.ends_pass), passive.eq(start["pass"].active == 0),
                half.eq(half ^ start.begins_pass), filter_tap.eq(half_start), filter_line.eq(half_start),
                last_slot.eq(Mux(start["pass"].slots < shape.least_slots, shape.least_slots, start["pass"].slots) - 1),
                slot.eq(0), filter_.eq(0), interleaved.eq(0), idle.eq(0), first.eq(1), column.eq(0), channel.eq(0),
                column_place.eq(start.place), tap_place.eq(start.place), place.eq(start.place),
            ]

        stages = [Signal(data.StructLayout({
            "real": 1, "first": 1, "last": 1, "opens": 1, "slot": slot.shape()}), name=f"slot_{i}")
            for i in range(self.result_stage + 1)]
        m.d.comb += [
            stages[0].real.eq(running & ~idle), stages[0].first.eq(first), stages[0].last.eq(last),
            stages[0].opens.eq(running & last & (slot == 0)), stages[0].slot.eq(slot),
            self.issued.eq(stages[0].real & ~passive),
        ]
        lines = Signal(data.StructLayout({
            operand: data.StructLayout({"enable": 1, "line": control[operand].line.shape()})
            for operand in ("filter", "ifmap")}))
        # Of a line; there may be more words in it than filters.
        word = Signal(data.StructLayout({"filter": word_log2, "ifmap": word_log2, "bubble": 1}), name="word")
        later = delayed(m, "word", word, 2)
        m.d.comb += [
            control.filter.enable.eq(lines.filter.enable), control.filter.line.eq(lines.filter.line),
            control.ifmap.enable.eq(lines.ifmap.enable), control.ifmap.line.eq(lines.ifmap.line),
            word.filter.eq(filter_), word.ifmap.eq(place), word.bubble.eq(passive),
            control.filter.word.eq(later.filter), control.ifmap.word.eq(later.ifmap), control.bubble.eq(later.bubble),
        ]
        m.d.sync += [
            lines.filter.enable.eq(self.issued & (filter_[:word_log2] == 0)), lines.filter.line.eq(filter_line),
            lines.ifmap.enable.eq(self.issued & (filter_ == 0)), lines.ifmap.line.eq(place[word_log2:]),
            *(after.eq(before) for before, after in itertools.pairwise(stages)),
        ]
        return stages

    def _psums(self, m: Module, control: Any, stages: list[Any]) -> None:
        """Where psums start from, where they go, and what the rows above and below are told of it."""
        chosen, done = stages[self.start_stage], stages[self.result_stage]
        read, write = (Signal(range(2 * self.shape.psum_words), name=name) for name in ("psum_read", "psum_write"))
        m.d.comb += [
            control.start.eq(chosen.first), control.psum_read.eq(read), control.read_slot.eq(chosen.slot),
            control.capture.eq(done.real), control.write_slot.eq(done.slot),
            control.chain.eq(self.chain.valid), control.psum_write.eq(write),
            self.read.eq(chosen.real & chosen.first),
            self.o_chain.valid.eq(done.real & done.last),
            self.arriving.eq(stages[self.arriving_stage].opens),
        ]
        for enable, place in ((self.read, read), (self.chain.valid, write)):
            with m.If(enable):
                m.d.sync += place.eq(Mux(place == 2 * self.shape.psum_words - 1, 0, place + 1))
