"""Recovery: what stands in reset when."""

import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.recovery import SETTLE_CYCLES, Recovery


@pytest.mark.parametrize("cycles", [0, 1, 50])
def test_a_die_stops_and_is_let_go(cycles: int) -> None:
    dut = Recovery()

    async def bench(ctx) -> None:
        async def pulse(signal) -> None:
            ctx.set(signal, 1)
            await ctx.tick()
            ctx.set(signal, 0)

        def state() -> tuple[int, ...]:
            return tuple(ctx.get(signal) for signal in (dut.reset, dut.drain, dut.flush, dut.apart, dut.stopping,
                                                        dut.stopped))
        await pulse(dut.clear)
        assert state() == (0, 0, 0, 0, 0, 0)
        await pulse(dut.stop)
        for _ in range(cycles):
            assert state() == (1, 1, 0, 1, 1, 0)
            await pulse(dut.clear)
        await pulse(dut.drained)
        for _ in range(SETTLE_CYCLES):
            assert state() == (1, 0, 1, 1, 1, 0)
            await pulse(dut.stop)
        assert state() == (0, 0, 0, 1, 1, 0)
        await pulse(dut.stop)
        for _ in range(5):
            assert state() == (0, 0, 0, 1, 0, 1)
            await pulse(dut.stop)
        await pulse(dut.clear)
        assert state() == (0, 0, 0, 0, 0, 0)

    simulate(dut, bench, limit_cycles=1000)
