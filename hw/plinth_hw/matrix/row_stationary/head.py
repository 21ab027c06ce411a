"""What stands before row 0 of the row-stationary array: passes made ready, and psums to start from."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.matrix.row_stationary.interface import ArrayShape, Pass
from plinth_hw.matrix.row_stationary.row import ready_pass, word_bits


class PassPreparation(wiring.Component):
    """Products that rows need of a pass, found by additions while the pass before runs.

    Latency: 1 + max(tap_columns - 1, interleaved_windows) cycles. One pass at a time.

    Parameters
    ----------
    shape : ArrayShape

    Members
    -------
    passes : In(stream.Signature(Pass))
    o_passes : Out(stream.Signature(ready_pass))
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        super().__init__({
            "passes": In(stream.Signature(Pass)), "o_passes": Out(stream.Signature(ready_pass(shape))),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        held, prepared = Signal(Pass, name="held"), self.o_passes.payload
        busy, count = Signal(name="busy"), Signal(8, name="count")
        span, reach, step = (Signal(word_bits(shape), name=name) for name in ("span", "reach", "step"))
        slots = Signal(range(shape.psum_words + 1))
        adds_span, adds_step = Signal(name="adds_span"), Signal(name="adds_step")
        m.d.comb += [
            self.passes.ready.eq(~busy),
            adds_span.eq(count + 1 < held.tap_columns), adds_step.eq(count < held.interleaved_windows),
            self.o_passes.valid.eq(busy & ~adds_span & ~adds_step),
            prepared.last_column.eq(held.tap_columns - 1), prepared.last_channel.eq(held.tap_channels - 1),
            prepared.tap_step.eq(held.tap_step), prepared.window_step.eq(held.window_step),
            prepared.windows.eq(held.windows), prepared.interleaved_windows.eq(held.interleaved_windows),
            prepared.last_filter.eq(held.filter_step - 1), prepared.last_interleaved.eq(held.interleaved_windows - 1),
            prepared.slots.eq(slots),
            prepared.tap_lines.eq((held.filter_step + shape.feed_words - 1) >> exact_log2(shape.feed_words)),
            prepared.step.eq(step), prepared.reach.eq(span + reach), prepared.lines.eq(held.lines),
            prepared.active.eq(held.active),
        ]
        with m.If(busy):
            m.d.sync += count.eq(count + 1)
            with m.If(adds_span):
                m.d.sync += span.eq(span + held.tap_step)
            with m.If(adds_step):
                m.d.sync += [reach.eq(step), step.eq(step + held.window_step), slots.eq(slots + held.filter_step)]
            with m.If(self.o_passes.valid):
                m.d.sync += [busy.eq(~self.o_passes.ready), count.eq(count)]
        with m.Elif(self.passes.valid):
            m.d.sync += [
                held.eq(self.passes.payload), busy.eq(1), count.eq(0),
                span.eq(self.passes.payload.tap_channels - 1), reach.eq(0), step.eq(0), slots.eq(0),
            ]
        return m


class PsumEntry(wiring.Component):
    """Hands psums to row 0, as a row above it would, and counts them.

    Parameters
    ----------
    shape : ArrayShape

    Members
    -------
    psums : In(stream.Signature(column_psums))
    o_chain : Out(psums_out)
    slots : In
        Psums of the step that row 0 begins next.
    begins, read : In(1)
        Of row 0: a step begins, a word was read.
    arrived : Out(1)
        All psums of that step are there.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        super().__init__({
            "psums": In(stream.Signature(shape.column_psums)), "o_chain": Out(shape.psums_out),
            "slots": In(range(shape.psum_words + 1)), "begins": In(1), "read": In(1), "arrived": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        capacity = 2 * self.shape.psum_words
        held, waiting = (Signal(range(capacity + 1), name=name) for name in ("held", "waiting"))
        taken = Signal()
        m.d.comb += [
            self.psums.ready.eq(held != capacity), taken.eq(self.psums.valid & self.psums.ready),
            self.o_chain.valid.eq(taken), self.o_chain.words.eq(self.psums.payload),
            self.arrived.eq(waiting >= self.slots),
        ]
        m.d.sync += [
            held.eq(held + taken - self.read),
            waiting.eq(waiting + taken - Mux(self.begins, self.slots, 0)),
        ]
        return m
