"""What a row-stationary die cannot run: each limit at and beyond it, counts that follow from others, random bodies."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from tests.support.amaranth_sim import simulate
from tests.support.row_stationary import random_body

from plinth_hw.isa.formats import FP16, FP32, Format
from plinth_hw.isa.layout import pack
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.row_stationary import COUNTS, derived, needs
from plinth_hw.matrix.row_stationary.jobs import Sizes
from plinth_hw.matrix.row_stationary.limits import LimitCheck
from plinth_sim.golden import row_stationary
from plinth_sim.golden.vector import BadOperandError

TINY = preset("hypar-tiny")
DIES = {"tiny": TINY, "mixed": preset("hypar-tiny", multiply_format=FP16),
        "4x6": preset("hypar-tiny", rows=4, columns=6, beat_words=8, operand_buffer_words=768,
                      output_buffer_words=6 * 144, flit_words=2, memory_words_per_cycle=8)}
#: Counts that follow from others.
DERIVED = ("window_step", "tap_step", "stream_columns", "stream_lines", "id_rows", "ids", "blocks", "folds", "segments")
#: For each limit of :func:`needs` fields at it, and fields just beyond it.
LIMITS = {
    "array columns": [({"images": 2, "rows": 2}, {"images": 5}), ({"rows": 4}, {"rows": 5})],
    "array rows": [({"sets": 3}, {"sets": 4}), ({"set_rows": 3}, {"sets": 2, "set_rows": 2})],
    "words of a PE's filter scratchpad": [
        ({"tap_columns": 7, "tap_channels": 8}, {"tap_columns": 57}),
        ({"tap_columns": 28, "filter_step": 8}, {"tap_columns": 28, "filter_step": 9})],
    "psums of a PE": [({"filter_step": 4, "interleaved_windows": 4, "windows": 4},
                      {"filter_step": 1, "interleaved_windows": 17, "windows": 17})],
    "words of a PE's ifmap scratchpad": [
        ({"tap_columns": 2, "column_dilation": 119}, {"tap_columns": 2, "column_dilation": 120}),
        ({"tap_channels": 30, "interleaved_windows": 4, "windows": 4}, {"tap_channels": 31, "interleaved_windows": 4,
                                                                        "windows": 4}),
        ({"interleaved_windows": 8, "column_stride": 17, "windows": 8}, {"interleaved_windows": 9, "column_stride": 15,
                                                                         "windows": 9})],
    "words of the ifmap buffer": [
        ({"rows": 2, "row_stride": 15, "windows": 32}, {"rows": 2, "row_stride": 16, "windows": 32}),
        ({"images": 3, "windows": 56, "column_stride": 3}, {"images": 3, "windows": 57, "column_stride": 3})],
    "words of a bank of psums": [
        ({"windows": 64}, {"windows": 65}), ({"windows": 63, "interleaved_windows": 3},
                                             {"windows": 64, "interleaved_windows": 3}),
        ({"windows": 8, "filter_step": 4, "filter_groups": 2}, {"windows": 8, "filter_step": 3, "filter_groups": 3}),
        ({"filter_groups": 64}, {"filter_groups": 65})],
}


def body(die: DieParameters, **fields: int) -> Any:
    """One of everything, but for some fields; what follows from others does."""
    task = SimpleNamespace(**dict.fromkeys(COUNTS, 1), row_origin=0, row_stride=1, column_origin=0, column_stride=1,
                           row_dilation=1, column_dilation=1, accumulate=0,
                           **{name: 1 for name in RowStationaryBody.FIELDS if name[:2] in ("x_", "w_", "c_")})
    task.__dict__.update(fields)
    task.__dict__.update(derived(task, die))
    return task


def fits(task: Any, die: DieParameters) -> bool:
    try:
        row_stationary.check(task, die)
    except BadOperandError:
        return False
    return True


def task_bits(task: Any) -> int:
    """The fields of a body that it has, as the hardware gets them."""
    words = pack(RowStationaryBody, {name: getattr(task, name) for name in RowStationaryBody.FIELDS
                                     if not name.startswith("reserved") and isinstance(getattr(task, name, None), int)})
    return sum(word << 32 * place for place, word in enumerate(words))


def checked(die: DieParameters, bodies: Iterable[Any]) -> list[bool]:
    """Whether the hardware takes each body."""
    dut = LimitCheck(Sizes(die))
    verdicts: list[bool] = []

    async def bench(ctx: Any) -> None:
        for task in bodies:
            ctx.set(dut.task.as_value(), task_bits(task))
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            cycles = 0
            while not ctx.get(dut.done):
                await ctx.tick()
                cycles += 1
            assert cycles <= 28
            verdicts.append(not ctx.get(dut.bad))

    simulate(dut, bench, limit_cycles=1_000_000)
    return verdicts


@pytest.mark.parametrize(("number_format", "operands"), [(FP32, 1), (FP16, 2)])
def test_operands_are_counted_in_whole_words(number_format: Format, operands: int) -> None:
    sizes = Sizes(preset("hypar-tiny", multiply_format=number_format))
    m, count, words = Module(), Signal(range(sizes.lanes + 1)), Signal(8)
    m.d.comb += words.eq(sizes.words(count))

    async def bench(ctx: Any) -> None:
        for number in range(sizes.lanes + 1):
            ctx.set(count, number)
            await ctx.delay(1e-9)
            assert ctx.get(words) == -(-number // operands)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_verdict_stays_until_the_next_start() -> None:
    """Whatever the task's words become once it is done."""
    dut = LimitCheck(Sizes(TINY))
    good, bad = task_bits(body(TINY)), task_bits(body(TINY, windows=65))

    async def bench(ctx: Any) -> None:
        for task, other in ((good, bad), (bad, good)):
            ctx.set(dut.task.as_value(), task)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await ctx.tick().until(dut.done)
            ctx.set(dut.task.as_value(), other)
            for _ in range(40):
                await ctx.tick()
                assert ctx.get(dut.done) and ctx.get(dut.bad) == (task == bad)

    simulate(dut, bench, limit_cycles=1_000)


