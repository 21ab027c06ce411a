"""Reading of tiles: a flit a cycle, with a memory that answers late."""

from typing import Any

import pytest
from tests.support.amaranth_sim import send, simulate
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
    found: list[int] = []
    cycles: list[int] = []

    async def pieces(ctx: Any) -> None:
        await send(ctx, dut.piece, [{
            "source": number * words, "run": {"address": number * words, "words": words}, "use": PieceUse.TILE,
            "more": number < count - 1, "tail": 1, "last": number == count - 1} for number in range(count)])

    async def flits(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(found) < count * words:
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            cycle += 1
            if valid:
                cycles.append(cycle)
                found.extend(payload.data[lane] for lane in range(payload.words))

    simulate(dut, pieces, flits, background=memory.benches([dut.read], latency=latency))
    assert found == list(range(count * words))
    assert cycles[-1] - cycles[0] + 1 == len(cycles) == count * words // parameters.flit_words
