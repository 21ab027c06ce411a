"""Counters and counts against integers."""

from itertools import accumulate

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.count import (
    LapCounter,
    count_bits,
    count_of,
    counted,
    following,
    in_ring,
    index_bits,
    population,
    stepped,
)


class _Counts(wiring.Component):
    def __init__(self, bits):
        super().__init__({"i": In(bits), "up": In(1), "down": In(1), "following": Out(bits), "counted": Out(bits),
                          "stepped": Out(bits), "population": Out(bits.bit_length())})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()  # for the simulator's clock
        m.d.comb += [self.following.eq(following(self.i)), self.counted.eq(counted(self.i)),
                     self.stepped.eq(stepped(self.i, self.up, self.down)),
                     self.population.eq(population(self.i))]
        return m


class _Ring(wiring.Component):
    def __init__(self, places):
        self.places = places
        super().__init__({"o": Out(index_bits(places))})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(in_ring(self.o, self.places))
        return m


class _Laps(wiring.Component):
    def __init__(self):
        super().__init__({"last": In(4), "start": In(1), "step": In(1), "number": Out(4), "ends": Out(1)})

    def elaborate(self, platform):
        m = Module()
        counter = LapCounter(4, "lap", self.last)
        m.d.comb += [self.number.eq(counter.number), self.ends.eq(counter.at_last)]
        with m.If(self.start):
            m.d.sync += counter.start()
        with m.Elif(self.step):
            m.d.sync += counter.step()
        return m


@pytest.mark.parametrize("last", [0, 1, 2, 7, 15])
def test_laps(last):
    """Counts up to the last number and begins again, with steps at random and from any count."""
    dut, rng = _Laps(), np.random.default_rng(last)

    async def bench(ctx):
        ctx.set(dut.last, last)
        for _ in range(3):
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            count = 0
            for _ in range(40):
                assert ctx.get(dut.number) == count
                assert ctx.get(dut.ends) == (count == last)
                step = int(rng.integers(2))
                ctx.set(dut.step, step)
                await ctx.tick()
                count = (count + step) % (last + 1)

    simulate(dut, bench)


@pytest.mark.parametrize("bits", range(1, 13))
def test_following(bits):
    """All values, once each, before the first comes again."""
    dut = _Counts(bits)

    async def bench(ctx):
        value, seen = 0, set()
        while value not in seen:
            seen.add(value)
            ctx.set(dut.i, value)
            await ctx.delay(1e-7)
            value = ctx.get(dut.following)
        assert value == 0
        assert len(seen) == 1 << bits

    simulate(dut, bench)


@pytest.mark.parametrize("places", range(1, 70))
def test_in_ring(places):
    """All values below, once each, before the first comes again."""
    dut = _Ring(places)

    async def bench(ctx):
        seen = set()
        for _ in range(places):
            seen.add(ctx.get(dut.o))
            await ctx.tick()
        assert seen == set(range(places))
        assert ctx.get(dut.o) == 0

    simulate(dut, bench)


@pytest.mark.parametrize("bits", range(2, 17))
def test_counts_that_are_compared(bits):
    """All values but one, once each; the number of steps to one is that of ``count_of``."""
    most = (1 << bits) - 2
    assert count_bits(most) == bits and (bits == 16 or count_bits(most + 1) == bits + 1)
    values = list(accumulate(range(most), lambda value, _: count_of(1, bits, value), initial=0))
    assert sorted(values) == list(range(most + 1)) and count_of(1, bits, values[-1]) == 0
    dut = _Counts(bits)

    async def bench(ctx):
        value = 0
        for number in range(1, 100):
            ctx.set(dut.i, value)
            await ctx.delay(1e-7)
            value = ctx.get(dut.counted)
            assert value == count_of(number, bits)

    simulate(dut, bench)


def test_counts_have_an_end():
    with pytest.raises(ValueError, match="Counts go up to 65534, not 65535"):
        count_bits(65535)


def test_stepped_and_population():
    dut = _Counts(5)

    async def bench(ctx):
        for value in range(32):
            for up, down in ((0, 0), (0, 1), (1, 0), (1, 1)):
                ctx.set(dut.i, value)
                ctx.set(dut.up, up)
                ctx.set(dut.down, down)
                await ctx.delay(1e-7)
                assert ctx.get(dut.stepped) == (value + up - down) % 32
            assert ctx.get(dut.population) == value.bit_count()

    simulate(dut, bench)


def test_index_bits():
    assert [index_bits(count) for count in (1, 2, 3, 4, 5, 16, 17)] == [1, 1, 2, 2, 3, 4, 5]
