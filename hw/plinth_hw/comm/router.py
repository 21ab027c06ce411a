"""Router of a die: ``ports`` links and the local side, a virtual channel per traffic class, credits.

::

    link_in_p --> InputBuffer --+            +--> LinkOutput --> link_out_p      (credits, rate)
    inject -----> InputBuffer --+-- switch --+
                      | heads                +--> Ejection ----> eject_c         (one a class)
            RouteLookup, InputChoice

Of dies that look ahead there is a RouteAhead in each InputBuffer, and tiles take other ways, so that none waits behind
one for another link::

    inject -----> InputBuffer --> PacketQueue_p --> LinkOutput_p                 (last of its sources)
    link_in_p --> InputBuffer --> PacketQueue_p --> PacketMerge --> eject

An input asks for the output of one of its classes (:class:`~plinth_hw.comm.router_input.InputChoice`), an output grants
one input, and the granted input's buffer is read. A packet holds (output, class) until its tail has passed, so packets
of a class are never mixed, while packets of different classes are. A packet for this die ends at ``eject_c``; any other
leaves by the port that the route table names (:class:`~plinth_hw.comm.route_lookup.RouteLookup`). If it names none, or
the port by which the packet came, the packet is thrown away, and ``lost`` says so. Class 0 goes first, other classes
and inputs take turns.

Bubble rule (:class:`~plinth_hw.comm.router_output.LinkOutput`) for packets of all classes: one that enters a
ring direction (from this die, or by a turn) starts when two packets of the greatest length have room downstream, one
that goes straight on (from port p to port p xor 1) when one has. So a ring always keeps room for a packet and cannot
deadlock. An ERROR packet leaves by the port that it names and ends at the next die, whatever its destination.

Latency in cycles, from the cycle in which a flit is on ``link_in`` or ``inject``: 3 to ``eject``; 4 to
``link_out``, 7 when the route must be looked up because the destination differs from that of the last packet before
that did not end here, or 8 if a packet of another class leaves that input meanwhile; one packet is looked up at a time.
Throughput: a flit a cycle from each
input, to each output, and out of each class, and three cycles more for a packet whose route is looked up; a
link's output carries as many flits a cycle as its rate says. Of dies that look ahead
(:class:`~plinth_hw.comm.route_ahead.RouteAhead`) a route takes one cycle, and holds up nobody; tiles from ``inject``
take two cycles more.
Source: MPT section VI (memory-centric network), DESIGN "One network".
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import LinkSignature, taken_layout
from plinth_hw.comm.input_buffer import InputBuffer, stored_layout
from plinth_hw.comm.route_lookup import RouteLookup
from plinth_hw.comm.router_input import InputChoice
from plinth_hw.comm.router_output import TILE_FLITS, Ejection, LinkOutput, PacketMerge, PacketQueue
from plinth_hw.control.routes import lost_layout, rates_layout, table_write_layout
from plinth_hw.isa.operations import Traffic
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import lowest
from plinth_hw.lib.choice import one_registered


class Router(wiring.Component):
    """Moves flits between links and this die.

    Parameters
    ----------
    parameters : DieParameters
        The die.

    Members
    -------
    link_out_0 ... : Out, :class:`LinkSignature`
    link_in_0 ... : In, :class:`LinkSignature`
    inject : In, :class:`LinkSignature`
        Flits of this die, a cycle each, never refused: the sender starts with
        ``parameters.inject_buffer_flits`` credits a class.
    eject_0 ... : Out streams of :func:`taken_layout` of each class
        Flits from links for this die. Backpressure holds only that class.
    die : In
        This die's number.
    rates : In, array of :class:`~plinth_hw.isa.registers.LinkRate`
        Flits a cycle on each link.
    paused : In(ports)
        Nothing more leaves by that link, but for what may be on it in this cycle and the next two.
    drops : In(ports)
        What leaves by that link is thrown away, until the next reset.
    route_write : In
        ``valid``, ``destination``, ``port``: writes the route table. Takes effect for packets whose
        first flit arrives later; meant for an idle network, or, of dies that set routes, one without that kind of
        traffic. ``clears``, of all destinations after a reset of the die: no port leads to them until they are written.
    quiet : Out(kinds of traffic)
        Of dies that set routes: in the cycle before there was no flit of that kind in any buffer, and no packet of it
        had begun to leave.
    lost : Out, :func:`lost_layout`
        A pulse for each flit that is thrown away.
    injected_words, transit_words : Out
        Payload words that left for a link in this cycle, from this die and from other dies. ADVANCE and
        ERROR packets have none.
    port_words : Out, array
        Payload words sent on each link in this cycle.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        words = parameters.flit_words
        link = LinkSignature(parameters)
        super().__init__({
            **{f"link_out_{port}": Out(link) for port in range(parameters.ports)},
            **{f"link_in_{port}": In(link) for port in range(parameters.ports)},
            "inject": In(link),
            **{f"eject_{number}": Out(stream.Signature(taken_layout(parameters, number)))
               for number in range(parameters.classes)},
            "die": In(parameters.die_bits),
            "rates": In(rates_layout(parameters)), "paused": In(parameters.ports),
            "drops": In(parameters.ports),
            "route_write": In(table_write_layout(parameters)),
            **({"quiet": Out(len(Traffic))} if parameters.sets_routes else {}),
            "lost": Out(lost_layout(parameters)),
            "injected_words": Out(range(words * parameters.ports + 1)),
            "transit_words": Out(range(words * parameters.ports + 1)),
            "port_words": Out(data.ArrayLayout(unsigned(words.bit_length()), parameters.ports)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self.parameters
        buffers = self._buffers(m)
        outputs = [LinkOutput(parameters, port) for port in range(parameters.ports)]
        for port, output in enumerate(outputs):
            m.submodules[f"output_{port}"] = output
            wiring.connect(m, output.link, wiring.flipped(getattr(self, f"link_out_{port}")))
            m.d.comb += [output.rate.eq(self.rates[port]), output.paused.eq(self.paused[port]),
                         output.drops.eq(self.drops[port]),
                         self.port_words[port].eq(output.words)]
        ejections = self._ejections(m)
        tiles = self._tiles(m, outputs) if parameters.looks_ahead else []
        lookup = None if parameters.looks_ahead else RouteLookup(parameters, len(buffers))
        if lookup is not None:
            m.submodules.lookup = lookup
            m.d.comb += lookup.route_write.eq(self.route_write)
        lost = Signal(len(buffers))
        for index, buffer in enumerate(buffers):
            m.submodules[f"choice_{index}"] = choice = InputChoice(parameters, index)
            moves = Signal(name=f"moves_{index}")
            told, routed, reads, chosen = self._routes(lookup, index, buffer, choice, moves)
            m.d.comb += [
                *told, choice.heads.eq(buffer.head), *routed, lost[index].eq(choice.loses),
                moves.eq(Cat(choice.loses, *self._grants(m, buffer, choice, outputs, ejections, tiles)).any()),
                buffer.pop.eq(moves), buffer.read.eq(reads), buffer.select.eq(chosen),
            ]
        if parameters.sets_routes:
            self._quiet(m, buffers, outputs, tiles)
        # A flit that is lost is at its buffer's output a cycle later; of several in a cycle one is reported.
        lost_read = Signal(len(buffers))
        m.d.sync += [
            lost_read.eq(lowest(lost)), self.lost.valid.eq(lost_read.any()),
            self.injected_words.eq(sum(output.injected for output in outputs)),
            self.transit_words.eq(sum(output.transit for output in outputs)),
        ]
        m.d.comb += self.lost.die.eq(one_registered(
            m, "lost_die", lost_read, (buffer.o.destination for buffer in buffers)))
        return m

    def _routes(self, lookup: RouteLookup | None, index: int, buffer: InputBuffer, choice: InputChoice, moves: Value
                ) -> tuple[list[Any], list[Any], Value, Value]:
        """What the lookup of routes is told of an input, or its buffer, and what the input is of routes; whether the
        buffer is read, which it may be in vain, and of which class."""
        sent = Mux(moves, choice.chosen, 0)
        if lookup is None:
            return ([buffer.sent.eq(sent & ~Cat(head.own for head in buffer.head)),
                     buffer.route_write.eq(self.route_write)],
                    [choice.route.eq(buffer.route), choice.known.eq(buffer.known)], ~choice.idle, choice.chosen)
        return ([getattr(lookup, f"head_{index}").eq(buffer.head), getattr(lookup, f"read_{index}").eq(buffer.o),
                 lookup.sent[index].eq(sent)],
                [choice.route.eq(getattr(lookup, f"route_{index}")),
                 choice.known.eq(getattr(lookup, f"known_{index}")), choice.blocked.eq(lookup.blocks[index]),
                 lookup.idle[index].eq(choice.idle)],
                ~choice.idle | lookup.reads[index], choice.chosen | Mux(choice.idle, lookup.reads_class, 0))

    def _quiet(self, m: Module, buffers: list[InputBuffer], outputs: list[LinkOutput], tiles: list[PacketQueue]
               ) -> None:
        """Which kinds of traffic are not here."""
        there = [Cat(*(Cat(buffer.head[number].onward, buffer.head[number].own) for buffer in buffers),
                     *(output.open[number] for output in outputs))
                 for number in range(self.parameters.classes)]
        there[-1] = Cat(there[-1], *(queue.holds for queue in tiles))
        for kind in Traffic:
            m.d.sync += self.quiet[kind.value].eq(~Cat(
                flits for number, flits in enumerate(there) if self.parameters.traffic(number) is kind).any())

    def _buffers(self, m: Module) -> list[InputBuffer]:
        """Those of the links, then that of this die."""
        parameters = self.parameters
        buffers = []
        for port in range(parameters.ports):
            m.submodules[f"input_{port}"] = buffer = InputBuffer(parameters, parameters.link_buffer_flits)
            wiring.connect(m, wiring.flipped(getattr(self, f"link_in_{port}")), buffer.link)
            buffers.append(buffer)
        m.submodules.input_local = buffer = InputBuffer(parameters, parameters.inject_buffer_flits, local=True)
        wiring.connect(m, wiring.flipped(self.inject), buffer.link)
        buffers.append(buffer)
        for buffer in buffers:
            m.d.comb += [buffer.die.eq(self.die), buffer.forget.eq(self.route_write.valid)]
        return buffers

    def _ejections(self, m: Module) -> list[list[tuple[PacketQueue, int]]]:
        """By class, what takes a link's flits that end here, and as which of its sources."""
        parameters, ejections = self.parameters, []
        for number in range(parameters.classes):
            output, ports = wiring.flipped(getattr(self, f"eject_{number}")), range(parameters.ports)
            if parameters.looks_ahead and number == parameters.transfer_class:
                layout = taken_layout(parameters, number)
                m.submodules.ejected = merge = PacketMerge(layout, len(ports))
                ejections.append([(PacketQueue(parameters, layout, 1, TILE_FLITS), 0) for _ in ports])
                for port, (queue, _) in enumerate(ejections[-1]):
                    m.submodules[f"ejection_{number}_{port}"] = queue
                    wiring.connect(m, queue.o, getattr(merge, f"i_{port}"))
                wiring.connect(m, merge.o, output)
            else:
                m.submodules[f"ejection_{number}"] = ejection = Ejection(parameters, number)
                wiring.connect(m, ejection.o, output)
                ejections.append([(ejection, port) for port in ports])
        return ejections

    def _tiles(self, m: Module, outputs: list[LinkOutput]) -> list[PacketQueue]:
        """Before each link, a queue of this die's tiles."""
        parameters, queues = self.parameters, []
        number, layout = parameters.transfer_class, stored_layout(parameters)
        queued = data.StructLayout({**{name: field.shape for name, field in layout}, "tail": unsigned(1)})
        for port, output in enumerate(outputs):
            m.submodules[f"tiles_{port}"] = queue = PacketQueue(parameters, queued, 1, TILE_FLITS)
            queues.append(queue)
            source, flit = len(output.sources) - 1, queue.o.payload
            asks, read = Signal(name=f"tiles_{port}_ask"), Signal(layout, name=f"tiles_{port}_read")
            m.d.comb += [
                asks.eq(queue.o.valid & output.may[number][source]), output.asks[number][source].eq(asks),
                output.chosen[source].eq(1 << number), output.tails[source].eq(flit.tail),
                queue.o.ready.eq(output.grant[source]), getattr(output, f"read_{source}").eq(read),
            ]
            m.d.sync += [read[name].eq(flit[name]) for name, _ in layout]
        return queues

    def _grants(self, m: Module, buffer: InputBuffer, choice: InputChoice, outputs: list[LinkOutput],
                ejections: list[list[tuple[PacketQueue, int]]], tiles: list[PacketQueue]) -> list[Value]:
        """Joins an input to its outputs, and this die's, for tiles, to its queues; whether each of these grants it."""
        grants: list[Value] = []
        for port in choice.links:
            output = outputs[port]
            source = output.sources.index(choice.index)
            may, asks = getattr(choice, f"may_link_{port}"), getattr(choice, f"asks_link_{port}")
            classes = range(len(may) - 1 if tiles and choice.index == len(outputs) else len(may))
            m.d.comb += [
                *(may[number].eq(output.may[number][source]) for number in classes),
                *(output.asks[number][source].eq(asks[number]) for number in classes),
                output.chosen[source].eq(choice.chosen), output.tails[source].eq(choice.tail),
                getattr(output, f"read_{source}").eq(buffer.o),
            ]
            grants.append(output.grant[source])
            if len(classes) < len(may):
                grants.append(self._takes(m, buffer, choice, tiles[port], 0, may[-1], asks[-1]))
        if choice.index < len(outputs):
            for number, queues in enumerate(ejections):
                grants.append(self._takes(m, buffer, choice, *queues[choice.index], choice.may_eject[number],
                                          choice.asks_eject[number]))
        return grants

    def _takes(self, m: Module, buffer: InputBuffer, choice: InputChoice, queue: PacketQueue, source: int, may: Value,
               asks: Value) -> Value:
        """Joins an input to a queue; whether that grants it."""
        m.d.comb += [
            may.eq(queue.may[source]), queue.asks[source].eq(asks), queue.tails[source].eq(choice.tail),
            getattr(queue, f"read_{source}").eq(buffer.o),
        ]
        return queue.grant[source]
