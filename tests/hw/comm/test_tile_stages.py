"""Windows to tiles and tiles to maps, with what reads them: golden equals RTL bit for bit, at any alignment."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from tests.hw.comm.test_tile_transform import both_ways, numbers
from tests.support.amaranth_sim import always, randomly, send
from tests.support.memory_model import MemoryModel
from tests.support.verilated import Verilated

from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import TileRead
from plinth_hw.comm.tile_stages import TileStages
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import TRANSFORMS, form, transposed
from plinth_hw.memory.port import ReadPort
from plinth_sim.golden import arithmetic, winograd

#: Words of the memory that is read, and of the one that is written.
WORDS = 1 << 14


class Stages(wiring.Component):
    """Stages with what reads their places."""

    def __init__(self, parameters, matrices):
        self.read_part, self.stages = TileRead(parameters), TileStages(parameters, matrices)
        members = self.stages.signature.members
        super().__init__({"port": Out(ReadPort(parameters)), **{
            name: member for name, member in members.items() if name not in ("piece", "flit")}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.read, m.submodules.stages = self.read_part, self.stages
        wiring.connect(m, self.stages.piece, self.read_part.piece)
        wiring.connect(m, self.read_part.o, self.stages.flit)
        wiring.connect(m, self.read_part.read, wiring.flipped(self.port))
        for name in ("block", "o"):
            wiring.connect(m, getattr(self.stages, name), wiring.flipped(getattr(self, name)))
        for name in ("start", "source", "destination", "down", "across", "down_first"):
            m.d.comb += getattr(self.stages, name).eq(getattr(self, name))
        m.d.comb += self.idle.eq(self.stages.idle)
        return m


@cache
def built(parameters, matrices):
    """Built once for both ways."""
    return Verilated(Stages(parameters, matrices))


def matrices_of(*lattices):
    """Those of a form's inputs and outputs."""
    return tuple(dict.fromkeys(both_ways(*(lattice.matrix for lattice in lattices))))


def unbounded(sizes, words):
    """Places of a tile buffer, ``[T, T', tiles, words]``, all of which exist."""
    return {"down": sizes[1] * words, "across": words, "rows": sizes[0], "columns": sizes[1]}


def bounded(pair, shape, channels):
    """Places of a map."""
    down, across = pair
    return {"down": shape[1] * channels, "across": channels, "row": down.first, "column": across.first,
            "row_step": down.step, "column_step": across.step, "rows": shape[0], "columns": shape[1]}


