"""What control and the router tell each other: rates of links, what found no route, and the route table, a port for
each destination. The host writes it; the router has one, and so have the registers, from which it is read back. Dies
that set routes have one for each kind of traffic in the router: the host writes all, a SET_ROUTE task one.

After a reset of the die the registers clear all tables, a route a cycle, before they take the host's first access."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.operations import Traffic
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import LinkRate
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.ram import LUT_RAM
from plinth_hw.shapes import shape_of

#: Bits of a die's number up to which route tables are in look-up-table RAM, unless they are said to be elsewhere.
SMALL_DIE_BITS = 8


def route_table(parameters: DieParameters, bits: int, attributes: Mapping[str, Any] | None = None) -> Memory:
    """Memory of ``bits`` for each destination; it holds anything until it is cleared. ``attributes`` say where it lies,
    else its size does."""
    if attributes is None:
        attributes = LUT_RAM if parameters.die_bits <= SMALL_DIE_BITS else {}
    return Memory(shape=unsigned(bits), depth=1 << parameters.die_bits, init=[], attrs=dict(attributes))


def port_bits(parameters: DieParameters) -> int:
    """Bits of a port's number."""
    return index_bits(parameters.ports)


def route_write_layout(parameters: DieParameters) -> data.StructLayout:
    """``valid``: the route to ``destination`` becomes ``port``; or, with ``clears``, none, and until that is over what
    tables hold counts for nothing."""
    return data.StructLayout({"valid": unsigned(1), "clears": unsigned(1),
                              "destination": unsigned(parameters.die_bits), "port": unsigned(port_bits(parameters))})


def table_write_layout(parameters: DieParameters) -> data.StructLayout:
    """The same in the router; of dies that set routes of the kinds of traffic whose bits are set in ``traffic``."""
    return data.StructLayout({**route_write_layout(parameters).members,
                              **({"traffic": unsigned(len(Traffic))} if parameters.sets_routes else {})})


def task_write_layout(parameters: DieParameters) -> data.StructLayout:
    """The same as a SET_ROUTE task writes it, which clears no tables."""
    members = table_write_layout(parameters).members
    return data.StructLayout({name: shape for name, shape in members.items() if name != "clears"})


class RouterTables(wiring.Component):
    """The router's table, or those of the kinds of traffic: ports as bits.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    attributes : mapping, optional
        Where the tables lie (:func:`route_table`).

    Members
    -------
    write : In, :func:`table_write_layout`
    destination : In
    port : Out, array of ``ports`` bits
        By table (:func:`table_of`), that of the destination of the cycle before; none if no route is known.
    """

    def __init__(self, parameters: DieParameters, attributes: Mapping[str, Any] | None = None):
        self.parameters = parameters
        self.attributes = attributes
        tables = len(Traffic) if parameters.sets_routes else 1
        super().__init__({
            "write": In(table_write_layout(parameters)), "destination": In(parameters.die_bits),
            "port": Out(data.ArrayLayout(unsigned(parameters.ports), tables)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, write = self.parameters, self.write
        port = Mux(write.clears, 0, Cat(write.port == number for number in range(parameters.ports)))
        counts = Signal(name="counts")
        m.d.sync += counts.eq(~write.clears)
        for number, route in enumerate(self.port):
            kind = f"routes_{Traffic(number).name.lower()}" if parameters.sets_routes else "routes"
            m.submodules[kind] = routes = route_table(parameters, parameters.ports, self.attributes)
            store, read = routes.write_port(), routes.read_port()
            wanted = write.traffic[number] if parameters.sets_routes else 1
            m.d.comb += [
                store.en.eq(write.valid & wanted), store.addr.eq(write.destination), store.data.eq(port),
                read.en.eq(1), read.addr.eq(self.destination), route.eq(Mux(counts, read.data, 0)),
            ]
        return m


def table_of(parameters: DieParameters, number: int) -> int:
    """Which of the router's tables a class of traffic has."""
    return parameters.traffic(number).value if parameters.sets_routes else 0


def rates_layout(parameters: DieParameters) -> data.ArrayLayout:
    """Flits a cycle of each port."""
    return data.ArrayLayout(shape_of(LinkRate), parameters.ports)


def lost_layout(parameters: DieParameters) -> data.StructLayout:
    """``valid``: a flit of a packet for ``die`` was thrown away, for no route leads there."""
    return data.StructLayout({"valid": unsigned(1), "die": unsigned(parameters.die_bits)})
