"""Windows of a prediction: what each is the last one of, and which of its neurons lie in a map, one a cycle."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.codes.window_walk import WindowWalk
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import MATRICES

PARAMETERS = replace(preset("ndp-demo"), transforms=((2, 3), (4, 3)), codes=True)
WAYS = [MATRICES[0], MATRICES[4], MATRICES[8]]


@pytest.mark.parametrize(("ways", "rows", "columns", "flits", "tiles"), [
    ((1, 1), 5, 3, 2, 14), ((2, 2), 9, 4, 1, 8), ((0, 2), 2, 5, 3, 9), ((0, 0), 2, 1, 1, 5), ((1, 2), 0, 0, 2, 3)])
def test_windows(ways: tuple[int, int], rows: int, columns: int, flits: int, tiles: int) -> None:
    """Maps whose sides tiles divide, and others; of several maps, the last one cut off; no maps at all."""
    down, across = (len(WAYS[way]) for way in ways)
    corners = [(row, column) for row in range(0, max(rows, 1), down) for column in range(0, max(columns, 1), across)]
    wanted = []
    for tile in range(tiles):
        row, column = corners[tile % len(corners)] if rows else (0, 0)
        inside = [[not rows or first + place < side for place in range(size)]
                  for first, side, size in ((row, rows, down), (column, columns, across))]
        for flit in range(flits):
            ends = flit == flits - 1
            wanted.append((ends, column + across >= columns, row + down >= rows, ends and tile == tiles - 1, *inside))
    dut, found = WindowWalk(PARAMETERS, WAYS), []

    async def walk(ctx: Any) -> None:
        for name, value in {"down": ways[0], "across": ways[1], "map_rows": rows, "map_columns": columns,
                            "bounded": rows != 0, "tiles": tiles, "channels": flits * PARAMETERS.flit_words}.items():
            ctx.set(dut.task[name], value)
        for _ in range(2):
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.moves, 1)
            for _ in wanted:
                ends = ctx.get(dut.ends)
                inside = [[ctx.get(side) >> place & 1 for place in range(size)]
                          for side, size in ((dut.rows, down), (dut.columns, across))]
                found.append((ends.tile, ends.row, ends.map, ends.task, *inside))
                await ctx.tick()
            ctx.set(dut.moves, 0)
            await ctx.tick()

    simulate(dut, walk, limit_cycles=200)
    assert found == 2 * wanted
