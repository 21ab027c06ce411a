# amaranth: UnusedElaboratable=no
"""Transforms of blocks: golden equals RTL bit for bit, all transforms both ways, whoever waits; products by powers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from tests.support.amaranth_sim import always, randomly, receive, send, simulate

from plinth_hw.arith.power import times_power
from plinth_hw.comm.tile_transform import TileTransform
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import transform, transposed
from plinth_sim.golden import arithmetic, winograd

ONE = ((Fraction(1),),)
SMALL, LARGE, WIDE = transform(2, 3), transform(4, 3), transform(2, 5)


def both_ways(*matrices):
    """And their transposes, and 1."""
    return (ONE, *(way for matrix in matrices for way in (matrix, transposed(matrix))))


SETS = {"F(2,3)": both_ways(SMALL.a, SMALL.b), "F(4,3)": both_ways(LARGE.a, LARGE.b),
        "all": both_ways(SMALL.a, SMALL.b, LARGE.a, LARGE.b, WIDE.a)}


def numbers(rng, shape):
    """Bit patterns of FP32: of one size, of any, and special ones."""
    kinds = rng.integers(0, 8, shape)
    plain = rng.standard_normal(shape).astype(np.float32).view(np.uint32)
    special = rng.choice(np.array([0, 1 << 31, FP32.infinity, FP32.infinity | 1 << 31, FP32.quiet_nan, 0x7F800001,
                                   0xFFFFFFFF, 1, 0x007FFFFF, 0x00400000, 0x00800000, 0x7F7FFFFF, 0xFE7FFFFF],
                                  dtype=np.uint32), shape)
    patterns = np.where(kinds < 6, plain, rng.integers(0, 1 << 32, shape, dtype=np.uint32))
    return np.where(kinds == 7, special, patterns)


class Power(wiring.Component):
    def __init__(self, fmt):
        self.fmt = fmt
        super().__init__({"number": In(fmt.bits), "power": In(2), "negative": In(1), "o": Out(fmt.bits)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(times_power(self.fmt, self.number, self.power, self.negative))
        return m


@pytest.mark.parametrize("fmt", [FP16, FP32])
def test_products_by_powers(fmt) -> None:
    """FP16 all numbers; FP32 all exponents and random numbers."""
    rng = np.random.default_rng(1)
    if fmt is FP16:
        operands, multiply = np.arange(1 << 16, dtype=np.uint32)[::7], None
    else:
        operands, multiply = np.concatenate([numbers(rng, 3000), np.arange(512, dtype=np.uint32) << 23,
                                             rng.integers(0, 1 << 23, 500, dtype=np.uint32)]), arithmetic.multiply
    dut = Power(fmt)
    outputs: dict[tuple[int, int], list[int]] = {}

    async def bench(ctx: Any) -> None:
        for power, negative in ((0, 0), (1, 1), (2, 0), (3, 1)):
            ctx.set(dut.power, power)
            ctx.set(dut.negative, negative)
            scaled = outputs[power, negative] = []
            for number in operands.tolist():
                ctx.set(dut.number, number)
                scaled.append(ctx.get(dut.o))

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
    for (power, negative), scaled in outputs.items():
        factor = (-1 if negative else 1) * 2**power
        if multiply is None:
            with np.errstate(all="ignore"):
                products = arithmetic.canonical(
                    (operands.astype(np.uint16).view(np.float16).astype(np.float32) * factor).astype(np.float16))
            wanted = products.view(np.uint16)
        else:
            wanted = multiply(np.full(operands.shape, factor, dtype=np.float32).view(np.uint32), operands)
        np.testing.assert_array_equal(np.array(scaled, dtype=wanted.dtype), wanted)


def transformed(matrices, block, words):
    """Golden model of one block, ``[down, across, words]``."""
    ways = [(matrices[block["down"]], 0), (matrices[block["across"]], 1)]
    for matrix, axis in ways if block["down_first"] else ways[::-1]:
        words = winograd.weighted(matrix, words, axis)
    return words


@pytest.mark.parametrize(("name", "settings", "offer", "accept", "seed"), [
    ("F(2,3)", {"flit_words": 2}, 1.0, 1.0, 1), ("F(4,3)", {"flit_words": 2}, 0.6, 1.0, 2),
    ("all", {"flit_words": 1}, 1.0, 0.4, 3), ("F(2,3)", {"flit_words": 4}, 0.8, 0.8, 4)])
def test_random_blocks(name, settings, offer, accept, seed) -> None:
    parameters = preset("ndp-tiny", **settings)
    flit_words, most = parameters.flit_words, parameters.beat_words // parameters.flit_words
    rng, matrices = np.random.default_rng(seed), SETS[name]
    blocks, sent, wanted = [], [], []
    for _ in range(12):
        block = {"down": int(rng.integers(len(matrices))), "across": int(rng.integers(len(matrices))),
                 "down_first": int(rng.integers(2)), "sectors": int(rng.integers(most))}
        shape = [len(matrices[block[side]][0]) for side in ("down", "across")]
        words = numbers(rng, (*shape, (block["sectors"] + 1) * flit_words))
        blocks.append(block)
        sent += words.reshape(-1, flit_words).tolist()
        outputs = transformed(matrices, block, words.view(np.float32))
        wanted += outputs.view(np.uint32).reshape(-1, flit_words).tolist()
    dut = TileTransform(parameters, matrices)
    received: list[Any] = []

    async def commands(ctx: Any) -> None:
        await send(ctx, dut.block, blocks, randomly(seed, offer))

    async def source(ctx: Any) -> None:
        await send(ctx, dut.i, sent, randomly(seed + 10, offer))

    async def sink(ctx: Any) -> None:
        received.extend(await receive(ctx, dut.o, len(wanted), randomly(seed + 20, accept), list))

    simulate(dut, commands, source, sink)
    assert received == wanted


@pytest.mark.parametrize(("name", "down", "across"), [
    ("F(2,3)", SMALL.b, SMALL.b), ("F(2,3)", SMALL.a, SMALL.a), ("F(2,3)", transposed(SMALL.a), transposed(SMALL.a)),
    ("F(4,3)", transposed(LARGE.b), transposed(LARGE.b)), ("F(4,3)", LARGE.a, LARGE.a), ("F(2,3)", SMALL.b, ONE)])
def test_a_flit_a_cycle(name, down, across) -> None:
    """Of the larger side of each direction, once the first block is out."""
    parameters, matrices, blocks = preset("ndp-tiny"), SETS[name], 8
    most = parameters.beat_words // parameters.flit_words
    dut = TileTransform(parameters, matrices)
    block = {"down": matrices.index(down), "across": matrices.index(across), "down_first": 0, "sectors": most - 1}
    flits_in, flits_out = most * len(down[0]) * len(across[0]), most * len(down) * len(across)
    ends: list[int] = []

    async def commands(ctx: Any) -> None:
        await send(ctx, dut.block, [block] * blocks)

    async def source(ctx: Any) -> None:
        await send(ctx, dut.i, [[0] * parameters.flit_words] * flits_in * blocks, always())

    async def sink(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        count, cycle = 0, 0
        while count < flits_out * blocks:
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            cycle, count = cycle + 1, count + valid
            if valid and not count % flits_out:
                ends.append(cycle)

    simulate(dut, commands, source, sink)
    period = most * max(len(down[0]) * max(len(across), len(across[0])), len(across) * max(len(down), len(down[0])))
    assert ends[-1] - ends[1] <= (blocks - 2) * (period + 2)


def test_only_fp32() -> None:
    with pytest.raises(TypeError, match="tiles are transformed in FP32"):
        TileTransform(preset("fpga-tiny"), SETS["F(2,3)"])
