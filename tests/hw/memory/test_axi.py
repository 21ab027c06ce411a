"""AXI adaptor against checking AXI memories: data, 4 KB pages, interleaving, errors, rate."""

import numpy as np
import pytest
from tests.support.amaranth_sim import always, every, randomly, simulate
from tests.support.axi_memory import AXIMemory
from tests.support.memory_clients import beat_words, random_beats, random_requests, reader, writer

from plinth_hw.isa.parameters import preset
from plinth_hw.memory.axi import AXIAdaptor

BEATS = 1280
PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(14, 0.6)}


def _slices(words, beat, port, ports):
    """Bytes of one port: its slice of every beat."""
    size = beat // ports
    return words.reshape(-1, beat)[:, port * size:(port + 1) * size].astype("<u4").tobytes()


def _make(ports, beat, **options):
    parameters = preset("ndp-tiny", beat_words=beat, axi_ports=ports, address_bits=20)
    dut = AXIAdaptor(parameters, outstanding=4)
    memories = [AXIMemory(getattr(dut, f"axi_{port}"), BEATS * 4 * beat // ports, **{
        **options, "seed": options["seed"] + port if options.get("seed") is not None else None,
        "latency": 3 + 2 * port}) for port in range(ports)]
    return dut, memories, [bench for memory in memories for bench in memory.benches()]


@pytest.mark.parametrize("seed", [None, 8])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("ports", "beat"), [(1, 8), (2, 8), (4, 8), (1, 32)])
def test_write_and_read(ports, beat, pattern, seed):
    rng = np.random.default_rng(5)
    dut, memories, background = _make(ports, beat, seed=seed)
    words = rng.integers(0, 1 << 32, BEATS * beat, dtype=np.uint64).astype(np.uint32)
    for port, memory in enumerate(memories):
        memory.contents[:] = _slices(words, beat, port, ports)
    half = BEATS // 2
    make = PATTERNS[pattern]
    page = 4096 // (4 * beat // ports)
    reads = [*random_requests(rng, 10, half, BEATS, 9), (half, 64), ((half // page + 1) * page - 30, 64)]
    got = []
    requests = [*random_requests(rng, 10, 0, half, 9), (page - 30, 64)]
    before = words.copy()
    beats = random_beats(rng, requests, words, beat)
    simulate(dut, *reader(dut.read, reads, got, make, make), *writer(dut.write, requests, beats, make, make),
             limit_cycles=10_000, background=background)
    assert got == [beat_words(before, address + at, beat) for address, count in reads for at in range(count)]
    for port, memory in enumerate(memories):
        assert memory.contents == _slices(words, beat, port, ports), port
    assert len(memories[0].write_bursts) > len(requests)
    assert len(memories[0].read_bursts) > len(reads)


def test_rate():
    """One beat a cycle each way across bursts."""
    dut, _, background = _make(2, 8)
    times = []
    got = []
    ask, _ = reader(dut.read, [(0, 5), (20, 1), (31, 30)], got, always, always)
    write_ask, give, wait = writer(dut.write, [(0, 7), (40, 29)], [([0] * 8, 0)] * 36, always, always)
    accepted = []

    async def watch(ctx):
        ctx.set(dut.read.data.ready, 1)
        cycle = 0
        while len(times) < 36 or len(accepted) < 36:
            *_, read, valid, ready = await ctx.tick().sample(
                dut.read.data.valid, dut.write.data.valid, dut.write.data.ready)
            if read:
                times.append(cycle)
            if valid and ready:
                accepted.append(cycle)
            cycle += 1

    simulate(dut, ask, write_ask, give, wait, watch, limit_cycles=300, background=background)
    assert times[-1] - times[0] == 35
    assert accepted[-1] - accepted[0] == 35


@pytest.mark.parametrize("kind", ["read", "write"])
def test_error_response(kind):
    dut, _, background = _make(2, 8, bad=range(16 * 16, 17 * 16))
    faults = []
    got = []
    benches = (reader(dut.read, [(14, 4), (18, 2)], got, always, always) if kind == "read" else
               writer(dut.write, [(14, 4), (18, 2)], [([1] * 8, 255)] * 6, always, always))

    async def watch(ctx):
        while True:
            *_, fault = await ctx.tick().sample(dut.fault)
            faults.append(fault)

    async def settle(ctx):
        for _ in range(60):
            await ctx.tick()

    simulate(dut, *benches, settle, limit_cycles=300, background=[*background, watch])
    assert sum(faults) == 1
