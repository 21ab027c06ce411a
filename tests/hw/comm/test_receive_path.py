"""Receive path: packets from the network and from this die, stored and added, with memories of every mood."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, send, simulate
from tests.support.memory_model import MemoryModel

from plinth_hw.comm.flit import PacketKind, flit_layout
from plinth_hw.comm.receive_path import NUMBER_BITS, ReceivePath
from plinth_hw.comm.run_reader import packet_buffer_beats, packet_words
from plinth_hw.isa.parameters import DieParameters, preset

PARAMETERS = preset("ndp-tiny", chunk_words=16, flit_words=2)
TRANSFORMING = replace(PARAMETERS, transforms=((2, 3),))
FLIT, LONGEST = PARAMETERS.flit_words, packet_words(PARAMETERS)
#: Words of each of three areas: for packets of the network, of this die, and for sums of both.
AREA = 4 * LONGEST
STORE, ADD, ADVANCE = PacketKind.STORE, PacketKind.ADD, PacketKind.ADVANCE


def _flits(address: int, words: list[int], kind: PacketKind) -> list[dict[str, Any]]:
    """A packet: its words lie in the lanes that they have in the destination."""
    flits, at = [], 0
    while at < len(words):
        lane = (address + at) % FLIT
        here = words[at:at + FLIT - lane]
        flits.append({"data": [*[0] * lane, *here, *[0] * FLIT][:FLIT], "words": len(here), "address": address,
                      "kind": kind, "tail": at + len(here) == len(words)})
        at += len(here)
    return flits


def _arriving(flit: dict[str, Any]) -> dict[str, Any]:
    """A flit as it comes from the network."""
    layout, address = flit_layout(PARAMETERS), flit["address"]
    fields = {}
    for name in ("message", "group", "chunk"):
        width = layout[name].width
        fields[name] = address & (1 << width) - 1
        address >>= width
    return {"data": flit["data"], "words": flit["words"] - 1, "kind": flit["kind"], "tail": flit["tail"], **fields}


class Packets:
    """Random packets of one source into its own area, and sums into the common one. Numbers are small and whole, so
    that sums do not depend on their order."""

    def __init__(self, seed: int, count: int, area: int) -> None:
        rng = np.random.default_rng(seed)
        self.flits: list[dict[str, Any]] = []
        self.memory = np.zeros(3 * AREA, np.float32)
        self.packets = count
        for _ in range(count):
            kind = ADD if rng.random() < 0.5 else STORE
            base = 2 * AREA if kind is ADD and rng.random() < 0.5 else area * AREA
            # Often where the packet before was, so that an add finds a write that is not answered.
            block = base + LONGEST * int(rng.integers(4) if rng.random() < 0.6 else 0)
            begin = int(rng.integers(LONGEST))
            count_ = int(rng.integers(1, LONGEST - begin + 1))
            values = rng.integers(-50, 50, count_).astype(np.float32)
            place = slice(block + begin, block + begin + count_)
            self.memory[place] = values + (self.memory[place] if kind is ADD else 0)
            self.flits += _flits(block + begin, values.view(np.uint32).tolist(), kind)


@pytest.mark.parametrize("parameters", [PARAMETERS, TRANSFORMING], ids=["plain", "transforms"])
@pytest.mark.parametrize(("latency", "seed", "idle"), [(3, None, 1.0), (20, 7, 0.6)])
def test_random_packets(latency: int, seed: int | None, idle: float, parameters: DieParameters) -> None:
    dut = ReceivePath(parameters)
    memory = MemoryModel(PARAMETERS, 3 * AREA)
    network, own = Packets(1, 40, 0), Packets(2, 40, 1)
    for flit in own.flits:
        flit["last"] = flit["tail"]
    stored, advances = [], []

    async def arrive(ctx: Any) -> None:
        ctx.set(dut.limit, 3 * AREA // PARAMETERS.beat_words)
        await send(ctx, dut.arrive, [_arriving(flit) for flit in network.flits], randomly(3, idle))
        await send(ctx, dut.arrive, [_arriving({"data": [0] * FLIT, "words": 1, "address": 5, "kind": ADVANCE,
                                                "tail": 1})])

    async def loop(ctx: Any) -> None:
        await send(ctx, dut.own, own.flits, randomly(4, idle))

    async def watch(ctx: Any) -> None:
        gate = randomly(5, 0.5)
        while len(stored) < own.packets or not advances:
            ready = next(gate)
            ctx.set(dut.advance.ready, ready)
            *_, valid, counter, pulse, fault = await ctx.tick().sample(
                dut.advance.valid, dut.advance.payload, dut.stored, dut.fault.valid)
            assert not fault
            if valid and ready:
                advances.append(counter)
            stored.extend([1] * pulse)

    simulate(dut, arrive, loop, watch, limit_cycles=20_000, background=memory.benches(
        [dut.read], [dut.write], latency=latency, response_delay=latency, seed=seed))
    assert advances == [5] and len(stored) == own.packets
    np.testing.assert_array_equal(memory.words.view(np.float32), network.memory + own.memory)


@pytest.mark.parametrize(("parameters", "before", "between", "same"), [
    (PARAMETERS, [(0, 4)], 8, 2), (TRANSFORMING, [(0, 4)], 8, 2),
    # Flits on both sides: what lies between is another's only on dies that tell flits apart.
    (TRANSFORMING, [(0, 4), (8, 4)], 4, 2), (TRANSFORMING, [(0, 2), (6, 2)], 2, 0)])
def test_an_add_waits_for_the_write_before_it(parameters: DieParameters, before: list[tuple[int, int]], between: int,
                                              same: int) -> None:
    """To the same words; one to others of the same block does not."""
    dut = ReceivePath(parameters)
    memory = MemoryModel(PARAMETERS, AREA)
    delay, reads = 40, []

    async def arrive(ctx: Any) -> None:
        ctx.set(dut.limit, AREA // PARAMETERS.beat_words)
        fp32_one = np.float32(1).view(np.uint32).item()
        flits = [flit for at, count in before for flit in _flits(at, [fp32_one] * count, STORE)]
        flits += [*_flits(between, [fp32_one] * 4, ADD), *_flits(same, [fp32_one] * 2, ADD)]
        await send(ctx, dut.arrive, [_arriving(flit) for flit in flits])

    async def watch(ctx: Any) -> None:
        cycle = 0
        answered = None
        while len(reads) < 2:
            *_, request, response = await ctx.tick().sample(dut.read.request.valid, dut.write.response)
            cycle += 1
            if response and answered is None:
                answered = cycle
            if request:
                reads.append(answered is None)
        for _ in range(2 * delay + 60):
            await ctx.tick()

    simulate(dut, arrive, watch, limit_cycles=1000,
             background=memory.benches([dut.read], [dut.write], response_delay=delay))
    assert reads == [True, False]
    wanted = np.zeros(12)
    for at, count in (*before, (between, 4), (same, 2)):
        wanted[at:at + count] += 1
    assert memory.words[:12].view(np.float32).tolist() == wanted.tolist()


def test_an_add_does_not_wait_for_what_came_long_ago() -> None:
    """Nor for others, when as many packets have come since as short numbers tell apart."""
    dut = ReceivePath(TRANSFORMING)
    memory = MemoryModel(PARAMETERS, AREA)
    others, answered, added = 1 << NUMBER_BITS, [], []

    async def arrive(ctx: Any) -> None:
        ctx.set(dut.limit, AREA // PARAMETERS.beat_words)
        fp32_one = np.float32(1).view(np.uint32).item()
        flits = [*_flits(0, [fp32_one] * 2, STORE), *others * _flits(LONGEST, [fp32_one] * 2, STORE),
                 *_flits(0, [fp32_one] * 2, ADD)]
        await send(ctx, dut.arrive, [_arriving(flit) for flit in flits])

    async def watch(ctx: Any) -> None:
        while len(answered) < others + 2:
            *_, request, response = await ctx.tick().sample(dut.read.request.valid, dut.write.response)
            answered.extend([1] * response)
            added.extend([len(answered)] * (request and not added))

    simulate(dut, arrive, watch, limit_cycles=4000, background=memory.benches(
        [dut.read], [dut.write], response_delay=20))
    assert added[0] <= others
    assert memory.words[:2].view(np.float32).tolist() == [2, 2]


def test_an_advance_waits_for_all_packets_before_it() -> None:
    dut = ReceivePath(PARAMETERS)
    memory = MemoryModel(PARAMETERS, AREA)
    events: list[str] = []

    async def arrive(ctx: Any) -> None:
        ctx.set(dut.limit, AREA // PARAMETERS.beat_words)
        ctx.set(dut.advance.ready, 1)
        advance = {"data": [0] * FLIT, "words": 1, "address": 9, "kind": ADVANCE, "tail": 1}
        flits = [*_flits(0, [1] * 16, STORE), *_flits(16, [2] * 3, STORE), advance]
        await send(ctx, dut.arrive, [_arriving(flit) for flit in flits])

    async def watch(ctx: Any) -> None:
        while "advance 9" not in events:
            *_, valid, counter, response = await ctx.tick().sample(
                dut.advance.valid, dut.advance.payload, dut.write.response)
            events.extend(["response"] * response + [f"advance {counter}"] * valid)

    simulate(dut, arrive, watch, limit_cycles=1000,
             background=memory.benches([dut.read], [dut.write], response_delay=50))
    assert events == ["response", "response", "advance 9"]


@pytest.mark.parametrize(("own", "kind"), [(False, STORE), (True, ADD)])
def test_beyond_memory(own: bool, kind: PacketKind) -> None:
    """Packets that pass the limit are thrown away, and leave no place taken; those around them are not."""
    dut = ReceivePath(PARAMETERS)
    memory = MemoryModel(PARAMETERS, AREA)
    limit = AREA - LONGEST
    dropped = packet_buffer_beats(PARAMETERS) // 2  # of two beats each
    flits = [*_flits(0, [1] * 5, STORE), *_flits(limit - 2, [2] * 3, kind) * dropped, *_flits(8, [3] * 5, STORE)]
    faults = []

    async def drive(ctx: Any) -> None:
        ctx.set(dut.limit, limit // PARAMETERS.beat_words)
        if own:
            await send(ctx, dut.own, flits)
        else:
            await send(ctx, dut.arrive, [_arriving(flit) for flit in flits])

    async def watch(ctx: Any) -> None:
        for _ in range(250):
            *_, valid, from_here = await ctx.tick().sample(dut.fault.valid, dut.fault.own)
            faults.extend([from_here] * valid)

    simulate(dut, drive, watch, background=memory.benches([dut.read], [dut.write]))
    assert faults == [own] * dropped
    assert memory.words[:13].tolist() == [1] * 5 + [0] * 3 + [3] * 5
    assert not memory.words[13:].any()
