# amaranth: UnusedElaboratable=no
"""Crossbar: routing, fairness, faults, word counts."""

from functools import cache

import numpy as np
import pytest
from tests.support.amaranth_sim import always, every, randomly, send
from tests.support.memory_clients import beat_words, random_beats, random_requests, reader, writer
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused
from tests.support.verilated import Verilated

from plinth_hw.isa.parameters import preset
from plinth_hw.memory.crossbar import MemoryCrossbar

PARAMETERS = preset("ndp-tiny", address_bits=20)
#: Its requests are checked a cycle before they go on.
ON_CHIP = preset("ndp-tiny", address_bits=20, axi_ports=0, block_ram_words=1 << 12)
DIES = pytest.mark.parametrize("parameters", [PARAMETERS, ON_CHIP], ids=["axi", "chip"])
B = PARAMETERS.beat_words
BEATS = 256
READERS, WRITERS = ("a", "b", "c"), ("x", "y")
PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(12, 0.6)}


@cache
def _built(parameters, **options):
    return Verilated(MemoryCrossbar(parameters, READERS, WRITERS, **options))


def _limit(dut, beats):
    async def bench(ctx):
        ctx.set(dut.limit, beats)
    return bench


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("pattern", PATTERNS)
@DIES
def test_routing(pattern, seed, parameters):
    """Readers read the upper half, writers write a part each of the lower half."""
    rng = np.random.default_rng(3)
    memory = MemoryModel(parameters, BEATS * B)
    memory.words[:] = rng.integers(0, 1 << 32, BEATS * B, dtype=np.uint64).astype(np.uint32)
    reference = memory.words.copy()
    model = _built(parameters, outstanding=4)
    dut = model.component
    make = PATTERNS[pattern]
    benches, got, asked = [_limit(dut, BEATS)], {}, {}
    for name in READERS:
        asked[name] = random_requests(rng, 25, BEATS // 2, BEATS, 9)
        got[name] = []
        benches += reader(getattr(dut, name), asked[name], got[name], make, make)
    strobes = 0
    for index, name in enumerate(WRITERS):
        requests = random_requests(rng, 25, 64 * index, 64 * index + 64, 9)
        beats = random_beats(rng, requests, reference, B)
        strobes += sum(strobe.bit_count() for _, strobe in beats)
        benches += writer(getattr(dut, name), requests, beats, make, make)
    moved = [0, 0]

    async def count(ctx):
        while True:
            _, _, read, written, *faults = await ctx.tick().sample(
                dut.words_read, dut.words_written, dut.read_fault.valid, dut.write_fault.valid)
            moved[0] += read
            moved[1] += written
            assert not any(faults)

    crossed = [B * sum(beats for requests in asked.values() for _, beats in requests), strobes]

    async def counted(ctx):
        while moved != crossed:
            await ctx.tick()

    model.simulate(*benches, counted, limit_cycles=10_000, background=[count, *memory.benches(
        [dut.memory_read], [dut.memory_write], seed=seed)])
    for name in READERS:
        assert got[name] == [beat_words(memory.words, address + beat, B)
                             for address, beats in asked[name] for beat in range(beats)], name
    assert (memory.words == reference).all()
    assert moved == crossed


@DIES
def test_round_robin_and_rate(parameters):
    """Two greedy readers alternate, and single-beat requests flow one a cycle."""
    memory = MemoryModel(parameters, BEATS * B)
    model = _built(parameters)
    dut = model.component
    times = []
    benches = [_limit(dut, BEATS)]
    for index, name in enumerate(("a", "c")):
        port = getattr(dut, name)

        async def ask(ctx, port=port, index=index):
            ctx.set(port.data.ready, 1)
            await send(ctx, port.request, [{"address": 100 * index + at, "beats": 1} for at in range(20)])
        benches.append(ask)

    async def watch(ctx):
        cycle = 0
        while len(times) < 40:
            *_, a_valid, c_valid = await ctx.tick().sample(dut.a.data.valid, dut.c.data.valid)
            if a_valid or c_valid:
                times.append(cycle)
            cycle += 1

    model.simulate(*benches, watch, limit_cycles=500,
                   background=memory.benches([dut.memory_read], [dut.memory_write]))
    order = [address // 100 for _, address, _ in memory.reads]
    assert order[1:39] == [1 - order[0], order[0]] * 19
    assert times[-1] - times[0] == 39


@pytest.mark.parametrize(("address", "beats", "bad"), [(BEATS - 4, 4, False), (BEATS - 4, 5, True),
                                                       (BEATS, 1, True), ((1 << 17) - 1, 1, True)])
@DIES
def test_limit(address, beats, bad, parameters):
    """A request beyond the limit faults, never reaches memory, and blocks only its own client."""
    memory = MemoryModel(parameters, BEATS * B)
    model = _built(parameters)
    dut = model.component
    got, faults = [], []
    benches = [_limit(dut, BEATS), *reader(dut.a, [(0, 3), (5, 2)], got, always, always)]

    async def offend(ctx):
        ctx.set(dut.b.data.ready, 1)
        request = {"address": address, "beats": beats, "task": 11}
        await send(ctx, dut.b.request, [request])
        await send(ctx, dut.y.request, [request])
        for port in (dut.b, dut.y):
            ctx.set(port.request.payload, {"address": 0, "beats": 1, "task": 0})
            ctx.set(port.request.valid, 1)
        await ctx.tick().repeat(30)

    async def watch(ctx):
        while True:
            *_, read, write = await ctx.tick().sample(dut.read_fault, dut.write_fault)
            if read.valid:
                faults.append(("read", read.index, read.task))
            if write.valid:
                faults.append(("write", write.index, write.task))

    model.simulate(*benches, offend, limit_cycles=1000, background=[watch, *memory.benches(
        [dut.memory_read], [dut.memory_write])])
    assert faults == ([("read", 1, 11), ("write", 1, 11)] if bad else [])
    assert len(got) == 5
    starts = [start for _, start, _ in memory.reads]
    assert (address in starts) == (not bad)
    assert (memory.writes[:1] == [(0, address, beats)]) == (not bad)
    assert bool(memory.writes) == (not bad)


@pytest.mark.parametrize("cycle", [1, 2, 3, *range(5, 60, 6)])
@DIES
def test_drain(cycle, parameters):
    """Clients fall silent at any cycle: what memory was asked for ends without them, and nothing more is written."""
    rng = np.random.default_rng(cycle)
    memory = MemoryModel(parameters, BEATS * B)
    model = _built(parameters)
    dut = model.component
    clients = [getattr(dut, name) for name in (*READERS, *WRITERS)]
    held = []

    async def drive(ctx):
        ctx.set(dut.limit, BEATS)
        for now in range(cycle):
            for number, port in enumerate(clients):
                ctx.set(port.request.payload, {"address": 32 * number, "beats": 1 + 3 * number})
                ctx.set(port.request.valid, 1)
                ctx.set(port.data.valid if number >= len(READERS) else port.data.ready, now % 2)
                if number >= len(READERS):
                    ctx.set(port.data.payload, {"data": [int(rng.integers(1 << 32)) for _ in range(B)],
                                                "strobe": (1 << B) - 1})
            await ctx.tick()
        for number, port in enumerate(clients):
            ctx.set(port.request.valid, 0)
            ctx.set(port.data.valid if number >= len(READERS) else port.data.ready, 0)
        ctx.set(dut.drain, 1)
        held.append(memory.words.copy())
        while not ctx.get(dut.drained):
            await ctx.tick()
        for _ in range(100):
            assert ctx.get(dut.drained)
            await ctx.tick()

    model.simulate(drive, limit_cycles=2000, background=memory.benches(
        [dut.memory_read], [dut.memory_write], seed=cycle))
    assert cycle < 5 or (len(memory.reads) > 1 and len(memory.writes) > 1)
    # A beat may have been handed over, and one may wait to be.
    assert (memory.words != held[0]).sum() <= 2 * B


@pytest.mark.parametrize(("readers", "writers", "outstanding"), [
    ((), ("x",), 4), (("a",), (), 4), (("a", "a"), ("x",), 4), (("a",), ("a",), 4), (("a",), ("x",), 0)])
def test_bad_parameters(readers, writers, outstanding):
    with refused(ValueError, "not"):
        MemoryCrossbar(PARAMETERS, readers, writers, outstanding)
    assert MemoryCrossbar(PARAMETERS, ("a",), ("x",), 1).outstanding == 1
