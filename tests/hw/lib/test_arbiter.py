"""Round robin against a list that is searched; nobody waits longer than a turn."""

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate
from tests.support.refusal import refused

from plinth_hw.lib.arbiter import RoundRobin, lowest


def _next(requests, last, width):
    """Number of the request that is served after ``last``."""
    return next((bit % width for bit in range(last + 1, last + 1 + width) if requests >> bit % width & 1), None)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_against_a_search(width):
    """Any requests; the turn moves on only with what is taken, never without a request."""
    dut = RoundRobin(width)
    rng = np.random.default_rng(width)

    async def bench(ctx):
        last = 0
        for _ in range(300):
            requests, taken = int(rng.integers(1 << width)), int(rng.integers(2))
            ctx.set(dut.requests, requests)
            ctx.set(dut.taken, taken)
            chosen = _next(requests, last, width)
            await ctx.delay(1e-7)
            assert ctx.get(dut.last) == 1 << last
            assert ctx.get(dut.grant) == (0 if chosen is None else 1 << chosen)
            assert ctx.get(dut.index) == (chosen or 0)
            await ctx.tick()
            if taken and chosen is not None:
                last = chosen

    simulate(dut, bench)


@pytest.mark.parametrize("width", [2, 5])
def test_fair(width):
    """A request that stays is granted after the others at most once each, whatever they do."""
    dut = RoundRobin(width)
    rng = np.random.default_rng(2)

    async def bench(ctx):
        ctx.set(dut.taken, 1)
        waited = 0
        for _ in range(200):
            ctx.set(dut.requests, int(rng.integers(1 << width)) | 1 << width - 1)
            *_, grant = await ctx.tick().sample(dut.grant)
            waited = 0 if grant >> width - 1 else waited + 1
            assert waited < width

    simulate(dut, bench)


class _Lowest(wiring.Component):
    i: In(5)
    o: Out(5)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()  # for the simulator's clock
        m.d.comb += self.o.eq(lowest(self.i))
        return m


def test_lowest():
    dut = _Lowest()

    async def bench(ctx):
        for value in range(32):
            ctx.set(dut.i, value)
            await ctx.delay(1e-7)
            assert ctx.get(dut.o) == value & -value

    simulate(dut, bench)


def test_bad_parameters():
    with refused(ValueError, "requests"):
        RoundRobin(0)
