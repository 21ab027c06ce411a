"""Function unit of fixed-point dies: exponential, reciprocal, tanh and sigmoid of a Q3.12 number a cycle.

::

    i -> |i|, i log2(e) -> place on the curve, shift -> table -> rise x offset -> value -> shift, round -> sign -> o

The formulas stand in :mod:`~plinth_hw.isa.fixed_functions`. All four curves lie in one table, a line an entry.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

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
from plinth_hw.isa.tasks import VectorFunction
from plinth_hw.shapes import shape_of

#: Bits of a number, and of its magnitude.
_BITS = FORMAT.bits
#: The value's right shift: from that of a reciprocal of 8 to what leaves nothing.
_LEAST_SHIFT, _MOST_SHIFT = 4, VALUE_BITS + 2
#: Magnitudes below 1/8 have a reciprocal beyond the format.
_LEAST_LOG = FORMAT.fraction_bits - FORMAT.integer_bits


class _Context(data.Struct):
    """What travels beside the value."""

    negative: unsigned(1)
    #: The result is beyond the format, on the side of ``negative``.
    beyond: unsigned(1)
    #: SIGMOID of a negative number: 1 - y.
    complement: unsigned(1)
    shift: unsigned(_MOST_SHIFT.bit_length())


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
        address, offset, context = self._reduce(m)
        self._finish(m, self._line(m, address, offset), context)
        return m

    def _reduce(self, m: Module) -> tuple[Value, Value, list[Any]]:
        """Stages 1 and 2: line and place on it; the context of stage 2."""
        x = self.i.as_signed()
        function, size = Signal(shape_of(VectorFunction), name="function_1"), Signal(_BITS, name="size_1")
        turns, negative = Signal(signed(_BITS + LOG2E.bit_length() + 1)), Signal(name="negative_1")
        m.d.sync += [function.eq(self.function), size.eq(Mux(x < 0, -x, x)), turns.eq(x * LOG2E), negative.eq(x < 0)]
        log = Signal(range(_BITS))
        for place in range(_BITS):
            with m.If(size[place]):
                m.d.comb += log.eq(place)
        # The magnitude with its leading bit at the top, and without it.
        mantissa = (Array(Cat(Const(0, _BITS - 1 - place), size)[:_BITS] for place in range(_BITS)))[log]
        power = turns[10 + VALUE_BITS:].as_signed()
        place, context = Signal(VALUE_BITS, name="place_2"), Signal(_Context, name="context_2")
        curve = Signal(range(len(CURVES)), name="curve_2")
        m.d.sync += [context.negative.eq(negative), context.complement.eq(0), context.beyond.eq(0),
                     context.shift.eq(PLAIN_SHIFT)]
        with m.Switch(function.as_value()):
            with m.Case(VectorFunction.EXPONENTIAL.value):
                m.d.sync += [place.eq(turns[10:]), context.negative.eq(0), context.beyond.eq(power > 2),
                             context.shift.eq(Mux(power < PLAIN_SHIFT - _MOST_SHIFT, _MOST_SHIFT, PLAIN_SHIFT - power))]
            with m.Case(VectorFunction.RECIPROCAL.value):
                m.d.sync += [place.eq(mantissa[:-1] << VALUE_BITS - _BITS + 1),
                             context.beyond.eq(log < _LEAST_LOG), context.shift.eq(log - (_LEAST_LOG - _LEAST_SHIFT))]
            with m.Default():
                sigmoid = function == VectorFunction.SIGMOID
                m.d.sync += [place.eq(Mux(size[-1], FORMAT.most, size[:-1]) << VALUE_BITS - _BITS + 1),
                             context.complement.eq(sigmoid & negative), context.negative.eq(negative & ~sigmoid)]
        with m.Switch(function.as_value()):
            for number, kind in enumerate(CURVES):
                with m.Case(kind.value):
                    m.d.sync += curve.eq(number)
        return Cat(place[OFFSET_BITS:], curve), place[:OFFSET_BITS], context

    def _line(self, m: Module, address: Value, offset: Value) -> Value:
        """Stages 3 to 6: the value at a place of a line."""
        entry = data.StructLayout({"knot": unsigned(KNOT_BITS), "rise": signed(RISE_BITS)})
        rows = [{"knot": knot, "rise": rise} for function in CURVES for knot, rise in lines(function)]
        m.submodules.table = table = Memory(shape=entry, depth=len(CURVES) << SEGMENT_BITS, init=rows)
        port = table.read_port()
        offset_3, offset_4 = (Signal(OFFSET_BITS, name=f"offset_{stage}") for stage in (3, 4))
        line_4, knot_5 = Signal(entry, name="line_4"), Signal(KNOT_BITS, name="knot_5")
        climb, value = Signal(signed(RISE_BITS + OFFSET_BITS)), Signal(KNOT_BITS, name="value_6")
        m.d.comb += port.addr.eq(address)
        m.d.sync += [
            offset_3.eq(offset), offset_4.eq(offset_3), line_4.eq(port.data),
            climb.eq(line_4.rise * offset_4), knot_5.eq(line_4.knot),
            value.eq(knot_5 + (climb >> OFFSET_BITS)),
        ]
        return value

    def _finish(self, m: Module, value: Value, context: Any) -> None:
        """Stages 7 and 8: to Q3.12."""
        contexts = [context, *(Signal(_Context, name=f"context_{stage}") for stage in range(3, 8))]
        m.d.sync += [after.eq(before) for before, after in pairwise(contexts)]
        given, last = contexts[-2:]
        size = Signal(_BITS, name="size_7")
        m.d.sync += size.eq(((value >> (given.shift - 1)[:len(given.shift)]) + 1) >> 1)
        ends = Mux(last.negative, FORMAT.least, FORMAT.most)
        with m.If(~self.wanted):
            m.d.sync += self.o.eq(0)
        with m.Elif(last.beyond | (size[-1] & ~last.negative)):
            m.d.sync += self.o.eq(ends)
        with m.Elif(last.complement):
            m.d.sync += self.o.eq((1 << FORMAT.fraction_bits) - size)
        with m.Else():
            m.d.sync += self.o.eq(Mux(last.negative, -size, size))


assert 1 << FORMAT.fraction_bits == 1 << VALUE_BITS - PLAIN_SHIFT
assert _LEAST_LOG == 9, _LEAST_LOG
