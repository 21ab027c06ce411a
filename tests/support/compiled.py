"""The compiled co-simulation against the golden model; a difference leaves waves of where it arose."""

import re
from collections.abc import Sequence
from typing import Any

from tests.support.back_ends import check_equal, images
from tests.support.results import node_folder

from plinth.buffers import Buffer
from plinth.driver.driver import DieError
from plinth.driver.program import Program
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray, CosimError, Waves

#: Longest window of waves: the last cycles of the step that failed.
WINDOW_CYCLES = 4000


class _RunError(Exception):
    """What went wrong, on which die, and the cycles of its step."""

    def __init__(self, error: Exception, start: int, stop: int):
        super().__init__(str(error))
        match = re.search(r"die (\d+)", str(error))
        self.die = int(match[1]) if match else 0
        self.start, self.stop = max(start, stop - WINDOW_CYCLES), stop


def _compare(program: Program, buffers: Sequence[Buffer], seed: int, memory_words: int, steps: int,
             options: dict[str, Any]) -> None:
    with CosimArray(program.parameters, program.dies, memory_words, **options) as rtl:
        golden = GoldenArray(program.parameters, program.dies, memory_words)
        both = [images(array, program, buffers, seed, memory_words=memory_words, steps=steps)
                for array in (rtl, golden)]
        start = 0
        try:
            for image, wanted in zip(*both, strict=True):
                check_equal(image, wanted, program)
                start = rtl.cycle
        except (AssertionError, DieError, CosimError) as error:
            raise _RunError(error, start, rtl.cycle) from error


def compare(program: Program, buffers: Sequence[Buffer], seed: int, *, memory_words: int, steps: int = 2,
            **options: Any) -> None:
    """Run a program on both arrays and compare the whole memory after each step.

    ``options`` are those of ``CosimArray``. A run that fails is repeated with waves.

    Raises
    ------
    AssertionError
        If the images differ or the RTL stops; the message names the file of the waves.
    """
    try:
        _compare(program, buffers, seed, memory_words, steps, options)
    except _RunError as failure:
        path = node_folder("waves") / f"die{failure.die}.vcd"
        path.unlink(missing_ok=True)
        waves = Waves(failure.die, failure.start, failure.stop, path)
        try:
            _compare(program, buffers, seed, memory_words, steps, {**options, "waves": waves})
        except _RunError:
            raise AssertionError(f"{failure}; waves of cycles {failure.start} to {failure.stop}: {path}"
                                 ) from failure
        raise AssertionError(f"{failure}; with waves it did not happen again") from failure
