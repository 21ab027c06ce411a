"""Interleave shapes of convolutions, by what tiles of a die's words take to load."""

import pytest

from plinth.machine.tiles import tile_shape
from plinth_hw.isa.parameters import preset


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
