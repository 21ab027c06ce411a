"""Descriptor fetch: words and addresses in order, nothing beyond the last, one word a cycle."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, simulate
from tests.support.control import random_graph
from tests.support.memory_model import MemoryModel

from plinth_hw.control.fetch import DescriptorFetch
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters, preset

BASE = 192
COUNT = 6


def die(beat_words: int) -> DieParameters:
    size = min(4, beat_words)
    return replace(preset("ndp-tiny"), rows=size, columns=size, beat_words=beat_words, flit_words=1,
                   memory_words_per_cycle=Fraction(beat_words), axi_ports=max(1, beat_words // 32))


class System:
    """A fetch on a memory with a graph of ``COUNT`` descriptors, among words that end no graph."""

    def __init__(self, beat_words: int, **memory: Any) -> None:
        rng = np.random.default_rng(beat_words)
        parameters = die(beat_words)
        self.dut = DescriptorFetch(parameters)
        self.memory = MemoryModel(parameters, 1024)
        self.memory.words[:] = 0xFFFFFFFF & ~(1 << 9)
        self.graph = [task.words() for task in random_graph(rng, BASE, list(Engine), COUNT)]
        self.memory.words[BASE:BASE + DESCRIPTOR_WORDS * COUNT] = np.array(self.graph, np.uint32).reshape(-1)
        self.benches = [self._watch, *self.memory.benches([self.dut.memory], **memory)]
        last = BASE + DESCRIPTOR_WORDS * COUNT
        self.end = -(-last // beat_words)

    async def _watch(self, ctx: Any) -> None:
        data = self.dut.memory.data
        while True:
            *_, valid, ready = await ctx.tick().sample(data.valid, data.ready)
            assert ready or not valid, "the read path waits"

    async def start(self, ctx: Any) -> None:
        ctx.set(self.dut.base, BASE + 5)  # any word of the first descriptor
        ctx.set(self.dut.start, 1)
        await ctx.tick()
        ctx.set(self.dut.start, 0)


@pytest.mark.parametrize(("beat_words", "latency", "taking", "availability"), [
    (1, 30, 0.9, 0.9), (8, 4, 0.3, 0.9), (8, 20, 0.9, 0.3), (16, 70, 0.7, 0.8), (64, 3, 0.5, 0.5), (128, 9, 0.8, 0.6)])
def test_every_word_in_order(beat_words: int, latency: int, taking: float, availability: float) -> None:
    """Two runs of a graph under backpressure; the store never overflows and nothing else is read."""
    system = System(beat_words, latency=latency, seed=latency, availability=availability)
    dut = system.dut
    rng = np.random.default_rng(latency)

    async def bench(ctx: Any) -> None:
        take = randomly(latency, taking)
        for _ in range(2):
            await system.start(ctx)
            held = False
            for number, words in enumerate(system.graph):
                for index, word in enumerate(words):
                    # A descriptor waits at word 0 for its engine.
                    for _ in range(int(rng.integers(0, 200)) if index == 0 else 0):
                        await ctx.tick()
                    while True:
                        ready = next(take)
                        ctx.set(dut.o.ready, ready)
                        *_, valid, payload, address, requested, active = await ctx.tick().sample(
                            dut.o.valid, dut.o.payload, dut.address, dut.requested, dut.active)
                        ctx.set(dut.o.ready, 0)
                        assert active and not (held and not valid)
                        held = valid and not ready
                        if valid:
                            assert (payload.index, payload.word, address) == (
                                index, word, BASE + DESCRIPTOR_WORDS * number)
                            assert 0 <= (requested - address) // DESCRIPTOR_WORDS <= min(2, COUNT - 1 - number)
                        if valid and ready:
                            break
            await ctx.tick().repeat(2 * latency + 20)
            assert not ctx.get(dut.active) and not ctx.get(dut.o.valid)

    simulate(dut, bench, background=system.benches, limit_cycles=40_000)
    assert max(address + beats for _, address, beats in system.memory.reads) <= system.end
    assert len(system.memory.reads) == 2 * COUNT


@pytest.mark.parametrize(("beat_words", "latency", "cycles"), [
    (8, 4, 64), (8, 50, 64), (8, 62, 64), (8, 90, 92), (64, 62, 64), (1, 62, 64)])
def test_throughput(beat_words: int, latency: int, cycles: int) -> None:
    """A word a cycle, unless the memory's latency is longer than a descriptor."""
    system = System(beat_words, latency=latency)
    dut = system.dut
    begun: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        await system.start(ctx)
        cycle = 0
        while ctx.get(dut.active):
            if ctx.get(dut.o.valid) and ctx.get(dut.o.payload.index) == 0:
                begun.append(cycle)
            await ctx.tick()
            cycle += 1

    simulate(dut, bench, background=system.benches)
    assert {later - earlier for earlier, later in pairwise(begun)} == {cycles}
    assert begun[0] == latency + 5


def test_stop() -> None:
    """What was requested still comes; nothing more is requested."""
    system = System(8, latency=10)
    dut = system.dut

    async def bench(ctx: Any) -> None:
        await system.start(ctx)
        await ctx.tick().repeat(40)  # word 0 is not taken
        assert len(system.memory.reads) == 2 and ctx.get(dut.requested) == BASE + DESCRIPTOR_WORDS
        ctx.set(dut.stop, 1)
        ctx.set(dut.o.ready, 1)
        words = 0
        for _ in range(500):
            *_, valid = await ctx.tick().sample(dut.o.valid)
            words += valid
        assert words == 2 * DESCRIPTOR_WORDS and len(system.memory.reads) == 2

    simulate(dut, bench, background=system.benches)
