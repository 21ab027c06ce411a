"""Words of bodies with addresses in place of pointers."""

import numpy as np
from tests.support.amaranth_sim import simulate
from tests.support.engine_bench import resolved

from plinth_hw.control.bases import BodyAddresses
from plinth_hw.isa.descriptors import BODY_WORDS, DESCRIPTOR_WORDS, HEADER_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.tasks import pointer_words

PARAMETERS = preset("fpga-tiny")


def test_addresses():
    """Bodies of every engine, words of any value, pointers of every base."""
    dut = BodyAddresses(PARAMETERS)
    rng = np.random.default_rng(1)
    bases = rng.integers(0, 1 << 32, BASE_COUNT).tolist()

    async def bench(ctx):
        for _ in range(3):
            for position, engine in enumerate(dut.engines):
                body = rng.integers(0, 1 << 32, BODY_WORDS).tolist()
                wanted = resolved(PARAMETERS.body(engine), body, bases)
                for index, (word, address) in enumerate(zip(body, wanted, strict=True), HEADER_WORDS):
                    ctx.set(dut.position, position)
                    ctx.set(dut.index, index)
                    ctx.set(dut.word, word)
                    ctx.set(dut.base, bases[ctx.get(dut.number)])
                    await ctx.tick()
                    assert ctx.get(dut.o) == address, (engine, index)

    assert PARAMETERS.address_bits == 32
    simulate(dut, bench)


def test_pointer_words():
    """Those of repeated fields are found; every body leaves the header alone."""
    assert pointer_words(PARAMETERS.body(Engine.VECTOR)) == tuple(range(10, 31, 3))
    for engine in Engine:
        words = pointer_words(PARAMETERS.body(engine))
        assert len(set(words)) == len(words) > 0
        assert max(words) < DESCRIPTOR_WORDS - HEADER_WORDS
