"""Performance counters, exact to the cycle; busy windows."""

from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate
from tests.support.axi_lite import pause
from tests.support.refusal import refused
from tests.support.verilated import Verilated

from plinth_hw.control.counters import BusyPeriod, PerformanceCounters
from plinth_hw.control.registers import counter_count
from plinth_hw.isa.parameters import preset

#: A read shows what had been counted before this many cycles ago, seen in the cycle of ``ready``.
READ_LAG = 4
MIXED = [1, 12, 25, 0, 16, 25, 7, 3]
FULL = [1, 1, 1, 1, 12, 16, 16, 1] * 4 + [6, 6, 4, 4, 2, 2]
#: Of two engines: states, and completed tasks; three counters in steps of two.
FEW = [1, 1, 1, 1, 5, 0, 0, 1] * 2 + [1, 7, 1, 3, 1]
SHARED = [range(4), range(8, 12), range(7, 16, 8), range(16, 21, 2)]


def clear_cycles(count: int) -> int:
    """Cycles that clearing takes."""
    return 2 * max(3, count) + 3


@cache
def built(bits: tuple[int, ...], exclusive: tuple[range, ...]) -> Verilated:
    """Built once for all tests of such counters."""
    return Verilated(PerformanceCounters(bits, exclusive))


@pytest.mark.parametrize(("bits", "exclusive", "probability", "idle"), [
    (MIXED, [], 0.6, 20), (MIXED, [], 1.0, 0), ([29], [], 0.9, 3), ([5, 27], [], 0.5, 0), (FEW, SHARED, 0.9, 2),
    (FEW, SHARED, 1.0, 0), pytest.param(FULL, [], 1.0, 0, marks=pytest.mark.slow)])
def test_every_read_is_exact(bits: list[int], exclusive: list[range], probability: float, idle: int) -> None:
    """Random increments (or the largest in every cycle), reads as fast as registers can ask, and clears."""
    rng = np.random.default_rng(len(bits) + idle)
    model = built(tuple(bits), tuple(exclusive))
    dut = model.component
    count = len(bits)
    inputs = [getattr(dut, f"increment_{index}") if width else None for index, width in enumerate(bits)]
    totals = [[0] for _ in bits]  # before cycle 0, 1, 2, ...
    counting = [False]

    async def increments(ctx: Any) -> None:
        while True:
            chosen = {members: int(rng.choice(members)) for members in exclusive}
            others = {member for members in exclusive for member in members if member != chosen[members]}
            for index, width in enumerate(bits):
                value = 0
                if width and index not in others and counting[0] and rng.random() < probability:
                    value = (1 << width) - 1 if probability == 1 else int(rng.integers(1 << width))
                if width:
                    ctx.set(inputs[index], value)
                totals[index].append(totals[index][-1] + value)
            await ctx.tick()

    async def read(ctx: Any, index: int) -> int:
        ctx.set(dut.read_index, index)
        ctx.set(dut.read_valid, 1)
        while True:
            *_, ready, value = await ctx.tick().sample(dut.read_ready, dut.read_data)
            if ready:
                break
        ctx.set(dut.read_valid, 0)
        await ctx.tick()
        return int(value)

    async def bench(ctx: Any) -> None:
        cleared_at = [0] * count
        for _ in range(3):
            await pause(ctx, clear_cycles(count))
            cleared_at = [total[-1] for total in totals]
            counting[0] = True
            for number in range(40 + count):
                await pause(ctx, int(rng.integers(0, idle + 1)))
                index = number % count if number < count else int(rng.integers(count))
                value = await read(ctx, index)
                # The last total is that of the present cycle, one after ``ready``.
                known = totals[index][-2 - READ_LAG - 1:-1]
                assert value == known[0] - cleared_at[index], (index, value, known)
            counting[0] = False
            await ctx.tick()
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)

    model.simulate(bench, background=[increments])


def test_long_sums_carry() -> None:
    """Nobody reads for a long time; sums pass 2**32 in the sweep."""
    dut = PerformanceCounters([27, 26, 1])
    cycles = 3000

    async def bench(ctx: Any) -> None:
        await pause(ctx, clear_cycles(3))
        for index, width in enumerate(dut.bits):
            ctx.set(getattr(dut, f"increment_{index}"), (1 << width) - 1)
        await pause(ctx, cycles)
        for index in range(3):
            ctx.set(getattr(dut, f"increment_{index}"), 0)
        for index, width in enumerate(dut.bits):
            ctx.set(dut.read_index, index)
            ctx.set(dut.read_valid, 1)
            (value,) = await ctx.tick().sample(dut.read_data).until(dut.read_ready)
            ctx.set(dut.read_valid, 0)
            assert value == cycles * ((1 << width) - 1)
            await ctx.tick()

    simulate(dut, bench)


def test_die_has_as_many_as_its_registers() -> None:
    assert counter_count(preset("ndp-tiny")) == len(FULL)


@pytest.mark.parametrize(("bits", "message"), [
    ([], "at least 0"), ([3, -1], "at least 0"), ([31], "1 counters .* 29 bits")])
def test_bad_increments(bits: list[int], message: str) -> None:
    with refused(ValueError, message):
        PerformanceCounters(bits)


def test_exclusive_counters_are_of_one_bit() -> None:
    with refused(ValueError, r"of one bit, not \[1, 2\]"):
        PerformanceCounters([1, 2], [range(2)])


@pytest.mark.parametrize("probability", [0.02, 0.5])
def test_busy_window(probability: float) -> None:
    """First and last busy cycle since the last clear."""
    rng = np.random.default_rng(round(100 * probability))
    dut = BusyPeriod()

    async def bench(ctx: Any) -> None:
        first = last = 0
        seen = False
        for cycle in accumulate(rng.integers(1, 5, 800)):
            assert (ctx.get(dut.first), ctx.get(dut.last)) == (first, last)
            busy, clear = rng.random() < probability, rng.random() < 0.02
            ctx.set(dut.cycle, int(cycle))
            ctx.set(dut.busy, busy)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            if clear:
                first, last, seen = 0, 0, False
            elif busy:
                first, last, seen = first if seen else int(cycle), int(cycle), True

    simulate(dut, bench)
