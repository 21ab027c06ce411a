"""Words of a body with addresses in place of pointers."""

import numpy as np
from tests.support.amaranth_sim import simulate

from plinth_hw.control.bases import BodyAddresses
from plinth_hw.isa.layout import pack
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.tasks import Pointer

PARAMETERS = preset("ndp-tiny", address_bits=20)
POINTERS = (0, 3)


def test_addresses():
    """Words come with and without gaps; pointers of every base; other words as they are."""
    dut = BodyAddresses(PARAMETERS, POINTERS)
    rng = np.random.default_rng(1)
    bases = rng.integers(0, 1 << 18, BASE_COUNT).tolist()
    given, got = [], []

    async def bench(ctx):
        ctx.set(dut.bases, bases)
        for step in range(200):
            index, last, valid = step % 5, int(step % 5 == 4), int(rng.integers(4) > 0)
            base, offset = int(rng.integers(BASE_COUNT)), int(rng.integers(1 << 18))
            (word,) = pack(Pointer, {"base": base, "offset": offset})
            ctx.set(dut.i, {"index": index, "word": word, "last": last})
            ctx.set(dut.i_valid, valid)
            if valid:
                given.append((index, bases[base] + offset if index in POINTERS else word, last))
            await ctx.tick()

    async def watch(ctx):
        while True:
            _, _, valid, word = await ctx.tick().sample(dut.o_valid, dut.o)
            if valid:
                got.append((word.index, word.word, word.last))

    simulate(dut, bench, background=[watch])
    assert len(got) > 100
    assert got == given[:len(got)]
    assert len(given) - len(got) <= 1
