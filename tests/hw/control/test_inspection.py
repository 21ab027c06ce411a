"""What an inspection reads: each kind of question, of random states of the engines."""

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from plinth_hw.control.dispatch import ADDRESS_WORD
from plinth_hw.control.inspection import Inspection, InspectKind
from plinth_hw.control.task_ring import RING_TASKS
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS


@pytest.mark.parametrize("engines", [1, 4])
def test_random(engines: int) -> None:
    rng = np.random.default_rng(engines)
    dut = Inspection(engines)

    async def bench(ctx: Any) -> None:
        for _ in range(400):
            asked, kind = int(rng.integers(engines)), InspectKind(int(rng.integers(4)))
            ctx.set(dut.engine, asked)
            ctx.set(dut.kind, kind)
            named = kind is InspectKind.OLDEST and rng.random() < 0.5
            number = int(rng.integers(RING_TASKS, 2 * RING_TASKS)) if named else 0
            ctx.set(dut.number, number)
            states = []
            for engine in range(engines):
                old = int(rng.integers(2 * RING_TASKS))
                started, waiting = int(rng.integers(3)), int(rng.integers(3))
                loaded = waiting > 0 and rng.random() < 0.7
                pending = int(rng.integers(1 << WAITS)) if loaded and rng.random() < 0.8 else 0
                states.append((old, started, waiting, loaded, pending))
                for port, value in ((dut.old, old), (dut.head, old + started), (dut.tail, old + started + waiting)):
                    ctx.set(port[engine], value % (2 * RING_TASKS))
                ctx.set(dut.pending[engine], pending)
            ctx.set(dut.loaded, sum(state[3] << engine for engine, state in enumerate(states)))
            old, started, waiting, loaded, pending = states[asked]
            assert ctx.get(dut.waits) == (pending != 0)
            if pending:
                assert ctx.get(dut.wait) == (pending & -pending).bit_length() - 1
            assert ctx.get(dut.adds_base) == (kind is InspectKind.WAIT)
            exists = pending != 0 if kind is InspectKind.WAIT else started + waiting > 0 or number
            if kind is not InspectKind.COUNTER:
                assert ctx.get(dut.none) == (not exists)
            if not exists or kind is InspectKind.COUNTER:
                continue
            next_task = loaded and kind is not InspectKind.OLDEST
            assert ctx.get(dut.place) == (number or old + started * next_task) % RING_TASKS
            assert ctx.get(dut.index) == (
                HEADER_WORDS - WAITS + ctx.get(dut.wait) if kind is InspectKind.WAIT else ADDRESS_WORD)

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
