"""The same driver and the same task graph give the same memory on every back end."""

from pathlib import Path

import numpy as np
import pytest
from tests.support import cocotb_runner
from tests.support.back_ends import check_equal, images
from tests.support.die_tops import die_top
from tests.support.graphs import random_program

from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

MEMORY_WORDS = 1 << 15
TINY = preset("ndp-tiny")


@pytest.mark.slow
@pytest.mark.parametrize(("dies", "seed"), [
    pytest.param(1, 11, marks=pytest.mark.xdist_group("cocotb-die")),
    pytest.param(2, 12, marks=pytest.mark.xdist_group("cocotb-ring"))])
def test_equal_memory(dies: int, seed: int, tmp_path: Path) -> None:
    program, buffers = random_program(TINY, dies, seed, 40, MEMORY_WORDS)
    sources, top = die_top(dies)
    file = tmp_path / "images.npy"
    cocotb_runner.run(sources, top, "tests.cocotb.die_cases", testcase="images_for_comparison",
                      environment={"DIES": str(dies), "SEED": str(seed), "IMAGES": str(file)})
    by_cocotb = np.load(file)
    with CosimArray(TINY, dies, MEMORY_WORDS) as compiled:
        golden = GoldenArray(TINY, dies, MEMORY_WORDS)
        both = [list(images(array, program, buffers, seed, memory_words=MEMORY_WORDS, steps=len(by_cocotb)))
                for array in (compiled, golden)]
    for from_cocotb, from_compiled, from_golden in zip(by_cocotb, *both, strict=True):
        assert from_golden.any()
        check_equal(from_cocotb, from_golden, program)
        check_equal(from_compiled, from_golden, program)
