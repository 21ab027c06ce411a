"""Units of sets: how many, which, and how often."""

import numpy as np
import pytest

from plinth.local.draws import BALANCED, DRAWS, UNIFORM, draw_of

HIDDEN = {"a": (5, 12), "b": (3, 3), "c": (7, 9)}


@pytest.mark.parametrize("way", DRAWS)
def test_a_set_has_different_units_in_order(way: str) -> None:
    draw = draw_of(way, HIDDEN, [1])
    for _ in range(50):
        for layer, units in draw.draw().items():
            width, whole = HIDDEN[layer]
            assert len(set(units.tolist())) == width and units.tolist() == sorted(units)
            assert units.min() >= 0 and units.max() < whole


@pytest.mark.parametrize("way", DRAWS)
def test_sets_follow_from_the_seed(way: str) -> None:
    def sets(seed: list[int]) -> list[list[int]]:
        draw = draw_of(way, HIDDEN, seed)
        return [draw.draw()["a"].tolist() for _ in range(9)]

    assert sets([1]) == sets([1]) != sets([2])
    assert len({tuple(units) for units in sets([1])}) > 5


def test_units_are_as_often_in_balanced_rounds() -> None:
    """Twelve sets of five deal twelve units five times."""
    draw, counts = draw_of(BALANCED, HIDDEN, [4]), np.zeros(12, int)
    for number in range(1, 37):
        counts[draw.draw()["a"]] += 1
        assert counts.max() - counts.min() <= (0 if number % 12 == 0 else 2)
    assert set(counts) == {15}


def test_uniform_units_are_independent_of_those_before() -> None:
    draw, counts = draw_of(UNIFORM, HIDDEN, [4]), np.zeros(12)
    for _ in range(4800):
        counts[draw.draw()["a"]] += 1
    assert np.abs(counts / 4800 - 5 / 12).max() < 5 * (5 / 12 * 7 / 12 / 4800)**0.5
