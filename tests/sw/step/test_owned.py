"""What members of a ring own of a message, and where what they keep of it lies."""

import numpy as np
import pytest

from plinth.buffers import Buffer
from plinth.step.owned import _blocks
from plinth_sim.golden.collective import owners


@pytest.mark.parametrize("words", [1, 63, 64, 65, 128, 200, 513, 1000])
@pytest.mark.parametrize("members", [1, 2, 3, 8])
def test_members_own_what_the_collective_says(words: int, members: int) -> None:
    """Every word once, by its owner; what is kept lies dense."""
    chunk, first = 64, 32
    who = owners(words, members, chunk)
    seen = np.full(first + words, -1)
    for index in range(members):
        kept = np.zeros(words + chunk, dtype=bool)
        for block in _blocks(first, words, index, members, chunk, 0):
            block.view(seen)[...] = index
            lies = block.beside(Buffer("state", 0, 1, len(kept), len(kept)))
            assert not kept[lies.address:lies.end].any()
            kept[lies.address:lies.end] = True
            assert block.of(Buffer("w", 0, 1, first + words, first + words)).words == (
                (block.rows - 1) * block.stride + block.columns)
        assert kept[:int((who == index).sum())].all() and kept.sum() == (who == index).sum()
    assert (seen[:first] == -1).all()
    np.testing.assert_array_equal(seen[first:], who)
