"""Inverse square root of the state, of which Adagrad's step is made; formulas: :mod:`plinth_hw.isa.inverse_root`.

::

    state --> max(state, 0) + epsilon --> saturate --> zeros in front: bytes, then pairs --> table --> line --> root
                                                                           +------------------------------> pairs

One state a cycle, no stall; one ``MULT18X18D``, one block RAM.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.isa import inverse_root as table
from plinth_hw.lib.choice import select
from plinth_hw.lib.delay import delayed

#: Bits of a place on a line and above it, of a normalised argument.
_PLACE_BITS = table.ARGUMENT_BITS - table.LINE_BITS + table.OFFSET_BITS
#: Bits from a knot to the next, which is less.
_SLOPE_BITS = 12


class InverseRoot(wiring.Component):
    """``root`` and ``pairs`` of ``min(max(state, 0) + epsilon, 2^32 - 1)``, which is at least 1.

    Members
    -------
    state : In(32)
        Signed, taken every cycle.
    epsilon : In(32)
        Constant.
    root : Out(16), pairs : Out(4)
        R and z / 2 of the state of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        8 cycles.
    """

    latency = 8

    def __init__(self) -> None:
        super().__init__({"state": In(signed(32)), "epsilon": In(32), "root": Out(table.FRACTION_BITS),
                          "pairs": Out(4)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = table.ARGUMENT_BITS
        total = Signal(bits + 1, reset_less=True)
        argument = Signal(bits, reset_less=True)
        m.d.sync += [total.eq(Mux(self.state < 0, 0, self.state.as_unsigned()) + self.epsilon),
                     argument.eq(total | total[-1].replicate(bits))]
        # Bytes of zeros, then pairs of zeros, are shifted out.
        no_byte = [~argument[bits - 8 * (count + 1):bits - 8 * count].any() for count in range(3)]
        byte_count = Cat(no_byte[0] & (~no_byte[1] | no_byte[2]), no_byte[0] & no_byte[1])
        coarse, bytes_out = Signal(_PLACE_BITS + 6, reset_less=True), Signal(2, reset_less=True)
        places = bits - len(coarse)
        m.d.sync += [bytes_out.eq(byte_count),
                     coarse.eq(select([(argument << 8 * count)[places:bits] for count in range(4)], byte_count))]
        no_pair = [~coarse[len(coarse) - 2 * (count + 1):len(coarse) - 2 * count].any() for count in range(3)]
        pair_count = Cat(no_pair[0] & (~no_pair[1] | no_pair[2]), no_pair[0] & no_pair[1])
        fine, pairs = Signal(_PLACE_BITS, reset_less=True), Signal(4, reset_less=True)
        m.d.sync += [pairs.eq(Cat(pair_count, bytes_out)),
                     fine.eq(select([(coarse << 2 * count)[6:len(coarse)] for count in range(4)], pair_count))]

        # A line begins half a unit of the root higher than its knot.
        line = data.StructLayout({"start": unsigned(table.KNOT_FRACTION_BITS), "slope": signed(_SLOPE_BITS)})
        half = 1 << table.KNOT_FRACTION_BITS - table.FRACTION_BITS - 1
        lines = [{"start": 0, "slope": 0}] * table.FIRST + [
            {"start": knot + half, "slope": after - knot} for knot, after in pairwise(table.knots())]
        m.submodules.lines = memory = Memory(shape=line, depth=len(lines), init=lines)
        read = memory.read_port()
        m.d.comb += read.addr.eq(fine[table.OFFSET_BITS:])
        found = delayed(m, "line", read.data, 1)
        offset = delayed(m, "offset", fine[:table.OFFSET_BITS], 2)
        product = Signal(signed(_SLOPE_BITS + table.OFFSET_BITS), reset_less=True)
        start = delayed(m, "start", found.start, 1)
        root = Signal(table.KNOT_FRACTION_BITS, reset_less=True)
        m.d.sync += [product.eq(found.slope * offset),
                     root.eq(start + (product >> table.OFFSET_BITS))]
        m.d.comb += [self.root.eq(root[-table.FRACTION_BITS:]), self.pairs.eq(delayed(m, "pairs", pairs, 4))]
        return m
