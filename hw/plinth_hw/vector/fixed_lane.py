"""One lane of the vector engine of a fixed-point die: everything but the functions, one element a cycle.

::

    a ---------+-----------------> scaler (6) ------------------------------------------> o, beyond
               |                     ^ b or the immediate, b's sign, and the immediate's shift and sign, as a factor
               +-------> x --+
    b -----------+           +---> exact sum, x, y (1) --> sum, ends, x, y (1) ----+----> o, beyond
    immediate ---+-----> y --+                                                     |
    sum ---------+                                                                 |
      ^---------------------- delay <----------------------------------------------+

Where there is nothing to add, y is 0. An element that is masked goes into none of the registers. The larger of x and y
is found by their difference, whose top bits decide from a register. A sum comes back
:data:`~plinth_hw.vector.lane.LOOP_CYCLES` after its operand came. What instructions want of the lanes is decoded by
:class:`~plinth_hw.vector.lane.LaneDecoder`; the formulas stand in :mod:`plinth_sim.golden.lanes`.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.fixed import FixedScaler
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.lib.delay import delayed
from plinth_hw.vector.lane import LOOP_CYCLES, PRODUCTS, LaneControl

#: Instructions that it lacks, beside functions.
LACKING = (VectorOp.NARROW, VectorOp.WIDEN)
#: Cycles from the lane's inputs to its output, by instruction.
LATENCIES: dict[VectorOp, int] = {op: FixedScaler.latency + 2 if op in PRODUCTS else 3
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
        ADD_IMMEDIATE: a number in the low half. SCALE: a factor. MUL: the factor of which b is the mantissa, with zero
        in its place. Otherwise zero. Holds from the first element until the last one's result.
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
        control, bits = self.control, self.format.bits
        m.submodules.scaler = scaler = FixedScaler(self.format, tells=True, signed_mantissa=True, registered=True)
        assert scaler.latency == LATENCIES[VectorOp.MUL]
        x, y, again = (Signal(signed(bits), reset_less=True, name=name) for name in ("x", "y", "again"))
        larger, subtracts = Signal(reset_less=True, name="larger"), Signal(reset_less=True, name="subtracts")
        either = Signal(bits)
        # Whether b is below zero, and for each four bits of it whether it has any.
        below, some = Signal(reset_less=True), Signal(bits // 4, reset_less=True)
        m.d.comb += either.eq(self.b | self.immediate[:bits] | again)
        m.d.sync += [
            x.eq(self.a), y.eq(Mux(control.masked, 0, either)), below.eq(self.b[-1]),
            some.eq(Cat(self.b[place:place + 4].any() for place in range(0, bits, 4))),
            larger.eq(control.larger), subtracts.eq(control.turned | control.larger),
        ]
        exact = Signal(bits + 1, name="exact", reset_less=True)
        x_1, y_1 = (Signal(bits, reset_less=True, name=f"{name}_1") for name in "xy")
        sums, chooses = Signal(reset_less=True, name="sums"), Signal(reset_less=True, name="chooses")
        m.d.sync += [
            exact.eq(table_sum(m, platform, "exact_sum", [
                Digits((Cat(x, x[-1]), Cat(y, y[-1]), subtracts), lambda x, y, s: x, lambda x, y, s: y ^ s)],
                subtracts)),
            x_1.eq(x), y_1.eq(y), chooses.eq(control.sum & larger),
            sums.eq(control.sum & ~larger & ~(control.masked & (below | ~some.any()))),
        ]
        over, negative = exact[-1] ^ exact[-2], exact[-1]
        # A register each, zero but for the one wanted: sum, x, y, the largest number, the least one.
        total, exact_sum = Signal(bits, name="total"), Signal(bits, name="sum", reset_less=True)
        larger_x, larger_y = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        most, least = Signal(reset_less=True, name="most"), Signal(reset_less=True, name="least")
        m.d.sync += [
            exact_sum.eq(Mux(sums & ~over, exact[:bits], 0)),
            larger_x.eq(Mux(chooses & ~negative, x_1, 0)), larger_y.eq(Mux(chooses & negative, y_1, 0)),
            most.eq(sums & over & ~negative), least.eq(sums & over & negative),
        ]
        m.d.comb += [
            total.eq(exact_sum | larger_x | larger_y | Cat(most.replicate(bits - 1), least)),
            scaler.a.eq(self.a), scaler.factor.eq(Cat(either, self.immediate[bits:])), scaler.below.eq(self.b[-1]),
            self.chosen.eq(x),
        ]
        # From x through the exact sum, the sum, the delay and the register below to y.
        m.d.sync += again.eq(Mux(control.again, delayed(m, "total", total, LOOP_CYCLES - 4), 0))
        m.d.comb += [
            self.o.eq(total | Mux(control.product, scaler.o, 0)),
            self.beyond.eq(most | least | (control.product & scaler.beyond)),
        ]
        return m
