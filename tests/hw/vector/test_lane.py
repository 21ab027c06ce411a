"""Conversions to and from FP16 by a lane's adder and multiplier against the golden model and SoftFloat, directed and at
random."""

from typing import Any

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.arith import OPERATIONS, check, directed, random
from tests.support.batch import Batch

from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.vector.conversion import WIDENING
from plinth_hw.vector.lane import LATENCIES, Lane, LaneDecoder


class Conversion(wiring.Component):
    """A lane that converts; above a narrow operand lies junk."""

    def __init__(self, op: VectorOp):
        self.op = op
        self.latency = 1 + LATENCIES[op]
        super().__init__({"a": In(16 if op is VectorOp.WIDEN else 32), "o": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lane, m.submodules.decoder = lane, decoder = Lane(), LaneDecoder()
        # The first operand comes a cycle after its instruction.
        m.d.sync += lane.a.eq(Cat(self.a, ~self.a))
        m.d.comb += [decoder.op.eq(self.op), lane.control.eq(decoder.o), self.o.eq(lane.o)]
        if self.op is VectorOp.WIDEN:
            m.d.comb += lane.immediate.eq(WIDENING)
        return m


@pytest.mark.parametrize(("op", "name"), [(VectorOp.NARROW, "to_fp16"), (VectorOp.WIDEN, "from_fp16")])
def test_half_precision(op: VectorOp, name: str) -> None:
    operation = OPERATIONS[name]
    batch = Batch(Conversion(op))
    check(batch, operation, directed(operation))
    for operands in random(operation, 5, 200_000):
        check(batch, operation, operands)
