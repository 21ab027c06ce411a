"""Choices: by a condition at once, by a condition a cycle later, by an index."""

import numpy as np
import pytest
from amaranth.hdl import Cat, ClockDomain, Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.choice import index_of, leading, lowest, one_of, one_registered, ones, select


class _Choices(wiring.Component):
    """All of them, of ``count`` values of 8 bits."""

    def __init__(self, count):
        self.count = count
        super().__init__({
            "values": In(data.ArrayLayout(unsigned(8), count)), "wanted": In(count), "enable": In(1), "index": In(4),
            "any": Out(8), "held": Out(8), "enabled": Out(8), "selected": Out(8), "number": Out(4),
        })

    def elaborate(self, platform):
        m = Module()
        values, wanted = [self.values[index] for index in range(self.count)], list(self.wanted)
        m.d.comb += [
            self.any.eq(one_of(wanted, values)), self.held.eq(one_registered(m, "held", wanted, values)),
            self.enabled.eq(one_registered(m, "enabled", wanted, values, self.enable)),
            self.selected.eq(select(values, self.index)), self.number.eq(index_of(self.wanted)),
        ]
        return m


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_choices(count):
    dut = _Choices(count)
    rng = np.random.default_rng(count)

    async def bench(ctx):
        before = enabled = None
        for step in range(200):
            values = rng.integers(0, 256, count).tolist()
            chosen = int(rng.integers(-1, count))
            index, enable = int(rng.integers(count)), int(rng.integers(2)) if step else 1
            ctx.set(dut.values, values)
            ctx.set(dut.wanted, 0 if chosen < 0 else 1 << chosen)
            ctx.set(dut.index, index)
            ctx.set(dut.enable, enable)
            await ctx.delay(1e-7)
            word = 0 if chosen < 0 else values[chosen]
            assert ctx.get(dut.any) == word
            assert ctx.get(dut.number) == max(chosen, 0)
            assert ctx.get(dut.selected) == values[index]
            if before is not None:
                assert (ctx.get(dut.held), ctx.get(dut.enabled)) == (before, enabled)
            await ctx.tick()
            before, enabled = word, word if enable else enabled

    simulate(dut, bench)


def test_several_are_joined():
    """Nothing is chosen where two are wanted: the words are joined."""
    dut = _Choices(3)

    async def bench(ctx):
        ctx.set(dut.values, [0x11, 0x22, 0x44])
        ctx.set(dut.wanted, 0b101)
        ctx.set(dut.enable, 1)
        await ctx.delay(1e-7)
        assert ctx.get(dut.any) == 0x55
        await ctx.tick()
        assert ctx.get(dut.held) == ctx.get(dut.enabled) == 0x55

    simulate(dut, bench)


class _Bits(wiring.Component):
    """Which bits are set, of ``width``."""

    def __init__(self, width):
        self.width = width
        super().__init__({"i": In(width), "count": In(5), "lowest": Out(width), "ones": Out(width), "any": Out(1),
                          "leads": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()  # for the simulator's clock
        m.d.comb += [self.lowest.eq(lowest(self.i)), self.ones.eq(ones(self.count, self.width)),
                     Cat(self.any, self.leads).eq(Cat(*leading(self.i)))]
        return m


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 11])
def test_bits(width):
    """The lowest bit, the leading one's number, and so many ones, of all words or random ones."""
    dut = _Bits(width)

    async def bench(ctx):
        for word in range(1 << min(width, 8)):
            word = word if width <= 8 else word * 2731 % (1 << width)
            count = word % (width + 2)
            ctx.set(dut.i, word)
            ctx.set(dut.count, count)
            await ctx.delay(1e-7)
            assert ctx.get(dut.lowest) == word & -word
            assert ctx.get(dut.ones) == (1 << min(count, width)) - 1
            assert (ctx.get(dut.any), ctx.get(dut.leads)) == (word != 0, max(word.bit_length() - 1, 0))

    simulate(dut, bench)
