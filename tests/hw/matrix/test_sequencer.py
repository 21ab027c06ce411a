"""Systolic sequencer: panels and tiles of random products, with takers of every mood."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.engine_bench import body_words, resolved

from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.matrix.sequencer import SystolicSequencer
from plinth_hw.matrix.window import Start

GEOMETRY = Geometry(preset("ndp-tiny"))


def _task(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """A product of up to three blocks each way; every fifth has an option that does not exist."""
    option = int(rng.integers(GEOMETRY.options)) if number % 5 != 4 else GEOMETRY.options
    span = [values[option % GEOMETRY.options] for values in (GEOMETRY.a_span, GEOMETRY.b_span, GEOMETRY.panel_k)]
    m, n, k = (int(rng.integers(1, 3 * block + 1)) for block in span)
    return {"m": m, "n": n, "k": k, "interleave_m_log2": option, "transpose_a": int(rng.integers(2)),
            "transpose_b": int(rng.integers(2)), "accumulate": int(rng.integers(2)),
            "a": {"base": 1, "offset": 8}, "b": {"base": 2, "offset": 16}, "c": {"base": 3, "offset": 24},
            "a_stride": 100, "b_stride": 200, "c_stride": 300}


class Jobs:
    """What must be handed out, in order."""

    def __init__(self, tasks: list[dict[str, Any]]) -> None:
        self.feed: list[dict[str, Any]] = []
        self.tiles: dict[str, list[dict[str, Any]]] = {"preload": [], "store": []}
        self.loads: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        for task in tasks:
            self._task(task)

    def _task(self, task: dict[str, Any]) -> None:
        option = task["interleave_m_log2"]
        if option >= GEOMETRY.options:
            self.tiles["store"].append({"error": ErrorCode.BAD_OPERAND, "task_last": 1})
            return
        span = {"m": GEOMETRY.a_span[option], "n": GEOMETRY.b_span[option], "k": GEOMETRY.panel_k[option]}
        blocks = {axis: [min(span[axis], task[axis] - at) for at in range(0, task[axis], span[axis])] for axis in "mnk"}
        panels = len(blocks["k"])
        for i, rows in enumerate(blocks["m"]):
            for j, columns in enumerate(blocks["n"]):
                tile = {"rows": rows, "columns": columns, "option": option, "offset": j * span["n"],
                        "error": ErrorCode.NONE, "task_last": i == len(blocks["m"]) - 1 and j == len(blocks["n"]) - 1,
                        "start": Start.ORIGIN if i == j == 0 else Start.NEXT if j == 0 else Start.AGAIN}
                for p, k in enumerate(blocks["k"]):
                    self.feed.append({
                        "k": k, "rows": rows, "columns": columns, "option": option, "first": p == 0,
                        "last": p == panels - 1, "accumulate": task["accumulate"],
                        "task_last": tile["task_last"] and p == panels - 1})
                    # A while n advances, and B while m advances over a single block of n, stay where they are.
                    kept = {"a": panels <= 2 and j > 0, "b": panels <= 2 and i > 0 and len(blocks["n"]) == 1}
                    for name, length in (("a", rows), ("b", columns)):
                        if not kept[name]:
                            self.loads[name].append({"k": k, "span": length, "option": option,
                                                     "first": i == j == p == 0})
                    if p == 0 and task["accumulate"]:
                        self.tiles["preload"].append(tile)
                    if p == panels - 1:
                        self.tiles["store"].append(tile)


def _agrees(got: Any, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        assert getattr(got, name) == value, name


@pytest.mark.parametrize(("seed", "ready"), [(1, 1.0), (2, 0.3)])
def test_random_products(seed: int, ready: float) -> None:
    rng = np.random.default_rng(seed)
    tasks = [_task(rng, number) for number in range(10)]
    jobs = Jobs(tasks)
    dut = SystolicSequencer(GEOMETRY)
    loaded: dict[str, list[int]] = {"a": [], "b": []}

    async def bodies(ctx: Any) -> None:
        for task in tasks:
            body = resolved(MatrixBody, body_words(MatrixBody, task), range(0, 4000, 1000))
            await send(ctx, dut.body, [{"index": index, "word": word, "last": index == BODY_WORDS - 1}
                                       for index, word in enumerate(body)])
            ctx.set(dut.operation, MatrixOperation.GEMM.value)
            await send(ctx, dut.start, [0])

    def loads(name: str, base: int, stride: int) -> Any:
        port = dut.a_load if name == "a" else dut.b_load

        async def bench(ctx: Any) -> None:
            got = await receive(ctx, port, len(jobs.loads[name]), randomly(seed, ready))
            for job, wanted in zip(got, jobs.loads[name], strict=True):
                _agrees(job.panel, {key: value for key, value in wanted.items() if key != "first"})
                assert job.first == wanted["first"]
                assert (job.view.grid.origin, job.view.grid.step) == (base, stride)
                loaded[name].append(job.panel.half)
        return bench

    async def feeds(ctx: Any) -> None:
        """Releases panels some time after they were given; no half is to be loaded that one of them still needs."""
        gate, leaves, users = randomly(seed + 9, ready), randomly(seed, 0.05), []
        for wanted in jobs.feed:
            taken = accepts = False
            while not taken:
                accepts, releases = accepts or next(gate), bool(users) and next(leaves)
                ctx.set(dut.feed.ready, accepts)
                ctx.set(dut.release, releases)
                for port, half in zip((dut.a_released, dut.b_released), users[0] if users else (0, 0), strict=True):
                    ctx.set(port, half)
                for operand, port in enumerate((dut.a_load, dut.b_load)):
                    if ctx.get(port.valid) and ctx.get(port.ready):
                        assert ctx.get(port.payload.panel.half) not in {halves[operand] for halves in users}
                *_, valid, job = await ctx.tick().sample(dut.feed.valid, dut.feed.payload)
                users = users[releases:]
                taken = valid and accepts
            _agrees(job, wanted)
            users.append((job.a_half, job.b_half))
        ctx.set(dut.feed.ready, 0)

    def tiles(name: str) -> Any:
        async def bench(ctx: Any) -> None:
            got = await receive(ctx, getattr(dut, name), len(jobs.tiles[name]), randomly(seed + 2, ready))
            for job, wanted in zip(got, jobs.tiles[name], strict=True):
                _agrees(job, wanted)
                if wanted["error"] is ErrorCode.NONE:
                    assert (job.grid.origin, job.grid.step) == (3024, 300)
        return bench

    simulate(dut, bodies, loads("a", 1008, 100), loads("b", 2016, 200), feeds, tiles("preload"), tiles("store"),
             limit_cycles=20_000)
    for halves in loaded.values():
        assert set(halves) == {0, 1}
