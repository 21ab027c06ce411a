"""Row-stationary sequencer: the jobs of random tasks, taken by blocks that are busy for times of their own."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.dies import ROWS_MIXED
from tests.support.row_stationary import random_body

from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.layout import pack
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.row_stationary.jobs import Sizes
from plinth_hw.matrix.row_stationary.sequencer import RowStationarySequencer

GOOD, OTHER, BAD = MatrixOperation.ROW_STATIONARY, MatrixOperation.GEMM, None
BLOCKS = ("ifmaps", "feed", "filters", "passes", "starts", "results", "preload", "store")


def _signed(step: int) -> int:
    return step - (1 << 32) if step >> 31 else step


def _rounds(body: Any, die: DieParameters, region: int) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Jobs of a task by block, from its loops; the region of the sums of the next task."""
    jobs: dict[str, list[dict[str, Any]]] = {name: [] for name in BLOCKS}
    loops = [(b, f, s) for b in range(body.blocks) for f in range(body.folds) for s in range(body.segments)]
    mask = (1 << 32) * die.packing - 1
    done = 0  # groups of batches before
    while done * body.filter_step < body.filters:
        left = body.filters - done * body.filter_step
        groups = min(body.filter_groups, -(-left // body.filter_step))
        last = left <= groups * body.filter_step
        move = {"address": body.c.offset + done * body.filter_step, "filters": left, "groups": groups, "region": region,
                "task_last": last, "error": ErrorCode.NONE}
        for place in loops:
            block, fold, segment = place

            def address(name: str, first: int, at: tuple[int, int, int] = place) -> int:
                steps = zip(at, ("block", "fold", "segment"), strict=True)
                return die.packing * first + sum(n * _signed(getattr(body, f"{name}_{loop}")) for n, loop in steps)

            channels = body.channels - block * body.sets * body.tap_channels
            pass_ = {"groups": groups, "first": done == 0 and place == loops[0]}
            psums = {"groups": groups, "first": place == loops[0], "final": place == loops[-1], "region": region}
            jobs["ifmaps"].append({
                "address": address("x", body.x.offset) + _signed(body.x_origin) & mask, "channels": channels,
                "row": body.row_origin + fold * body.set_rows * body.row_dilation,
                "column": body.column_origin + segment * body.tap_columns * body.column_dilation})
            jobs["filters"].append({
                "address": address("w", body.w.offset) + done * _signed(body.w_group) & mask, "channels": channels,
                "rows": body.kernel_rows - fold * body.set_rows, "columns": body.kernel_columns
                - segment * body.tap_columns, "filters": left, "groups": groups})
            for name, job in (("feed", pass_), ("passes", pass_), ("starts", psums), ("results", psums)):
                jobs[name].append(job)
        jobs["preload"].append(move)
        jobs["store"].append(move)
        done, region = done + groups, region ^ 1
    return jobs, region


@pytest.mark.parametrize(("die", "seed", "slow"), [
    (preset("hypar-tiny"), 1, None), (preset("hypar-tiny"), 2, "filters"), (ROWS_MIXED, 3, "store")],
    ids=["eager", "slow filters", "mixed, slow store"])
def test_random_tasks(die: DieParameters, seed: int, slow: str | None) -> None:
    """Also one of another operation, and one beyond a limit: these are only reported."""
    rng = np.random.default_rng(seed)
    dut = RowStationarySequencer(Sizes(die))
    tasks = [(random_body(rng, die), kind) for kind in (GOOD, GOOD, OTHER, GOOD, BAD, GOOD)]
    expected: dict[str, list[dict[str, Any]]] = {name: [] for name in BLOCKS}
    region = 0
    for body, kind in tasks:
        if kind is GOOD:
            jobs, region = _rounds(body, die, region)
            for name, block_jobs in jobs.items():
                expected[name] += block_jobs
        elif kind is OTHER:
            expected["store"].append({"error": ErrorCode.BAD_OPERATION})
        else:
            body.interleaved_windows = 0
            expected["store"].append({"error": ErrorCode.BAD_OPERAND})
    counted = []

    async def bodies(ctx: Any) -> None:
        for body, kind in tasks:
            words = [*pack(RowStationaryBody, body), *[0] * BODY_WORDS][:BODY_WORDS]
            await send(ctx, dut.body, [{"index": index, "word": word, "last": index == BODY_WORDS - 1}
                                       for index, word in enumerate(words)])
            ctx.set(dut.operation, (kind or GOOD).value)
            await send(ctx, dut.start, [0])

    def takes(name: str) -> Any:
        async def bench(ctx: Any) -> None:
            gate = randomly(seed * 10 + len(name), 0.1 if name == slow else 0.9)
            got = await receive(ctx, getattr(dut, name), len(expected[name]), gate)
            for number, (job, wanted) in enumerate(zip(got, expected[name], strict=True)):
                for field, value in wanted.items():
                    assert getattr(job, field) == value, f"{name} {number}: {field}"
        return bench

    async def counts(ctx: Any) -> None:
        while True:
            *_, count = await ctx.tick().sample(dut.count)
            counted.extend([1] * count)

    simulate(dut, bodies, *(takes(name) for name in BLOCKS), limit_cycles=30_000, background=[counts])
    assert len(counted) == sum(kind is GOOD for _, kind in tasks)
