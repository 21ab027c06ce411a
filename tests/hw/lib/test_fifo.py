"""FIFOs: order, latency, throughput, room, in all storages and at depths that are no power of two."""

import numpy as np
import pytest
from amaranth.hdl import unsigned
from amaranth.lib import data
from tests.support.amaranth_sim import always, every, randomly, receive, send, simulate
from tests.support.refusal import refused

from plinth_hw.lib.fifo import FIFO, Storage

SIZES = [(1, Storage.LUT), (2, Storage.LUT), (3, Storage.LUT), (7, Storage.LUT), (16, Storage.LUT),
         (1, Storage.BLOCK), (4, Storage.BLOCK), (6, Storage.BLOCK), (128, Storage.BLOCK),
         (2, Storage.HEAD), (3, Storage.HEAD), (8, Storage.HEAD), (2, Storage.PINS), (16, Storage.SECTIONS),
         (48, Storage.SECTIONS)]
PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(5, 0.5)}


@pytest.mark.parametrize(("give", "take"), [("always", "random"), ("random", "always"), ("every3", "every3"),
                                            ("random", "random")])
@pytest.mark.parametrize(("depth", "storage"), SIZES)
def test_order(depth, storage, give, take):
    """Everything comes out once, in its order, whoever waits."""
    dut = FIFO(unsigned(16), depth, storage)
    sent = np.random.default_rng(depth).integers(0, 1 << 16, 3 * depth + 20).tolist()
    got = []

    async def source(ctx):
        await send(ctx, dut.i, sent, PATTERNS[give]())

    async def sink(ctx):
        got.extend(await receive(ctx, dut.o, len(sent), PATTERNS[take]()))
        await ctx.tick().repeat(3)
        assert ctx.get(dut.empty) and not ctx.get(dut.o.valid)

    simulate(dut, source, sink, limit_cycles=2000)
    assert got == sent


@pytest.mark.parametrize(("depth", "storage"), SIZES)
def test_latency_and_rate(depth, storage):
    """The first payload comes after ``latency`` cycles, the others a cycle each."""
    dut = FIFO(unsigned(16), depth, storage)
    count, accepted, taken = 40, [], []

    async def source(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)

    async def watch(ctx):
        cycle = 0
        while len(taken) < count:
            _, _, i_ready, o_valid = await ctx.tick().sample(dut.i.ready, dut.o.valid)
            accepted.extend([cycle] * i_ready)
            taken.extend([cycle] * o_valid)
            cycle += 1

    simulate(dut, source, watch, limit_cycles=500)
    assert taken[0] - accepted[0] == dut.latency
    if depth > 1:
        assert np.diff(taken).tolist() == [1] * (count - 1)


@pytest.mark.parametrize(("depth", "storage"), SIZES)
def test_room(depth, storage):
    """So many payloads go in while nothing is taken, and then come out; ``empty`` says when all have."""
    dut = FIFO(unsigned(16), depth, storage)
    room = depth + (storage is Storage.BLOCK)

    async def bench(ctx):
        for round_ in range(2):
            assert ctx.get(dut.empty)
            await send(ctx, dut.i, range(room))
            await ctx.tick().repeat(2 * dut.latency)
            assert not ctx.get(dut.i.ready), round_
            assert not ctx.get(dut.empty)
            assert await receive(ctx, dut.o, room) == list(range(room))
            assert ctx.get(dut.empty)

    simulate(dut, bench, limit_cycles=1000)


@pytest.mark.parametrize(("depth", "storage"), SIZES)
def test_empty(depth, storage):
    """A payload on its way is in there, wherever it is, until it is taken."""
    dut = FIFO(unsigned(16), depth, storage)

    async def bench(ctx):
        await send(ctx, dut.i, [1])
        for _ in range(dut.latency + 2):
            assert not ctx.get(dut.empty)
            await ctx.tick()
        await receive(ctx, dut.o, 1)
        assert ctx.get(dut.empty)

    simulate(dut, bench)


@pytest.mark.parametrize("storage", [Storage.LUT, Storage.HEAD])
def test_payload_of_a_layout(storage):
    layout = data.StructLayout({"low": 4, "high": 12})
    dut = FIFO(layout, 3, storage)

    async def bench(ctx):
        await send(ctx, dut.i, [{"low": 3, "high": 9}])
        (head,) = await receive(ctx, dut.o, 1)
        assert (head.low, head.high) == (3, 9)

    simulate(dut, bench)


def test_bad_parameters():
    with refused(ValueError, "at least 1, not 0"):
        FIFO(8, 0)
    with refused(ValueError, "at least 2, not 1"):
        FIFO(8, 1, Storage.HEAD)
    with refused(ValueError, "multiple of 16"):
        FIFO(8, 24, Storage.SECTIONS)
