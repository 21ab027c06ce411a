"""Sticky error and watchdog."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.errors import Cause, Errors, Watchdog
from plinth_hw.isa.operations import ErrorCode

CAUSES = 4
NO_CAUSE = Cause.const({"code": ErrorCode.NONE})


def random_cause(rng: np.random.Generator) -> dict[str, Any]:
    return {"valid": 1, "code": ErrorCode(int(rng.integers(1, len(ErrorCode)))),
            "engine": int(rng.integers(256)), "counter": int(rng.integers(256)),
            "die": int(rng.integers(1024)), "port": int(rng.integers(64)), "lookup": int(rng.integers(2)),
            "task": int(rng.integers(1 << 32))}


@pytest.mark.parametrize("seed", range(3))
def test_first_cause_wins(seed: int) -> None:
    """Causes at random, several in a cycle and while an error is kept; lookups that take a while; clears."""
    rng = np.random.default_rng(seed)
    dut = Errors(CAUSES)

    async def cycle(ctx: Any, causes: list[Any]) -> bool:
        """Let these causes show for a cycle; whether ``raised`` is high after it."""
        for number, cause in enumerate(causes):
            ctx.set(getattr(dut, f"cause_{number}"), cause or NO_CAUSE)
        await ctx.tick()
        return bool(ctx.get(dut.halted))

    async def bench(ctx: Any) -> None:
        for _ in range(120):
            causes = [random_cause(rng) if rng.random() < 0.3 else None for _ in range(CAUSES)]
            halted = await cycle(ctx, causes)
            first = next((cause for cause in causes if cause), None)
            if first is None:
                assert not (halted or ctx.get(dut.raised) or ctx.get(dut.error))
                assert ctx.get(dut.code) == ErrorCode.NONE and ctx.get(dut.info).as_bits() == 0
                continue
            assert halted and not ctx.get(dut.raised) and not ctx.get(dut.error)
            # More causes change nothing.
            await cycle(ctx, [random_cause(rng) for _ in range(CAUSES)])
            assert ctx.get(dut.raised)
            task = int(rng.integers(1 << 32)) if first["lookup"] else first["task"]
            waited = int(rng.integers(256))
            ctx.set(dut.lookup_counter, waited)
            counter = waited if first["lookup"] and first["code"] is ErrorCode.TIMEOUT else first["counter"]
            for wait in range(int(rng.integers(1, 6)), -1, -1):
                assert ctx.get(dut.halted)
                assert ctx.get(dut.error) == (not first["lookup"])
                assert ctx.get(dut.lookup_valid) == first["lookup"]
                assert ctx.get(dut.info.engine) == first["engine"]
                ctx.set(dut.lookup_done, first["lookup"] and not wait)
                ctx.set(dut.lookup_task, int(rng.integers(1 << 32)) if wait else task)
                await cycle(ctx, [random_cause(rng) for _ in range(CAUSES)])
                assert not ctx.get(dut.raised)
            ctx.set(dut.lookup_done, 0)
            assert ctx.get(dut.error) and ctx.get(dut.halted) and not ctx.get(dut.lookup_valid)
            info = ctx.get(dut.info)
            assert (ctx.get(dut.code), ctx.get(dut.task)) == (first["code"], task)
            assert (info.engine, info.counter, info.die, info.port) == (
                first["engine"], counter, first["die"], first["port"])
            ctx.set(dut.clear, 1)
            assert not await cycle(ctx, [None] * CAUSES)
            ctx.set(dut.clear, 0)
            assert not (ctx.get(dut.halted) or ctx.get(dut.error))
            assert ctx.get(dut.code) == ErrorCode.NONE and ctx.get(dut.task) == 0

    simulate(dut, bench)


@pytest.mark.parametrize(("limit", "progress", "bits"), [
    (0, 0.01, 32), (1, 0.5, 32), (7, 0.1, 32), (20, 0.02, 32), (62, 0.005, 6), (63, 0.005, 6), (0, 0.005, 6)])
def test_watchdog(limit: int, progress: float, bits: int) -> None:
    """Expires two cycles after the ``limit``-th one without progress, and counts anew after that; the largest limit
    that there is, which it has after reset, is one like others."""
    rng = np.random.default_rng(limit)
    dut = Watchdog(bits)
    expired = [0]

    async def bench(ctx: Any) -> None:
        ctx.set(dut.limit, limit)
        idle, reached = 0, [False, False]
        for _ in range(1500):
            active, moves = rng.random() < 0.98, rng.random() < progress
            ctx.set(dut.active, active)
            ctx.set(dut.progress, moves)
            idle = idle + 1 if active and not moves else 0
            *_, pulse = await ctx.tick().sample(dut.expired)
            assert pulse == reached.pop(0)
            expired[0] += pulse
            idle = 0 if pulse else idle
            reached.append(idle == limit and idle > 0)

    simulate(dut, bench)
    assert (expired[0] > 0) == (limit > 0)
