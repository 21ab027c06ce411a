"""A hundred million random and adversarial tiles through prediction, of which no live neuron may be found dead."""

import pytest

from plinth.sparsity import drops
from plinth_hw.isa.winograd import TRANSFORMS

pytestmark = pytest.mark.long

TILES = 100_000_000


@pytest.mark.parametrize("number", range(2 * len(TRANSFORMS)))
def test_a_hundred_million_tiles(number: int) -> None:
    tally = drops.dropped(-(-TILES // (2 * len(TRANSFORMS))), seed=number, which=drops.ways()[number:number + 1])
    print(tally)
    assert tally.tiles >= TILES // (2 * len(TRANSFORMS)) and tally.dropped == 0
    assert tally.live and tally.dead and tally.printed, "the printed bound fails on these tiles"
