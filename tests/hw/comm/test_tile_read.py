"""Reading of tiles: random pieces, aligned as their destination; a flit a cycle, with a memory that answers late."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.memory_model import MemoryModel

from plinth_hw.comm.run_reader import PACKET_BEATS, packet_words
from plinth_hw.comm.tile_read import PieceUse, TileRead
from plinth_hw.isa.parameters import preset


@pytest.mark.parametrize("latency", [4, 100])
def test_long_packets_follow_each_other_whatever_the_latency(latency: int) -> None:
    """Packets of 32 beats: two may be on their way from memory while two are given."""
    parameters = preset("ndp-demo", chunk_words=256, flit_words=4)
    words, count = packet_words(parameters), 8
    assert words == PACKET_BEATS * parameters.beat_words
    dut = TileRead(parameters)
    memory = MemoryModel(parameters, count * words)
    memory.words[:] = range(count * words)
    received: list[int] = []
    cycles: list[int] = []

    async def pieces(ctx: Any) -> None:
        await send(ctx, dut.piece, [{
            "source": number * words, "run": {"address": number * words, "words": words}, "use": PieceUse.TILE,
            "more": number < count - 1, "tail": 1, "last": number == count - 1} for number in range(count)])

    async def flits(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(received) < count * words:
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            cycle += 1
            if valid:
                cycles.append(cycle)
                received.extend(payload.data[lane] for lane in range(payload.words))

    simulate(dut, pieces, flits, background=memory.benches([dut.read], latency=latency))
    assert received == list(range(count * words))
    assert cycles[-1] - cycles[0] + 1 == len(cycles) == count * words // parameters.flit_words


def _packet(rng: np.random.Generator, memory: np.ndarray, longest: int, flit: int) -> tuple[list[Any], list[Any]]:
    """Pieces of a random packet, and its flits: words with their lanes."""
    begin = int(rng.integers(longest))
    size, base = int(rng.integers(1, longest - begin + 1)), longest * int(rng.integers(20))
    pieces, words, source = [], [], int(rng.integers(len(memory) - longest))
    use = PieceUse.INDEX if rng.random() < 0.1 else PieceUse.TILE
    while len(words) < size:
        count = size if use is PieceUse.INDEX else int(rng.integers(1, size - len(words) + 1))
        ends = len(words) + count == size
        more = not ends and bool(rng.random() < 0.5) and source + size < len(memory)
        pieces.append({"source": source, "run": {"address": base + begin + len(words), "words": count}, "use": use,
                       "last": ends and bool(rng.random() < 0.3), "tail": ends, "more": more})
        words += memory[source:source + count].tolist()
        source = source + count if more else int(rng.integers(len(memory) - longest))
    flits, at = [], 0
    while at < size:
        lane = (begin + at) % flit
        here = words[at:at + flit - lane]
        at += len(here)
        tail = at == size
        flits.append((base + begin, use, tail and pieces[-1]["last"], tail, {lane + i: w for i, w in enumerate(here)}))
    return pieces, flits


@pytest.mark.parametrize(("flit_words", "seed", "ready"), [(2, None, 1.0), (4, 1, 0.5), (1, 2, 0.8)])
def test_random_pieces(flit_words: int, seed: int | None, ready: float) -> None:
    """Packets of one or several pieces, of any alignment, with beats that two pieces share; arrivals between them."""
    parameters = preset("ndp-tiny", chunk_words=16, flit_words=flit_words)
    rng = np.random.default_rng(flit_words)
    dut = TileRead(parameters)
    memory = MemoryModel(parameters, 256)
    memory.words[:] = rng.integers(0, 1 << 32, 256, dtype=np.uint32)
    pieces: list[Any] = []
    expected: list[Any] = []
    for number in range(40):
        if number % 7 == 3:
            pieces.append({"source": 0, "run": {"address": number, "words": 1}, "use": PieceUse.ARRIVAL, "last": 1,
                           "tail": 1, "more": 0})
            expected.append((number, PieceUse.ARRIVAL, 1, 1, {}))
        packet_pieces, flits = _packet(rng, memory.words, packet_words(parameters), flit_words)
        pieces += packet_pieces
        expected += flits

    async def drive(ctx: Any) -> None:
        await send(ctx, dut.piece, pieces, randomly(1, 0.9))
        while not ctx.get(dut.idle):
            await ctx.tick()

    async def check(ctx: Any) -> None:
        got = await receive(ctx, dut.o, len(expected), randomly(2, ready),
                            lambda o: (o.address, o.tag.use, o.tag.last, o.tail, o.words, list(o.data)))
        for (address, use, last, tail, words, data), wanted in zip(got, expected, strict=True):
            assert (address, use, last and tail, tail) == wanted[:4]
            if use is not PieceUse.ARRIVAL:
                assert words == len(wanted[4])
                assert {lane: data[lane] for lane in wanted[4]} == wanted[4]

    simulate(dut, drive, check, limit_cycles=20_000,
             background=memory.benches([dut.read], seed=seed, latency=8))
