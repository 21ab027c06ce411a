"""Bodies of tasks that make tiles and maps of each other."""

from types import SimpleNamespace
from typing import Any

import pytest

from plinth.buffers import Buffer
from plinth.lower.transforms import _Loops, _matrix, _on_its_side, _tile_side, spread
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


@pytest.mark.parametrize("column", [0, 6])
def test_elements_of_a_tile_begin_with_the_first_that_is_there(column: int) -> None:
    """The tile's places are counted from its first element, of which rows 2 and 3 and columns 1 to 4 lie in memory: one
    behind the other, or a column of six behind the other."""
    work: Any = SimpleNamespace(tiles=Buffer("tiles", 70, 40, 8, 8), elements=(2, 2, 1, 4), plane=320, column=column,
                                counts=(4, 5))
    side = _tile_side(work, _Loops(4, 5, 1, 2, 3, False), 6)
    assert side["pointer"]["offset"] == 70 + 20 * 8 + 3 * 8
    places = {(i, j): (side["pointer"]["offset"] + side["origin"] + (i - side["row"]) * side["down"]
                       + (j - side["column"]) * side["across"]) % 2**32 for i in range(2) for j in range(4)}
    assert places == {(i, j): 70 + 20 * 8 + 3 * 8 + 320 * (6 * j + i if column else 6 * i + j)
                      for i in range(2) for j in range(4)}
    assert (side["rows"], side["columns"], side["plane_stride"], side["row_stride"]) == (2, 4, 40, 8)
