"""Task sequencer: order of starts, consequences of completions, records and errors, with counters beside it."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.dispatch import ADDRESS_WORD
from plinth_hw.control.inspection import InspectKind
from plinth_hw.control.sequencer import TaskSequencer
from plinth_hw.isa.descriptors import TaskHeader
from plinth_hw.isa.layout import pack
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import preset

PARAMETERS = preset("ndp-tiny", engines=frozenset({Engine.MATRIX, Engine.TRANSFER}))


class Around:
    """Stands for dispatch, counters, engines and the record writer: tasks alternate between two engines, each waits for
    the completion of the one before it, counted in the counter of the engine."""

    def __init__(self, seed: int, count: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dut = TaskSequencer(PARAMETERS)
        self.count = count
        self.counters = [0] * PARAMETERS.counters
        self.started: list[int] = []
        self.words: list[int] = []
        self.remote: list[tuple[int, int]] = []

    def header(self, number: int) -> list[int]:
        engine = number % 2
        return [*pack(TaskHeader, {
            "engine": list(Engine)[0 if engine == 0 else 3], "operation": number % 5,
            "wait_enable": 0b100 if number else 0, "wait_counter": [9, 9, 1 - engine, 9],
            "wait_value": [77, 77, (number + 1) // 2, 77],
            "advance_enable": 1, "advance": engine, "record": number % 3 == 0, "tag": number,
            "remote_enable": number % 4 == 1, "remote_die": number, "remote_counter": 7}), 64 * number]

    async def dispatch(self, ctx: Any) -> None:
        """Headers as slots are free."""
        dut = self.dut
        for number in range(self.count):
            ctx.set(dut.position, number % 2)
            while not ctx.get(dut.room) >> number % 2 & 1:
                await ctx.tick()
            words = self.header(number)
            for index, word in enumerate(words):
                while self.rng.random() < 0.2:
                    await ctx.tick()
                ctx.set(dut.header_valid, 1)
                ctx.set(dut.header_index, index)
                ctx.set(dut.header_word, word)
                ctx.set(dut.header_address, words[ADDRESS_WORD])
                ctx.set(dut.commit, index == ADDRESS_WORD)
                await ctx.tick()
                ctx.set(dut.commit, 0)
                ctx.set(dut.header_valid, 0)
            ctx.set(dut.delivered, 1 << number % 2)
            await ctx.tick()
            ctx.set(dut.delivered, 0)

    async def answer(self, ctx: Any) -> None:
        """The counters: a poll's answer comes two cycles after it."""
        dut = self.dut
        ctx.set(dut.poll_ready, 1)
        ctx.set(dut.local.ready, 1)
        polled = [0, 0]
        while True:
            ctx.set(dut.slack, self.counters[polled[0]])
            polled = [polled[1], ctx.get(dut.poll_index)]
            if ctx.get(dut.local.valid):
                self.counters[ctx.get(dut.local.payload)] += 1
            await ctx.tick()

    async def watch(self, ctx: Any) -> None:
        """Records, a pause before each, and remote advances."""
        dut = self.dut
        ctx.set(dut.record_ready, 1)
        ctx.set(dut.remote.ready, 1)
        while True:
            if ctx.get(dut.record_valid):
                self.words.append(ctx.get(dut.record_word))
            if ctx.get(dut.remote.valid):
                self.remote.append((ctx.get(dut.remote.payload.die), ctx.get(dut.remote.payload.counter)))
            await ctx.tick()


@pytest.mark.parametrize("seed", [1, 2])
def test_tasks_that_wait_for_each_other(seed: int) -> None:
    around = Around(seed, 24)
    dut, rng = around.dut, np.random.default_rng(seed)

    async def engines(ctx: Any) -> None:
        for number in range(around.count):
            start, done = getattr(dut, f"start_{number % 2}"), getattr(dut, f"done_{number % 2}")
            other = getattr(dut, f"start_{1 - number % 2}")
            while not ctx.get(start.valid):
                assert not ctx.get(other.valid), "started before what it waits for had ended"
                await ctx.tick()
            assert ctx.get(getattr(dut, f"operation_{number % 2}")) == number % 5
            for _ in range(int(rng.integers(4))):
                await ctx.tick()
            ctx.set(start.ready, 1)
            ctx.set(dut.cycle, 1000 + number)
            await ctx.tick()
            ctx.set(start.ready, 0)
            for _ in range(int(rng.integers(12))):
                assert not ctx.get(other.valid)
                await ctx.tick()
            ctx.set(dut.cycle, 2000 + number)
            ctx.set(done.payload, {"stall_cycles": number, "payload_words": 2 * number, "useful_macs": 3 * number})
            ctx.set(done.valid, 1)
            await ctx.tick().until(done.ready)
            ctx.set(done.valid, 0)
        for _ in range(5):
            await ctx.tick()
        assert ctx.get(dut.empty)

    simulate(dut, around.dispatch, engines, background=[around.answer, around.watch], limit_cycles=5000)
    assert around.counters[:2] == [12, 12]
    assert around.remote == [(number, 7) for number in range(around.count) if number % 4 == 1]
    expected = []
    for number in range(0, around.count, 3):
        engine = Engine.MATRIX if number % 2 == 0 else Engine.TRANSFER
        expected += [64 * number, number | engine.value << 16, 1000 + number, 2000 + number, number, 2 * number,
                     3 * number * (engine is Engine.MATRIX), 0]
    assert around.words == expected


def test_rejected_task() -> None:
    """Its engine and address are told; nothing follows from it."""
    around = Around(3, 1)
    dut = around.dut
    causes = []

    async def engine(ctx: Any) -> None:
        await ctx.tick().until(dut.start_0.valid)
        ctx.set(dut.start_0.ready, 1)
        await ctx.tick()
        ctx.set(dut.start_0.ready, 0)
        ctx.set(dut.done_0.payload.error, ErrorCode.BAD_OPERAND)
        ctx.set(dut.done_0.valid, 1)
        ready = 0
        while not ready:
            if ctx.get(dut.cause.valid):
                causes.append((ctx.get(dut.cause.code), ctx.get(dut.cause.engine), ctx.get(dut.cause.task)))
            *_, ready = await ctx.tick().sample(dut.done_0.ready)
        ctx.set(dut.done_0.valid, 0)
        for _ in range(20):
            await ctx.tick()

    simulate(dut, around.dispatch, engine, background=[around.answer, around.watch], limit_cycles=500)
    assert causes == [(ErrorCode.BAD_OPERAND, Engine.MATRIX.value, 0)]
    assert around.counters[0] == 0 and around.words == [] and around.remote == []


@pytest.mark.parametrize("base", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_what_a_task_waits_for_is_told_with_its_base(base: int) -> None:
    """The second task waits for one more than the base, modulo 2^32, of counter 0."""
    around = Around(4, 2)
    dut, told = around.dut, []

    async def host(ctx: Any) -> None:
        ctx.set(dut.poll_base, base)
        for _ in range(60):
            await ctx.tick()
        for kind in (InspectKind.WAIT, InspectKind.COUNTER):
            ctx.set(dut.inspect_engine, 1)
            ctx.set(dut.inspect_kind, kind)
            ctx.set(dut.inspect_valid, 1)
            *_, data, counter = await ctx.tick().sample(dut.inspect_data, dut.inspect_counter).until(dut.inspect_ready)
            ctx.set(dut.inspect_valid, 0)
            told.append((data, counter))
            await ctx.tick()

    simulate(dut, around.dispatch, host, background=[around.answer, around.watch], limit_cycles=500)
    assert told == [((base + 1) % 2**32, 0), (1 << 31, 0)]
