"""The systolic array: both forms against each other, cycle by cycle, and against the order of the sums."""

import numpy as np
import pytest
from tests.support.systolic import VerilatedArray, check, random_schedule

from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.matrix.systolic import SystolicArray

SIZES = [(2, 3, FP32), (4, 4, FP32), (3, 2, FP16), pytest.param(6, 10, FP32, marks=pytest.mark.long)]


@pytest.mark.parametrize(("rows", "columns", "multiply"), SIZES)
def test_forms_are_identical_and_right(rows, columns, multiply):
    array = SystolicArray(multiply, FP32, rows, columns, 8)
    cells, loops = VerilatedArray(array, "cells"), VerilatedArray(array, "loops")
    for seed in range(6):
        stimulus = random_schedule(array, seed, tiles=25)
        words, valid = cells.run(stimulus)
        loop_words, loop_valid = loops.run(stimulus)
        np.testing.assert_array_equal(valid, loop_valid)
        shown = valid.astype(bool)
        np.testing.assert_array_equal(words[shown].view(np.uint32), loop_words[shown].view(np.uint32))
        check(array, stimulus, words, valid)
