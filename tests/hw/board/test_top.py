"""The die's reset on a board: long enough, however short the board's own is."""

from typing import Any

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from tests.support.amaranth_sim import simulate

from plinth_hw.board.top import ResetExtension
from plinth_hw.isa.parameters import RESET_CYCLES


@pytest.mark.parametrize("cycles", [1, 2, 20])
def test_the_dies_reset_is_held(cycles: int) -> None:
    """Also when the button bounces while the reset of before still goes on."""
    m, reset, held = Module(), Signal(), Signal(init=1)
    m.submodules.extension = extension = ResetExtension()
    m.d.sync += held.eq(extension.o)  # as emit.instance has it
    seen: list[int] = []

    async def bench(ctx: Any) -> None:
        await ctx.tick().repeat(2 * RESET_CYCLES)
        for pause in (3, 2 * RESET_CYCLES):
            ctx.set(reset, 1)
            await ctx.tick().repeat(cycles)
            ctx.set(reset, 0)
            for _ in range(pause):
                seen.append(ctx.get(held))
                await ctx.tick()

    simulate(ResetInserter(reset)(m), bench)
    assert seen == [1] * (3 + RESET_CYCLES) + [0] * RESET_CYCLES
