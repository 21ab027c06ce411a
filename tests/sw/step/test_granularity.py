"""How tasks are cut, by hand on dies whose scratchpad has few lines."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.refusal import refused

from plinth.errors import UserError
from plinth.step.granularity import (
    column_step,
    folding,
    groups,
    image_step,
    image_strips,
    pieces,
    row_step,
    sample_step,
    zero_step,
)
from plinth.step.operations import Strip, Sweep
from plinth_hw.isa.parameters import preset

#: Beats of 4 words; half of the scratchpad has 32 of them; an array of 4 x 4.
DIE = preset("ndp-tiny", vector_buffer_words=128)


@pytest.mark.parametrize(("count", "most", "sizes"), [
    (0, None, []), (0, 3, []), (5, None, [1] * 5), (5, 1, [5]), (5, 2, [3, 2]), (5, 3, [2, 2, 1]), (5, 5, [1] * 5),
    (5, 9, [1] * 5), (6, 4, [2, 2, 2])])
def test_groups_are_neighbours(count: int, most: int | None, sizes: list[int]) -> None:
    cut = list(groups(count, most))
    assert [len(group) for group in cut] == sizes
    assert [place for group in cut for place in group] == list(range(count))


@pytest.mark.parametrize(("rows", "columns", "regions", "row_regions", "how", "expected"), [
    # Eight strips, of two of the array's rows at least; all of it fits.
    (80, 4, 1, 0, {}, 10), (81, 4, 1, 0, {}, 11), (40, 4, 1, 0, {}, 8), (3, 4, 1, 0, {}, 8),
    (80, 4, 1, 0, {"pieces": 4}, 20),
    # Two full regions of two lines a row, and one or three rows: 30 or 26 lines of 32.
    (400, 8, 2, 1, {}, 7), (400, 5, 2, 3, {}, 6), (400, 9, 1, 2, {}, 8),
    # Lines of columns: one a row beside two of a full region; as many as there are.
    (400, 8, 1, 0, {"column_regions": 1}, 10), (400, 4, 1, 0, {"pieces": 1}, 32), (400, 4, 1, 1, {"pieces": 1}, 31),
    # A row of 32 lines just fits, one of 33 does not.
    (10, 128, 1, 0, {}, 1), (10, 129, 1, 0, {}, 0), (10, 64, 1, 1, {}, 1), (10, 65, 1, 1, {}, 0)])
def test_rows_of_a_strip(rows: int, columns: int, regions: int, row_regions: int, how: dict, expected: int) -> None:
    assert row_step(DIE, rows, columns, regions, row_regions, **how) == expected


@pytest.mark.parametrize(("rows", "regions", "row_regions", "beats"), [
    # Eight rows of a strip, or as many as there are, of all regions: so many beats of 32 lines.
    (100, 1, 0, 4), (100, 2, 0, 2), (100, 2, 3, 1), (3, 2, 0, 5), (3, 2, 2, 4), (1, 1, 0, 32), (100, 4, 1, 1)])
def test_columns_of_a_piece(rows: int, regions: int, row_regions: int, beats: int) -> None:
    assert column_step(DIE, rows, 1000, regions, row_regions) == 4 * beats
    assert column_step(DIE, rows, 3, regions, row_regions) == 3


def test_zeros_fill_all_lines_but_one() -> None:
    assert zero_step(DIE) == 31 * 4
    # A row of a task has less than 2^16 columns.
    assert zero_step(preset("ndp-tiny", vector_buffer_words=1 << 17)) == (1 << 16) - 4
    assert zero_step(preset("ndp-tiny", vector_buffer_words=1 << 16)) == (1 << 16) - 4


def test_samples_of_a_strip() -> None:
    assert (sample_step(preset("ndp-demo")), sample_step(preset("hypar-demo"))) == (2 * 8, 4 * 8)
    assert (sample_step(preset("fpga-ulx3s")), sample_step(preset("hypar-half"))) == (2 * 12, 4 * 7)


@pytest.mark.parametrize(("images", "positions", "step"), [
    # Four strips, if there are as many images, of up to 512 positions if they hold an image.
    (16, 4, 4), (17, 4, 5), (3, 4, 1), (1, 1, 1), (100, 64, 8), (100, 65, 7), (100, 512, 1), (100, 513, 1),
    (2048, 1, 512), (2044, 1, 511), (2060, 1, 512)])
def test_images_of_a_strip(images: int, positions: int, step: int) -> None:
    assert image_step(images, positions) == step
    strips = list(image_strips(images, positions))
    assert [first for first, _ in strips] == list(range(0, images, step))
    assert sum(count for _, count in strips) == images and {count for _, count in strips[:-1]} <= {step}


@pytest.mark.parametrize(("positions", "channels", "fold"), [
    # Rows of four groups of 4, of whole positions, if any divisor of them makes so many.
    (12, 13, 1), (12, 12, 2), (12, 4, 4), (12, 3, 6), (12, 1, 1), (13, 1, 13), (14, 1, 14), (9, 2, 9),
    (4, 3, 1), (1, 1, 1)])
def test_positions_folded_to_a_row(positions: int, channels: int, fold: int) -> None:
    assert folding(DIE, positions, channels) == fold


def test_pieces_of_rows_and_columns() -> None:
    assert pieces(DIE, 80, 4, 1, 0, 8, None) == (10, 4)
    assert pieces(DIE, 80, 4, 1, 0, 8, 0) == (10, 4) and pieces(DIE, 80, 8, 1, 0, 4, 2) == (8, 8)
    # A row of 33 lines is cut: eight rows of four lines each.
    assert pieces(DIE, 80, 129, 1, 0, 8, None) == (8, 16)
    assert pieces(DIE, 400, 129, 1, 0, 8, None) == (8, 16)
    # Rows that must be whole are refused, or stand for themselves.
    for columns in (0, 1):
        assert pieces(DIE, 80, 129, 1, 0, 8, columns, whole=False) == (1, 129)
        with refused(UserError, "a row of 129 values, which a loss or a sparse layer takes whole, does not fit the "
                                "vector scratchpad of preset 'ndp-tiny'; choose a larger preset, a narrower loss or, "
                                "of a sparse layer, a smaller batch"):
            pieces(DIE, 80, 129, 1, 0, 8, columns)


@pytest.mark.parametrize(("width", "columns"), [(16, [(0, 16)]), (8, [(0, 8), (8, 8)]), (6, [(0, 6), (6, 6), (12, 4)])])
def test_a_strip_wider_than_its_pieces_is_cut_in_columns(width: int, columns: list[tuple[int, int]]) -> None:
    """Three rows from row 4 on, two to a piece; as one group it is a task of all columns that counts for all pieces."""
    class Pieces(Sweep):
        def __init__(self) -> None: ...

        def _task(self, die: int, piece: Any, rows: int = 0, columns: int = 0, count: int = 1) -> Any:
            return *piece, rows, columns, count

    sweep, strip = Pieces(), Strip(0, 4, 3, 2, width)
    vars(sweep).update(fold=2, space=SimpleNamespace(part=lambda die: SimpleNamespace(channels=8)))
    whole = len(columns) == 1
    assert list(sweep._strip_tasks(0, [strip], None)) == [
        (row, rows, *piece, *((rows, 16, 1) if whole else (0, 0, 1))) for row, rows in ((4, 2), (6, 1))
        for piece in columns]
    assert list(sweep._strip_tasks(0, [strip], 1)) == [(4, 3, 0, 16, 2, width, 2 * len(columns))]
