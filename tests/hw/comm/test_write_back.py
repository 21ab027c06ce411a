"""Write-back: chunks in sectors become beats and one request each, which never waits for its data."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, send, simulate
from tests.support.memory_model import MemoryModel

from plinth_hw.comm.write_back import WriteBack
from plinth_hw.isa.parameters import preset


@pytest.mark.parametrize(("changes", "seed", "idle", "delay"), [
    ({"flit_words": 2}, None, 1.0, 4), ({"flit_words": 4}, 3, 0.5, 30),
    ({"flit_words": 1, "chunk_words": 32}, 4, 0.9, 4)])
def test_random_chunks(changes: dict[str, int], seed: int | None, idle: float, delay: int) -> None:
    parameters = preset("ndp-tiny", **changes)
    rng = np.random.default_rng(1)
    flit, beat, chunk = parameters.flit_words, parameters.beat_words, parameters.chunk_words
    places = rng.permutation(16)
    dut = WriteBack(parameters)
    memory = MemoryModel(parameters, len(places) * chunk)
    expected = memory.words.copy()
    chunks = []
    for place in places:
        words = rng.integers(1, 1 << 32, int(rng.choice([chunk, rng.integers(1, chunk + 1)])), dtype=np.uint32)
        expected[place * chunk:place * chunk + len(words)] = words
        chunks.append((int(place) * chunk // beat, words.tolist()))
    gate, waits = randomly(2, idle), []

    async def drive(ctx: Any) -> None:
        for address, words in chunks:
            ctx.set(dut.address, address)
            sectors = [words[at:at + flit] for at in range(0, len(words), flit)]
            await send(ctx, dut.i, [{
                "data": [*sector, *[0xDEAD] * flit][:flit], "words": len(sector) - 1,
                "tail": number == len(sectors) - 1} for number, sector in enumerate(sectors)], gate)
        assert not ctx.get(dut.idle)
        while not ctx.get(dut.idle):
            await ctx.tick()
        np.testing.assert_array_equal(memory.words, expected)

    async def watch(ctx: Any) -> None:
        """From a request on, its beats are there without a gap."""
        owed = 0
        request, beats = dut.write.request, dut.write.data
        while True:
            *_, valid, ready, size, offered, taken = await ctx.tick().sample(
                request.valid, request.ready, request.payload.beats, beats.valid, beats.ready)
            assert offered or not owed
            waits.append(valid and not ready)
            owed += size * (valid and ready) - (owed > 0 and offered and taken)

    simulate(dut, drive, limit_cycles=20_000, background=[
        watch, *memory.benches([], [dut.write], seed=seed, response_delay=delay)])
    assert [(address, size) for _, address, size in memory.writes] == [
        (address, -(-len(words) // beat)) for address, words in chunks]
    assert any(waits) == (seed is not None)
