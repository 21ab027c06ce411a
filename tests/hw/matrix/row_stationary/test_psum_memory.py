"""Beats of spans cut into lines of a bank: the lines that have words, each once, at their places, in their order."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import signed
from tests.support.amaranth_sim import always, randomly, receive, send, simulate

from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.row_stationary.jobs import Sizes
from plinth_hw.matrix.row_stationary.psum_memory import LinesOfBeat

TWO = preset("hypar-tiny", rows=4, columns=6, beat_words=8, operand_buffer_words=768, output_buffer_words=6 * 144,
             flit_words=2, memory_words_per_cycle=8)
FOUR = preset("hypar-tiny", beat_words=16, operand_buffer_words=512, flit_words=4, memory_words_per_cycle=16)


@pytest.mark.parametrize("die", [preset("hypar-tiny"), TWO, FOUR])
@pytest.mark.parametrize("stalls", [False, True])
def test_lines_are_those_that_have_words(die: DieParameters, stalls: bool) -> None:
    sizes, generator = Sizes(die), np.random.default_rng(5)
    lanes, feed = sizes.beat_words, sizes.feed
    dut = LinesOfBeat(sizes, signed(lanes.bit_length()))
    beats, lines = [], []
    for _ in range(60):
        first = int(generator.integers(lanes))
        count = int(generator.integers(1, lanes - first + 1))
        column, word = int(generator.integers(4)), int(generator.integers(32, 64))
        mask, last = ((1 << count) - 1) << first, int(generator.integers(2))
        beats.append({"place": {"column": column, "word": word}, "column": -first, "mask": mask, "last": last})
        numbers = range(first // feed, (first + count - 1) // feed + 1)
        lines += [(column, word - first + number * feed, mask >> number * feed & (1 << feed) - 1, number,
                   int(number == numbers[-1]), int(last and number == numbers[-1])) for number in numbers]
    taken: list[tuple[int, ...]] = []

    async def give(ctx: Any) -> None:
        await send(ctx, dut.i, beats, randomly(1) if stalls else always())

    async def take(ctx: Any) -> None:
        taken.extend(await receive(ctx, dut.o, len(lines), randomly(2) if stalls else always(), lambda line: (
            line.place.column, line.place.word, line.mask, line.number, line.beat_last, line.last)))
        for _ in range(4):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()

    simulate(dut, give, take, limit_cycles=2000)
    assert taken == lines
