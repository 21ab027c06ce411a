"""Neurons that may be above 0, of elements that are known exactly: what waits for what, when something comes late."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import unsigned
from amaranth.lib import data
from tests.support.amaranth_sim import randomly, receive, send, simulate

from plinth_hw.comm.codes.neurons import LiveNeurons
from plinth_hw.isa.winograd import MATRICES

LANES = 2


def flits(numbers: Any) -> list[list[int]]:
    """Of numbers, ``[..., LANES]``, in FP32."""
    return np.asarray(numbers, np.float32).view(np.uint32).reshape(-1, LANES).tolist()


@pytest.mark.parametrize(("way", "windows", "adds"), [(4, 6, False), (4, 6, True), (8, 2, True)])
def test_exact_elements(way, windows, adds):
    """Small integers, whose sums are exact in any order; the map comes when all else waits for it, and the taker sleeps
    for longer than all places hold. By A^T of F(2, 3) and of F(4, 3)."""
    rng = np.random.default_rng(way + adds)
    matrix = np.array(MATRICES[way], dtype=float)
    neurons, elements = matrix.shape
    values = rng.integers(-3, 4, (windows, elements, elements, LANES))
    bias = rng.integers(-3, 4, (windows, LANES))
    maps = rng.integers(-40, 41, (windows, neurons, neurons, LANES))
    sums = np.einsum("ij,wjkl,mk->wiml", matrix, values, matrix) + bias[:, None, None] + maps * adds
    wanted = [sum(1 << lane for lane in range(LANES) if live[lane]) for live in (sums > 0).reshape(-1, LANES)]
    dut = LiveNeurons(data.ArrayLayout(unsigned(32), LANES), [MATRICES[0], MATRICES[way]])
    received: list[int] = []

    async def source(ctx: Any) -> None:
        for side in ("down", "across"):
            ctx.set(getattr(dut, side), 1)
        ctx.set(dut.adds, adds)
        for window in range(windows):
            await send(ctx, dut.window, flits(bias[window]))
            # Highest values and lowest are the same.
            await send(ctx, dut.i, [flit for flit in flits(values[window]) for _ in range(2)])

    async def from_map(ctx: Any) -> None:
        await ctx.tick().repeat(300)
        await send(ctx, dut.added, flits(maps) if adds else [], randomly(3))

    async def sink(ctx: Any) -> None:
        await ctx.tick().repeat(500)
        received.extend(await receive(ctx, dut.o, len(wanted)))

    simulate(dut, source, from_map, sink, limit_cycles=20_000)
    assert received == wanted
