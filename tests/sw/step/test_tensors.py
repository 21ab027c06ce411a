"""Views of tensors: where a die has what others have, too."""

from types import SimpleNamespace
from typing import Any

import pytest

from plinth.buffers import Buffer
from plinth.step.tensors import Meeting, Part


def tensor(part: Part) -> Any:
    """A tensor of a die whose part lies at word 40, in rows of 8 words."""
    buffer = Buffer("map", 40, part.rows, part.channels, 8)
    return SimpleNamespace(part=lambda die: part, buffer=lambda die: buffer)


@pytest.mark.parametrize(("other", "place"), [
    (Part(1, 4, 2, 9, 5), (40 + 5 * 8 + 2, 2 * 5, 3)), (Part(0, 3, 0, 5, 5), (40, 3 * 5, 5)),
    (Part(3, 2, 0, 5, 5), (40, 0, 0)), (Part(0, 3, 5, 2, 5), (40, 0, 0))])
def test_what_two_tensors_have_in_common(other: Part, place: tuple[int, int, int]) -> None:
    """Three samples of five positions and five channels; where nothing is in common, a place of no rows."""
    both = Meeting(tensor(Part(0, 3, 0, 5, 5)), tensor(other))
    assert both.buffer(0)[1:5] == (*place, 8)
