"""Looks up the port of each flit of an input as it comes, while those before it leave: of dies whose packets are short
and go to many dies in turn.

::

    link --> route table --+--> port of each flit, a small memory a class --> first --+--> route, known
             ERROR: names -+                          last one that left, if same ----+

A flit that comes in cycle t is known from t + 1 if it goes where the last one before it in its class went, else from
t + 2. Any number are under way: a port waits with its flit. Throughput: a flit a cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.comm.flit import flit_layout
from plinth_hw.control.routes import RouterTables, port_bits, table_of, table_write_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import following


class RouteAhead(wiring.Component):
    """Ports of the flits that an input holds.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    depth : int
        Places of a class.

    Members
    -------
    valid, flit : In(1), In, :func:`~plinth_hw.comm.flit.flit_layout`
        A flit arrives.
    is_error : In(1)
        It leaves by the port that it names.
    place : In
        Where in its class it is put.
    taken, same : In, array and In(classes)
        By class, the place of what waits first, and whether that goes where the last one went that did not end here.
    leaves, fresh, sent : In(classes)
        What waits first leaves; what arrives is first in the next cycle; the first one leaves by its port.
    route_write : In, :func:`~plinth_hw.control.routes.table_write_layout`
        A write to the table; holds for what arrives later.
    route : Out, array of ``ports`` bits
        By class, the port of what waits first, as a bit; none if no route is known.
    known : Out(classes)
        ``route`` is there, also of what is not ``same``.
    """

    def __init__(self, parameters: DieParameters, depth: int):
        self.parameters = parameters
        self.depth = depth
        classes, place = parameters.classes, unsigned(ceil_log2(depth))
        super().__init__({
            "valid": In(1), "flit": In(flit_layout(parameters)), "is_error": In(1), "place": In(place),
            "taken": In(data.ArrayLayout(place, classes)), "same": In(classes),
            "leaves": In(classes), "fresh": In(classes), "sent": In(classes),
            "route_write": In(table_write_layout(parameters)),
            "route": Out(data.ArrayLayout(unsigned(parameters.ports), classes)), "known": Out(classes),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports, flit = range(self.parameters.ports), self.flit
        m.submodules.tables = tables = RouterTables(self.parameters)
        # What came in the cycle before: its port is written in this one.
        came, names = Signal(self.parameters.classes, name="came"), Signal(name="names_port")
        place, named = Signal.like(self.place, name="came_to"), Signal(len(ports))
        looked_up = [Signal(len(ports), name="port") for _ in tables.port]
        m.d.comb += [
            tables.write.eq(self.route_write), tables.destination.eq(flit.destination),
            *(port.eq(Mux(names, named, route)) for port, route in zip(looked_up, tables.port, strict=True)),
        ]
        m.d.sync += [
            came.eq(Cat(self.valid & (flit.traffic_class == number) for number in range(len(came)))),
            place.eq(self.place), names.eq(self.is_error),
            named.eq(Cat(flit.message[:port_bits(self.parameters)] == port for port in ports)),
        ]
        for number, taken in enumerate(self.taken):
            m.submodules[f"ports_{number}"] = kept = Memory(shape=unsigned(len(ports)), depth=self.depth, init=[])
            keeps, follows = kept.write_port(), kept.read_port(domain="comb")
            last, first = Signal(len(ports), name=f"last_{number}"), Signal(len(ports), name=f"first_{number}")
            known, second = Signal(name=f"known_{number}"), Signal.like(taken, name=f"second_{number}")
            port = looked_up[table_of(self.parameters, number)]
            m.d.comb += [
                keeps.en.eq(came[number]), keeps.addr.eq(place), keeps.data.eq(port),
                second.eq(following(taken)), follows.addr.eq(second),
                self.route[number].eq(Mux(self.same[number], last, first)), self.known[number].eq(known),
            ]
            m.d.sync += known.eq(~self.fresh[number])
            # The port of what is behind the first one lies in memory, comes to it in this cycle, or in the next one.
            with m.If(self.leaves[number]):
                m.d.sync += first.eq(Mux(came[number] & (place == second), port, follows.data))
            with m.Elif(came[number] & (place == taken)):
                m.d.sync += first.eq(port)
            with m.If(self.sent[number]):
                m.d.sync += last.eq(self.route[number])
        return m
