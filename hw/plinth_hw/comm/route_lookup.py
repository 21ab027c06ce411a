"""Finds the port of packets whose destination differs from the one before: one packet at a time, of all inputs.

::

    head_0 ..., --> choice in turn --> reads, reads_class --> (input buffer) --> read_0 ... --> route table
                                                                                                     |
    sent --------------------------------------------------------------> known, route_0 ... <--------+

An input is read for a lookup while nothing leaves there. If something does, the input is blocked for the next cycle,
and read then. Latency in cycles, from a head that needs a lookup to ``known``: 3, or 4 where the input was not idle,
and as much more for each lookup that goes before it.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import PacketKind
from plinth_hw.comm.input_buffer import Head, stored_layout
from plinth_hw.control.routes import RouterTables, port_bits, table_of, table_write_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.choice import index_of
from plinth_hw.lib.ram import BLOCK_RAM


class RouteLookup(wiring.Component):
    """The route table, or those of the kinds of traffic, and what of them each class of each input knows.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    inputs : int
        Inputs of the router; the last one is of this die.

    Members
    -------
    head_0 ... : In, array of :class:`~plinth_hw.comm.input_buffer.Head`
        What waits in each class of each input. ``onward`` and not ``same``, it is looked up.
    read_0 ... : In, :func:`~plinth_hw.comm.input_buffer.stored_layout`
        What each input read in the cycle before.
    sent : In, array of ``classes`` bits
        The flit that waits in that class of that input goes: what is known is of the next no more.
    route_write : In, :func:`~plinth_hw.control.routes.table_write_layout`
        A write to the table; holds for what is looked up later.
    idle : In(inputs)
        Nothing leaves that input.
    blocks : Out(inputs)
        Nothing may leave that input; from a register.
    reads : Out(inputs)
        That input, which is idle, is to read, without removing it, its flit of class ``reads_class``; at most one at a
        time.
    reads_class : Out(classes)
        One-hot, or 0.
    route_0 ... : Out, array of ``ports`` bits
        By class, the port that was found last, as a bit; none if no route is known.
    known_0 ... : Out(classes)
        ``route`` was looked up for the flit that waits.
    """

    def __init__(self, parameters: DieParameters, inputs: int):
        self.parameters = parameters
        self.inputs = inputs
        classes, ports = parameters.classes, parameters.ports
        super().__init__({
            **{f"head_{index}": In(data.ArrayLayout(Head, classes)) for index in range(inputs)},
            **{f"read_{index}": In(stored_layout(parameters)) for index in range(inputs)},
            "sent": In(data.ArrayLayout(unsigned(classes), inputs)),
            "route_write": In(table_write_layout(parameters)),
            "idle": In(inputs), "blocks": Out(inputs), "reads": Out(inputs),
            "reads_class": Out(classes),
            **{f"route_{index}": Out(data.ArrayLayout(unsigned(ports), classes)) for index in range(inputs)},
            **{f"known_{index}": Out(classes) for index in range(inputs)},
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        classes = self.parameters.classes
        places = [(index, number) for index in range(self.inputs) for number in range(classes)]
        heads, known, route = ([getattr(self, f"{name}_{index}") for index in range(self.inputs)]
                               for name in ("head", "known", "route"))
        m.submodules.tables = tables = RouterTables(self.parameters, BLOCK_RAM)
        m.submodules.turn = turn = RoundRobin(len(places))
        picks, source = Signal(self.inputs, name="picks"), Signal(range(self.inputs), name="source")
        start, asks = Signal(name="start"), Signal(name="asks")
        names_port, named_port = Signal(name="names_port"), Signal(self.parameters.ports, name="named_port")
        reads = [getattr(self, f"read_{index}") for index in range(self.inputs)]
        local = reads[-1]
        m.d.comb += [
            turn.requests.eq(Cat(heads[index][number].onward & ~heads[index][number].same & ~known[index][number]
                                 for index, number in places)),
            turn.taken.eq(start), start.eq(self.reads.any()),
            picks.eq(Cat(asks & turn.grant.word_select(index, classes).any() for index in range(self.inputs))),
            self.reads.eq(picks & self.idle),
            self.reads_class.eq(Cat(turn.grant[number::classes].any() for number in range(classes))),
            tables.write.eq(self.route_write),
            tables.destination.eq(Array(read.destination for read in reads)[source]),
        ]
        m.d.sync += self.blocks.eq(picks & ~self.idle)
        with m.FSM():
            with m.State("REQUEST"):
                m.d.comb += asks.eq(1)
                m.d.sync += source.eq(index_of(picks))
                with m.If(start):
                    m.next = "DESTINATION"
            with m.State("DESTINATION"):
                # Only ERROR packets of this die get here with that kind, and name a port that there is.
                m.d.sync += [names_port.eq((source == len(reads) - 1) & (local.kind == PacketKind.ERROR)),
                             named_port.eq(self._one_hot(local.message[:port_bits(self.parameters)]))]
                m.next = "PORT"
            with m.State("PORT"):
                for place, (index, number) in enumerate(places):
                    with m.If(turn.last[place]):
                        port = tables.port[table_of(self.parameters, number)]
                        m.d.sync += [route[index][number].eq(Mux(names_port, named_port, port)),
                                     known[index][number].eq(1)]
                m.next = "REQUEST"
        for index, number in places:
            with m.If(self.sent[index][number]):
                m.d.sync += known[index][number].eq(0)
        return m

    def _one_hot(self, port: Any) -> Value:
        """The bit of a port."""
        return Cat(port == number for number in range(self.parameters.ports))
