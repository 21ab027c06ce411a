"""Conversions by a lane's adder and multiplier: FP16 against the golden model and SoftFloat, fixed point against whole
numbers; every narrow number, and the FP32 numbers about every place where rounding changes."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.arith import OPERATIONS, check, decode, directed, random
from tests.support.batch import Batch
from tests.support.refusal import refused

from plinth_hw.isa.formats import FP16, FP32, Q4_11, Fixed, Float, Format
from plinth_hw.isa.tasks import VectorOp
from plinth_hw.vector.conversion import conversion
from plinth_hw.vector.lane import Lane, LaneDecoder, latencies


class Conversion(wiring.Component):
    """A lane that converts; above a narrow operand lies junk."""

    def __init__(self, op: VectorOp, narrow: Format = FP16):
        self.op = op
        self.conversion = conversion(narrow)
        self.latency = 1 + latencies(self.conversion)[op]
        super().__init__({"a": In(16 if op is VectorOp.WIDEN else 32), "o": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lane, m.submodules.decoder = lane, decoder = Lane(self.conversion), LaneDecoder(self.conversion)
        # The first operand comes a cycle after its instruction.
        m.d.sync += lane.a.eq(Cat(self.a, ~self.a))
        m.d.comb += [decoder.op.eq(self.op), lane.control.eq(decoder.o), self.o.eq(lane.o)]
        if self.op is VectorOp.WIDEN:
            m.d.comb += lane.immediate.eq(self.conversion.constant)
        return m


@pytest.mark.parametrize(("op", "name"), [(VectorOp.NARROW, "to_fp16"), (VectorOp.WIDEN, "from_fp16")])
def test_half_precision(op: VectorOp, name: str) -> None:
    operation = OPERATIONS[name]
    batch = Batch(Conversion(op))
    check(batch, operation, directed(operation))
    for operands in random(operation, 5, 200_000):
        check(batch, operation, operands)


FIXED = pytest.mark.parametrize("fmt", [Q4_11, Fixed(0, 15), Fixed(15, 0), Fixed(8, 7)], ids=str)


@FIXED
def test_fixed_point_widens_exactly(fmt: Fixed) -> None:
    numbers = np.arange(fmt.least, fmt.most + 1)
    got = Batch(Conversion(VectorOp.WIDEN, fmt))(numbers.astype(np.uint16))
    np.testing.assert_array_equal(decode(FP32, got), numbers / 2.0 ** fmt.fraction_bits)
    np.testing.assert_array_equal(got.view(np.float32), fmt.decode(numbers))


@FIXED
def test_fixed_point_narrows_to_the_nearest_number(fmt: Fixed) -> None:
    operation, rng = OPERATIONS["to_fp16"], np.random.default_rng(5)
    unit = Batch(Conversion(VectorOp.NARROW, fmt))
    # Half way between numbers, and next to there.
    halves = ((rng.integers(2 * fmt.least - 8, 2 * fmt.most + 8, 100_000)) / 2.0 ** (fmt.fraction_bits + 1))
    halves = halves.astype(np.float32).view(np.uint32)
    uniform, close = random(operation, 6, 100_000)
    for patterns in (halves, halves + np.uint32(1), halves - np.uint32(1), directed(operation)[0], *uniform, *close):
        got = unit(patterns)
        values = np.nan_to_num(decode(FP32, patterns), nan=0.0, posinf=1e300, neginf=-1e300)
        # Doubles hold values and halves exactly; numpy rounds them to even.
        expected = np.clip(np.rint(values * 2.0 ** fmt.fraction_bits), fmt.least, fmt.most).astype(np.int64)
        np.testing.assert_array_equal(got.astype(np.uint16).view(np.int16), expected)
        assert not (got >> 16).any()
        np.testing.assert_array_equal(fmt.encode(patterns.view(np.float32)), expected)


def test_other_formats_are_refused() -> None:
    with refused(ValueError, match="float16e5m10 or fixed-point of 16 bits, not q3.4"):
        conversion(Fixed(3, 4))
    with refused(ValueError, match="not float16e8m7"):
        conversion(Float(8, 7))
