"""AXI adaptor against checking AXI memories: data, 4 KB pages, interleaving, errors, rate."""

from functools import cache

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from tests.support.amaranth_sim import always, every, randomly, send
from tests.support.axi_memory import DECERR, SLVERR, WRITE_ORDERS, AXIMemory
from tests.support.memory_clients import beat_words, random_beats, random_requests, reader, writer
from tests.support.verilated import Verilated

from plinth_hw.isa.parameters import preset
from plinth_hw.memory.axi import AXIAdaptor, axi_signature, connect_pins

BEATS = 1280
PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(14, 0.6)}


def _slices(words, beat, port, ports):
    """Bytes of one port: its slice of every beat."""
    size = beat // ports
    return words.reshape(-1, beat)[:, port * size:(port + 1) * size].astype("<u4").tobytes()


class _Sliced(wiring.Component):
    """The adaptor with its register slices, as a die has them."""

    def __init__(self, adaptor):
        self.adaptor = adaptor
        super().__init__(dict(adaptor.signature.members))

    def elaborate(self, platform):
        m = Module()
        m.submodules.adaptor = adaptor = self.adaptor
        ports = [name for name in self.signature.members if name.startswith("axi_")]
        for name in ports:
            connect_pins(m, name, getattr(adaptor, name), getattr(self, name))
        for name, member in self.signature.members.items():
            if name in ports:
                continue
            outer, inner = getattr(self, name), getattr(adaptor, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += outer.eq(inner) if member.flow is wiring.Out else inner.eq(outer)
        return m


@cache
def _built(ports, beat, sliced):
    adaptor = AXIAdaptor(preset("ndp-tiny", beat_words=beat, axi_ports=ports, address_bits=20), outstanding=4)
    return Verilated(_Sliced(adaptor) if sliced else adaptor)


def _make(ports, beat, sliced=False, **options):
    model = _built(ports, beat, sliced)
    dut = model.component
    memories = [AXIMemory(getattr(dut, f"axi_{port}"), BEATS * 4 * beat // ports, **{
        **options, "seed": options["seed"] + port if options.get("seed") is not None else None,
        "latency": 3 + 2 * port}) for port in range(ports)]
    return model, dut, memories, [bench for memory in memories for bench in memory.benches()]


@pytest.mark.parametrize(("ports", "beat", "address_bits"), [(1, 8, 20), (2, 8, 19), (4, 8, 18), (1, 32, 20)])
def test_a_port_addresses_the_bytes_of_its_slices(ports, beat, address_bits):
    port = axi_signature(preset("ndp-tiny", beat_words=beat, axi_ports=ports, address_bits=18)).create()
    assert (len(port.araddr), len(port.awaddr)) == (address_bits, address_bits)
    assert (len(port.rdata), len(port.wdata), len(port.wstrb)) == (32 * beat // ports,) * 2 + (4 * beat // ports,)


@pytest.mark.parametrize("seed", [None, 8])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("ports", "beat"), [(1, 8), (2, 8), (4, 8), (1, 32)])
def test_write_and_read(ports, beat, pattern, seed):
    rng = np.random.default_rng(5)
    model, dut, memories, background = _make(ports, beat, seed=seed)
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
    model.simulate(*reader(dut.read, reads, got, make, make), *writer(dut.write, requests, beats, make, make),
                   limit_cycles=10_000, background=background)
    assert got == [beat_words(before, address + at, beat) for address, count in reads for at in range(count)]
    for port, memory in enumerate(memories):
        assert memory.contents == _slices(words, beat, port, ports), port
    assert len(memories[0].write_bursts) > len(requests)
    assert len(memories[0].read_bursts) > len(reads)