def run(parameters, matrices, task, memory, target, seed, offer=1.0, accept=1.0):
    """Run a task, and add or store what comes; returns the cycles from first block to last flit."""
    stages = built(parameters, matrices)
    dut = stages.component
    model = MemoryModel(parameters, WORDS)
    model.words[:] = memory
    packets: list[Any] = []
    cycles = [0, 0]

    async def source(ctx: Any) -> None:
        for side in ("source", "destination"):
            for name, value in task[side].items():
                ctx.set(getattr(dut, side)[name], value)
        for name in ("down", "across"):
            ctx.set(getattr(dut, name), matrices.index(task[name]))
        ctx.set(dut.down_first, task["down_first"])
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await send(ctx, dut.block, task["blocks"], randomly(seed, offer) if seed else always())
        await ctx.tick().until(dut.idle)
        for _ in range(40):
            await ctx.tick()

    async def sink(ctx: Any) -> None:
        pattern, taken = randomly(seed + 1, accept), dut.o.ready
        sampled = dut.o.valid, taken, dut.o.payload
        while True:
            ctx.set(taken, next(pattern))
            _, _, valid, ready, flit = await ctx.tick().sample(*sampled)
            cycles[0] += 1
            if valid and ready:
                cycles[1] = cycles[0]
                packets.append((flit.address, flit.words, flit.tail, list(flit.data)))

    stages.simulate(source, background=[sink, *model.benches([dut.port], latency=20, seed=seed or None,
                                                             availability=0.7)])
    reach, flit_words, at = packet_words(parameters), parameters.flit_words, None
    for address, count, tail, lanes in packets:
        if at is None:
            at = first = address
        words, place = np.array(lanes[at % flit_words:][:count], dtype=np.uint32), target[at:at + count]
        place[:] = arithmetic.add(place, words) if task["adds"] else words
        at += count
        assert at - 1 < (first // reach + 1) * reach
        if tail:
            at = None
    assert at is None
    return cycles[1]


def blocks_of(pair, channels, beat, source, destination):
    """Blocks of all tiles; addresses by tile (row, column)."""
    down, across = pair
    return [{"source": source(i, j) + first, "destination": destination(i, j) + first,
             "words": min(beat, channels - first), "ends_tile": first + beat >= channels,
             "ends_row": first + beat >= channels and j == across.count - 1}
            for i in range(down.count) for j in range(across.count) for first in range(0, channels, beat)]


@pytest.mark.parametrize(("kernel", "outputs", "forward", "flit_words", "seed", "offer", "accept"), [
    ((3, 3), 2, True, 2, 1, 1.0, 1.0), ((3, 3), 2, False, 2, 2, 0.5, 1.0), ((3, 3), 4, True, 4, 3, 1.0, 0.5),
    ((5, 5), 2, False, 2, 4, 0.8, 0.8), ((1, 3), 2, True, 1, 5, 1.0, 0.8), ((3, 1), 2, False, 2, 6, 1.0, 1.0)])
def test_scatter_and_gather(kernel, outputs, forward, flit_words, seed, offer, accept) -> None:
    """Of inputs and outputs forward, of outputs' and inputs' errors backward."""
    parameters, rng = preset("ndp-tiny", flit_words=flit_words, transforms=TRANSFORMS), np.random.default_rng(seed)
    beat, tile_form = parameters.beat_words, form(kernel, outputs)
    shape, channels = (int(rng.integers(5, 7)), int(rng.integers(5, 7))), int(rng.integers(2, 2 * beat))
    padding = tuple(int(rng.integers(taps)) for taps in kernel)
    inputs, out_lattices = tile_form.lattices(shape, padding)
    outputs_shape = tuple(side + 2 * pad - taps + 1 for side, pad, taps in zip(shape, padding, kernel, strict=True))
    first, second = ((inputs, shape), (out_lattices, outputs_shape)) if forward else (
        (out_lattices, outputs_shape), (inputs, shape))
    matrices = matrices_of(*inputs, *out_lattices)
    counts, sizes = [lattice.count for lattice in inputs], [lattice.size for lattice in inputs]
    base, target_base = int(rng.integers(100)), int(rng.integers(100))
    tiles, pitch = counts[0] * counts[1], counts[0] * counts[1] * channels

    (pair, side) = first
    maps = numbers(rng, (1, *side, channels)).view(np.float32)
    memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    memory[base:base + maps.size] = maps.view(np.uint32).ravel()
    target = np.full(WORDS, 77, dtype=np.uint32)
    run(parameters, matrices, {
        "source": bounded(pair, side, channels), "destination": unbounded(sizes, pitch), "down": pair[0].matrix,
        "across": pair[1].matrix, "down_first": 0, "adds": False, "blocks": blocks_of(
            pair, channels, beat, lambda i, j: base + ((pair[0].first + i * pair[0].step) * side[1] + pair[1].first
                                                       + j * pair[1].step) * channels,
            lambda i, j: target_base + (i * counts[1] + j) * channels)}, memory, target, seed, offer, accept)
    wanted = np.full(WORDS, 77, dtype=np.uint32)
    golden = winograd.scatter(pair, maps)[0].transpose(2, 3, 0, 1, 4)
    wanted[target_base:target_base + golden.size] = np.ascontiguousarray(golden).view(np.uint32).ravel()
    np.testing.assert_array_equal(target, wanted)

    (pair, side) = second
    values = numbers(rng, (*sizes, tiles, channels)).view(np.float32)
    memory[base:base + values.size] = values.view(np.uint32).ravel()
    adds = any(lattice.reach > lattice.step for lattice in pair)
    size = side[0] * side[1] * channels
    target = np.full(WORDS, 77, dtype=np.uint32)
    target[target_base:target_base + size] = 0
    wanted = target.copy()
    run(parameters, matrices, {
        "source": unbounded(sizes, pitch), "destination": bounded(pair, side, channels),
        "down": transposed(pair[0].matrix), "across": transposed(pair[1].matrix), "down_first": 1, "adds": adds,
        "blocks": blocks_of(
            pair, channels, beat, lambda i, j: base + (i * counts[1] + j) * channels,
            lambda i, j: target_base + ((pair[0].first + i * pair[0].step) * side[1] + pair[1].first
                                        + j * pair[1].step) * channels)}, memory, target, seed, offer, accept)
    golden = winograd.gather(pair, values.reshape(*sizes, *counts, channels).transpose(2, 3, 0, 1, 4)[None], side)
    wanted[target_base:target_base + size] = golden.view(np.uint32).ravel()
    np.testing.assert_array_equal(target, wanted)


@pytest.mark.parametrize("outputs", [2, 4])
def test_a_flit_a_cycle(outputs) -> None:
    """A map of several tiles, channels of whole beats: once the first block is there, the flits of all tiles follow."""
    parameters, channels = preset("ndp-tiny", transforms=TRANSFORMS), 8
    shape = (3 * outputs, 3 * outputs)
    pair, others = form((3, 3), outputs).lattices(shape, (1, 1))
    sizes, pitch = [lattice.size for lattice in pair], pair[0].count * pair[1].count * channels
    memory = np.zeros(WORDS, dtype=np.uint32)
    cycles = run(parameters, matrices_of(*pair, *others), {
        "source": bounded(pair, shape, channels), "destination": unbounded(sizes, pitch), "down": pair[0].matrix,
        "across": pair[1].matrix, "down_first": 0, "adds": False, "blocks": blocks_of(
            pair, channels, parameters.beat_words,
            lambda i, j: WORDS // 2 + ((i * outputs - 1) * shape[1] + j * outputs - 1) * channels,
            lambda i, j: (i * pair[1].count + j) * channels)}, memory, memory.copy(), 0)
    flits = sizes[0] * sizes[1] * pitch // parameters.flit_words
    block = sizes[0] * sizes[1] * parameters.beat_words // parameters.flit_words
    assert flits <= cycles <= 1.06 * flits + 2 * block + 120
