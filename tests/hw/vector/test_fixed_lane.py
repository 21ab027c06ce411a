"""A lane of fixed point against the golden model: every instruction, on numbers of all magnitudes and the ends."""

import itertools
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.batch import Batch

from plinth_hw.isa.formats import Q3_12, factor_word
from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.vector.fixed_lane import LATENCIES, FixedLane
from plinth_hw.vector.lane import LOOP_CYCLES, LaneDecoder
from plinth_sim.golden.lanes import FixedLanes

TWO_SOURCES = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK)
IMMEDIATES = (VectorOp.ADD_IMMEDIATE, VectorOp.SCALE)
REDUCTIONS = (VectorOp.SUM, VectorOp.MAXIMUM)
COUNT = 40_000


class Instruction(wiring.Component):
    """A lane that does one thing; above its result whether that was beyond the format."""

    def __init__(self, op: VectorOp):
        self.op = op
        self.latency = 1 + LATENCIES[op]
        super().__init__({"a": In(16), "again": In(1), "b": In(16), "immediate": In(32), "o": Out(17)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lane, m.submodules.decoder = lane, decoder = FixedLane(Q3_12), LaneDecoder()
        # The first operand comes a cycle after its instruction.
        m.d.sync += [lane.a.eq(self.a), lane.b.eq(self.b),
                     lane.immediate.eq(12 << 16 if self.op is VectorOp.MUL else self.immediate)]
        m.d.comb += [decoder.op.eq(self.op), decoder.again.eq(self.again), lane.control.eq(decoder.o),
                     self.o.eq(Cat(lane.o, lane.beyond))]
        return m


def numbers(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    plain = rng.integers(-1 << 15, 1 << 15, COUNT) >> rng.integers(0, 16, COUNT)
    return np.where(rng.random(COUNT) < 0.2, rng.choice([-1 << 15, -1, 0, 1, (1 << 15) - 1], COUNT), plain).astype(
        np.int16).view(np.uint16)


@pytest.mark.parametrize("op", [op for op in LATENCIES if op not in REDUCTIONS])
def test_element_by_element(op: VectorOp) -> None:
    a, b, zero = numbers(1), numbers(2), np.zeros(COUNT, np.uint16)
    unit, lanes = Batch(Instruction(op)), FixedLanes(Q3_12)
    for value in (-0.37, 1.0, 2.0**-6, -100.0) if op in IMMEDIATES else (0.0,):
        immediate = 0
        if op is VectorOp.SCALE:
            immediate = factor_word(Q3_12, value)
        elif op is VectorOp.ADD_IMMEDIATE:
            immediate = int(Q3_12.encode(np.array([value]))[0]) & 0xFFFF
        got = unit(a, zero, b if op in TWO_SOURCES else zero, np.full(COUNT, immediate))
        wanted, ends = lanes.apply(op, a, b if op in TWO_SOURCES else None, immediate)
        np.testing.assert_array_equal(got.astype(np.uint16), wanted)
        assert np.count_nonzero(got >> 16) == ends


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_of_as_many_results_as_a_loop_has_cycles(op: VectorOp) -> None:
    rng, a, zero = np.random.default_rng(3), numbers(3), np.zeros(COUNT, np.uint16)
    rows = COUNT // LOOP_CYCLES
    first = rng.random(rows) < 0.1
    first[0] = True
    got = Batch(Instruction(op))(a, np.repeat(~first, LOOP_CYCLES), zero, zero).reshape(rows, LOOP_CYCLES)
    starts = [*np.flatnonzero(first), rows]
    lanes, words = FixedLanes(Q3_12), a.reshape(rows, LOOP_CYCLES)
    for start, end in itertools.pairwise(starts):
        part = words[start:end]
        wanted, ends = lanes.sums(part, 0) if op is VectorOp.SUM else (lanes.largest(part, 0), 0)
        np.testing.assert_array_equal(got[end - 1].astype(np.uint16), wanted[0])
        assert np.count_nonzero(got[start:end] >> 16) == ends
