"""Scheduler: random task graphs on stand-in engines."""

from collections import Counter, deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, simulate
from tests.support.control import StandIn, Task, no_error, random_graph, record_words
from tests.support.engine_bench import resolved
from tests.support.memory_model import MemoryModel

from plinth_hw.control.scheduler import Scheduler
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import COMMON_ENGINES, DieParameters, preset
from plinth_hw.isa.registers import BASE_COUNT

TASK_BASE, RECORD_BASE = 128, 6144


def die(beat_words: int, engines: frozenset[Engine] = COMMON_ENGINES) -> DieParameters:
    """A small die with the given beat."""
    size = min(4, beat_words)
    return replace(preset("ndp-tiny"), rows=size, columns=size, beat_words=beat_words, engines=engines,
                   memory_words_per_cycle=beat_words, axi_ports=max(1, beat_words // 32))


class Check:
    """What the stand-ins report, against the graph."""

    def __init__(self, parameters: DieParameters, tasks: list[Task], bases: list[int],
                 rng: np.random.Generator) -> None:
        self.parameters = parameters
        self.tasks = tasks
        self.bases = bases
        self.rng = rng
        self.to_start = {engine: deque(t for t in tasks if t.engine is engine) for engine in Engine}
        self.to_end: dict[Engine, deque[Task]] = {engine: deque() for engine in Engine}
        self.counters: Counter[int] = Counter()
        self.completions: list[Task] = []

    def start(self, engine: Engine) -> Any:
        """Callback of the engine's stand-in."""
        def callback(body: list[int], operation: int, cycle: int) -> None:
            task = self.to_start[engine].popleft()
            assert body == resolved(self.parameters.body(engine), task.body, self.bases)[:len(body)]
            assert operation == task.operation
            for counter, value in task.waits:
                assert self.counters[counter] >= value, f"started before counter {counter} reached {value}"
            task.started = cycle
            task.figures = tuple(int(x) for x in self.rng.integers(0, 1 << 32, 3, dtype=np.uint64))
            self.to_end[engine].append(task)
        return callback

    def end(self, engine: Engine) -> Any:
        """Callback of the engine's stand-in: a cycle to ask for ``done``, None when it was taken."""
        def callback(cycle: int | None) -> Any:
            task = self.to_end[engine][0]
            if cycle is None:
                self.to_end[engine].popleft()
                self.completions.append(task)
                return None
            if task.ended < 0:
                task.ended = cycle
                # The record is written after the advance, and only then ``done`` is taken.
                if task.header.get("advance_enable"):
                    self.counters[task.header["advance"]] += 1
            return no_error(task.figures)
        return callback


@pytest.mark.parametrize("beat_words, engines, seed, epoch", [
    (8, COMMON_ENGINES, 1, 0),
    (4, frozenset({Engine.VECTOR, Engine.TRANSFER}), 2, 5),
    (16, COMMON_ENGINES, 3, 0xFFFFFFFD),
    (64, frozenset({Engine.COLLECTIVE}), 4, 0),
    (128, COMMON_ENGINES, 5, 0x7FFFFFFF),
])
def test_random_graph(beat_words: int, engines: frozenset[Engine], seed: int, epoch: int) -> None:
    parameters = die(beat_words, engines)
    rng = np.random.default_rng(seed)
    order = sorted(engines, key=lambda engine: engine.value)
    dut = Scheduler(parameters, queue_depth=2)
    assert dut.engines == order
    memory = MemoryModel(parameters, words=8192)
    graphs = [random_graph(rng, TASK_BASE, order, 16), random_graph(rng, TASK_BASE, order, 8)]
    bases = rng.integers(0, 1 << parameters.address_bits, BASE_COUNT).tolist()
    checks = [Check(parameters, tasks, bases, rng) for tasks in graphs]
    current = [checks[0]]
    remote: list[Any] = []
    total: Counter[int] = Counter()

    async def host_write(ctx: Any, index: int, value: int, base: bool) -> None:
        ctx.set(dut.host_index, index)
        ctx.set(dut.host_is_base, base)
        ctx.set(dut.host_write, 1)
        ctx.set(dut.host_write_data, value)
        ctx.set(dut.host_valid, 1)
        await ctx.tick().until(dut.host_ready)
        ctx.set(dut.host_valid, 0)
        ctx.set(dut.host_write, 0)

    async def host_read(ctx: Any, index: int) -> int:
        ctx.set(dut.host_index, index)
        ctx.set(dut.host_is_base, 0)
        ctx.set(dut.host_valid, 1)
        (value,) = await ctx.tick().sample(dut.host_read_data).until(dut.host_ready)
        ctx.set(dut.host_valid, 0)
        return value

    async def bench(ctx: Any) -> None:
        ctx.set(dut.record_base, RECORD_BASE)
        for counter in range(8):
            await host_write(ctx, counter, epoch, base=False)
        records = 0
        for check in checks:
            current[0] = check
            for number, task in enumerate(check.tasks):
                memory.words[TASK_BASE + 64 * number:TASK_BASE + 64 * (number + 1)] = task.words()
            for counter in range(8):
                await host_write(ctx, counter, (epoch + total[counter]) & 0xFFFFFFFF, base=True)
            memory.words[RECORD_BASE:] = 0xABABABAB
            ctx.set(dut.record_write, 1)
            ctx.set(dut.record_data, 0)
            await ctx.tick()
            ctx.set(dut.record_write, 0)
            ctx.set(dut.base, TASK_BASE)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert ctx.get(dut.running)
            await ctx.tick().until(dut.finished)
            assert check.completions and len(check.completions) == len(check.tasks)
            expected = [task for task in check.completions if task.header["record"]]
            records = len(expected)
            assert ctx.get(dut.record_count) == records
            rows = memory.words[RECORD_BASE:RECORD_BASE + 8 * records].reshape(-1, 8).tolist()
            assert (memory.words[RECORD_BASE + 8 * records:] == 0xABABABAB).all()
            # Records of different engines may change places when they complete within one completion's time.
            by_address = {task.address: task for task in expected}
            assert sorted(row[0] for row in rows) == sorted(by_address)
            for row in rows:
                task = by_address[row[0]]
                wanted = record_words(task)
                assert row[:2] + row[4:] == wanted[:2] + wanted[4:]
                assert 0 <= row[2] - task.started <= 2
                assert 0 <= row[3] - task.ended <= 80
            total.update(check.counters)
            for counter in range(8):
                assert await host_read(ctx, counter) == (epoch + total[counter]) & 0xFFFFFFFF
            await ctx.tick().repeat(100)  # the network takes the last remote advances

    async def base_registers(ctx: Any) -> None:
        ctx.set(dut.base_address, bases[0])
        async for number, in ctx.changed(dut.base_number):
            ctx.set(dut.base_address, bases[number])

    async def clock(ctx: Any) -> None:
        cycle = 0
        while True:
            ctx.set(dut.cycle, cycle)
            await ctx.tick()
            cycle += 1

    async def take_remote(ctx: Any) -> None:
        for taking in randomly(seed, 0.1):
            ctx.set(dut.advance_out.ready, taking)
            *_, valid, advance = await ctx.tick().sample(dut.advance_out.valid, dut.advance_out.payload)
            if taking and valid:
                remote.append((advance.die, advance.counter))

    stand_ins = [StandIn(getattr(dut, f"engine_{e}"), rng,
                         lambda *a, engine=engine: current[0].start(engine)(*a),
                         lambda *a, engine=engine: current[0].end(engine)(*a), parameters.body_words(engine))
                 for e, engine in enumerate(order)]
    simulate(dut, bench, background=[
        clock, base_registers, take_remote, *(s.bench for s in stand_ins),
        *memory.benches([dut.fetch_memory], [dut.record_memory], latency=20, response_delay=15,
                        seed=seed, availability=0.7)], limit_cycles=60_000)
    wanted = [(task.header["remote_die"], task.header["remote_counter"])
              for check in checks for task in check.completions if task.header.get("remote_enable")]
    assert sorted(remote) == sorted(wanted)
    last = max(task.address for task in graphs[0]) // beat_words
    assert max(address for _, address, _ in memory.reads) <= last + max(1, 64 // beat_words) - 1
