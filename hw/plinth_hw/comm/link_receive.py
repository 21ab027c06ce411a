"""Receiving side of a link: flits in their order, once each, and requests to send again what did not come.

A flit with the expected number is given on, any other thrown away. What is missing shows in a frame with a wrong check,
in a flit beyond the expected one, or in an idle frame whose sender has sent more; then the count of requests goes up,
and while flits are missing not again before frames of after that request say that more is missing. Every frame says the
count, so a request need not be made again. A flit is on ``o`` in the cycle after its frame.
"""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.link_frame import RESEND_BITS, SEQUENCE_BITS, WINDOW, FrameKind, Heard, body_layout, passed_layout
from plinth_hw.isa.parameters import DieParameters


class LinkReceive(wiring.Component):
    """Flits once each, in their order.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    clear : In(1)
        The link begins anew.
    up : In(1)
        Else nothing is taken.
    frame : In(struct of ``valid``, ``good``, ``body``)
        ``good``: its check is right.
    o : Out, :func:`passed_layout`
    heard : Out(Heard)
        To the sending side, in the cycle of the frame.
    expected, resend : Out
        For the frames that go back.
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "clear": In(1), "up": In(1),
            "frame": In(data.StructLayout({"valid": unsigned(1), "good": unsigned(1),
                                           "body": body_layout(parameters)})),
            "o": Out(passed_layout(parameters)),
            "heard": Out(Heard), "expected": Out(SEQUENCE_BITS), "resend": Out(RESEND_BITS),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        body = self.frame.body
        waiting = Signal()
        speaks, is_flit, is_next, beyond, answers = (
            Signal(name=name) for name in ("speaks", "is_flit", "is_next", "beyond", "answers"))
        missing, asks = Signal(), Signal()
        ahead = Signal(SEQUENCE_BITS)
        m.d.comb += [
            ahead.eq(body.sequence - self.expected),
            is_flit.eq(body.kind == FrameKind.FLIT),
            speaks.eq(self.up & self.frame.valid & self.frame.good & (is_flit | (body.kind == FrameKind.IDLE))),
            is_next.eq(ahead == 0), beyond.eq(~is_next & (ahead < WINDOW)),
            answers.eq(body.resent == self.resend),
            self.heard.valid.eq(speaks), self.heard.expected.eq(body.expected), self.heard.resend.eq(body.resend),
            missing.eq(self.up & self.frame.valid & (~self.frame.good | (speaks & beyond))),
            asks.eq(missing & (~waiting | (speaks & answers))),
        ]
        m.d.sync += [self.o.valid.eq(speaks & is_flit & is_next), self.o.flit.eq(body.flit)]
        with m.If(asks):
            m.d.sync += [self.resend.eq(self.resend + 1), waiting.eq(1)]
        with m.Elif(speaks & is_next & (is_flit | answers)):
            m.d.sync += waiting.eq(0)
        with m.If(speaks & is_flit & is_next):
            m.d.sync += self.expected.eq(self.expected + 1)
        with m.If(self.clear):
            m.d.sync += [self.expected.eq(0), self.resend.eq(0), waiting.eq(0), self.o.valid.eq(0)]
        return m