@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_at_and_beyond(limit: str) -> None:
    """The golden model says the same, and no other limit is to blame."""
    tried = LIMITS[limit]
    good, beyond = [body(TINY, **at) for at, _ in tried], [body(TINY, **fields) for _, fields in tried]
    assert any(needs(task, TINY)[limit][0] == needs(task, TINY)[limit][1] for task in good)
    for task in beyond:
        assert [name for name, (need, most) in needs(task, TINY).items() if need > most] == [limit]
    bodies = [task for pair in zip(good, beyond, strict=True) for task in pair]
    wanted = [True, False] * len(tried)
    assert [fits(task, TINY) for task in bodies] == wanted
    assert checked(TINY, bodies) == wanted


def test_counts_and_runs() -> None:
    """No count is 0; runs of windows are of one channel and the next column; taps of channels are neighbours."""
    bodies = [body(TINY)]
    for name in COUNTS:
        bodies.append(body(TINY))
        setattr(bodies[-1], name, 0)
    bodies += [body(TINY, window_run=2, windows=3), body(TINY, window_run=2, tap_channels=2),
               body(TINY, window_run=2, column_stride=2), body(TINY, tap_channels=2),
               body(TINY, tap_channels=2, x_channel=3), body(TINY, images=256, rows=4)]
    wanted = [fits(task, TINY) for task in bodies]
    assert sum(wanted) == 3
    assert checked(TINY, bodies) == wanted


@pytest.mark.parametrize("name", DIES)
def test_random_bodies(name: str) -> None:
    """Those that fit; the same with one count that follows from others a little off, or with a field changed."""
    die, rng = DIES[name], np.random.default_rng(len(name))
    bodies = []
    for number in range(60):
        task = random_body(rng, die)
        bodies.append(task)
        other = SimpleNamespace(**vars(task))
        changed = DERIVED[number % len(DERIVED)]
        setattr(other, changed, getattr(task, changed) + int(rng.choice([-1, 1, 5])))
        if getattr(other, changed) >= 0:
            bodies.append(other)
        other = SimpleNamespace(**vars(task))
        changed = str(rng.choice([*COUNTS, "row_stride", "column_stride", "row_dilation", "column_dilation"]))
        setattr(other, changed, int(rng.integers(1, 1 << int(rng.integers(1, 9)))))
        other.__dict__.update(derived(other, die))
        if all(getattr(other, field) < 1 << 16 for field in DERIVED):
            bodies.append(other)
    wanted = [fits(task, die) for task in bodies]
    assert 60 <= sum(wanted) <= len(bodies) - 60
    assert checked(die, bodies) == wanted
