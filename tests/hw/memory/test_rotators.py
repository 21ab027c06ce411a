"""Rotators between lanes and banks: lane 0 is at bank ``skew``, in the cycle that each promises."""

from collections import deque
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.memory.rotators import ReadRotator, SharedReadRotator, WriteRotator

WIDTH, CYCLES = 8, 300
SIZES = [2, 4, 8, 16]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("banks", SIZES)
def test_writes(banks: int, shared: bool) -> None:
    """Of as many words as lanes, or of half as many, which stand twice."""
    words = banks // 2 if shared else banks
    dut, rng = WriteRotator(banks, WIDTH, words=words), np.random.default_rng(banks)

    async def bench(ctx: Any) -> None:
        wanted: tuple[int, list[int]] | None = None
        for _ in range(CYCLES):
            skew, mask = int(rng.integers(banks)), int(rng.integers(1 << banks))
            enable, values = int(rng.integers(4) > 0), rng.integers(1 << WIDTH, size=words).tolist()
            for signal, value in ((dut.enable, enable), (dut.skew, skew), (dut.mask, mask)):
                ctx.set(signal, value)
            for number, value in enumerate(values):
                ctx.set(dut.data[number], value)
            _, _, o_mask, *o_data = await ctx.tick().sample(dut.o_mask, *(dut.o_data[bank] for bank in range(banks)))
            if wanted is not None:
                assert (o_mask, o_data) == wanted
            lanes = [(bank - skew) % banks for bank in range(banks)]
            # What is not enabled is masked by whoever asks.
            wanted = (sum((mask >> lane & 1) << bank for bank, lane in enumerate(lanes)),
                      [values[lane % words] for lane in lanes]) if enable else None

    simulate(dut, bench, limit_cycles=CYCLES + 10)


@pytest.mark.parametrize("banks", SIZES)
def test_reads(banks: int) -> None:
    """Data come two cycles after the command, and leave one later."""
    dut, rng = ReadRotator(banks, WIDTH), np.random.default_rng(banks)

    async def bench(ctx: Any) -> None:
        commands: deque[tuple[int, int]] = deque([(0, 0)] * dut.latency)
        data = [deque([[0] * banks] * 2)]
        for _ in range(CYCLES):
            enable, skew = int(rng.integers(4) > 0), int(rng.integers(banks))
            ctx.set(dut.enable, enable)
            ctx.set(dut.skew, skew)
            commands.append((enable, skew))
            values = rng.integers(1 << WIDTH, size=banks).tolist()
            for bank, value in enumerate(values):
                ctx.set(dut.data[bank], value)
            data[0].append(values)
            _, _, *seen = await ctx.tick().sample(*(dut.o[lane] for lane in range(banks)))
            enabled, its = commands.popleft()
            before = data[0][-2]
            if enabled:
                assert seen == [before[(lane + its) % banks] for lane in range(banks)]

    simulate(dut, bench, limit_cycles=CYCLES + 10)


@pytest.mark.parametrize("banks", SIZES)
def test_reads_of_one_of_two_arrays(banks: int) -> None:
    """``half`` says which, and stands while a command is under way."""
    dut, rng = SharedReadRotator(banks, WIDTH), np.random.default_rng(banks)

    async def bench(ctx: Any) -> None:
        for _ in range(60):
            half, skew = int(rng.integers(2)), int(rng.integers(banks))
            arrays = [rng.integers(1 << WIDTH, size=banks).tolist() for _ in range(2)]
            ctx.set(dut.half, half)
            ctx.set(dut.skew, skew)
            await ctx.tick()
            ctx.set(dut.skew, int(rng.integers(banks)))
            await ctx.tick()
            for bank in range(banks):
                ctx.set(dut.data_0[bank], arrays[0][bank])
                ctx.set(dut.data_1[bank], arrays[1][bank])
            await ctx.tick()
            for bank in range(banks):
                ctx.set(dut.data_0[bank], 0)
                ctx.set(dut.data_1[bank], 0)
            await ctx.tick()
            seen = [ctx.get(dut.o[lane]) for lane in range(banks)]
            assert seen == [arrays[half][(lane + skew) % banks] for lane in range(banks)]

    simulate(dut, bench, limit_cycles=400)
