"""One lane of the vector engine: everything but the functions, one element a cycle.

::

    a ------> or FP16 as FP32, or zero --> x --+--> multiplier (5) --> o
    b ----------+                              |
    immediate --+--> or next power ------> y --+--> adder (6) --+--> o, or its end as FP16
    sum --------+                                               |
      ^---------------------------------------------------------+

The adder also gives the larger of x and y. Where there is nothing to add, y is -0: that leaves every number as it
is and makes every NaN the quiet one. A sum comes back eight cycles after its operand came. What instructions want
of the lanes is decoded once for all of them.

Conversions are an operation each. FROM_FP16: the bits of an FP16 number, put in their places of an FP32 number,
are 2^-112 of its value. TO_FP16: the number x from 2^e to 2^(e + 1), e at least -14, is rounded to a multiple of
2^(e - 10) when 2^(e + 13) of its sign is added; the multiple is the end of the sum's fraction.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.common import at_least
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


class LaneControl(data.Struct):
    """What an instruction wants of the lanes, with each element."""

    #: The product, the sum; neither with a function.
    product: unsigned(1)
    sum: unsigned(1)
    #: The larger of both instead of the sum.
    larger: unsigned(1)
    #: The sign of the other operand, which may be zero, is turned.
    turned: unsigned(1)
    #: Zero where b is not above zero, else a.
    masked: unsigned(1)
    #: FROM_FP16, TO_FP16.
    widens: unsigned(1)
    narrows: unsigned(1)
    #: With a reduction, one cycle before its element: the sum of 8 cycles before that element goes on; else it
    #: starts with the element. Otherwise zero.
    again: unsigned(1)


class LaneDecoder(wiring.Component):
    """Decodes instructions.

    Members
    -------
    op : In(VectorOp)
        From a cycle before the first element until the last result has come.
    again : In(1)
        As of :class:`LaneControl`.
    o : Out(LaneControl)
    """

    def __init__(self) -> None:
        super().__init__({"op": In(VectorOp), "again": In(1), "o": Out(LaneControl)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        larger, turned, sum_turned, further = Signal(), Signal(), Signal(), Signal()

        def one_of(*ops: VectorOp) -> Any:
            return Cat(self.op == op for op in ops).any()

        m.d.sync += [
            self.o.product.eq(one_of(*_PRODUCTS)), self.o.sum.eq(~one_of(*_PRODUCTS, VectorOp.FUNCTION)),
            self.o.masked.eq(self.op == VectorOp.RELU_MASK),
            self.o.widens.eq(self.op == VectorOp.FROM_FP16), self.o.narrows.eq(self.op == VectorOp.TO_FP16),
            larger.eq(one_of(VectorOp.MAX, VectorOp.RELU)), turned.eq(one_of(VectorOp.SUB, VectorOp.COPY)),
            sum_turned.eq(one_of(VectorOp.SUM, VectorOp.MAXIMUM)), further.eq(self.op == VectorOp.MAXIMUM),
        ]
        # The first element of a reduction meets -0.
        going_on = Signal()
        m.d.sync += going_on.eq(self.again)
        m.d.comb += [
            self.o.again.eq(self.again),
            self.o.larger.eq(larger | (further & going_on)), self.o.turned.eq(turned | (sum_turned & ~going_on)),
        ]
        return m


class Lane(wiring.Component):
    """``o = op(a, b)``.

    Members
    -------
    control : In(LaneControl)
    a : In(32)
        Operand, taken every cycle.
    b, immediate : In(32)
        The other operand, the one of both that the instruction does not take being zero; both zero with a
        reduction. FROM_FP16 takes ``FROM_FP16_SCALE``.
    o : Out(32)
        Result of the operands of ``LATENCIES[op]`` cycles before; zero with a function.
    chosen : Out(32)
        ``a`` of one cycle before, for functions.
    """

    #: Name under which the module is emitted once.
    module_name = "vector_lane"

    def __init__(self) -> None:
        super().__init__({"control": In(LaneControl), "a": In(32), "b": In(32), "immediate": In(32),
                          "o": Out(32), "chosen": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.adder = adder = FloatAdder(FP32, chooses=True)
        m.submodules.multiplier = multiplier = FloatMultiplier(FP32, FP32, gated=True)
        assert adder.latency + 2 == LOOP_CYCLES
        assert (LATENCIES[VectorOp.ADD], LATENCIES[VectorOp.MUL]) == (1 + adder.latency, 1 + multiplier.latency)
        control = self.control
        x, y = Signal(32, reset_less=True), Signal(32, reset_less=True)
        total, larger = Signal(32, reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            adder.a.eq(x), adder.b.eq(y), adder.larger.eq(larger), multiplier.a.eq(x), multiplier.b.eq(y),
            self.chosen.eq(x),
        ]
        m.d.sync += [
            total.eq(Mux(control.again, adder.o, 0)), larger.eq(control.larger),
            x.eq(Mux(control.widens, _placed(self.a), self.a)),
            y.eq((self.b | self.immediate | total | Mux(control.narrows, _rounding(self.a), 0))
                 ^ Cat(Const(0, 31), control.turned)),
        ]
        with m.If(control.masked):
            m.d.sync += y.eq(_MINUS_ZERO)
            with m.If(self.b[31] | _is_nan(self.b) | ~self.b[:31].any()):
                m.d.sync += x.eq(0)

        m.d.comb += [
            multiplier.wanted.eq(control.product),
            self.o.eq(Mux(control.sum, Mux(control.narrows, _rounded(m, adder.o), adder.o), 0) | multiplier.o),
        ]
        return m


def _is_nan(bits: Any) -> Any:
    return bits[23:31].all() & bits[:23].any()


def _placed(bits: Any) -> Any:
    """The FP16 number in the low half as FP32 of 2^-112 of its value; infinities and NaN stay what they are."""
    exponent = bits[FP16.fraction_bits:FP16.bits - 1]
    return Cat(Const(0, _FINER), bits[:FP16.bits - 1],
               exponent.all().replicate(FP32.exponent_bits - FP16.exponent_bits), bits[FP16.bits - 1])


def _rounding(bits: Any) -> Any:
    """What to add to an FP32 number for TO_FP16. Above FP16's numbers it may be anything that leaves them above."""
    exponent = bits[_FRACTION:31]
    least = _REBIAS + 1
    return Cat(Const(0, _FRACTION), Mux(at_least(exponent, least), exponent + _FINER,
                                        least + _FINER)[:FP32.exponent_bits], bits[31])


def _rounded(m: Module, total: Any) -> Any:
    """FP16 in the low half from the sum for TO_FP16: as the leading bit of the multiple adds one to the exponent,
    and so does a carry into it, the exponent is that of the smallest number with this ``e``, plus both."""
    exponent = total[_FRACTION:31]
    above = Signal()
    field = Signal(FP16.exponent_bits)
    m.d.comb += [
        above.eq(at_least(exponent, _REBIAS + _FINER + FP16.exponent_maximum)),
        field.eq(exponent - (_REBIAS + _FINER + 1) + total[FP16.fraction_bits:FP16.fraction_bits + 2]),
    ]
    nan = total[_FRACTION - 1] & exponent.all()
    top = FP16.fraction_bits - 1
    return Cat(Mux(above, 0, total[:top]), Mux(above, nan, total[top]), Mux(above, FP16.exponent_maximum, field),
               total[31], Const(0, 16))
