"""One lane of the vector engine: everything but the functions, one element a cycle.

::

    a -------------------> choose --> reg --+--> multiplier (5) ----> o
    b, immediate --> y --> negate --> reg --+--> adder (6) --+------> o
                     ^                      +--> to FP16 (3) |------> o
                     +--------- sum <-- reg <----------------+
                                            +--> from FP16 (2) -----> o

Instructions that only choose (MAX, RELU, COPY...) go through the adder too, which adds -0: that leaves every
number as it is and makes every NaN the quiet one. A sum comes back eight cycles after its operand came.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.convert import FloatConverter
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.isa.tasks import VectorOp
from plinth_hw.vector.body import REDUCTIONS

#: Cycles from an element to its sum, which the next element of the reduction then meets.
LOOP_CYCLES = 8
_MINUS_ZERO = 1 << 31


#: Cycles from the lane's inputs to its output.
LATENCIES: dict[VectorOp, int] = {op: 7 for op in VectorOp if op is not VectorOp.FUNCTION}
LATENCIES.update({VectorOp.MUL: 6, VectorOp.SCALE: 6, VectorOp.TO_FP16: 4, VectorOp.FROM_FP16: 3})


class Lane(wiring.Component):
    """``o = op(a, b)``.

    Members
    -------
    op : In(VectorOp)
        Holds until the last result has come.
    a, b : In(32)
        Operands, taken every cycle; immediates come as ``b``.
    first : In(1)
        With a reduction: the sum starts with this element instead of that of 8 cycles before.
    o : Out(32)
        Result of the operands of ``LATENCIES[op]`` cycles before.
    chosen : Out(32)
        ``a`` of one cycle before, for instructions that the lane does not know.
    """

    #: Name under which the module is emitted once.
    module_name = "vector_lane"

    def __init__(self) -> None:
        super().__init__({"op": In(VectorOp), "a": In(32), "b": In(32), "first": In(1), "o": Out(32),
                          "chosen": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.adder = adder = FloatAdder(FP32)
        m.submodules.multiplier = multiplier = FloatMultiplier(FP32, FP32)
        m.submodules.to_fp16 = to_fp16 = FloatConverter(FP32, FP16)
        m.submodules.from_fp16 = from_fp16 = FloatConverter(FP16, FP32)
        assert adder.latency + 2 == LOOP_CYCLES
        for op, unit in ((VectorOp.ADD, adder), (VectorOp.MUL, multiplier), (VectorOp.TO_FP16, to_fp16),
                         (VectorOp.FROM_FP16, from_fp16)):
            assert LATENCIES[op] == 1 + unit.latency
        x, y = Signal(32, reset_less=True), Signal(32, reset_less=True)
        total = Signal(32, reset_less=True)
        other = Signal(32)
        reduces, starts = Signal(), Signal()
        m.d.comb += [
            reduces.eq(Cat(self.op == op for op in REDUCTIONS).any()),
            starts.eq(reduces & self.first),
            other.eq(Mux(reduces, total, self.b)),
            adder.a.eq(x), adder.b.eq(y), multiplier.a.eq(x), multiplier.b.eq(y),
            to_fp16.a.eq(x), from_fp16.a.eq(x), self.chosen.eq(x),
        ]
        m.d.sync += [total.eq(adder.o), x.eq(self.a), y.eq(_MINUS_ZERO)]

        with m.Switch(self.op):
            with m.Case(VectorOp.ADD, VectorOp.ADD_IMMEDIATE, VectorOp.MUL, VectorOp.SCALE):
                m.d.sync += y.eq(other)
            with m.Case(VectorOp.SUB):
                m.d.sync += y.eq(other ^ _MINUS_ZERO)
            with m.Case(VectorOp.SUM), m.If(~starts):
                m.d.sync += y.eq(other)
            with m.Case(VectorOp.MAX, VectorOp.MAXIMUM), m.If(
                    ~starts & ~_is_nan(self.a) & (_is_nan(other) | ~_greater(self.a, other))):
                m.d.sync += x.eq(other)
            with m.Case(VectorOp.RELU), m.If(~_is_nan(self.a) & ~_positive(self.a)):
                m.d.sync += x.eq(0)
            with m.Case(VectorOp.RELU_MASK), m.If(~_positive(other)):
                m.d.sync += x.eq(0)

        with m.Switch(self.op):
            with m.Case(VectorOp.MUL, VectorOp.SCALE):
                m.d.comb += self.o.eq(multiplier.o)
            with m.Case(VectorOp.TO_FP16):
                m.d.comb += self.o.eq(Cat(to_fp16.o, Const(0, 16)))
            with m.Case(VectorOp.FROM_FP16):
                m.d.comb += self.o.eq(from_fp16.o)
            with m.Default():
                m.d.comb += self.o.eq(adder.o)
        return m


def _is_nan(bits: Any) -> Any:
    return bits[23:31].all() & bits[:23].any()


def _positive(bits: Any) -> Any:
    """Above zero, and not a NaN."""
    return ~bits[31] & bits[:31].any() & ~_is_nan(bits)


def _greater(a: Any, b: Any) -> Any:
    """Of two numbers; -0 is below +0."""
    return Mux(a[31] != b[31], b[31], Mux(a[31], a[:31] < b[:31], a[:31] > b[:31]))
