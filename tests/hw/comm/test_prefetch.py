"""Prefetch: words and weights of chunks in the order of use, whatever memory and the two takers do."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused

from plinth_hw.comm.prefetch import Prefetch, ReadUse
from plinth_hw.isa.parameters import preset


def _sectors(words: list[int], weights: list[int] | None, flit: int) -> list[tuple[Any, ...]]:
    """Words, weights or None, and tail of each flit."""
    return [(words[at:at + flit], None if weights is None else weights[at:at + flit], at + flit >= len(words))
            for at in range(0, len(words), flit)]


@pytest.mark.parametrize(("changes", "seed", "starts", "adds", "latency"), [
    ({"flit_words": 2}, None, 1.0, 1.0, 4), ({"flit_words": 4}, 2, 0.3, 0.9, 20),
    ({"flit_words": 1, "chunk_words": 32}, 3, 0.9, 0.3, 40)])
def test_random_chunks(changes: dict[str, int], seed: int | None, starts: float, adds: float, latency: int) -> None:
    parameters = preset("ndp-tiny", **changes)
    rng = np.random.default_rng(7)
    flit, beat, chunk = parameters.flit_words, parameters.beat_words, parameters.chunk_words
    dut = Prefetch(parameters)
    memory = MemoryModel(parameters, 64 * chunk)
    memory.words[:] = rng.integers(0, 1 << 32, len(memory.words), dtype=np.uint32)
    last_words = int(rng.integers(chunk))
    reads: list[dict[str, Any]] = []
    expected: dict[ReadUse, list[tuple[Any, ...]]] = {ReadUse.START: [], ReadUse.ADD: []}

    def read(use: ReadUse, short: bool, weighted: bool) -> list[int]:
        address = int(rng.integers(64)) * chunk
        reads.append({"address": address // beat, "lane": use, "short": short, "weighted": weighted})
        return memory.words[address:address + (last_words + 1 if short else chunk)].tolist()

    for _ in range(16):
        use, short = (ReadUse.START, ReadUse.ADD)[int(rng.integers(2))], bool(rng.random() < 0.2)
        weighted = use is ReadUse.ADD and rng.random() < 0.5
        words = read(use, short, weighted)
        expected[use] += _sectors(words, read(ReadUse.WEIGHT, short, False) if weighted else None, flit)

    async def drive(ctx: Any) -> None:
        ctx.set(dut.last_words, last_words)
        await send(ctx, dut.i, reads, randomly(1, 0.9))

    def check(port: Any, wanted: list[tuple[Any, ...]], probability: float) -> Any:
        async def bench(ctx: Any) -> None:
            def convert(payload: Any) -> tuple[Any, ...]:
                count = payload.sector.words + 1
                return list(payload.sector.data)[:count], list(payload.w)[:count], payload.sector.tail

            got = await receive(ctx, port, len(wanted), randomly(2, probability), convert)
            for (data, w, tail), (words, weights, last) in zip(got, wanted, strict=True):
                assert (data, tail) == (words, last)
                assert weights is None or w == weights
        return bench

    async def never_waits(ctx: Any) -> None:
        while True:
            assert ctx.get(dut.read.data.ready), "what was asked for has no room"
            await ctx.tick()

    simulate(dut, drive, check(dut.o_start, expected[ReadUse.START], starts),
             check(dut.o_add, expected[ReadUse.ADD], adds), limit_cycles=20_000,
             background=[never_waits, *memory.benches([dut.read], seed=seed, latency=latency)])
    assert [address for _, address, _ in memory.reads] == [request["address"] for request in reads]


def test_a_full_lane_holds_up_no_other() -> None:
    """Nobody takes what starts; all that was asked for before the lane was full comes."""
    parameters = preset("ndp-tiny")
    dut = Prefetch(parameters)
    memory = MemoryModel(parameters, 64 * parameters.chunk_words)
    read = {"address": 0, "short": 0, "weighted": 0}
    count = parameters.chunk_words // parameters.flit_words

    async def drive(ctx: Any) -> None:
        ctx.set(dut.last_words, 0)
        await send(ctx, dut.i, [{**read, "lane": ReadUse.START}, {**read, "lane": ReadUse.ADD}])

    async def check(ctx: Any) -> None:
        await receive(ctx, dut.o_add, count)

    simulate(dut, drive, check, limit_cycles=500, background=memory.benches([dut.read]))


@pytest.mark.parametrize(("changes", "message"), [
    ({"chunk_words": 1024}, "chunk_words must be from 4 to 256, 64 beats, not 1024"),
    ({"flit_words": 8, "chunk_words": 64}, "flit_words must be at most beat_words = 4, not 8")])
def test_refused(changes: dict[str, int], message: str) -> None:
    parameters = preset("ndp-tiny", **changes)
    with refused(ValueError, message):
        Prefetch(parameters)
