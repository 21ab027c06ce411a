"""Accounts of engines whose tasks overlap: how many run, and the cycles for which they wait."""

from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.control.engine import EngineSignature, account
from plinth_hw.isa.parameters import preset

MOST = 3


class Accounts(wiring.Component):
    """An account, and what drives it."""

    def __init__(self) -> None:
        super().__init__({
            "engine": Out(EngineSignature(preset("ndp-tiny"))), "began": In(1), "ends": In(1), "busy": In(1),
            "tasks": Out(range(MOST + 1)), "finished": Out(1), "stalled": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.engine.done.valid.eq(self.ends), self.engine.strobes.busy.eq(self.busy)]
        its = account(m, self.engine, self.began, MOST)
        m.d.comb += [self.tasks.eq(its.tasks), self.finished.eq(its.finished), self.stalled.eq(its.stalled)]
        return m


def test_stalls_are_counted_from_task_to_task() -> None:
    """Random tasks, busy cycles, and waits of ``done``, against a count by the rule."""
    dut, rng = Accounts(), np.random.default_rng(4)

    async def bench(ctx: Any) -> None:
        done = dut.engine.done
        tasks = stalls = finished = 0
        waits = False
        for _ in range(2000):
            began = int(tasks < MOST and rng.random() < 0.2)
            waits = waits or (tasks > 0 and rng.random() < 0.2)
            busy, ready = int(tasks > 0 and rng.random() < 0.4), int(rng.random() < 0.5)
            for signal, value in ((dut.began, began), (dut.ends, waits), (dut.busy, busy), (done.ready, ready)):
                ctx.set(signal, value)
            _, _, *seen = await ctx.tick().sample(dut.tasks, dut.finished, dut.stalled, done.payload.stall_cycles)
            taken, stalled = int(waits and ready), int(tasks > 0 and not waits and not busy)
            assert seen == [tasks, taken, stalled, stalls]
            tasks += began - taken
            stalls = 0 if taken else stalls + stalled
            finished += taken
            waits = waits and not taken
        assert finished > 100

    simulate(dut, bench, limit_cycles=2100)
