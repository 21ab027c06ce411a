"""One lane of the vector engine of a fixed-point die: everything but the functions, one element a cycle.

::

    a ------> or zero --> x --+--> scaler (4) -----------------> o, beyond
    b -----------+            |      ^ b, or the immediate, as a factor
    immediate ---+-------> y -+--> adder or the larger (1) --+--> o, beyond
    sum ---------+                                           |
      ^---------------------- delay <------------------------+

Where there is nothing to add, y is 0. A sum comes back :data:`~plinth_hw.vector.lane.LOOP_CYCLES` after its operand
came. What instructions want of the lanes is decoded by :class:`~plinth_hw.vector.lane.LaneDecoder`; the
formulas stand in :mod:`plinth_sim.golden.lanes`.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.fixed import FixedScaler, beyond, saturated
from plinth_hw.isa.formats import Factor, Fixed
from plinth_hw.isa.tasks import VectorOp
from plinth_hw.lib.delay import DelayLine
from plinth_hw.vector.lane import LOOP_CYCLES, PRODUCTS, LaneControl

#: Instructions that it lacks, beside functions.
LACKING = (VectorOp.NARROW, VectorOp.WIDEN)
#: Cycles from the lane's inputs to its output, by instruction.
LATENCIES: dict[VectorOp, int] = {op: 1 + FixedScaler.latency if op in PRODUCTS else 2
                                  for op in VectorOp if op not in (*LACKING, VectorOp.FUNCTION)}


class FixedLane(wiring.Component):
    """``o = op(a, b)``.

    Parameters
    ----------
    format : Fixed
        Of 16 bits.

    Members
    -------
    control : In(LaneControl)
    a, b : In(16)
        Operands, taken every cycle; b is zero where the instruction does not take it, and with a reduction.
    immediate : In(32)
        ADD_IMMEDIATE: a number in the low half. SCALE: a factor; as b, then zero, is one as well, the bits of its shift
        are turned that a number's shift has. Otherwise zero.
    o : Out(16)
        Result of the operands of ``LATENCIES[op]`` cycles before; zero with a function.
    beyond : Out(1)
        With ``o``: the exact result was beyond the format.
    chosen : Out(16)
        ``a`` of one cycle before, for functions.
    """

    module_name = "fixed_vector_lane"

    def __init__(self, format: Fixed) -> None:
        self.format = format
        bits = format.bits
        super().__init__({"control": In(LaneControl), "a": In(bits), "b": In(bits), "immediate": In(32),
                          "o": Out(bits), "beyond": Out(1), "chosen": Out(bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt, control = self.format, self.control
        bits = fmt.bits
        m.submodules.scaler = scaler = FixedScaler(fmt, tells=True)
        x, y, again = (Signal(signed(bits), reset_less=True, name=name) for name in ("x", "y", "again"))
        factor = Signal(Factor.BITS, reset_less=True)
        larger, turned = Signal(reset_less=True, name="larger"), Signal(reset_less=True, name="turned")
        # b as a factor: its size over the format's unit, and its sign.
        size = Mux(self.b[-1], -self.b, self.b)[:bits]
        as_factor = Cat(size, Const(fmt.fraction_bits, Factor.FIELDS["shift"].shape.bits), self.b[-1])
        m.d.sync += [
            x.eq(self.a), y.eq(self.b | self.immediate[:bits] | again), factor.eq(as_factor ^ self.immediate),
            larger.eq(control.larger), turned.eq(control.turned),
        ]
        with m.If(control.masked):
            m.d.sync += y.eq(0)
            with m.If(self.b[-1] | ~self.b.any()):
                m.d.sync += x.eq(0)
        exact, total = Signal(signed(bits + 2)), Signal(bits, reset_less=True, name="total")
        over = Signal(reset_less=True)
        m.d.comb += [
            exact.eq(x + (y ^ turned.replicate(bits).as_signed()) + turned),
            scaler.a.eq(x), scaler.factor.eq(factor), self.chosen.eq(x),
        ]
        m.d.sync += [total.eq(Mux(larger, Mux(x > y, x, y), saturated(exact, fmt))),
                     over.eq(~larger & beyond(exact, fmt))]
        # From x through the adder, the delay and the register below to y.
        m.submodules.back = back = DelayLine(bits, LOOP_CYCLES - 3)
        m.d.comb += back.i.eq(total)
        m.d.sync += again.eq(Mux(control.again, back.o, 0))
        m.d.comb += [
            self.o.eq(Mux(control.sum, total, 0) | Mux(control.product, scaler.o, 0)),
            self.beyond.eq(Mux(control.sum, over, control.product & scaler.beyond)),
        ]
        return m
