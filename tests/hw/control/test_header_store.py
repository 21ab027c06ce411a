"""Header store: words and stamps of random tasks come back two cycles after they are asked for."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.control.dispatch import ADDRESS_WORD, STARTED_WORD, STORED_WORDS
from plinth_hw.control.header_store import HeaderStore
from plinth_hw.control.task_ring import RING_TASKS


@pytest.mark.parametrize("engines", [1, 3, 4])
def test_random(engines: int) -> None:
    rng = np.random.default_rng(engines)
    dut = HeaderStore(engines)
    stored: dict[tuple[int, int, int], int] = {}
    stalls = []

    async def bench(ctx: Any) -> None:
        offer: tuple[int, int, int] | None = None
        word = 0
        stamps: dict[int, tuple[int, int]] = {}  # place and stamp
        asked: list[Any] = [None, None]
        written: tuple[int, int, int] | None = None
        for _ in range(1500):
            for engine in range(engines):
                if engine not in stamps and rng.random() < 0.1:
                    stamps[engine] = int(rng.integers(RING_TASKS)), int(rng.integers(1 << 32))
                    ctx.set(dut.stamp_place[engine], stamps[engine][0])
                    ctx.set(dut.started_at[engine], stamps[engine][1])
            if rng.random() < 0.6:
                offer = int(rng.integers(engines)), int(rng.integers(RING_TASKS)), int(rng.integers(STARTED_WORD))
                word = int(rng.integers(1 << 32))
            ctx.set(dut.valid, offer is not None)
            for port, value in zip((dut.engine, dut.place, dut.index), offer or (0, 0, 0), strict=True):
                ctx.set(port, value)
            of_address = offer is not None and offer[2] == ADDRESS_WORD
            ctx.set(dut.word, word ^ of_address)
            ctx.set(dut.address, word ^ (not of_address))
            ctx.set(dut.stamp, sum(1 << engine for engine in stamps))
            # No word is read in the cycle in which it is taken, nor in the one in which it is written.
            taken = min(stamps, default=None) if offer is None else None
            before, written = written, (taken, stamps[taken][0], STARTED_WORD) if taken is not None else offer
            known = [asks for asks in stored if asks not in (before, written)]
            asks = known[int(rng.integers(len(known)))] if known else (0, 0, 0)
            for port, value in zip((dut.read_engine, dut.read_place, dut.read_index), asks, strict=True):
                ctx.set(port, value)
            assert ctx.get(dut.stamped) == (1 << taken if taken is not None else 0)
            if asked[0] is not None:
                assert ctx.get(dut.read_word) == asked[0]
            asked = [asked[1], stored.get(asks)]
            stalls.append(bool(stamps) and offer is not None)
            if taken is not None:
                where, stamp = stamps.pop(taken)
                stored[taken, where, STARTED_WORD] = stamp
            elif offer is not None:
                stored[offer] = word
                offer = None
            await ctx.tick()

    simulate(dut, bench)
    assert any(stalls) and len(stored) > 60 * engines
    assert STARTED_WORD < STORED_WORDS
