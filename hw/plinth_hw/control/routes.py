"""What control and the router tell each other: rates of links, what found no route, and the route table, a port for
each destination. The host writes it; the router has one, and so have the registers, from which it is read back."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

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


def rates_layout(parameters: DieParameters) -> data.ArrayLayout:
    """Flits a cycle of each port."""
    return data.ArrayLayout(shape_of(LinkRate), parameters.ports)


def lost_layout(parameters: DieParameters) -> data.StructLayout:
    """``valid``: a flit of a packet for ``die`` was thrown away, for no route leads there."""
    return data.StructLayout({"valid": unsigned(1), "die": unsigned(parameters.die_bits)})
