"""One lane of the vector engine: everything but the functions, one element a cycle.

::

    a ------> or FP16 as FP32 --> choose --> x --+--> multiplier (5) --> o
    b ----------+--> other ---------^            |
    immediate --+      +--> or next power --> y -+--> adder (6) --+--> o, or its end as FP16
              sum <-----------------------------------------------+

Instructions that only choose (MAX, RELU, COPY...) go through the adder too, which adds -0: that leaves every
number as it is and makes every NaN the quiet one. A sum comes back eight cycles after its operand came.

Conversions are an operation each. FROM_FP16: the bits of an FP16 number, put in their places of an FP32 number,
are 2^-112 of its value. TO_FP16: the number x from 2^e to 2^(e + 1), e at least -14, is rounded to a multiple of
2^(e - 10) when 2^(e + 13) of its sign is added; the multiple is the end of the sum's fraction.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.isa.tasks import VectorOp

#: Cycles from an element to its sum, which the next element of the reduction then meets.
LOOP_CYCLES = 8
_MINUS_ZERO = 1 << 31
_FRACTION = FP32.fraction_bits
#: Places that the fractions differ by.
_FINER = FP32.fraction_bits - FP16.fraction_bits
_REBIAS = FP32.bias - FP16.bias
#: 2^112, by which FROM_FP16 multiplies.
FROM_FP16_SCALE = (FP32.bias + _REBIAS) << _FRACTION

#: Instructions that take the product.
_PRODUCTS = (VectorOp.MUL, VectorOp.SCALE, VectorOp.FROM_FP16)
#: Cycles from the lane's inputs to its output.
LATENCIES: dict[VectorOp, int] = {op: 6 if op in _PRODUCTS else 7
                                  for op in VectorOp if op is not VectorOp.FUNCTION}


class Lane(wiring.Component):
    """``o = op(a, b)``.

    Members
    -------
    op : In(VectorOp)
        Holds until the last result has come.
    a : In(32)
        Operand, taken every cycle.
    b, immediate : In(32)
        The other operand, the one of both that ``op`` does not take being zero; both zero with a reduction.
        FROM_FP16 takes ``FROM_FP16_SCALE``.
    again : In(1)
        With a reduction, one cycle before its element: the sum of 8 cycles before that element goes on; else
        it starts with the element. Otherwise zero.
    o : Out(32)
        Result of the operands of ``LATENCIES[op]`` cycles before.
    chosen : Out(32)
        ``a`` of one cycle before, for instructions that the lane does not know.
    """

    #: Name under which the module is emitted once.
    module_name = "vector_lane"

    def __init__(self) -> None:
        super().__init__({"op": In(VectorOp), "a": In(32), "b": In(32), "immediate": In(32), "again": In(1),
                          "o": Out(32), "chosen": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.adder = adder = FloatAdder(FP32)
        m.submodules.multiplier = multiplier = FloatMultiplier(FP32, FP32)
        assert adder.latency + 2 == LOOP_CYCLES
        assert (LATENCIES[VectorOp.ADD], LATENCIES[VectorOp.MUL]) == (1 + adder.latency, 1 + multiplier.latency)
        x, y = Signal(32, reset_less=True), Signal(32, reset_less=True)
        total = Signal(32, reset_less=True)
        sums = Signal()
        other = Signal(32)
        m.d.comb += [
            other.eq(self.b | self.immediate | total),
            adder.a.eq(x), adder.b.eq(y), multiplier.a.eq(x), multiplier.b.eq(y), self.chosen.eq(x),
        ]
        m.d.sync += [total.eq(Mux(self.again, adder.o, 0)), sums.eq(self.again), x.eq(self.a), y.eq(_MINUS_ZERO)]

        a_nan, other_nan, other_larger = Signal(), Signal(), Signal()
        m.d.comb += [
            a_nan.eq(_is_nan(self.a)), other_nan.eq(_is_nan(other)),
            # -0 is below +0.
            other_larger.eq(self.a[31] ^ ((self.a[31] == other[31]) & (self.a[:31] < other[:31]))),
        ]
        with m.Switch(self.op):
            with m.Case(VectorOp.ADD, VectorOp.ADD_IMMEDIATE, VectorOp.MUL, VectorOp.SCALE):
                m.d.sync += y.eq(other)
            with m.Case(VectorOp.SUB):
                m.d.sync += y.eq(other ^ _MINUS_ZERO)
            with m.Case(VectorOp.SUM), m.If(sums):
                m.d.sync += y.eq(other)
            with m.Case(VectorOp.MAX, VectorOp.MAXIMUM), m.If(
                    ((self.op == VectorOp.MAX) | sums) & ~a_nan & (other_nan | other_larger)):
                m.d.sync += x.eq(other)
            with m.Case(VectorOp.RELU), m.If(self.a[31] & ~a_nan):
                m.d.sync += x.eq(0)
            with m.Case(VectorOp.RELU_MASK), m.If(other[31] | other_nan | ~other[:31].any()):
                m.d.sync += x.eq(0)
            with m.Case(VectorOp.FROM_FP16):
                m.d.sync += [x.eq(_placed(self.a)), y.eq(other)]
            with m.Case(VectorOp.TO_FP16):
                m.d.sync += y.eq(_rounding(self.a))

        m.d.comb += self.o.eq(adder.o)
        with m.If(Cat(self.op == op for op in _PRODUCTS).any()):
            m.d.comb += self.o.eq(multiplier.o)
        with m.Elif(self.op == VectorOp.TO_FP16):
            m.d.comb += self.o.eq(_rounded(m, adder.o))
        return m


def _is_nan(bits: Any) -> Any:
    return bits[23:31].all() & bits[:23].any()


def _at_least(value: Any, bound: int) -> Any:
    """``value >= bound``, without the carry chain that synthesis would take."""
    holds: Any = Const(1, 1)
    for place, bit in enumerate(value):
        holds = bit & holds if bound >> place & 1 else bit | holds
    return holds


def _placed(bits: Any) -> Any:
    """The FP16 number in the low half as FP32 of 2^-112 of its value; infinities and NaN stay what they are."""
    exponent = bits[FP16.fraction_bits:FP16.bits - 1]
    return Cat(Const(0, _FINER), bits[:FP16.bits - 1],
               exponent.all().replicate(FP32.exponent_bits - FP16.exponent_bits), bits[FP16.bits - 1])


def _rounding(bits: Any) -> Any:
    """What to add to an FP32 number for TO_FP16. Above FP16's numbers it may be anything that leaves them above."""
    exponent = bits[_FRACTION:31]
    least = _REBIAS + 1
    return Cat(Const(0, _FRACTION), Mux(_at_least(exponent, least), exponent + _FINER,
                                        least + _FINER)[:FP32.exponent_bits], bits[31])


def _rounded(m: Module, total: Any) -> Any:
    """FP16 in the low half from the sum for TO_FP16: as the leading bit of the multiple adds one to the exponent,
    and so does a carry into it, the exponent is that of the smallest number with this ``e``, plus both."""
    exponent = total[_FRACTION:31]
    above = Signal()
    field = Signal(FP16.exponent_bits)
    m.d.comb += [
        above.eq(_at_least(exponent, _REBIAS + _FINER + FP16.exponent_maximum)),
        field.eq(exponent - (_REBIAS + _FINER + 1) + total[FP16.fraction_bits:FP16.fraction_bits + 2]),
    ]
    nan = total[_FRACTION - 1] & exponent.all()
    top = FP16.fraction_bits - 1
    return Cat(Mux(above, 0, total[:top]), Mux(above, nan, total[top]), Mux(above, FP16.exponent_maximum, field),
               total[31], Const(0, 16))
