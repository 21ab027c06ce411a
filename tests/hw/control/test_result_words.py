"""The words of a record."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.result_words import ResultWords
from plinth_hw.isa.operations import Engine


@pytest.mark.parametrize("engines", [[Engine.VECTOR], [Engine.MATRIX, Engine.TRANSFER], list(Engine)])
def test_random(engines: list[Engine]) -> None:
    """Back to back and with pauses; the results of the other engines change meanwhile."""
    rng = np.random.default_rng(len(engines))
    dut = ResultWords(engines)

    async def bench(ctx: Any) -> None:
        for _ in range(40):
            for _ in range(int(rng.integers(3))):
                await ctx.tick()
                assert not (ctx.get(dut.busy) or ctx.get(dut.valid))
            taken, ended = int(rng.integers(len(engines))), int(rng.integers(1 << 32))
            stall, payload = (int(word) for word in rng.integers(0, 1 << 32, 2))
            macs = int(rng.integers(1 << 63))
            address, tag = int(rng.integers(1 << 32)), int(rng.integers(1 << 16))
            ctx.set(dut.engine, taken)
            for port, word, handed in ((dut.hand, address, address),
                                       (dut.hand_tag, tag << 16 | 0xABC, tag | engines[taken].value << 16)):
                ctx.set(dut.word, word)
                ctx.set(port, 1)
                await ctx.tick()
                ctx.set(port, 0)
                assert (ctx.get(dut.busy), ctx.get(dut.valid), ctx.get(dut.o)) == (0, 1, handed)
            ctx.set(dut.begin, 1)
            ctx.set(dut.ended_at, ended)
            ctx.set(getattr(dut, f"done_{taken}"), {"stall_cycles": stall, "payload_words": payload,
                                                    "useful_macs": macs})
            await ctx.tick()
            ctx.set(dut.begin, 0)
            ctx.set(dut.engine, int(rng.integers(len(engines))))
            macs *= engines[taken] is Engine.MATRIX
            words = [ended, stall, payload, macs & 0xFFFFFFFF, macs >> 32]
            for number, word in enumerate(words):
                other = int(rng.integers(len(engines)))
                if other != taken:
                    ctx.set(getattr(dut, f"done_{other}").stall_cycles, int(rng.integers(1 << 32)))
                assert ctx.get(dut.busy)
                assert ctx.get(dut.accept) == (1 << taken if number == len(words) - 2 else 0)
                await ctx.tick()
                assert (ctx.get(dut.valid), ctx.get(dut.o)) == (1, word)
        assert not ctx.get(dut.busy)

    simulate(dut, bench)
