"""Route table: a port of the router for each destination. The host writes it; the router has one, and so have the
registers, from which the host reads it back."""

from amaranth.hdl import unsigned
from amaranth.lib.memory import Memory

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.ram import LUT_RAM

#: Bits of a die's number up to which route tables are in look-up-table RAM.
SMALL_DIE_BITS = 8


def route_table(parameters: DieParameters) -> Memory:
    """Memory of a port for each destination."""
    return Memory(shape=unsigned(index_bits(parameters.ports)), depth=1 << parameters.die_bits, init=[],
                  attrs=LUT_RAM if parameters.die_bits <= SMALL_DIE_BITS else {})
