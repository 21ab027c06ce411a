"""Interleave shapes, and cycles of the tiles that they make, by what tiles of a die's words take to load."""

from fractions import Fraction

import pytest

from plinth.machine.tiles import element_cycles, interleave_m_log2, tile_shape
from plinth_hw.isa.parameters import DieParameters, preset


@pytest.mark.parametrize(("name", "m", "n", "expected"), [
    # Nine tiles of 8 x 64, nine beats a step, against ten of 16 x 32, six beats in eight slots.
    ("fpga-demo", 72, 64, (80, 1)),
    # The same beats hold twice the operands of two to a word: no tile takes longer than its slots.
    ("ndp-demo-mixed", 72, 64, (72, 0)),
    ("ndp-demo", 72, 64, (80, 1)),
    # Tiles of both shapes take four beats in two slots.
    ("fpga-ulx3s", 16, 8, (4, 1)),
])
def test_a_beat_has_as_many_operands_as_its_words_hold(name: str, m: int, n: int, expected: tuple[int, int]) -> None:
    assert tile_shape(preset(name), m, n) == expected


def _tiles(die: DieParameters, m: int, n: int, log2: int) -> int:
    """Tiles of a result, each as many rows and columns of blocks as the interleave shape says, block by block."""
    down, across = 1 << log2, die.interleave // (1 << log2)
    return len({(row // (die.rows * down), column // (die.columns * across)) for row in range(m)
                for column in range(n)})


@pytest.mark.parametrize("name", ["ndp-tiny", "ndp-demo", "fpga-ulx3s"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (8, 64), (9, 64), (8, 65), (64, 8), (65, 8), (64, 9), (33, 17), (16, 32),
                                      (40, 40), (3, 100), (100, 3), (24, 8), (25, 16)])
def test_fewest_tiles_then_the_squarest(name: str, m: int, n: int) -> None:
    die = preset(name)
    shapes = [(_tiles(die, m, n, log2), (die.rows << log2) + (die.columns * die.interleave >> log2), log2)
              for log2 in range(die.interleave.bit_length())]
    tiles, sides, log2 = min(shapes)
    assert interleave_m_log2(die, m, n) == log2
    # A k step takes a cycle a slot, or one for each beat of both operands.
    assert element_cycles(die, m, 7, n) == tiles * 7 * max(die.interleave, sides / die.beat_words)
    lanes = die.beat_words * die.packing
    costs = [(tiles * max(Fraction(die.interleave), Fraction(sides, lanes)), sides, log2)
             for tiles, sides, log2 in shapes]
    assert tile_shape(die, m, n) == (min(costs)[0], min(costs)[2])
