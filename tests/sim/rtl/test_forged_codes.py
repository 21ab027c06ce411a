"""Strings of codes whose length is forged in a die's memory, between the task that makes them and the one that reads
them: the die stops, the driver names the task, co-simulated and golden dies say the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.code_graphs import CODES, COLUMNS, ROOM, ROWS, coded_program
from tests.support.dies import PREDICTING as TINY

from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.registers import ControlBits, Register, Status
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = pytest.mark.xdist_group("tiny-predict-dies")

MEMORY_WORDS = 1 << 18
#: What a length is forged to.
FORGED: tuple[Callable[[int], int], ...] = (
    lambda length: length + 1, lambda length: length - 1, lambda _: ROOM, lambda _: 0, lambda _: 0xFFFFFFFF)


def started(make: Callable[..., Any], program: Program, words: Any) -> tuple[Any, Driver]:
    """Two dies with their runs."""
    array = make(TINY, 2, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
    for die in range(2):
        driver.write(die, program.buffers["runs"], words[die])
    return array, driver


@pytest.mark.parametrize("code", CODES)
def test_a_forged_length_is_reported_with_its_task(code: str) -> None:
    """Of either die, whatever is wrong with it; the error stays until it is cleared, and the true length is read."""
    words = np.random.default_rng(1).standard_normal((2, ROWS, COLUMNS)).astype(np.float32).view(np.uint32)
    words[:, :, ::3] = 0
    honest = coded_program(TINY, 2, code, memory_words=MEMORY_WORDS)
    _, driver = started(GoldenArray, honest, words)
    driver.step(0)
    true = [int(driver.read(die, honest.buffers["strings"])[0, 0]) for die in range(2)]
    wanted = [driver.read(die, honest.buffers["decoded"]) for die in range(2)]
    assert all(1 < length < ROOM - 1 for length in true)
    forged = coded_program(TINY, 2, code, memory_words=MEMORY_WORDS, forged=True)
    for make in (CosimArray, GoldenArray):
        array, driver = started(make, forged, words)
        for victim, forge in ((number % 2, forge) for number, forge in enumerate(FORGED)):
            address = forged.step[victim].address + 2 * forged.step[victim].spacing
            for die in range(2):
                length = forge(true[die]) if die == victim else true[die]
                driver.write(die, forged.buffers["length"], np.array([[length]], dtype=np.uint32))
            with pytest.raises(DieError) as caught:
                driver.step(0)
            assert str(caught.value) == f"die {victim}: task 'decode' at word {address:#x} stopped with BAD_CODE"
            array.dies[victim].write_register(Register.CONTROL, ControlBits.START)
            assert array.dies[victim].read_register(Register.STATUS) & Status.ERROR
            assert array.dies[victim].read_register(Register.ERROR_CODE) == ErrorCode.BAD_CODE.value
            driver.recover()
            driver.write(victim, forged.buffers["length"], np.array([[true[victim]]], dtype=np.uint32))
            driver.step(0)
            for die in range(2):
                np.testing.assert_array_equal(driver.read(die, forged.buffers["decoded"]), wanted[die])
