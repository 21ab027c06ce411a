"""What fails leaves waves: a golden model that is made to differ stands for a broken die."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.support import vcd
from tests.support.compiled import WINDOW_CYCLES, compare
from tests.support.dies import NDP as DIE
from tests.support.graphs import random_program

from plinth_sim.golden import transfer

#: With tracing, a build takes by far the longest of what is built here: all tests have waves of the same die.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 15


def test_a_difference_leaves_waves_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transfer.write

    def wrong(target, rows, fmt) -> int:
        ends = right(target, rows, fmt)
        target[rows.starts[0]] ^= np.uint32(1)
        return ends

    monkeypatch.setattr(transfer, "write", wrong)
    program, buffers = random_program(DIE, 2, 4, 20, MEMORY_WORDS)
    with pytest.raises(AssertionError, match=r"die 0, buffer b\d: \d+ words differ") as caught:
        compare(program, buffers, 4, memory_words=MEMORY_WORDS)
    start, stop, name = re.search(r"waves of cycles (\d+) to (\d+): (\S+)", str(caught.value)).groups()
    first, last = vcd.cycles(Path(name))
    assert int(start) <= first <= last < int(stop) <= int(start) + WINDOW_CYCLES
    assert {"axi_0_araddr", "link_out_0_flit", "irq"} <= vcd.signals(Path(name))
