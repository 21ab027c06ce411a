"""Where products that go back are cut."""

import pytest

from plinth.step.tensors import Elements, Part
from plinth.step.tile_operations import Gather


@pytest.mark.parametrize(("words", "groups"), [(511, 1), (512, 2), (1023, 3), (1024, 4)])
def test_products_go_back_some_2048_words_at_a_time(words: int, groups: int) -> None:
    part = Part(0, 1, 0, 1, 1)
    mine, theirs = Elements(3, 8, part), Elements(0, 16, part)
    found = list(Gather._groups(mine, theirs, words))
    assert len(found) == groups
    assert [element for first, count in found for element in range(first, first + count)] == list(range(3, 11))
