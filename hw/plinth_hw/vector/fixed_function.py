"""Function unit of fixed-point dies: exponential, reciprocal, tanh and sigmoid of a Q3.12 number a cycle.

::

    i -> |i|, i log2(e) -> place on the curve, shift -> table -> rise x offset -> value, coarse shift
                                                                       o <- sign <- fine shift, round <---+

The formulas stand in :mod:`~plinth_hw.isa.fixed_functions`. All four curves lie in one table, a line an entry. A
multiplier by a power of two normalises the magnitude; its power comes from the leading bit of ``|i|`` or, of a negative
number, of ``|i|`` - 1: then the product may have a bit more.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.isa.fixed_functions import (
    CURVES,
    FORMAT,
    KNOT_BITS,
    LOG2E,
    OFFSET_BITS,
    PLAIN_SHIFT,
    RISE_BITS,
    SEGMENT_BITS,
    VALUE_BITS,
    lines,
)
from plinth_hw.isa.vector_body import VectorFunction
from plinth_hw.lib.choice import one_registered
from plinth_hw.shapes import shape_of

#: Bits of a number, and of its magnitude.
_BITS = FORMAT.bits
#: The value's least right shift, that of a reciprocal of 1/8, and log2 of how many there are from there on.
_LEAST_SHIFT, _SHIFT_BITS = 4, 4
#: Magnitudes below 1/8 have a reciprocal beyond the format.
_LEAST_LOG = FORMAT.fraction_bits - FORMAT.integer_bits
#: Fraction bits of the argument times log2(e) that its place on the curve has no room for.
_POWER_DROPPED = FORMAT.fraction_bits + 16 - VALUE_BITS


class _Context(data.Struct):
    """What travels beside the value."""

    negative: unsigned(1)
    #: The result is beyond the format, on the side of ``negative``.
    beyond: unsigned(1)
    #: SIGMOID of a negative number: 1 - y.
    complement: unsigned(1)
    #: Right shift of the value, from the least one on.
    shift: unsigned(_SHIFT_BITS)


class FixedFunctionUnit(wiring.Component):
    """``o = function(i)``.

    Members
    -------
    function : In(VectorFunction)
        With ``i``.
    i : In(16)
        Argument, taken every cycle.
    wanted : In(1)
        A cycle before the value: it is wanted, or else zero.
    o : Out(16)
        Value for the argument of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        8 cycles.
    """

    latency = 8

    def __init__(self) -> None:
        super().__init__({"function": In(shape_of(VectorFunction)), "i": In(_BITS), "wanted": In(1), "o": Out(_BITS)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        address, offset, contexts = self._reduce(m, platform)
        self._finish(m, platform, self._line(m, address, offset), contexts)
        return m

    def _reduce(self, m: Module, platform: Any) -> tuple[Value, Value, list[Any]]:
        """Stages 1 and 2: line and place on it; the contexts of stages 2 to 7."""
        x = self.i.as_signed()
        negative = x[-1]
        function, size = Signal(shape_of(VectorFunction), name="function_1"), Signal(_BITS, name="size_1")
        turns, negative_1 = Signal(signed(_BITS + LOG2E.bit_length() + 1)), Signal(name="negative_1")
        # Bit 15 - p is set for the leading bit p; with other functions bit 0.
        unit, log = Signal(_BITS, name="unit_1"), Signal(signed(_SHIFT_BITS), name="log_1")
        below = (x ^ negative.replicate(_BITS).as_signed())[:_BITS - 1]
        leading = Cat(below[place] & ~below[place + 1:].any() for place in range(_BITS - 1))
        m.d.sync += [
            function.eq(self.function), turns.eq(x * LOG2E), negative_1.eq(negative),
            size.eq(table_sum(m, platform, "size", [Digits((x, negative), lambda x, n: x ^ n)], negative)),
            unit.eq(Cat(Const(0, 1), reversed(leading))),
            # How far above the least one; what is far below it is that by half of the range.
            log.eq(Cat(*(Cat(leading[place] for place in range(_LEAST_LOG - 1, _BITS - 1)
                             if place - _LEAST_LOG >> bit & 1).any() for bit in range(_SHIFT_BITS - 1)),
                       ~leading[_LEAST_LOG:].any())),
        ]
        with m.If(self.function != VectorFunction.RECIPROCAL):
            m.d.sync += unit.eq(1)

        product, carried = Signal(2 * _BITS), Signal(name="carried")
        m.d.comb += [product.eq(size * unit), carried.eq(product[_BITS])]
        place, context = Signal(VALUE_BITS, name="place_2"), Signal(_Context, name="context_2")
        curve = Signal(range(len(CURVES)), name="curve_2")
        magnitude, too_far = product[:_BITS - 1], Signal(name="too_far")
        m.d.comb += too_far.eq(product[_BITS - 1] & (function != VectorFunction.RECIPROCAL))
        m.d.sync += [place.eq(Cat(Const(0, VALUE_BITS - _BITS + 1), magnitude | too_far.replicate(_BITS - 1))),
                     context.negative.eq(negative_1), context.complement.eq(0), context.beyond.eq(0),
                     context.shift.eq(PLAIN_SHIFT - _LEAST_SHIFT)]
        power_shift, log_shift = (Signal(signed(width), name=name) for name, width in (
            ("power_shift", len(turns) - _POWER_DROPPED - VALUE_BITS), ("log_shift", _SHIFT_BITS)))
        m.d.comb += [power_shift.eq(PLAIN_SHIFT - _LEAST_SHIFT - turns[_POWER_DROPPED + VALUE_BITS:].as_signed()),
                     log_shift.eq(log + carried)]
        with m.Switch(function.as_value()):
            with m.Case(VectorFunction.EXPONENTIAL.value):
                m.d.sync += [place.eq(turns[_POWER_DROPPED:]), context.negative.eq(0),
                             context.beyond.eq(power_shift[-1]), context.shift.eq(power_shift)]
            with m.Case(VectorFunction.RECIPROCAL.value):
                m.d.sync += [context.beyond.eq(log_shift[-1]), context.shift.eq(log_shift)]
            with m.Case(VectorFunction.SIGMOID.value):
                m.d.sync += [context.complement.eq(negative_1), context.negative.eq(0)]
        with m.Switch(function.as_value()):
            for number, kind in enumerate(CURVES):
                with m.Case(kind.value):
                    m.d.sync += curve.eq(number)
        contexts = [context, *(Signal(_Context, name=f"context_{stage}") for stage in range(3, 8))]
        m.d.sync += [after.eq(before) for before, after in pairwise(contexts)]
        return Cat(place[OFFSET_BITS:], curve), place[:OFFSET_BITS], contexts

    def _line(self, m: Module, address: Value, offset: Value) -> Value:
        """Stages 3 to 5, and the sum of stage 6: the value at a place of a line."""
        entry = data.StructLayout({"knot": unsigned(KNOT_BITS), "rise": signed(RISE_BITS)})
        rows = [{"knot": knot, "rise": rise} for function in CURVES for knot, rise in lines(function)]
        m.submodules.table = table = Memory(shape=entry, depth=len(CURVES) << SEGMENT_BITS, init=rows)
        port = table.read_port()
        offset_3, offset_4 = (Signal(OFFSET_BITS, name=f"offset_{stage}") for stage in (3, 4))
        line_4, knot_5 = Signal(entry, name="line_4"), Signal(KNOT_BITS, name="knot_5")
        climb, value = Signal(signed(RISE_BITS + OFFSET_BITS)), Signal(KNOT_BITS)
        m.d.comb += port.addr.eq(address)
        m.d.sync += [
            offset_3.eq(offset), offset_4.eq(offset_3), line_4.eq(port.data),
            climb.eq(line_4.rise * offset_4), knot_5.eq(line_4.knot),
        ]
        m.d.comb += value.eq(knot_5 + (climb >> OFFSET_BITS))
        return value

    def _finish(self, m: Module, platform: Any, value: Value, contexts: list[Any]) -> None:
        """Stages 6 to 8: to Q3.12."""
        coarse, fine, last = contexts[-3:]
        # With the bit that rounds. A shift by fours, then by two, then, in the carry chain, by one.
        guarded, shifted = Signal(KNOT_BITS - _LEAST_SHIFT + 1), Signal(KNOT_BITS - _LEAST_SHIFT + 1)
        size = Signal(_BITS, name="size_7")
        m.d.comb += [
            guarded.eq(one_registered(m, "value_6", [coarse.shift[2:] == fours for fours in range(4)],
                                      [value[_LEAST_SHIFT - 1 + 4 * fours:] for fours in range(4)])),
            shifted.eq(Mux(fine.shift[1], guarded[2:], guarded)),
        ]
        by_one = fine.shift[0]
        m.d.sync += size.eq(table_sum(m, platform, "rounded", [
            Digits((by_one, Cat(shifted[2:], Const(0, 1)), shifted[1:]), lambda s, x, y: (x & s) | (y & ~s))],
            Mux(by_one, shifted[1], shifted[0])))
        # Its negative, or what it lacks to one; the ends in a register each, as is anything else.
        turned = last.negative | last.complement
        minuend = Cat(Const(0, FORMAT.fraction_bits), last.complement, Const(0, _BITS - FORMAT.fraction_bits - 1))
        ends = last.beyond | (size[-1] & ~last.negative)
        in_range, most, least = (Signal(width, name=name, reset_less=True)
                                 for name, width in (("in_range", _BITS), ("most", 1), ("least", 1)))
        result = table_sum(m, platform, "result", [
            Digits((size, turned, minuend), lambda s, t, o: s ^ t, lambda s, t, o: o)], turned)
        m.d.sync += [in_range.eq(Mux(ends | ~self.wanted, 0, result)), most.eq(ends & self.wanted & ~last.negative),
                     least.eq(ends & self.wanted & last.negative)]
        m.d.comb += self.o.eq(in_range | Cat(most.replicate(_BITS - 1), least))


assert 1 << FORMAT.fraction_bits == 1 << VALUE_BITS - PLAIN_SHIFT
assert _LEAST_LOG == 9, _LEAST_LOG
