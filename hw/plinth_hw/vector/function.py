"""Function unit: one table-driven function value a cycle, in integer arithmetic.

::

    i --> x log2(e) -> align, negate -> table -> c2 d -> + c1 -> (..) d -> + c0 -> shift, round --> o
      1      2            3, 4            5        6       7       8         9        10, 11

Eleven register stages, no stall. A function is a table of quadratics in :mod:`plinth_hw.isa.functions`
and a way to reduce its argument: EXPONENTIAL multiplies by log2(e) and splits into a power of two and
the table's argument; RECIPROCAL hands the fraction on and computes the exponent. Further functions are
a table, an entry here and one in the golden model ``golden/function.py``, which this unit equals bit for
bit.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.common import shift_right_sticky
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.functions import (
    C0_BITS,
    C1_BITS,
    C2_BITS,
    LOG2E,
    LOG2E_BITS,
    OFFSET_BITS,
    QUADRATIC_DROP,
    QUADRATIC_SHIFT,
    SEGMENT_BITS,
    TABLES,
    VALUE_BITS,
    coefficients,
)
from plinth_hw.isa.tasks import VectorFunction

#: Biased exponent of the largest argument of EXPONENTIAL that is not taken as infinite.
_LARGEST = 133
#: Bits of log2(e) that the lower of two multipliers takes.
_LOW_BITS = 18
#: Bits of the offset that the lower of two multipliers takes.
_OFFSET_LOW_BITS = 11


class _Context(data.Struct):
    """What travels beside the value."""

    sign: unsigned(1)
    #: Exponent of the result, biased, without the turns of EXPONENTIAL.
    exponent: signed(10)
    nan: unsigned(1)
    infinite: unsigned(1)
    zero: unsigned(1)


class FunctionUnit(wiring.Component):
    """``o = function(i)``.

    Members
    -------
    function : In(VectorFunction)
        With ``i``.
    i : In(32)
        FP32 argument, taken every cycle.
    o : Out(32)
        FP32 value for the argument of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        11 cycles.
    """

    latency = 11

    def __init__(self) -> None:
        super().__init__({"function": In(VectorFunction), "i": In(32), "o": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        context, table_number, turns = self._reduce(m)
        value, context, power = self._interpolate(m, turns, table_number, context)
        self._round(m, value, context, power)
        return m

    def _reduce(self, m: Module) -> tuple[Any, Any, Any]:
        """Stages 1 to 4: the argument of the table, with a power of two above it."""
        fraction, exponent, sign = self.i[:23], self.i[23:31], self.i[31]
        is_reciprocal = Signal()
        subnormal = Signal()
        special = Signal()
        context_1, context_2, context_3, context_4 = (
            Signal(_Context, name=f"context_{stage}", reset_less=True) for stage in range(1, 5))
        m.d.comb += [
            is_reciprocal.eq(self.function == VectorFunction.RECIPROCAL),
            subnormal.eq(exponent == 0), special.eq(exponent == 255),
        ]
        # 1: products with log2(e); the fraction of a subnormal moved up by one or two.
        mantissa = Signal(24)
        product_low = Signal(24 + _LOW_BITS, reset_less=True)
        product_high = Signal(24 + LOG2E_BITS + 1 - _LOW_BITS, reset_less=True)
        normal = Signal(23, reset_less=True)
        distance = Signal(6, reset_less=True)
        reciprocal_1 = Signal(reset_less=True)
        below = Signal(signed(10))
        large = Signal()
        first, second = fraction[22], fraction[21]
        m.d.comb += [
            mantissa.eq(Cat(fraction, ~subnormal)),
            below.eq(_LARGEST - Cat(exponent[0] | subnormal, exponent[1:])),
            large.eq(below < 0),
        ]
        m.d.sync += [
            product_low.eq(mantissa * (LOG2E & ((1 << _LOW_BITS) - 1))),
            product_high.eq(mantissa * (LOG2E >> _LOW_BITS)),
            normal.eq(Mux(subnormal, Mux(first, fraction << 1, fraction << 2), fraction)),
            distance.eq(Mux(is_reciprocal, 0, Mux(below > 63, 63, below[:6]))),
            reciprocal_1.eq(is_reciprocal),
            context_1.nan.eq(special & fraction.any()),
            context_1.sign.eq(sign),
            context_1.exponent.eq(Mux(
                is_reciprocal, 253 - Mux(subnormal, Mux(first, 0, -1), exponent).as_signed(), 127)),
        ]
        with m.If(is_reciprocal):
            m.d.sync += [context_1.zero.eq(special),
                         context_1.infinite.eq(subnormal & ~first & ~second)]
        with m.Else():
            m.d.sync += [context_1.zero.eq(large & sign), context_1.infinite.eq(large & ~sign)]
        # 2: their sum, less the bits that no argument needs.
        product = Signal(24 + LOG2E_BITS + 1)
        drop = LOG2E_BITS - VALUE_BITS - (_LARGEST - 150)
        reduced = Signal(len(product) - drop, reset_less=True)
        distance_2 = Signal(6, reset_less=True)
        reciprocal_2 = Signal(reset_less=True)
        m.d.comb += product.eq(product_low + (product_high << _LOW_BITS))
        m.d.sync += [
            reduced.eq(Mux(reciprocal_1, normal << (VALUE_BITS - 23), product[drop:])),
            distance_2.eq(distance), reciprocal_2.eq(reciprocal_1), context_2.eq(context_1),
        ]
        # 3, 4: align, then the sign. Reciprocals keep theirs in the context.
        coarse = Signal(len(reduced), reset_less=True)
        distance_3 = Signal(3, reset_less=True)
        reciprocal_3 = Signal(reset_less=True)
        reciprocal_4 = Signal(reset_less=True)
        fine = Signal(len(reduced))
        negative = Signal()
        turns = Signal(signed(len(reduced) + 1), reset_less=True)
        m.d.comb += [
            fine.eq(coarse >> distance_3),
            negative.eq(context_3.sign & ~reciprocal_3),
        ]
        m.d.sync += [
            coarse.eq(reduced >> Cat(Const(0, 3), distance_2[3:])), distance_3.eq(distance_2[:3]),
            reciprocal_3.eq(reciprocal_2), context_3.eq(context_2),
            turns.eq((fine ^ negative.replicate(len(turns))).as_signed() + negative),
            reciprocal_4.eq(reciprocal_3), context_4.eq(context_3),
            context_4.sign.eq(context_3.sign & reciprocal_3),
        ]
        return context_4, reciprocal_4, turns

    def _interpolate(self, m: Module, turns: Any, table_number: Any, context: Any) -> tuple[Any, Any, Any]:
        """Stages 5 to 9: the quadratic, with the context and the turns beside it."""
        # One word an entry; the functions' tables lie one after another, by number.
        entry = data.StructLayout({"c0": unsigned(C0_BITS), "c1": signed(C1_BITS), "c2": unsigned(C2_BITS)})
        rows = [dict(c._asdict()) for function in sorted(TABLES, key=lambda f: f.value)
                for c in coefficients(function)]
        m.submodules.table = table = Memory(shape=entry, depth=len(rows), init=rows)
        port = table.read_port()
        offset = turns[:OFFSET_BITS]
        m.d.comb += port.addr.eq(Cat(turns[OFFSET_BITS:VALUE_BITS], table_number))
        assert port.addr.shape().width == SEGMENT_BITS + len(table_number)

        stages = 5
        contexts = [context]
        powers = [turns[VALUE_BITS:].as_signed()]
        for stage in range(stages):
            next_context = Signal(_Context, name=f"context_{5 + stage}", reset_less=True)
            next_power = Signal(signed(len(powers[0])), name=f"power_{5 + stage}", reset_less=True)
            m.d.sync += [next_context.eq(contexts[-1]), next_power.eq(powers[-1])]
            contexts.append(next_context)
            powers.append(next_power)

        offset_5, offset_6, offset_7 = (
            Signal(OFFSET_BITS, name=f"offset_{stage}", reset_less=True) for stage in (5, 6, 7))
        c0_6, c0_7, c0_8 = (Signal(C0_BITS, name=f"c0_{stage}", reset_less=True) for stage in (6, 7, 8))
        c1_6 = Signal(signed(C1_BITS), reset_less=True)
        quadratic = Signal(C2_BITS + OFFSET_BITS - QUADRATIC_DROP, reset_less=True)
        slope = Signal(signed(C1_BITS + 1), reset_less=True)
        low = Signal(signed(C1_BITS + 2 + _OFFSET_LOW_BITS), reset_less=True)
        high = Signal(signed(C1_BITS + 2 + OFFSET_BITS - _OFFSET_LOW_BITS), reset_less=True)
        linear = Signal(signed(C1_BITS + 2 + OFFSET_BITS))
        value = Signal(C0_BITS, reset_less=True)
        m.d.comb += linear.eq(low + (high << _OFFSET_LOW_BITS))
        m.d.sync += [
            offset_5.eq(offset),
            # 6
            quadratic.eq(port.data.c2 * offset_5[QUADRATIC_DROP:]),
            c0_6.eq(port.data.c0), c1_6.eq(port.data.c1), offset_6.eq(offset_5),
            # 7
            slope.eq(c1_6 + quadratic[QUADRATIC_SHIFT:]), c0_7.eq(c0_6), offset_7.eq(offset_6),
            # 8
            low.eq(slope * offset_7[:_OFFSET_LOW_BITS]), high.eq(slope * offset_7[_OFFSET_LOW_BITS:]),
            c0_8.eq(c0_7),
            # 9
            value.eq(c0_8 + (linear >> OFFSET_BITS)),
        ]
        return value, contexts[-1], powers[-1]

    def _round(self, m: Module, value: Any, context: Any, power: Any) -> None:
        """Stages 10 and 11: to FP32, subnormals included."""
        guard_bits = VALUE_BITS - 23
        exponent = Signal(signed(12))
        distance = Signal(signed(12))
        shift = Signal(5)
        m.d.comb += [
            exponent.eq(context.exponent + power),
            distance.eq(1 - exponent),
            shift.eq(Mux(distance < 0, 0, Mux(distance > 31, 31, distance[:5]))),
        ]
        kept, lost = shift_right_sticky(m, "round", value, shift, len(value))
        shifted = Signal(len(value), reset_less=True)
        sticky = Signal(reset_less=True)
        field = Signal(9, reset_less=True)
        zero, infinite, nan, sign = (Signal(name=name, reset_less=True)
                                     for name in ("zero", "infinite", "nan", "sign"))
        m.d.sync += [
            shifted.eq(kept), sticky.eq(lost),
            field.eq(Mux(distance >= 0, 0, exponent - 1)),
            zero.eq(context.zero), nan.eq(context.nan), sign.eq(context.sign),
            infinite.eq(context.infinite | (exponent > 254)),
        ]
        up = Signal()
        magnitude = Signal(32)
        rest = shifted[:guard_bits]
        m.d.comb += [
            up.eq(rest[-1] & (rest[:-1].any() | sticky | shifted[guard_bits])),
            # The leading bit of the significand adds one to the exponent field.
            magnitude.eq((field << 23) + shifted[guard_bits:] + up),
        ]
        with m.If(nan):
            m.d.sync += self.o.eq(FP32.quiet_nan)
        with m.Elif(zero):
            m.d.sync += self.o.eq(Cat(Const(0, 31), sign))
        with m.Elif(infinite):
            m.d.sync += self.o.eq(Cat(Const(FP32.infinity, 31), sign))
        with m.Else():
            m.d.sync += self.o.eq(Cat(magnitude[:31], sign))
