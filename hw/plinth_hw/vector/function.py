"""Function unit: one table-driven function value a cycle, in integer arithmetic.

::

    i --> x log2(e) -> align, negate -> table -> c2 d -> + c1 -> (..) d -> + c0 -> shift, round --> o
      1      2            3, 4           5, 6      7       8       9         10       11, 12

Twelve register stages, no stall: a block RAM is as slow as a multiplier, so a register stands between them. A
function is a table of quadratics in :mod:`plinth_hw.isa.functions`, a way to reduce its argument in
:mod:`~plinth_hw.vector.argument`, which are stages 1 to 4, and an entry in the golden model ``golden/function.py``,
which this unit equals bit for bit.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.common import shift_right_sticky
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.functions import (
    C0_BITS,
    C1_BITS,
    C2_BITS,
    OFFSET_BITS,
    QUADRATIC_DROP,
    QUADRATIC_SHIFT,
    TABLES,
    VALUE_BITS,
    coefficients,
)
from plinth_hw.isa.vector_body import VectorFunction
from plinth_hw.lib.choice import select
from plinth_hw.lib.delay import delayed
from plinth_hw.shapes import shape_of
from plinth_hw.vector.argument import ArgumentReduction, Context

#: Bits of the offset that the lower of two multipliers takes.
_OFFSET_LOW_BITS = 11


class FunctionUnit(wiring.Component):
    """``o = function(i)``.

    Members
    -------
    function : In(VectorFunction)
        With ``i``.
    i : In(32)
        FP32 argument, taken every cycle.
    wanted : In(1)
        A cycle before the value: it is wanted, or else zero.
    o : Out(32)
        FP32 value for the argument of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        12 cycles.
    """

    latency = 12

    def __init__(self) -> None:
        super().__init__({"function": In(shape_of(VectorFunction)), "i": In(32), "wanted": In(1), "o": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.argument = argument = ArgumentReduction()
        m.d.comb += [argument.function.eq(self.function), argument.i.eq(self.i)]
        value, context, exponent = self._interpolate(
            m, argument.turns, argument.code, argument.fraction, argument.context)
        self._round(m, platform, value, context, exponent)
        return m

    def _interpolate(self, m: Module, turns: Any, code: Any, fraction: Any,
                     context: Any) -> tuple[Any, Any, Any]:
        """Stages 5 to 10: the quadratic, with the context beside it, and the value's exponent of stage 9."""
        # One word an entry; the functions' tables lie one after another.
        entry = data.StructLayout({"c0": unsigned(C0_BITS), "c1": signed(C1_BITS), "c2": unsigned(C2_BITS)})
        rows = [dict(c._asdict()) for function in TABLES for c in coefficients(function)]
        m.submodules.table = table = Memory(shape=entry, depth=len(rows), init=rows)
        port = table.read_port()
        offset = turns[:OFFSET_BITS]
        m.d.comb += port.addr.eq(turns[OFFSET_BITS:VALUE_BITS] ^ code)
        assert port.addr.shape().width == len(code)

        contexts, power = [context], turns[VALUE_BITS:].as_signed()
        for stage in range(5, 11):
            contexts.append(Signal(Context, name=f"context_{stage}", reset_less=True))
            m.d.sync += contexts[-1].eq(contexts[-2])
        exponent = Signal(signed(12), name="exponent_9", reset_less=True)
        m.d.sync += exponent.eq(contexts[4].exponent + delayed(m, "power", power, 4, reset_less=True))

        offset_5, offset_6, offset_7, offset_8 = (
            Signal(OFFSET_BITS, name=f"offset_{stage}", reset_less=True) for stage in (5, 6, 7, 8))
        entry_6 = Signal(entry, reset_less=True)
        c0_7, c0_8, c0_9 = (Signal(C0_BITS, name=f"c0_{stage}", reset_less=True) for stage in (7, 8, 9))
        c1_7 = Signal(signed(C1_BITS), reset_less=True)
        fraction_7 = delayed(m, "fraction", fraction, 3, reset_less=True)
        bend = Signal(signed(C2_BITS + 1))
        quadratic = Signal(C2_BITS + OFFSET_BITS - QUADRATIC_DROP, reset_less=True)
        slope = Signal(signed(C1_BITS + 1), reset_less=True)
        low = Signal(signed(C1_BITS + 2 + _OFFSET_LOW_BITS), reset_less=True)
        high = Signal(signed(C1_BITS + 2 + OFFSET_BITS - _OFFSET_LOW_BITS), reset_less=True)
        linear = Signal(signed(C1_BITS + 2 + OFFSET_BITS))
        value = Signal(C0_BITS, reset_less=True)
        m.d.comb += [
            linear.eq(low + (high << _OFFSET_LOW_BITS)),
            bend.eq(Cat(quadratic[QUADRATIC_SHIFT:], 0) ^ contexts[3].wide.replicate(len(bend))),
        ]
        m.d.sync += [
            offset_5.eq(offset),
            # 6
            entry_6.eq(port.data), offset_6.eq(offset_5),
            # 7
            quadratic.eq(entry_6.c2 * offset_6[QUADRATIC_DROP:]),
            c0_7.eq(entry_6.c0), c1_7.eq(entry_6.c1), offset_7.eq(offset_6),
            # 8
            slope.eq(c1_7 + bend), c0_8.eq(c0_7 + (fraction_7 << (VALUE_BITS - 22))), offset_8.eq(offset_7),
            # 9
            low.eq(slope * offset_8[:_OFFSET_LOW_BITS]), high.eq(slope * offset_8[_OFFSET_LOW_BITS:]),
            c0_9.eq(c0_8),
            # 10
            value.eq(c0_9 + (linear >> OFFSET_BITS)),
        ]
        return value, contexts[-1], exponent

    def _round(self, m: Module, platform: Any, value: Any, context: Any, exponent_9: Any) -> None:
        """Stages 10, of the exponent alone, to 12: to FP32, subnormals included."""
        guard_bits = VALUE_BITS - 23
        exponent = Signal.like(exponent_9, name="exponent_10")
        # Places below the least exponent of a normal number, 31 at most; whether it is that or below.
        below, least = Signal(5, name="below", reset_less=True), Signal(name="least", reset_less=True)
        distance = Signal(signed(12))
        shift = Signal(5)
        lower = Signal()
        m.d.sync += [
            exponent.eq(exponent_9), least.eq(distance >= 0),
            below.eq(Mux(distance < 0, 0, Mux(distance > 31, 31, distance[:5]))),
        ]
        m.d.comb += [
            distance.eq(1 - exponent_9),
            lower.eq(context.wide & ~value[-1] & ~context.tiny),
            # A wide value's exponent is 1 at least.
            shift.eq(below | (context.wide & ~lower)),
        ]
        # By the shift's low bits with a register for each value, zero but for the one wanted.
        fine = shift[:2]
        kept, lost = shift_right_sticky(m, "round", value, shift[2:], len(value), 2)
        moved = [Signal(len(value), name=f"moved_{places}", reset_less=True) for places in range(4)]
        sticky = Signal(reset_less=True)
        field = Signal(9, reset_less=True)
        zero, infinite, nan, sign = (Signal(name=name, reset_less=True)
                                     for name in ("zero", "infinite", "nan", "sign"))
        m.d.sync += [
            *(register.eq(Mux(fine == places, kept[places:], 0)) for places, register in enumerate(moved)),
            sticky.eq(lost | select([kept[:places].any() for places in range(4)], fine)),
            # Less one, or less two.
            field.eq(Mux(least, 0, exponent + Cat(~lower, Const(-1, len(exponent) - 1)))),
            zero.eq(context.zero), nan.eq(context.nan), sign.eq(context.sign),
            infinite.eq(context.infinite | (exponent > 254)),
        ]
        up = Signal()
        rest = reduce(or_, (register[:guard_bits + 1] for register in moved))
        m.d.comb += up.eq(rest[-2] & (rest[:-2].any() | sticky | rest[-1]))
        # The leading bit of the significand adds one to the exponent field.
        leading = reduce(or_, (register[guard_bits + 23:] for register in moved))
        assert len(leading) == 2
        magnitude = table_sum(m, platform, "magnitude", [
            Digits(tuple(register[guard_bits:guard_bits + 23] for register in moved), lambda a, b, c, d: a | b | c | d),
            Digits((field[:2], leading), lambda a, b: a, lambda a, b: b),
            Digits((field[2:8],), lambda a: a),
        ], up)
        with m.If(~self.wanted):
            m.d.sync += self.o.eq(0)
        with m.Elif(nan):
            m.d.sync += self.o.eq(FP32.quiet_nan)
        with m.Elif(zero):
            m.d.sync += self.o.eq(Cat(Const(0, 31), sign))
        with m.Elif(infinite):
            m.d.sync += self.o.eq(Cat(Const(FP32.infinity, 31), sign))
        with m.Else():
            m.d.sync += self.o.eq(Cat(magnitude, sign))
