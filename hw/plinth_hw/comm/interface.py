"""Network interface: joins the control side and the reduce blocks to the die's router.

::

    advance_out --+--> (own die) ------------------> advance_in
    error_out --> pending ERROR --+
                  advances -------+--> choice --> register --> inject
    send_b ---------------------- +    (credits)
    eject_0 --> kind --+--> advance_in
                       +--> error_in, pending ERROR
    eject_(1 + b) ------------------------------------------> receive_b

Control packets go first; blocks with credits take turns, flit by flit. Latency: ``send_b`` or a control
request to ``inject`` one cycle, the other direction none. Throughput: a flit a cycle in each direction.

ERROR packets: a die that stops sends one to the next die, which stops, and passes it on with the same
source; it ends where it came from. One ERROR is kept at a time: what comes while one waits to be sent is
dropped, for the one that waits tells the same dies. So control packets that arrive are always taken, whatever
this die may send.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import ControlKind, LinkSignature, flit_layout
from plinth_hw.comm.queue import round_robin
from plinth_hw.comm.router import inject_buffer_flits
from plinth_hw.control.sequencer import RemoteAdvance
from plinth_hw.isa.parameters import DieParameters


class NetworkInterface(wiring.Component):
    """What a die sends and receives.

    Parameters
    ----------
    parameters : DieParameters
        The die.

    Members
    -------
    die : In
        This die's number.
    inject : Out, :class:`LinkSignature`
        To the router.
    eject_0 ... : In streams of flits, one a class
        From the router.
    send_0 ... : In streams of flits, one a block
        Class, source and kind are filled in here.
    receive_0 ... : Out streams of flits, one a block
    advance_out : In(stream of RemoteAdvance)
        Advances that this die's tasks ask for; those for this die come back on ``advance_in``.
    advance_in : Out(stream of counter number)
        Advances of this die's counters.
    error_out : In(1)
        Pulse: this die has stopped with an error of its own.
    error_in : Out(stream of die number)
        A die that has stopped. Must be taken at once: ``ready`` is not waited for.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        flit = stream.Signature(flit_layout(parameters))
        super().__init__({
            "die": In(parameters.die_bits),
            "inject": Out(LinkSignature(parameters)),
            **{f"eject_{number}": In(flit) for number in range(parameters.classes)},
            **{f"send_{b}": In(flit) for b in range(parameters.reduce_blocks)},
            **{f"receive_{b}": Out(flit) for b in range(parameters.reduce_blocks)},
            "advance_out": In(stream.Signature(RemoteAdvance)),
            "advance_in": Out(stream.Signature(range(parameters.counters))),
            "error_out": In(1),
            "error_in": Out(stream.Signature(parameters.die_bits)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        blocks = range(parameters.reduce_blocks)
        flit_shape = flit_layout(parameters)
        depth = inject_buffer_flits(parameters)
        credits = [Signal(range(depth + 1), init=depth, name=f"credits_{number}")
                   for number in range(parameters.classes)]

        # What arrives.
        arrived = self.eject_0
        is_error, loops, from_network = Signal(), Signal(), Signal()
        own_turn, own_held = Signal(), Signal()
        m.d.comb += [
            is_error.eq(arrived.payload.kind == ControlKind.ERROR),
            from_network.eq(arrived.valid & ~is_error),
            loops.eq(self.advance_out.valid & (self.advance_out.payload.die == self.die)),
            own_turn.eq(loops & (own_held | ~from_network)),
            self.advance_in.valid.eq(from_network | loops),
            self.advance_in.payload.eq(Mux(own_turn, self.advance_out.payload.counter,
                                           arrived.payload.message)),
            arrived.ready.eq(is_error | (self.advance_in.ready & ~own_turn)),
            self.error_in.valid.eq(arrived.valid & is_error & (arrived.payload.source != self.die)),
            self.error_in.payload.eq(arrived.payload.source),
        ]
        m.d.sync += own_held.eq(own_turn & ~self.advance_in.ready)
        for b in blocks:
            wiring.connect(m, wiring.flipped(getattr(self, f"eject_{b + 1}")),
                           wiring.flipped(getattr(self, f"receive_{b}")))

        # What leaves.
        error_waits, error_source = Signal(), Signal(parameters.die_bits)
        sends = [getattr(self, f"send_{b}") for b in blocks]
        may_control, sends_control = Signal(), Signal()
        possible, last = Signal(len(blocks)), Signal(len(blocks), init=1)
        m.d.comb += [
            may_control.eq(credits[0].any()),
            sends_control.eq(may_control & (error_waits | (self.advance_out.valid & ~loops))),
            possible.eq(Cat(port.valid & credits[b + 1].any() for b, port in enumerate(sends))),
            self.advance_out.ready.eq(Mux(loops, self.advance_in.ready & own_turn,
                                          may_control & ~error_waits)),
        ]
        turn = round_robin(m, "block", possible, last)
        chosen = Signal(flit_shape)
        leaves = Signal(parameters.classes)
        with m.If(sends_control):
            m.d.comb += [
                leaves[0].eq(1),
                chosen.tail.eq(1), chosen.source.eq(self.die),
                chosen.destination.eq(self.advance_out.payload.die),
                chosen.message.eq(self.advance_out.payload.counter),
            ]
            with m.If(error_waits):
                m.d.comb += [chosen.kind.eq(ControlKind.ERROR), chosen.source.eq(error_source),
                             # Ends at the next die whatever this says, but for this die's own number.
                             chosen.destination.eq(self.die ^ 1), chosen.message.eq(0)]
        with m.Else():
            for b, port in enumerate(sends):
                m.d.comb += [leaves[b + 1].eq(turn[b]), port.ready.eq(turn[b])]
                with m.If(turn[b]):
                    m.d.comb += [chosen.eq(port.payload), chosen.traffic_class.eq(b + 1)]
            with m.If(turn.any()):
                m.d.sync += last.eq(turn)
        m.d.sync += self.inject.valid.eq(leaves.any())
        with m.If(leaves.any()):
            m.d.sync += self.inject.flit.eq(chosen)
        for number, count in enumerate(credits):
            m.d.sync += count.eq(count + self.inject.credit[number] - leaves[number])

        with m.If(~error_waits & (self.error_out | self.error_in.valid)):
            m.d.sync += [error_waits.eq(1),
                         error_source.eq(Mux(self.error_out, self.die, arrived.payload.source))]
        with m.Elif(may_control):
            m.d.sync += error_waits.eq(0)
        return m
