"""Cycles of vector programs by hand, from docs/vector.md."""

import pytest

from plinth.machine.vector import BACKWARD, FORWARD, SUM, ProgramWork, full_words, latencies, vector_formula
from plinth_hw.isa.parameters import preset

#: Beats of 8 words.
DIE = preset("ndp-demo")


def _computes(rows: int, columns: int, **instructions: int) -> float:
    return vector_formula(DIE, ProgramWork(1, 1, **instructions), rows, columns)[1]


@pytest.mark.parametrize(("rows", "columns", "wise", "sums", "reductions"), [
    # Groups of 8 along columns or along rows, whichever are fewer: two cycles each; reductions keep four in flight,
    # eight cycles an element reduced.
    (5, 16, 2 * 2 * 5, 8 * 5, 8 * 16), (16, 5, 2 * 2 * 5, 8 * 16, 8 * 5), (8, 8, 2 * 8, 8 * 8, 8 * 8),
    (1, 33, 2 * 5, 8 * 2 * 1, 8 * 33), (33, 1, 2 * 5, 8 * 33, 8 * 2 * 1), (32, 32, 2 * 128, 8 * 32, 8 * 32),
    (7, 65, 2 * 63, 8 * 3 * 7, 8 * 65), (9, 9, 2 * 18, 8 * 9, 8 * 9), (65, 7, 2 * 63, 8 * 65, 8 * 3 * 7)])
def test_instructions_take_their_groups(rows: int, columns: int, wise: int, sums: int, reductions: int) -> None:
    assert _computes(rows, columns) == 14
    assert _computes(rows, columns, wise=1) == 14 + wise + 17
    assert _computes(rows, columns, sums=1) == 14 + sums + 17
    assert _computes(rows, columns, reductions=1) == 14 + reductions + 17
    assert _computes(rows, columns, functions=1) == 14 + rows * columns + 22
    assert _computes(rows, columns, column_functions=1) == 14 + rows + 22
    assert _computes(rows, columns, wise=2, sums=3, reductions=4, functions=5, column_functions=6) == (
        14 + 2 * (wise + 17) + 3 * (sums + 17) + 4 * (reductions + 17) + 5 * (rows * columns + 22) + 6 * (rows + 22))


def test_loads_and_stores_take_latencies_and_beats() -> None:
    # Rows of two beats; single rows are not cut short by what is under way.
    assert vector_formula(DIE, ProgramWork(3, 2, row_loads=4, row_stores=5), 10, 16) == (
        50 + 6 + 3 * 10 * 2 + 4 * 2, 14, 50 + 2 * 10 * 2 + 5 * 2)
    # Of a single beat: 1.75 cycles a row that is loaded.
    assert vector_formula(DIE, ProgramWork(3, 2, row_loads=4, row_stores=5), 10, 8) == (
        50 + 6 + 3 * 10 * 1.75 + 4, 14, 50 + 2 * 10 + 5)
    # Packed: half a row of words, two cycles a beat.
    assert vector_formula(DIE, ProgramWork(3, 2, packed_loads=1, packed_stores=2), 10, 32) == (
        50 + 6 + 2 * 10 * 4 + 10 * 4, 14, 50 + 2 * 10 * 4)


def test_programs_of_layers() -> None:
    assert ProgramWork(loads=1, stores=1, row_loads=1, wise=2) == FORWARD
    assert ProgramWork(loads=4, stores=1, wise=3) == SUM
    assert ProgramWork(loads=2, stores=1, row_loads=1, row_stores=1, wise=1, sums=1) == BACKWARD
    assert BACKWARD.packed(2, 1) == ProgramWork(2, 1, row_loads=1, row_stores=1, wise=4, sums=1, packed_loads=2,
                                                packed_stores=1)
    # Ten rows of 20 words: begun at every fourth word, 20 lie in 3 beats; 10 words begun at every second in two.
    assert full_words(DIE, ProgramWork(3, 2), 10, 20) == (3 * 10 * 24, 2 * 10 * 24)
    assert full_words(DIE, ProgramWork(3, 2, packed_loads=1, packed_stores=2), 10, 20) == (
        2 * 10 * 24 + 10 * 16, 2 * 10 * 16)


def test_latencies_are_shares_of_beats() -> None:
    """55 cycles before the last of the beats that are read, 50 behind those written."""
    assert latencies(220, 150, 55, 100) == (50 * 220 / 110, 50 * 150 / 150)
