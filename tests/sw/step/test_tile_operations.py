"""Where products that go back are cut."""

import pytest

from plinth.step.tensors import Elements, Part
from plinth.step.tile_operations import Gather


@pytest.mark.parametrize(("words", "groups"), [(511, 1), (512, 2), (1023, 3), (1024, 4)])
def test_products_go_back_some_2048_words_at_a_time(words: int, groups: int) -> None:
    part = Part(0, 1, 0, 1, 1)
    mine, theirs = Elements(3, 8, part), Elements(0, 16, part)
    element_groups = list(Gather._groups(mine, theirs, words))
    assert len(element_groups) == groups
    assert [element for first, count in element_groups for element in range(first, first + count)] == list(range(3, 11))
