"""Link layer: between a router's port and wires that lose, change and repeat what is on them.

::

    router --flits--> LinkTransmit --+--> frame, check --> phits --> wires
           --freed--> LinkCredits ---+                                          of both directions
    router <-credit-- LinkCredits <--+
           <--flits-- LinkReceive <--+--- check good? <--- frame <-- wires

A link begins in HELLO, in which it stays for ``round_trip`` cycles at least, so that frames that were on the wires
before are gone; it goes to READY when it hears of the other end, and is up when it hears that the other end has, too.
HELLO from the other end while the link is up says that it has begun anew: this end does as well. If flits had gone over
the link by then, some may be gone: ``lost`` tells the die.

A frame is sent in each frame time, whether there is a flit or not. Throughput: a flit each ``phits`` cycles. Latency
from ``i`` to ``o``: 7 cycles, the wires, twice that of :func:`~plinth_hw.lib.crc.crc`, and with more phits as many but
one, and up to as many again until a frame begins. A place of the window is free after 12 cycles, the wires to and fro,
and four times the latency of ``crc``: with one phit, full rate needs that to be within the window.
Undetected: of frames with more than five wrong bits, an even number, not within 24 in a row, one in 2^23 has a right
check; what has one is believed.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.link_credits import LinkCredits
from plinth_hw.comm.link_frame import FrameKind, body_layout, frame_layout, passed_layout
from plinth_hw.comm.link_receive import LinkReceive
from plinth_hw.comm.link_transmit import LinkTransmit
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import count_bits, count_of, counted, index_bits
from plinth_hw.lib.crc import CRC24_BITS, crc
from plinth_hw.lib.delay import delayed

#: Most cycles from a frame to what the other end sends for it, over wires of up to 23 cycles each way.
ROUND_TRIP = 64


def phit_bits(parameters: DieParameters, phits: int) -> int:
    """Wires of a link whose frames go in so many pieces, one a cycle; ``start`` goes beside."""
    return -(-frame_layout(parameters).size // phits)


class WiresSignature(wiring.Signature):
    """One direction of a link's wires: ``phit`` and ``start``, which goes with a frame's first."""

    def __init__(self, parameters: DieParameters, phits: int):
        super().__init__({"phit": Out(phit_bits(parameters, phits)), "start": Out(1)})


class LinkLayer(wiring.Component):
    """One end of a link.

    Parameters
    ----------
    parameters : DieParameters
    phits : int
        Pieces of a frame.
    round_trip : int
        As :data:`ROUND_TRIP`.

    Members
    -------
    i : In stream of :func:`~plinth_hw.comm.flit.flit_layout`
        Flits for the other end; taken while the link is up and holds fewer than
        :data:`~plinth_hw.comm.link_frame.WINDOW`.
    room : Out(1)
        Flits of this cycle and the next :data:`~plinth_hw.comm.link_transmit.LEAD` are taken.
    o : Out, :func:`~plinth_hw.comm.link_frame.passed_layout`
        Flits from there, each once, in their order.
    credit : Out(classes), freed : In(classes)
        Places that the other end's router, and this one's, have freed; of flits that came since the link is up.
    restart : In(1)
        Begin anew, and while it lasts go no further; what was under way is forgotten.
    up : Out(1)
        Flits go through.
    lost : Out(1)
        Pulse: the link went down, though flits had gone over it since ``restart``.
    bad_frames, replays : Out(1)
        Pulses: a frame whose check is wrong; flits are sent again.
    wires_out : Out(WiresSignature), wires_in : In(WiresSignature)

    Raises
    ------
    ValueError
        If ``phits`` is not positive.
    """

    def __init__(self, parameters: DieParameters, phits: int, round_trip: int = ROUND_TRIP):
        if phits < 1:
            raise ValueError(f"A frame has a phit at least, not {phits!r}")
        self._parameters = parameters
        self._phits = phits
        self._round_trip = round_trip * phits
        wires = WiresSignature(parameters, phits)
        super().__init__({
            "i": In(stream.Signature(flit_layout(parameters))),
            "room": Out(1), "o": Out(passed_layout(parameters)),
            "credit": Out(parameters.classes), "freed": In(parameters.classes), "restart": In(1), "up": Out(1),
            "lost": Out(1), "bad_frames": Out(1), "replays": Out(1), "wires_out": Out(wires), "wires_in": In(wires),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.transmit = transmit = LinkTransmit(self._parameters, 2 * self._round_trip)
        m.submodules.receive = receive = LinkReceive(self._parameters)
        m.submodules.credits = credits = LinkCredits(self._parameters)
        valid, good, body = self._received(m)
        said = Signal(FrameKind)
        used, down = Signal(), Signal()
        m.d.comb += [
            said.eq(body.kind), receive.frame.valid.eq(valid), receive.frame.good.eq(good), receive.frame.body.eq(body),
            transmit.heard.eq(receive.heard), transmit.i.payload.eq(self.i.payload),
            transmit.i.valid.eq(self.i.valid & self.up), self.i.ready.eq(transmit.i.ready & self.up),
            self.room.eq(transmit.room & self.up),
            credits.heard.eq(receive.heard.valid), credits.heard_class.eq(body.credit_class),
            credits.heard_count.eq(body.credits), credits.freed.eq(self.freed), self.credit.eq(credits.credit),
            self.o.eq(receive.o), self.bad_frames.eq(valid & ~good), self.replays.eq(transmit.replays),
        ]
        for part in (transmit, receive, credits):
            m.d.comb += part.clear.eq(~self.up | down | self.restart)
        m.d.comb += receive.up.eq(self.up)

        kind = Signal(FrameKind)
        held = Signal(count_bits(self._round_trip))
        hears = valid & good
        with m.FSM():
            with m.State("HELLO"):
                m.d.comb += kind.eq(FrameKind.HELLO)
                m.d.sync += held.eq(counted(held))
                with m.If(self.restart):
                    m.d.sync += held.eq(0)
                with m.Elif(held == count_of(self._round_trip, len(held))):
                    m.d.sync += held.eq(held)
                    with m.If(hears & ((said == FrameKind.HELLO) | (said == FrameKind.READY))):
                        m.next = "READY"
            with m.State("READY"):
                m.d.comb += kind.eq(FrameKind.READY)
                with m.If(hears & (said != FrameKind.HELLO)):
                    m.next = "UP"
                with m.If(self.restart):
                    m.d.sync += held.eq(0)
                    m.next = "HELLO"
            with m.State("UP"):
                m.d.comb += [
                    self.up.eq(1), kind.eq(Mux(transmit.o.valid, FrameKind.FLIT, FrameKind.IDLE)),
                    down.eq((hears & (said == FrameKind.HELLO)) | transmit.failed),
                    self.lost.eq(down & used),
                ]
                with m.If(down | self.restart):
                    m.d.sync += held.eq(0)
                    m.next = "HELLO"
        with m.If(self.restart):
            m.d.sync += used.eq(0)
        with m.Elif((self.i.valid & self.i.ready) | self.o.valid):
            m.d.sync += used.eq(1)

        slot = self._sent(m, transmit, receive, credits, kind)
        m.d.comb += [transmit.take.eq(slot), credits.take.eq(slot)]
        return m

    def _sent(self, m: Module, transmit: LinkTransmit, receive: LinkReceive, credits: LinkCredits,
              kind: Signal) -> Signal:
        """Frames, phit by phit; whether another one begins."""
        body = Signal(body_layout(self._parameters))
        slot, loads = Signal(), Signal()
        bits = len(self.wires_out.phit)
        phits = Signal(bits * self._phits)
        phase = Signal(index_bits(self._phits))
        latency, word, check = crc(m, body.as_value())
        m.d.comb += [slot.eq(phase == self._phits - 1), loads.eq(delayed(m, "slot", slot, latency + 1)),
                     self.wires_out.phit.eq(phits[:bits])]
        m.d.sync += [phase.eq(Mux(slot, 0, phase + 1)), self.wires_out.start.eq(loads), phits.eq(phits >> bits)]
        with m.If(slot):
            m.d.sync += [
                body.kind.eq(kind), body.sequence.eq(transmit.o.sequence), body.expected.eq(receive.expected),
                body.resend.eq(receive.resend), body.resent.eq(transmit.o.resent),
                body.credit_class.eq(credits.told_class), body.credits.eq(credits.told),
                # Without a flit the window's memory may hold what was never written: the check is of zeros.
                body.flit.eq(Mux(transmit.o.valid, transmit.o.flit.as_value(), 0)),
            ]
        with m.If(loads):
            m.d.sync += phits.eq(Cat(word, check))
        return slot

    def _received(self, m: Module) -> tuple[Signal, Signal, data.View]:
        """Whether a frame has come, or a part of one, whether its check is right, and what it says."""
        layout = body_layout(self._parameters)
        bits = len(self.wires_in.phit)
        phits, whole, broken = Signal(bits * self._phits), Signal(), Signal()
        valid, good, body = Signal(), Signal(), Signal(layout)
        start = self.wires_in.start
        if self._phits == 1:
            m.d.sync += [phits.eq(self.wires_in.phit), whole.eq(start)]
        else:
            left = Signal(range(self._phits))  # of the frame that is coming
            m.d.sync += [whole.eq(~start & (left == 1)), broken.eq(start & (left != 0)),
                         left.eq(Mux(start, self._phits - 1, left - (left != 0)))]
            with m.If(start | (left != 0)):
                m.d.sync += phits.eq(Cat(phits[bits:], self.wires_in.phit))
        latency, word, wrong = crc(m, phits[:layout.size], phits[layout.size:layout.size + CRC24_BITS])
        came = delayed(m, "whole", whole, latency)
        m.d.sync += [valid.eq(came | delayed(m, "broken", broken, latency)), good.eq(came & (wrong == 0)),
                     body.eq(word)]
        return valid, good, body
