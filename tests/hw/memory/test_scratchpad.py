"""Vector memory and line tracker against a dictionary of elements."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from tests.support.amaranth_sim import simulate
from tests.support.refusal import refused

from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.scratchpad import VectorMemory

BANKS, LINES = 4, 64


def _command(base, capacity, row, column, along_rows):
    """Reference: the command's fields from the storage formula."""
    return {"line": (base + column // BANKS * capacity + row) % LINES, "capacity": capacity,
            "skew": (row + column) % BANKS, "column_low": column % BANKS, "along_rows": along_rows}


def _element(row, column, lane, along_rows):
    return (row + lane, column) if along_rows else (row, column + lane)


def _set_command(ctx, port, fields):
    for name, value in fields.items():
        ctx.set(getattr(port, name), value)


@pytest.mark.parametrize("seed", range(3))
def test_random_rows_and_columns(seed):
    """Writes and reads in every cycle, both directions, any alignment, lanes outside masked."""
    rng = np.random.default_rng(seed)
    dut = VectorMemory(BANKS, LINES, 32)
    base, capacity, rows, columns = 5, 13, 13, 11
    contents = {}
    expected = {}

    async def bench(ctx):
        for cycle in range(700):
            due = expected.pop(cycle, None)
            if due is not None:
                got = [ctx.get(dut.read.data[lane]) for lane in range(BANKS)]
                for lane, value in due.items():
                    assert got[lane] == value, (cycle, lane)
            visible = dict(contents)
            written = set()
            ctx.set(dut.write.enable, 0)
            ctx.set(dut.read.enable, 0)
            if rng.random() < 0.8:
                along = int(rng.integers(2))
                row = int(rng.integers(-3 if along else 0, rows))
                column = int(rng.integers(0 if along else -3, columns))
                _set_command(ctx, dut.write, _command(base, capacity, row, column, along))
                mask = 0
                for lane in range(BANKS):
                    value = int(rng.integers(1 << 32))
                    ctx.set(dut.write.data[lane], value)
                    i, j = _element(row, column, lane, along)
                    if 0 <= i < rows and 0 <= j < columns and rng.random() < 0.8:
                        mask |= 1 << lane
                        contents[i, j] = value
                        written.add((i, j))
                ctx.set(dut.write.mask, mask)
                ctx.set(dut.write.enable, 1)
            if rng.random() < 0.8:
                along = int(rng.integers(2))
                row = int(rng.integers(-3 if along else 0, rows))
                column = int(rng.integers(0 if along else -3, columns))
                _set_command(ctx, dut.read, _command(base, capacity, row, column, along))
                ctx.set(dut.read.enable, 1)
                elements = {lane: _element(row, column, lane, along) for lane in range(BANKS)}
                known = visible.keys() - written
                expected[cycle + dut.read_latency] = {lane: visible[element] for lane, element
                                                      in elements.items() if element in known}
            await ctx.tick()

    simulate(dut, bench)
    assert len(contents) == rows * columns


class _TrackedWrite(wiring.Component):
    """Only the tracker; here so that simulate() gets a design with a clock."""

    def __init__(self, words):
        self.tracker = LineTracker(BANKS, LINES, 8, 9, words=words)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.tracker = self.tracker
        return m


@pytest.mark.parametrize("words", [BANKS, BANKS // 2])
@pytest.mark.parametrize("along_rows", [0, 1])
def test_line_tracker(along_rows, words):
    """Every beat of a walk with a different offset a row, with idle cycles, two walks in a row."""
    rng = np.random.default_rng(7)
    due: list = []
    dut = _TrackedWrite(words)
    tracker = dut.tracker

    async def bench(ctx):
        for base, capacity, rows, columns in ((3, 11, 10, 10), (1, 12, 7, 5)):
            ctx.set(tracker.base, base)
            ctx.set(tracker.capacity, capacity)
            ctx.set(tracker.along_rows, along_rows)
            for row in range(rows):
                for column in range(-int(rng.integers(words)), columns, words):
                    ctx.set(tracker.row, row)
                    ctx.set(tracker.column, column)
                    ctx.set(tracker.take, 0)
                    while rng.random() < 0.3:
                        await ctx.tick()
                    i, j = (column, row) if along_rows else (row, column)
                    reference = _command(base, capacity, i, j, along_rows)
                    ctx.set(tracker.take, 1)
                    await ctx.tick()
                    due.append((row, column, {**reference, "capacity": capacity, "along_rows": along_rows}))

    async def watch(ctx):
        taken = [False] * LineTracker.latency
        while True:
            assert ctx.get(tracker.command.enable) == taken.pop()
            if ctx.get(tracker.command.enable):
                row, column, reference = due.pop(0)
                for name in ("line", "skew", "column_low", "capacity", "along_rows"):
                    assert ctx.get(getattr(tracker.command, name)) == reference[name], (row, column, name)
            taken.insert(0, bool(ctx.get(tracker.take)))
            await ctx.tick()

    simulate(dut, bench, background=[watch])
    assert len(due) <= LineTracker.latency


@pytest.mark.parametrize(("arguments", "error"), [
    ((3, 64, 32), ValueError), ((1, 64, 32), ValueError), ((4, 2, 32), ValueError), ((4, 0, 32), ValueError),
    ((4.0, 64, 32), TypeError), ((4, 64, True), TypeError),
])
def test_bad_parameters(arguments, error):
    with refused(error, "not"):
        VectorMemory(*arguments)
