"""Delays of registers, of look-up-table RAM, and by lane, against what was put in."""

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate
from tests.support.refusal import refused

from plinth_hw.lib.delay import DelayLine, delayed, skewed

LAYOUT = data.StructLayout({"low": 3, "high": 9})


class _Delayed(wiring.Component):
    def __init__(self, cycles):
        self.cycles = cycles
        super().__init__({"i": In(LAYOUT), "o": Out(LAYOUT)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()  # for the simulator's clock
        m.d.comb += self.o.eq(delayed(m, "word", self.i, self.cycles))
        return m


class _Skewed(wiring.Component):
    def __init__(self, lanes):
        self.lanes = lanes
        words = data.ArrayLayout(unsigned(8), lanes)
        super().__init__({"i": In(words), "o": Out(words)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()  # for the simulator's clock
        m.d.comb += [self.o[lane].eq(word)
                     for lane, word in enumerate(skewed(m, "lanes", [self.i[lane] for lane in range(self.lanes)]))]
        return m


def _run(dut, words):
    """What is on ``o`` in the cycles in which ``words`` are on ``i``."""
    got = []

    async def bench(ctx):
        for word in words:
            ctx.set(dut.i.as_value() if hasattr(dut.i, "as_value") else dut.i, word)
            await ctx.delay(1e-7)
            got.append(ctx.get(dut.o.as_value() if hasattr(dut.o, "as_value") else dut.o))
            await ctx.tick()

    simulate(dut, bench)
    return got


@pytest.mark.parametrize(("make", "cycles"), [
    *((_Delayed, cycles) for cycles in (0, 1, 5)),
    *((lambda cycles: DelayLine(LAYOUT, cycles), cycles) for cycles in (1, 2, 15, 16, 17, 32, 45))])
def test_delay(make, cycles):
    words = np.random.default_rng(cycles).integers(0, 1 << 12, 120).tolist()
    assert _run(make(cycles), words) == [0] * cycles + words[:len(words) - cycles]


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_skew(lanes):
    words = np.random.default_rng(lanes).integers(0, 256, (30, lanes))
    got = _run(_Skewed(lanes), [int.from_bytes(row.astype(np.uint8).tobytes(), "little") for row in words])
    for cycle in range(lanes, 30):
        expected = [int(words[cycle - lane, lane]) for lane in range(lanes)]
        assert list(got[cycle].to_bytes(lanes, "little")) == expected


def test_bad_parameters():
    with refused(ValueError, "positive"):
        DelayLine(8, 0)
