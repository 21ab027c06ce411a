"""What control and the router tell each other: rates of links, what found no route, and the route table, a port for
each destination. The host writes it; the router has one, and so have the registers, from which it is read back. Dies
that set routes have one for each kind of traffic in the router: the host writes all, a SET_ROUTE task one."""

from typing import Any

from amaranth.hdl import Cat, Module, Value, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from plinth_hw.isa.operations import Traffic
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import LinkRate
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.ram import LUT_RAM
from plinth_hw.shapes import shape_of

#: Bits of a die's number up to which route tables are in look-up-table RAM.
SMALL_DIE_BITS = 8


def route_table(parameters: DieParameters, bits: int) -> Memory:
    """Memory of ``bits`` for each destination, at first 0."""
    return Memory(shape=unsigned(bits), depth=1 << parameters.die_bits, init=[],
                  attrs=LUT_RAM if parameters.die_bits <= SMALL_DIE_BITS else {})


def port_bits(parameters: DieParameters) -> int:
    """Bits of a port's number."""
    return index_bits(parameters.ports)


def route_write_layout(parameters: DieParameters) -> data.StructLayout:
    """``valid``: the route to ``destination`` becomes ``port``."""
    return data.StructLayout({"valid": unsigned(1), "destination": unsigned(parameters.die_bits),
                              "port": unsigned(port_bits(parameters))})


def table_write_layout(parameters: DieParameters) -> data.StructLayout:
    """The same in the router; of dies that set routes of the kinds of traffic whose bits are set in ``traffic``."""
    return data.StructLayout({**route_write_layout(parameters).members,
                              **({"traffic": unsigned(len(Traffic))} if parameters.sets_routes else {})})


def router_tables(m: Module, parameters: DieParameters) -> list[tuple[Any, Any]]:
    """Adds the router's tables to a module: of each the ports for writes and reads."""
    found = []
    for kind in Traffic if parameters.sets_routes else (None,):
        routes = route_table(parameters, parameters.ports)
        m.submodules["routes" if kind is None else f"routes_{kind.name.lower()}"] = routes
        found.append(_ports(routes))
    return found


def _ports(routes: Memory) -> tuple[Any, Any]:
    write, found = routes.write_port(), routes.read_port()
    return write, found


def table_accesses(parameters: DieParameters, tables: list[tuple[Any, Any]], route_write: data.View, destination: Value
                   ) -> list[Any]:
    """Statements by which tables are written, and read at ``destination``."""
    statements = []
    for kind, (write, found) in enumerate(tables):
        valid = route_write.valid & route_write.traffic[kind] if parameters.sets_routes else route_write.valid
        statements += [
            write.en.eq(valid), write.addr.eq(route_write.destination),
            write.data.eq(Cat(route_write.port == port for port in range(parameters.ports))),
            found.addr.eq(destination), found.en.eq(1),
        ]
    return statements


def table_of(parameters: DieParameters, number: int) -> int:
    """Which of the router's tables a class of traffic has."""
    return parameters.traffic(number).value if parameters.sets_routes else 0


def rates_layout(parameters: DieParameters) -> data.ArrayLayout:
    """Flits a cycle of each port."""
    return data.ArrayLayout(shape_of(LinkRate), parameters.ports)


def lost_layout(parameters: DieParameters) -> data.StructLayout:
    """``valid``: a flit of a packet for ``die`` was thrown away, for no route leads there."""
    return data.StructLayout({"valid": unsigned(1), "die": unsigned(parameters.die_bits)})
