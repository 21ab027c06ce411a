"""Places of windows and tiles against loops, at any edge of a map, whoever waits."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import randomly, receive, send, simulate

from plinth_hw.comm.place_walk import PlaceWalk
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import form


def places(lattice, blocks):
    """Address, words, inside, last of each place."""
    row, column = lattice["row"], lattice["column"]
    for block in blocks:
        for i in range(lattice["last_down"] + 1):
            for j in range(lattice["last_across"] + 1):
                yield (block["address"] + i * lattice["down"] + j * lattice["across"], block["words"],
                       0 <= row + i < lattice["rows"] and 0 <= column + j < lattice["columns"],
                       (i, j) == (lattice["last_down"], lattice["last_across"]))
        if block["ends_tile"]:
            column = lattice["column"] if block["ends_row"] else column + lattice["column_step"]
        if block["ends_row"]:
            row += lattice["row_step"]


@pytest.mark.parametrize(("kernel", "outputs", "side", "seed", "offer", "accept"), [
    ((3, 3), 2, 0, 1, 1.0, 1.0), ((3, 3), 4, 0, 2, 0.5, 1.0), ((5, 5), 2, 0, 3, 1.0, 0.5), ((3, 1), 2, 0, 4, 0.7, 0.7),
    ((3, 3), 4, 1, 5, 1.0, 0.7)])
def test_places_are_those_of_loops(kernel, outputs, side, seed, offer, accept) -> None:
    """Three tasks on one walk."""
    parameters, rng = preset("ndp-tiny"), np.random.default_rng(seed)
    beat = parameters.beat_words
    dut = PlaceWalk(parameters, 6)
    tasks = []
    for _ in range(3):
        sides, channels = (int(rng.integers(5, 10)), int(rng.integers(5, 10))), int(rng.integers(1, 3 * beat))
        padding = tuple(int(rng.integers(taps)) for taps in kernel)
        down, across = form(kernel, outputs).lattices(sides, padding)[side]
        lattice = {"down": sides[1] * channels, "across": channels, "last_down": down.reach - 1,
                   "last_across": across.reach - 1, "row": down.first, "column": across.first,
                   "row_step": down.step, "column_step": across.step, "rows": sides[0], "columns": sides[1]}
        base = int(rng.integers(1000, 2000))
        tasks.append((lattice, [
            {"address": base + (i * down.step * sides[1] + j * across.step) * channels + first,
             "words": min(beat, channels - first), "ends_tile": first + beat >= channels,
             "ends_row": first + beat >= channels and j == across.count - 1}
            for i in range(down.count) for j in range(across.count) for first in range(0, channels, beat)]))
    wanted = [list(places(*task)) for task in tasks]
    received: list[Any] = []

    async def source(ctx: Any) -> None:
        for number, (lattice, blocks) in enumerate(tasks):
            for name, value in lattice.items():
                ctx.set(getattr(dut, name) if name.startswith("last") else dut.lattice[name], value)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await send(ctx, dut.block, blocks, randomly(seed, offer))
            while len(received) < sum(map(len, wanted[:number + 1])):
                await ctx.tick()

    async def sink(ctx: Any) -> None:
        pattern = randomly(seed + 10, accept)
        for task in wanted:
            for _ in task:
                received.extend(await receive(ctx, dut.o, 1, pattern, lambda o: (o.address, o.words, o.inside, o.last)))

    simulate(dut, source, sink)
    assert received == [place for task in wanted for place in task]


def test_a_place_a_cycle() -> None:
    parameters, blocks, cycles = preset("ndp-tiny"), 20, []
    dut = PlaceWalk(parameters, 6)

    async def source(ctx: Any) -> None:
        ctx.set(dut.last_down, 3)
        ctx.set(dut.last_across, 3)
        await send(ctx, dut.block, [{"address": 0, "words": 1}] * blocks)

    async def sink(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(cycles) < 16 * blocks:
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            cycle += 1
            if valid:
                cycles.append(cycle)

    simulate(dut, source, sink)
    assert cycles[-1] - cycles[0] + 1 == 16 * blocks


def test_windows_beyond_all_maps_do_not_come_back() -> None:
    """Of one place each, in one row of tiles, farther than what places are counted in."""
    dut, tiles, inside = PlaceWalk(preset("ndp-tiny"), 6), 7000, []
    lattice = {"row": 0, "column": 32767, "row_step": 15, "column_step": 15, "rows": 1, "columns": 65535}

    async def source(ctx: Any) -> None:
        for name, value in lattice.items():
            ctx.set(dut.lattice[name], value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.block.payload.ends_tile, 1)
        ctx.set(dut.block.valid, 1)
        ctx.set(dut.o.ready, 1)
        while len(inside) < tiles:
            _, _, valid, place = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid:
                inside.append(bool(place.inside))

    simulate(dut, source)
    assert inside == [32767 + 15 * tile < 65535 for tile in range(tiles)]


@pytest.mark.parametrize("accept", [1.0, 0.6])
@pytest.mark.parametrize(("places", "longer", "count"), [(2, 0, 3), (2, 1, 3), (1, 2, 4), (4, 0, 1)])
def test_places_of_several_dies(places: int, longer: int, count: int, accept: float) -> None:
    """Each die has those of a block from its first one on, the first ``longer`` one more."""
    dut, step, received = PlaceWalk(preset("ndp-tiny"), 16, spreads=True), 3, []
    sizes = [places + (member < longer) for member in range(count)]
    blocks = [{"address": 1000 * number + 40, "words": 2} for number in range(5)]
    wanted = [(5 + step * member, block["address"] + 6 * place)
              for block in blocks for member in range(count) for place in range(sizes[member])]

    async def source(ctx: Any) -> None:
        for name, value in {"several": count > 1, "die": 5, "step": step, "places": places - 1,
                            "longer": longer}.items():
            ctx.set(dut.members[name], value)
        ctx.set(dut.lattice.across, 6)
        ctx.set(dut.last_across, sum(sizes) - 1)
        await send(ctx, dut.block, blocks, randomly(2, 0.7))

    async def sink(ctx: Any) -> None:
        received.extend(await receive(ctx, dut.o, len(wanted), randomly(3, accept), lambda o: (o.die, o.address)))

    simulate(dut, source, sink)
    assert received == wanted