@pytest.mark.parametrize("orders", WRITE_ORDERS, ids="-".join)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("sliced", [False, True])
def test_slaves_of_every_order(orders, seed, sliced):
    """AWREADY and WREADY wait for whatever a slave may wait for, differently at both ports, responses come late."""
    rng = np.random.default_rng(6)
    model, dut, memories, background = _make(2, 8, sliced, seed=seed, pauses=2)
    memories[0].orders, memories[1].orders = orders, ("aw", "address")
    memories[0].latency = 40
    words = rng.integers(0, 1 << 32, BEATS * 8, dtype=np.uint64).astype(np.uint32)
    for port, memory in enumerate(memories):
        memory.contents[:] = _slices(words, 8, port, 2)
    before, got = words.copy(), []
    reads, requests = random_requests(rng, 5, BEATS // 2, BEATS, 12), [*random_requests(rng, 7, 0, 512, 12), (250, 12)]
    beats = random_beats(rng, requests, words, 8)
    model.simulate(*reader(dut.read, reads, got, always, always), *writer(dut.write, requests, beats, always, always),
                   limit_cycles=10_000, background=background)
    assert got == [beat_words(before, address + at, 8) for address, count in reads for at in range(count)]
    for port, memory in enumerate(memories):
        assert memory.contents == _slices(words, 8, port, 2), port
    if orders[0] == "data":
        assert memories[0].early_bursts == len(memories[0].write_bursts)


@pytest.mark.parametrize("sliced", [False, True])
def test_rate(sliced):
    """One beat a cycle each way across bursts."""
    model, dut, _, background = _make(2, 8, sliced)
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

    model.simulate(ask, write_ask, give, wait, watch, limit_cycles=300, background=background)
    assert times[-1] - times[0] == 35
    assert accepted[-1] - accepted[0] == 35


@pytest.mark.parametrize("answer", [SLVERR, DECERR])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("kind", ["read", "write"])
def test_error_response(kind, at, answer):
    """An error at any beat of a burst is one fault a beat that is read, and one a burst that is written."""
    model, dut, _, background = _make(2, 8, bad=range((14 + at) * 16, (15 + at) * 16), answer=answer)
    faults = []
    got = []
    benches = (reader(dut.read, [(14, 4), (18, 2)], got, always, always) if kind == "read" else
               writer(dut.write, [(14, 4), (18, 2)], [([1] * 8, 255)] * 6, always, always))

    async def watch(ctx):
        while True:
            *_, read, written, beat, taken = await ctx.tick().sample(
                dut.read_error, dut.write_error, dut.read.data.valid, dut.read.data.ready)
            assert not read or beat
            faults.append(read & taken | written)

    async def settle(ctx):
        for _ in range(60):
            await ctx.tick()

    model.simulate(*benches, settle, limit_cycles=300, background=[*background, watch])
    assert sum(faults) == 1


@pytest.mark.parametrize("ports", [1, 2])
def test_answers_of_another_id_or_not_the_last(ports):
    """Beside the beat, or with the response, that has it, at whatever port."""
    model = _built(ports, 8, False)
    dut = model.component
    pins = [getattr(dut, f"axi_{port}") for port in range(ports)]

    async def bench(ctx):
        for port in pins:
            ctx.set(port.awready, 1)
            ctx.set(port.wready, 1)
            ctx.set(port.rvalid, 1)
            ctx.set(port.rlast, 1)
        _, _, error, not_last = await ctx.tick().sample(dut.read_error, dut.read_not_last)
        assert (error, not_last) == (0, 0)
        ctx.set(pins[-1].rid, 1)
        _, _, error, not_last = await ctx.tick().sample(dut.read_error, dut.read_not_last)
        assert (error, not_last) == (1, 0)
        ctx.set(pins[-1].rid, 0)
        ctx.set(pins[-1].rlast, 0)
        _, _, error, not_last = await ctx.tick().sample(dut.read_error, dut.read_not_last)
        assert (error, not_last) == (0, 1)
        for port in pins:
            ctx.set(port.rvalid, 0)
        for own in (0, 1):
            await send(ctx, dut.write.request, [{"address": 1, "beats": 1}])
            await send(ctx, dut.write.data, [{"data": [1] * 8, "strobe": 255}])
            await ctx.tick().repeat(4)
            for port in pins:
                ctx.set(port.bvalid, 1)
            ctx.set(pins[-1].bid, own)
            _, _, error, response, stray = await ctx.tick().sample(dut.write_error, dut.write.response, dut.write_stray)
            assert (error, response, stray) == (own, 1, 0)
            for port in pins:
                ctx.set(port.bvalid, 0)

    model.simulate(bench, limit_cycles=200)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("ports", [1, 2])
def test_answers_to_nothing_are_thrown_away(ports, which):
    """Of a port by itself, and told; none of it is left for what is asked for next."""
    model = _built(ports, 8, False)
    dut = model.component
    pins = [getattr(dut, f"axi_{port}") for port in range(ports)]
    odd = pins[which % ports]

    async def bench(ctx):
        ctx.set(dut.read_idle, 1)
        ctx.set(odd.rvalid, 1)
        ctx.set(odd.bvalid, 1)
        _, _, *seen = await ctx.tick().sample(dut.read_stray, dut.write_stray, odd.rready, odd.bready,
                                              dut.read.data.valid, dut.write.response, dut.write_error)
        assert seen == [1, 1, 1, 1, 0, 0, 0]
        ctx.set(odd.rvalid, 0)
        ctx.set(odd.bvalid, 0)
        ctx.set(dut.read_idle, 0)
        _, _, *seen = await ctx.tick().sample(dut.read_stray, dut.write_stray)
        assert seen == [0, 0]
        for port in pins:
            ctx.set(port.awready, 1)
            ctx.set(port.wready, 1)
        await send(ctx, dut.write.request, [{"address": 1, "beats": 1}])
        await send(ctx, dut.write.data, [{"data": [1] * 8, "strobe": 255}])
        await ctx.tick().repeat(4)
        for port in pins[1:]:
            ctx.set(port.bvalid, 1)
        if ports > 1:
            _, _, *seen = await ctx.tick().sample(dut.write.response, dut.write_stray, pins[1].bready)
            assert seen == [0, 0, 0]
        ctx.set(pins[0].bvalid, 1)
        _, _, *seen = await ctx.tick().sample(dut.write.response, dut.write_error)
        assert seen == [1, 0]
        ctx.set(pins[0].bvalid, 0)
        for port in pins[1:]:
            ctx.set(port.bvalid, 0)

    model.simulate(bench, limit_cycles=200)
