"""One lane of the vector engine: everything but the functions, one element a cycle.

::

    a ------> or placed, or zero --> x --+--> multiplier (5) --> o
    b ----------+                        |
    immediate --+--> or rounding --> y --+--> adder (6) --+--> o, or its end
    sum --------+                                               |
      ^---------------------------------------------------------+

The adder also gives the larger of x and y. Where there is nothing to add, y is -0: that leaves every number as it
is and makes every NaN the quiet one. A sum comes back eight cycles after its operand came. What instructions want
of the lanes is decoded once for all of them.

NARROW and WIDEN are those of :mod:`plinth_hw.vector.conversion`.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.shapes import shape_of
from plinth_hw.vector import conversion

#: Cycles from an element to its sum, which the next element of the reduction then meets.
LOOP_CYCLES = 8
_MINUS_ZERO = 1 << 31
#: Instructions that take the product.
PRODUCTS = (VectorOp.MUL, VectorOp.SCALE, VectorOp.WIDEN)
#: Cycles from the lane's inputs to its output, by instruction.
LATENCIES: dict[VectorOp, int] = {op: 6 if op in PRODUCTS else 7 for op in VectorOp if op is not VectorOp.FUNCTION}


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
    #: WIDEN, NARROW.
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
        super().__init__({"op": In(shape_of(VectorOp)), "again": In(1), "o": Out(LaneControl)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        larger, turned, sum_turned = Signal(name="larger"), Signal(name="turned"), Signal(name="sum_turned")
        further = Signal()

        def one_of(*ops: VectorOp) -> Any:
            return Cat(self.op == op for op in ops).any()

        m.d.sync += [
            self.o.product.eq(one_of(*PRODUCTS)), self.o.sum.eq(~one_of(*PRODUCTS, VectorOp.FUNCTION)),
            self.o.masked.eq(self.op == VectorOp.RELU_MASK),
            self.o.widens.eq(self.op == VectorOp.WIDEN), self.o.narrows.eq(self.op == VectorOp.NARROW),
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
        reduction. WIDEN takes :data:`~plinth_hw.vector.conversion.WIDENING`.
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
        control = self.control
        assert (LATENCIES[VectorOp.ADD], LATENCIES[VectorOp.MUL]) == (1 + adder.latency, 1 + multiplier.latency)
        x, y = Signal(32, reset_less=True, name="x"), Signal(32, reset_less=True, name="y")
        total, larger = Signal(32, reset_less=True, name="total"), Signal(reset_less=True, name="larger")
        m.d.comb += [
            adder.a.eq(x), adder.b.eq(y), adder.larger.eq(larger), multiplier.a.eq(x), multiplier.b.eq(y),
            self.chosen.eq(x),
        ]
        m.d.sync += [
            total.eq(Mux(control.again, adder.o, 0)), larger.eq(control.larger),
            x.eq(Mux(control.widens, conversion.placed(self.a), self.a)),
            y.eq((self.b | self.immediate | total | Mux(control.narrows, conversion.rounding(self.a), 0))
                 ^ Cat(Const(0, 31), control.turned)),
        ]
        with m.If(control.masked):
            m.d.sync += y.eq(_MINUS_ZERO)
            with m.If(self.b[31] | _is_nan(self.b) | ~self.b[:31].any()):
                m.d.sync += x.eq(0)

        m.d.comb += [
            multiplier.wanted.eq(control.product),
            self.o.eq(Mux(control.sum, Mux(control.narrows, conversion.rounded(m, adder.o), adder.o), 0)
                      | multiplier.o),
        ]
        return m


def _is_nan(bits: Any) -> Any:
    return bits[23:31].all() & bits[:23].any()
