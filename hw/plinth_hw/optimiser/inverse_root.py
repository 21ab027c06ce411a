"""Inverse square root of the state, of which Adagrad's step is made; formulas: :mod:`plinth_hw.isa.inverse_root`.

::

    state --> max(state, 0) + epsilon --> saturate --> zeros in front: bytes, then pairs --> table --> line --> root
                                                                           +------------------------------> pairs

One state a cycle, no stall; one ``MULT18X18D``, one block RAM.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.isa import inverse_root as table
from plinth_hw.lib.choice import one_registered
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
        # A flip-flop of an FPGA is set to what it begins with.
        argument = Signal(bits, init=-1, reset_less=True)
        m.d.sync += [
            total.eq(table_sum(m, platform, "total", [
                Digits((self.epsilon, self.state[-1], self.state.as_unsigned()), lambda added, sign, state: added,
                       lambda added, sign, state: state & ~sign),
                Digits((Const(0, 1),), lambda none: none)])),
            argument.eq(Mux(total[-1], argument.init, total)),
        ]
        # Bytes of zeros, then pairs of zeros, are shifted out.
        coarse, bytes_out = self._shifted(m, "coarse", argument, 8, _PLACE_BITS + 6)
        fine, pairs_out = self._shifted(m, "fine", coarse, 2, _PLACE_BITS)
        pairs = Cat(pairs_out, delayed(m, "bytes", bytes_out, 1))

        # A line begins half a unit of the root higher than its knot.
        line = data.StructLayout({"start": unsigned(table.KNOT_FRACTION_BITS), "slope": signed(_SLOPE_BITS)})
        half = 1 << table.KNOT_FRACTION_BITS - table.FRACTION_BITS - 1
        lines = [{"start": 0, "slope": 0}] * table.FIRST + [
            {"start": knot + half, "slope": after - knot} for knot, after in pairwise(table.knots())]
        m.submodules.lines = memory = Memory(shape=line, depth=len(lines), init=lines)
        read = memory.read_port()
        m.d.comb += read.addr.eq(fine[table.OFFSET_BITS:])
        segment = delayed(m, "line", read.data, 1)
        offset = delayed(m, "offset", fine[:table.OFFSET_BITS], 2)
        product = Signal(signed(_SLOPE_BITS + table.OFFSET_BITS), reset_less=True)
        start = delayed(m, "start", segment.start, 1)
        root = Signal(table.KNOT_FRACTION_BITS, reset_less=True)
        m.d.sync += [product.eq(segment.slope * offset),
                     root.eq(start + (product >> table.OFFSET_BITS))]
        m.d.comb += [self.root.eq(root[-table.FRACTION_BITS:]), self.pairs.eq(delayed(m, "pairs", pairs, 4))]
        return m

    @staticmethod
    def _shifted(m: Module, name: str, value: Value, step: int, bits: int) -> tuple[Value, Value]:
        """The upper bits of a value without its first steps of zeros, at most three, and how many, a cycle later."""
        length = len(value)
        empty = [~value[length - step * (count + 1):length - step * count].any() for count in range(3)]
        wanted = [Cat(empty[:count], ~empty[count] if count < 3 else ()).all() for count in range(4)]
        shifted, count = Signal(bits, name=name), Signal(2, name=f"{name}_count", reset_less=True)
        m.d.comb += shifted.eq(one_registered(m, name, wanted, [
            (value << step * count)[length - bits:length] for count in range(4)]))
        m.d.sync += count.eq(Cat(wanted[1] | wanted[3], wanted[2] | wanted[3]))
        return shifted, count
