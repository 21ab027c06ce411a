"""Polls of waits: in turn, of the right counter, and met exactly when the counter has got there."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.wait_poll import WaitPoll
from plinth_hw.isa.descriptors import WAITS

COUNTERS = 64


def _keep(ctx: Any, dut: WaitPoll, engine: int, counters: list[int]) -> None:
    ctx.set(dut.keep, 1)
    ctx.set(dut.keep_engine, engine)
    ctx.set(dut.keep_counters, sum(counter << 8 * wait for wait, counter in enumerate(counters)))


def test_in_turn() -> None:
    """Engines in turn, the pending waits of each in turn; no engine that does not wait."""
    dut = WaitPoll(4, COUNTERS)
    pending = {0: [1, 3], 2: [0], 3: [0, 1, 2, 3]}
    polled: dict[int, list[int]] = {engine: [] for engine in pending}
    engines: list[int] = []

    async def bench(ctx: Any) -> None:
        for engine in range(4):
            _keep(ctx, dut, engine, [16 * engine + wait for wait in range(WAITS)])
            await ctx.tick()
        ctx.set(dut.keep, 0)
        for engine, waits in pending.items():
            ctx.set(dut.pending[engine], sum(1 << wait for wait in waits))
        ctx.set(dut.waits, sum(1 << engine for engine in pending))
        for cycle in range(120):
            taken = ctx.get(dut.valid) and cycle % 3 != 0
            ctx.set(dut.taken, taken)
            if taken:
                engine, wait = ctx.get(dut.engine), ctx.get(dut.wait)
                assert ctx.get(dut.counter) == 16 * engine + wait
                engines.append(engine)
                polled[engine].append(wait)
            await ctx.tick()
        ctx.set(dut.taken, 0)
        ctx.set(dut.look, 1)
        for engine in range(4):
            for wait in range(WAITS):
                ctx.set(dut.look_engine, engine)
                ctx.set(dut.look_wait, wait)
                assert ctx.get(dut.counter) == 16 * engine + wait

    simulate(dut, bench)
    assert len(engines) > 70
    for first, second, third in zip(engines, engines[1:], engines[2:], strict=False):
        assert {first, second, third} == set(pending)
    for engine, waits in pending.items():
        assert all(after == waits[(waits.index(before) + 1) % len(waits)]
                   for before, after in zip(polled[engine], polled[engine][1:], strict=False))


@pytest.mark.parametrize(("engines", "seed"), [(1, 1), (3, 2), (4, 3)])
def test_met_when_reached(engines: int, seed: int) -> None:
    """Counters that pass their values, modulo 2**32, in the three cycles from a poll to what follows."""
    rng = np.random.default_rng(seed)
    dut = WaitPoll(engines, COUNTERS)
    met = []

    async def bench(ctx: Any) -> None:
        pending = [0] * engines
        answers: list[tuple[int, int, bool] | None] = [None, None]
        for _ in range(800):
            for engine in range(engines):
                if not pending[engine] and rng.random() < 0.2:
                    pending[engine] = int(rng.integers(1, 1 << WAITS))
                ctx.set(dut.pending[engine], pending[engine])
            ctx.set(dut.waits, sum(1 << engine for engine in range(engines) if pending[engine]))
            taken = ctx.get(dut.valid) and rng.random() < 0.7
            ctx.set(dut.taken, taken)
            behind = int(rng.integers(-3, 4))
            awaited = int(rng.integers(1 << 32))
            ctx.set(dut.awaited, awaited)
            ctx.set(dut.slack, awaited + behind & 0xFFFFFFFF)
            answer, expected = answers[0], [0] * engines
            if answer is not None and behind >= 0:
                expected[answer[0]] = 1 << answer[1]
                met.append(answer)
            assert [ctx.get(dut.met[engine]) for engine in range(engines)] == expected
            answers = [answers[1], (ctx.get(dut.engine), ctx.get(dut.wait), True) if taken else None]
            await ctx.tick()
            pending = [waits & ~done for waits, done in zip(pending, expected, strict=True)]

    simulate(dut, bench)
    assert len({answer[:2] for answer in met}) == engines * WAITS
