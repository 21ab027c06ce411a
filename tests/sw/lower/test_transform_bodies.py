"""Bodies of tasks that make tiles and maps of each other."""

import pytest

from plinth.lower.transforms import _matrix, _on_its_side, spread
from plinth.step.tasks import Members
from plinth_hw.isa.winograd import PLAIN_NUMBERS, TRANSFORMS, Transform, form

#: Fields of rows, and those of columns that they become.
TURNED = {"planes": "rows", "down": "across", **{
    f"{side}_{row}": f"{side}_{column}" for side in ("source", "destination") for row, column in (
        ("plane_stride", "row_stride"), ("down", "across"), ("row", "column"), ("rows", "columns"),
        ("row_step", "column_step"))}}


@pytest.mark.parametrize("down_first", [0, 1])
def test_tiles_on_their_sides_have_rows_as_columns(down_first: int) -> None:
    body = {name: number for number, name in enumerate((*TURNED, *TURNED.values()))}
    whole = body | {"columns": 77, "destination_origin": 78, "down_first": down_first}
    turned = _on_its_side(whole)
    assert turned == {**{TURNED.get(name, name): value for name, value in whole.items() if name in TURNED},
                      **{row: body[column] for row, column in TURNED.items()},
                      "columns": 77, "destination_origin": 78, "down_first": 1 - down_first}
    assert _on_its_side(turned) == whole


def test_matrices_have_numbers_of_their_own() -> None:
    """Four of each transform, none of the one that changes nothing."""
    numbers = []
    for outputs, taps in TRANSFORMS:
        down, _ = form((taps, taps), outputs).transforms
        numbers += [_matrix(down, of_outputs, scatter) for scatter in (True, False) for of_outputs in (False, True)]
    assert numbers == list(range(1, 4 * len(TRANSFORMS) + 1))
    same: list[Transform] = [transform for transform in form((1, 3), 2).transforms if transform.size == 1]
    assert [_matrix(transform, True, False) for transform in same] == [0]


@pytest.mark.parametrize(("count", "sides"), [(2, (2, 1)), (4, (4, 1)), (8, (4, 2)), (16, (4, 4))])
def test_parts_of_several_dies_lie_in_rows(count: int, sides: tuple[int, int]) -> None:
    down, across = sides
    body = spread(Members(3, 2, count, 5, 1), 100)
    assert body == {
        "down": PLAIN_NUMBERS[down], "across": PLAIN_NUMBERS[across], "source_down": across * 100, "source_across": 100,
        "source_rows": down, "source_columns": across, "destination_rows": down, "destination_columns": across,
        "destination_die": 3, "members": count, "member_step": 2, "member_places": 5, "longer_members": 1}
