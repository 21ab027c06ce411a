"""Network interface: joins the control side, the reduce blocks and the transfer engine to the die's router.

::

    advance_out --+--> (own die) ---------+--------> advance_in
    tile_advance -------------------------+
    error_out --> one ERROR a port --+    |
                  advances ----------+----|-> choice --> register --> inject
    send_n --------------------------+    |   (credits)
    eject_0 --> kind --+------------------+
                       +--> error_in
    eject_(1 + n) ------------------------------------------> receive_n

Control packets go first; data classes with credits take turns, flit by flit. Latency: ``send_n`` or a control
request to ``inject`` one cycle, the other direction none. Throughput: a flit a cycle in each direction.

ERROR packets: a die that stops, for whatever reason, sends one by each of its ports to the die there. A die stops
once, so they reach every die that a link leads to, by the shortest way, and come to an end. Those that arrive
are only reported, so control packets that arrive are always taken, whatever this die may send.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import LinkSignature, PacketKind, flit_layout, taken_layout
from plinth_hw.control.sequencer import RemoteAdvance
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin, lowest
from plinth_hw.lib.choice import index_of, one_registered
from plinth_hw.lib.count import count_bits, count_of, counted


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
    eject_0 ... : In streams of :func:`taken_layout` of each class
        From the router.
    send_0 ... : In streams of flits, one a data class: the reduce blocks, then tile transfers
        The class is filled in here.
    receive_0 ... : Out streams of flits, one a data class
        With the fields of :func:`taken_layout`.
    advance_out : In(stream of RemoteAdvance)
        Advances that this die's tasks ask for; those for this die come back on ``advance_in``.
    tile_advance : In(stream of counter number)
        Advances that came with tiles.
    advance_in : Out(stream of counter number)
        Advances of this die's counters.
    error_out : In(1), error_source : In
        Pulse: this die has stopped; and the die that had the error.
    error_in : Out(stream of die number)
        A die that has stopped. Must be taken at once: ``ready`` is not waited for.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        flit = stream.Signature(flit_layout(parameters))
        counter = stream.Signature(range(parameters.counters))
        data_classes = range(parameters.classes - 1)
        super().__init__({
            "die": In(parameters.die_bits),
            "inject": Out(LinkSignature(parameters)),
            **{f"eject_{number}": In(stream.Signature(taken_layout(parameters, number)))
               for number in range(parameters.classes)},
            **{f"send_{n}": In(flit) for n in data_classes},
            **{f"receive_{n}": Out(flit) for n in data_classes},
            "advance_out": In(stream.Signature(RemoteAdvance)),
            "tile_advance": In(counter),
            "advance_in": Out(counter),
            "error_out": In(1), "error_source": In(parameters.die_bits),
            "error_in": Out(stream.Signature(parameters.die_bits)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        data_classes = range(parameters.classes - 1)
        flit_shape = flit_layout(parameters)
        # Flits sent, and those for which there has been room; a flit may go while these differ.
        depth = parameters.inject_buffer_flits
        bits = count_bits(depth)
        sent = [Signal(bits, name=f"sent_{number}") for number in range(parameters.classes)]
        room = [Signal(bits, init=count_of(depth, bits), name=f"room_{number}") for number in range(parameters.classes)]
        may = Signal(parameters.classes, name="may")
        m.d.comb += may.eq(Cat(count != most for count, most in zip(sent, room, strict=True)))

        # What arrives. One of three sources advances a counter and keeps its turn until it is taken.
        arrived = self.eject_0
        is_error, loops = Signal(), Signal()
        offers, turn, held = Signal(3), Signal(3), Signal(3)
        m.d.comb += [
            is_error.eq(arrived.payload.kind == PacketKind.ERROR),
            loops.eq(self.advance_out.valid & (self.advance_out.payload.die == self.die)),
            offers.eq(Cat(arrived.valid & ~is_error, loops, self.tile_advance.valid)),
            turn.eq(lowest(offers)),
            self.advance_in.valid.eq(offers.any()),
            arrived.ready.eq(is_error | (self.advance_in.ready & turn[0])),
            self.tile_advance.ready.eq(self.advance_in.ready & turn[2]),
            self.error_in.valid.eq(arrived.valid & is_error & (arrived.payload.chunk != self.die)),
            self.error_in.payload.eq(arrived.payload.chunk),
        ]
        with m.If(held.any()):
            m.d.comb += turn.eq(held)
        m.d.sync += held.eq(turn & ~self.advance_in.ready.replicate(3))
        for bit, counter in enumerate((arrived.payload.message, self.advance_out.payload.counter,
                                       self.tile_advance.payload)):
            with m.If(turn[bit]):
                m.d.comb += self.advance_in.payload.eq(counter)
        for n in data_classes:
            eject, receive = getattr(self, f"eject_{n + 1}"), getattr(self, f"receive_{n}")
            m.d.comb += [receive.valid.eq(eject.valid), eject.ready.eq(receive.ready),
                         *(receive.payload[name].eq(eject.payload[name]) for name, _ in eject.payload.shape())]

        # What leaves: each class's flit has a register, zero unless it is the one.
        error_ports, error_source = Signal(parameters.ports), Signal(parameters.die_bits)
        sends = [getattr(self, f"send_{n}") for n in data_classes]
        sends_control, error_waits, leaves = Signal(), Signal(), Signal(parameters.classes)
        control = Signal(flit_shape)
        flits = [control, *(Signal(flit_shape, name=f"flit_{n}") for n in data_classes)]
        m.submodules.turn = data_turn = RoundRobin(len(sends))
        m.d.comb += [
            error_waits.eq(error_ports.any()),
            sends_control.eq(may[0] & (error_waits | (self.advance_out.valid & ~loops))),
            data_turn.requests.eq(Cat(port.valid for port in sends) & may[1:]),
            data_turn.taken.eq(~sends_control),
            self.advance_out.ready.eq((loops & self.advance_in.ready & turn[1]) | (~loops & may[0] & ~error_waits)),
            leaves.eq(Mux(sends_control, 1, Cat(0, data_turn.grant))),
            # Data, and fields that are another class's alone, mean nothing. An ERROR ends at the next die, whatever its
            # destination.
            control.tail.eq(1), control.destination.eq(self.advance_out.payload.die), control.chunk.eq(error_source),
            control.kind.eq(Mux(error_waits, PacketKind.ERROR, PacketKind.ADVANCE)),
            control.message.eq(Mux(error_waits, index_of(lowest(error_ports)), self.advance_out.payload.counter)),
        ]
        with m.If(sends_control & error_waits):
            m.d.sync += error_ports.eq(error_ports & (error_ports - 1))
        for n, port in enumerate(sends):
            m.d.comb += [flits[n + 1].eq(port.payload), flits[n + 1].traffic_class.eq(n + 1),
                         port.ready.eq(leaves[n + 1])]
        m.d.sync += self.inject.valid.eq(leaves.any())
        m.d.comb += self.inject.flit.eq(one_registered(m, "leaving", leaves, flits))
        for number in range(parameters.classes):
            with m.If(leaves[number]):
                m.d.sync += sent[number].eq(counted(sent[number]))
            with m.If(self.inject.credit[number]):
                m.d.sync += room[number].eq(counted(room[number]))

        with m.If(self.error_out):
            m.d.sync += [error_ports.eq(-1), error_source.eq(self.error_source)]
        return m
