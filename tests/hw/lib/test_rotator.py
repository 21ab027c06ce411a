"""Rotations, up and down, at once and in registers, against lists."""

import numpy as np
import pytest
from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.rotator import rotate, rotate_held, rotate_registered


class _Rotators(wiring.Component):
    """All of them, of ``count`` lanes of 8 bits; ``other`` is a second source of ``held``."""

    def __init__(self, count, up):
        self.count = count
        self.up = up
        self.bits = count.bit_length() - 1
        words = data.ArrayLayout(unsigned(8), count)
        super().__init__({
            "i": In(words), "other": In(words), "amount": In(self.bits), "use_other": In(1), "broadcast": In(1),
            "enable": In(1), "plain": Out(words), "shared": Out(words), "held": Out(words), "registered": Out(words),
        })

    def elaborate(self, platform):
        m = Module()
        bits, lanes = self.bits, [self.i[lane] for lane in range(self.count)]
        others = [self.other[lane] for lane in range(self.count)]

        def wanted(source, value, lane):
            return (self.use_other == source) & (self.amount == value)

        results = {
            "plain": rotate(m, "plain", lanes, self.amount, 0, bits, up=self.up),
            "held": rotate_held(m, "held", [lanes, others], 0, bits, wanted, up=self.up),
            "registered": rotate_registered(m, lanes, self.amount, self.enable, up=self.up),
        }
        if not self.up:
            results["shared"] = rotate(m, "shared", lanes, self.amount, 0, bits, up=False, broadcast=self.broadcast)
        for name, words in results.items():
            m.d.comb += [getattr(self, name)[lane].eq(word) for lane, word in enumerate(words)]
        return m


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("count", [2, 4, 16])
def test_rotate(count, up):
    dut = _Rotators(count, up)
    rng = np.random.default_rng(count)

    async def bench(ctx):
        held = registered = None
        for step in range(100):
            words, others = rng.integers(0, 256, (2, count)).tolist()
            amount, use_other, broadcast = (int(rng.integers(most)) for most in (count, 2, 2))
            enable = int(rng.integers(2)) if step else 1
            for name, value in (("i", words), ("other", others), ("amount", amount), ("use_other", use_other),
                                ("broadcast", broadcast), ("enable", enable)):
                ctx.set(getattr(dut, name), value)
            await ctx.delay(1e-7)
            by = -amount if up else amount
            rotated, other = (np.roll(lanes, -by).tolist() for lanes in (words, others))
            assert list(ctx.get(dut.plain)) == rotated
            if not up:
                assert list(ctx.get(dut.shared)) == ([words[amount]] * count if broadcast else rotated)
            if held is not None:
                assert list(ctx.get(dut.held)) == held
                assert list(ctx.get(dut.registered)) == registered
            await ctx.tick()
            held, registered = other if use_other else rotated, rotated if enable else registered

    simulate(dut, bench)
