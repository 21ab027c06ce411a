"""The systolic array: both forms against each other, cycle by cycle, and against the order of the sums."""

import numpy as np
import pytest
from tests.support.systolic import VerilatedArray, check, random_schedule

from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed, Format
from plinth_hw.matrix.systolic import SystolicArray

#: Fixed-point sums without room: they saturate and come back.
SIZES = [(2, 3, FP32, FP32, 8), (4, 4, FP32, FP32, 8), (3, 2, FP16, FP32, 8), (2, 3, Q3_12, Fixed(8, 24), 2),
         (3, 2, Q3_12, Q3_12.sums, 4), pytest.param(6, 10, FP32, FP32, 8, marks=pytest.mark.long)]


@pytest.mark.parametrize(("rows", "columns", "multiply", "sums", "interleave"), SIZES)
def test_forms_are_identical_and_right(rows: int, columns: int, multiply: Format, sums: Format,
                                       interleave: int) -> None:
    array = SystolicArray(multiply, sums, rows, columns, interleave)
    cells, loops = VerilatedArray(array, "cells"), VerilatedArray(array, "loops")
    for seed in range(6):
        stimulus = random_schedule(array, seed, tiles=25)
        words, valid = cells.run(stimulus)
        loop_words, loop_valid = loops.run(stimulus)
        np.testing.assert_array_equal(valid, loop_valid)
        shown = valid.astype(bool)
        np.testing.assert_array_equal(words[shown].tobytes(), loop_words[shown].tobytes())
        check(array, stimulus, words, valid)
