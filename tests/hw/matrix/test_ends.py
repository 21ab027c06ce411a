# amaranth: UnusedElaboratable=no
"""Sums that are stored at an end of their fixed-point format are counted, beat by beat."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.isa.formats import FP16, Q3_12, Fixed
from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.ends import SumsAtEnds
from plinth_sim.golden import matrix


@pytest.mark.parametrize("operands", [Q3_12, Fixed(7, 8)])
def test_words_that_are_written_are_counted(operands: Fixed) -> None:
    """Ends of either sign and their neighbours; words that are not written, beats that are not taken."""
    die = preset("ndp-tiny", multiply_format=operands)
    rng, beats, least, most = np.random.default_rng(1), 200, operands.least, operands.most
    values = rng.choice(np.array([least, most, least + 1, most - 1, -1, 0, 1], np.int16), (beats, die.beat_words))
    strobes, valid = rng.integers(0, 1 << die.beat_words, beats), rng.integers(0, 2, beats)
    values[0], strobes[0], valid[0] = least, (1 << die.beat_words) - 1, 1
    dut = SumsAtEnds(die)
    counts: list[int] = []

    async def drive(ctx: Any) -> None:
        for row, strobe, taken in zip(values.view(np.uint16), strobes, valid, strict=True):
            ctx.set(dut.data, sum(int(word) << 16 * place for place, word in enumerate(row)))
            ctx.set(dut.strobe, int(strobe))
            ctx.set(dut.valid, int(taken))
            await ctx.tick()
            counts.append(ctx.get(dut.count))
        await ctx.tick()
        counts.append(ctx.get(dut.count))

    simulate(dut, drive)
    written = (strobes[:, None] >> np.arange(die.beat_words) & 1).astype(bool)
    assert counts == [0] + [matrix.at_ends(operands, row[mask]) * int(taken)
                            for row, mask, taken in zip(values, written, valid, strict=True)]
    assert max(counts) == die.beat_words


def test_the_ends_are_what_sums_saturate_to() -> None:
    big = np.full((1, 8), Q3_12.least, np.int16)
    for other, count in ((big.T, 1), (~big.T, 1), (np.zeros_like(big.T), 0)):
        assert matrix.at_ends(Q3_12, matrix.multiply(Q3_12, big, other)) == count
    assert matrix.at_ends(FP16, np.float32([2.0**25])) == 0


def test_floating_point_has_no_ends() -> None:
    with pytest.raises(TypeError, match="Numbers must be fixed-point, not float32"):
        SumsAtEnds(preset("ndp-tiny"))
