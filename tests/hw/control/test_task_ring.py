"""Task ring: pointers, starts and stamps against a model, under random commits, loads, waits and halts."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.task_ring import RING_TASKS, TaskRing

LAPS = 2 * RING_TASKS


@pytest.mark.parametrize(("seed", "commits", "starts", "ends"), [
    (1, 0.9, 0.9, 0.9), (2, 0.9, 0.3, 0.9), (3, 0.9, 0.9, 0.1), (4, 0.2, 0.5, 0.5)])
def test_random(seed: int, commits: float, starts: float, ends: float) -> None:
    rng = np.random.default_rng(seed)
    dut = TaskRing()
    full, halts = [], []

    async def bench(ctx: Any) -> None:
        fetched = started = ended = delivered = 0
        loaded, pending, offered, stamp, at = False, 0, False, False, 0
        operation, operation_known, loading = 0, False, False
        for cycle in range(1200):
            halted = rng.random() < 0.1
            commit = fetched - ended < RING_TASKS and rng.random() < commits
            delivers = delivered < fetched and rng.random() < 0.3
            met = int(rng.integers(16)) if loaded else 0
            ready = rng.random() < starts
            stamped = stamp and rng.random() < 0.5
            completes = started > ended and not stamp and rng.random() < ends
            set_operation = loading and not operation_known
            set_waits = operation_known and rng.random() < 0.5
            new = int(rng.integers(16))
            for name, value in (("halted", halted), ("commit", commit), ("delivered", delivers), ("met", met),
                                ("stamped", stamped), ("complete", completes), ("cycle", cycle),
                                ("set_operation", set_operation), ("new_operation", new),
                                ("set_waits", set_waits), ("new_waits", new)):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.start.ready, ready)
            assert [ctx.get(pointer) for pointer in (dut.tail, dut.head, dut.old)] == [
                fetched % LAPS, started % LAPS, ended % LAPS]
            assert ctx.get(dut.room) == (fetched - ended < RING_TASKS)
            assert ctx.get(dut.loads) == (started < fetched and not loaded and not halted)
            assert (ctx.get(dut.loaded), ctx.get(dut.pending)) == (loaded, pending)
            assert (ctx.get(dut.start.valid), ctx.get(dut.started)) == (offered, offered and ready)
            assert ctx.get(dut.start.payload) == RING_TASKS + started % RING_TASKS
            assert ctx.get(dut.status.runs) == (started > ended)
            assert ctx.get(dut.status.waits) == (loaded and pending != 0)
            assert ctx.get(dut.stamp) == stamp
            assert not stamp or ctx.get(dut.started_at) == at
            assert not offered or ctx.get(dut.operation) == operation
            full.append(fetched - ended == RING_TASKS)
            halts.append(halted and loaded and not pending and delivered > started)
            await ctx.tick()
            offers = loaded and not pending and delivered > started and not halted
            loading = not set_waits and (loading or (started < fetched and not loaded and not halted))
            if set_operation:
                operation, operation_known = new, True
            pending &= ~met
            stamp &= not stamped
            if offered and ready:
                offered, loaded, started, stamp, at = False, False, started + 1, True, cycle
            elif offers:
                offered = True
            if set_waits:
                pending, loaded, operation_known = new, True, False
            fetched, delivered, ended = fetched + commit, delivered + delivers, ended + completes
        assert ended > 15

    simulate(dut, bench)
    assert any(halts)
    assert any(full)
