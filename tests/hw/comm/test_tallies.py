"""Sums that share an adder: all steps are in them a turn later, and none of before they began anew."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.tallies import Tallies


@pytest.mark.parametrize(("sums", "most"), [(1, 1), (2, 1), (2, 2), (4, 16)])
def test_random_steps(sums: int, most: int) -> None:
    rng = np.random.default_rng(sums + most)
    dut = Tallies(sums, most)
    read = 0

    async def bench(ctx: Any) -> None:
        nonlocal read
        for _ in range(40):
            of = int(rng.integers(sums))
            # Others go on counting.
            expected = [0] * sums
            ctx.set(dut.clear, (1 << sums) - 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            for _ in range(int(rng.integers(30))):
                for number in range(sums):
                    step = int(rng.integers(most + 1)) if rng.random() < 0.8 else most
                    ctx.set(getattr(dut, f"step_{number}"), step)
                    expected[number] += step
                await ctx.tick()
            for number in range(sums):
                ctx.set(getattr(dut, f"step_{number}"), 0)
            while not ctx.get(dut.turn) >> of & 1:
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.index, of)
            assert ctx.get(dut.o) == expected[of]
            ctx.set(dut.index, sums + int(rng.integers(sums)))
            assert ctx.get(dut.o) == 0
            read += 1
            for _ in range(sums):
                await ctx.tick()

    simulate(dut, bench)
    assert read == 40
