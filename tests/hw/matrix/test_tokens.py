# amaranth: UnusedElaboratable=no
# The array is asked for its latencies only.
"""Flow control of the drain memories: the array's rules hold whatever feeder, preload and output buffer do."""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.feeder import FEED_LATENCY, READY_LATENCY
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.matrix.systolic import SystolicArray
from plinth_hw.matrix.tokens import TokenControl

TILES = 25


@dataclass
class Seen:
    """Cycles of what happened, a number a tile."""

    taken: dict[int, int] = field(default_factory=dict)
    captured: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    options: list[int] = field(default_factory=list)
    drains: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)


def _run(geometry: Geometry, array: SystolicArray, accumulates: list[bool], options: list[int], seed: int,
         eager: float) -> Seen:
    dut = TokenControl(geometry, array)
    rng = np.random.default_rng(seed)
    seen = Seen()

    async def bench(ctx: Any) -> None:
        tile, started, wait, cycle = 0, False, 0, 0
        loaded, capture = (deque([False] * READY_LATENCY, READY_LATENCY) for _ in range(2))
        while tile < TILES or len(seen.drains) < TILES:
            feeding = tile < TILES
            wanted = feeding and not started and accumulates[tile]
            ctx.set(dut.preload_wanted, wanted)
            ctx.set(dut.preload_full, rng.random() < eager)
            ctx.set(dut.room, rng.random() < eager)
            taken = wanted and loaded[0] and rng.random() < eager
            ctx.set(dut.preload_taken, taken)
            captured = feeding and started and wait == 0 and capture[0] and rng.random() < eager
            ctx.set(dut.captured, captured)
            loaded.append(ctx.get(dut.preload_ready))
            capture.append(ctx.get(dut.capture_ready))
            ctx.set(dut.captured_option, options[tile] if feeding else 0)
            if ctx.get(dut.reserve):
                assert ctx.get(dut.room)
                seen.reserved.append(cycle)
                seen.options.append(ctx.get(dut.option))
            if ctx.get(dut.drain_start):
                seen.drains.append(cycle)
            if ctx.get(dut.load_start):
                seen.loads.append(cycle)
            if ctx.get(dut.preload_start):
                assert ctx.get(dut.preload_full) and ctx.get(dut.preload_wanted)
            wait = max(0, wait - 1)
            if taken:
                seen.taken[tile] = cycle
            if feeding and not started and (taken or not accumulates[tile]):
                started, wait = True, int(rng.integers(1, 6))
            elif captured:
                seen.captured.append(cycle)
                tile, started = tile + 1, False
            await ctx.tick()
            cycle += 1

    simulate(dut, bench, limit_cycles=20_000)
    return seen


@pytest.mark.parametrize(("rows", "columns", "interleave", "accumulating", "eager"), [
    (4, 4, 8, 0.0, 1.0), (4, 4, 8, 1.0, 1.0), (2, 5, 16, 0.5, 0.4), (8, 3, 8, 0.3, 0.9)])
def test_rules(rows: int, columns: int, interleave: int, accumulating: float, eager: float) -> None:
    parameters = preset("ndp-tiny", rows=rows, columns=columns, interleave=interleave, beat_words=8,
                        operand_buffer_words=1024, output_buffer_words=4096)
    geometry = Geometry(parameters)
    array = SystolicArray(parameters.multiply_format, parameters.sum_format, rows, columns, interleave)
    rng = np.random.default_rng(rows)
    accumulates = [bool(rng.random() < accumulating) for _ in range(TILES)]
    options = [int(rng.integers(geometry.options)) for _ in range(TILES)]
    seen = _run(geometry, array, accumulates, options, 3, eager)
    assert seen.options == options and len(seen.drains) == TILES
    assert len(seen.loads) == sum(accumulates) == len(seen.taken)
    # From a decision to slot 0 of its step; the last slot is I - 1 later.
    for decided, drain in zip(seen.captured, seen.drains, strict=True):
        assert drain >= decided + FEED_LATENCY + interleave - 1 + array.compute_latency, "a sum was not there yet"
    for drain, decided in zip(seen.drains, seen.captured[1:], strict=False):
        assert decided + FEED_LATENCY >= drain + array.capture_spacing, "a tile ended in the one before it"
    tokens = sorted({*seen.drains, *seen.loads})
    assert all(later - earlier >= array.token_cycles for earlier, later in pairwise(tokens))
    for (tile, taken), load in zip(sorted(seen.taken.items()), seen.loads, strict=True):
        assert taken + FEED_LATENCY >= load + array.load_latency, "a tile started before its words"
        assert tile == 0 or load >= seen.drains[tile - 1], "words for a tile came before the one before had left"
    if accumulating == 0 and eager == 1:
        # Nothing waits for anything but the array.
        spacing = max(array.token_cycles, array.capture_spacing + interleave - 1 + array.compute_latency)
        assert max(later - earlier for earlier, later in pairwise(seen.drains)) <= spacing + 1
