"""Dies that are stopped at any cycle, or by any error, go on with the next graph as if nothing had been."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.back_ends import check_equal, images
from tests.support.graphs import random_program

from plinth.buffers import Buffer
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth_hw.isa import registers as regs
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import ControlBits, Register, Status
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 18
TINY = preset("ndp-tiny")
DIES = 3


def goes_on(driver: Driver, buffers: list[Buffer], seed: int) -> None:
    """The array runs a step as a fresh golden one does."""
    program, array = driver.program, driver.array
    golden = GoldenArray(program.parameters, program.dies, MEMORY_WORDS)
    both = (images(array, program, buffers, seed, memory_words=MEMORY_WORDS, steps=1, driver=its)
            for array, its in ((array, driver), (golden, None)))
    for image, wanted in zip(*both, strict=True):
        check_equal(image, wanted, program)


@pytest.mark.parametrize("die", [TINY, preset("hypar-tiny"), preset("fpga-tiny")], ids=["ndp", "hypar", "fpga"])
def test_stopped_at_any_cycle(die: DieParameters) -> None:
    """With descriptors, operands, results, tiles and advances under way, of all dies or of some."""
    program, buffers = random_program(die, DIES, 11, 40, MEMORY_WORDS)
    generator = np.random.default_rng(0)
    with CosimArray(die, DIES, MEMORY_WORDS, memory_latency=80, write_latency=60) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS)
        whole = driver.step(0)
        for _ in range(12):
            for number in range(DIES):
                driver.start(number, 0)
            rtl.run(int(generator.integers(1, whole)))
            driver.recover()
            assert all(device.read_register(Register.STATUS) == Status.DONE for device in rtl.dies)
        goes_on(driver, buffers, 11)


def test_a_stopped_die_starts_nothing_and_hears_nothing() -> None:
    program, buffers = random_program(TINY, DIES, 3, 30, MEMORY_WORDS)
    with CosimArray(TINY, DIES, MEMORY_WORDS) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS)
        for number in range(DIES):
            driver.start(number, 0)
        rtl.run(700)
        die = rtl.dies[1]
        die.write_register(Register.CONTROL, ControlBits.STOP)
        assert die.read_register(Register.STATUS) == Status.BUSY
        rtl.run(2000)
        assert die.read_register(Register.STATUS) == Status.STOPPED
        counters = [die.read_register(address + 4 * counter) for address in (regs.COUNTERS, regs.COUNTER_BASES)
                    for counter in range(TINY.counters)]
        die.write_register(Register.CONTROL, ControlBits.START)
        rtl.run(2000)
        assert die.read_register(Register.STATUS) == Status.STOPPED and not any(counters)
        driver.recover()
        goes_on(driver, buffers, 3)


def descriptor(**words: Callable[[int], int]) -> Callable[[Any, Program], None]:
    """Changes words of die 1's first task, named ``word0`` ..."""
    def change(array: Any, program: Program) -> None:
        address = program.step[1].address
        descriptor = array.dies[1].read_memory(address, 64)
        for name, to in words.items():
            descriptor[int(name[4:])] = to(int(descriptor[int(name[4:])]))
        array.dies[1].write_memory(address, descriptor)
    return change


def register(address: int, value: int) -> Callable[[Any, Program], None]:
    """Writes a register of die 1."""
    return lambda array, program: array.dies[1].write_register(address, value)


ERRORS = {
    "BAD_ENGINE": descriptor(word0=lambda word: word | 0xF),
    "BAD_OPERATION": descriptor(word0=lambda word: word | 0xF0),
    "BAD_OPERAND": descriptor(**{f"word{number}": lambda word: 0 for number in range(8, 64)}),
    "BAD_ADDRESS": register(Register.MEMORY_WORDS, 1024),
    "BAD_COUNTER": descriptor(word2=lambda word: 200, word3=lambda word: word | 1),
    "TIMEOUT": descriptor(word2=lambda word: 63, word3=lambda word: word | 1, word4=lambda word: 5),
    "BAD_DIE": descriptor(word0=lambda word: word | 1 << 11, word1=lambda word: DIES),
    "BAD_ROUTE": register(regs.ROUTES + 4 * DIES, 0),
    "NO_ROUTE": lambda array, program: (
        register(Register.DIES, 16)(array, program),
        descriptor(word0=lambda word: word | 1 << 11, word1=lambda word: 9)(array, program)),
}


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
def test_every_error_is_recovered_from(make: Any) -> None:
    """One after the other on the same array, none of which is reset."""
    program, buffers = random_program(TINY, DIES, 8, 30, MEMORY_WORDS)
    array = make(TINY, DIES, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
    for code, provoke in ERRORS.items():
        if make is GoldenArray and code == "BAD_ADDRESS":
            continue  # its memory is as large as it is
        provoke(array, program)
        with pytest.raises(DieError, match=rf"die \d.* stopped with {code}"):
            driver.step(0)
            pytest.fail(code)
        assert all(die.read_register(Register.STATUS) & Status.ERROR for die in array.dies), code
        driver.recover()
        assert all(die.read_register(Register.ERROR_CODE) == 0 for die in array.dies), code
    goes_on(driver, buffers, 8)


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
@pytest.mark.parametrize("left", ["done", "busy", "error"])
def test_a_second_driver_finds_dies_as_if_they_had_not_run(make: Any, left: str) -> None:
    """Whatever the first one has left: update counters above zero, a graph under way, or an error."""
    first, _ = random_program(TINY, DIES, 8, 30, MEMORY_WORDS)
    program, buffers = random_program(TINY, DIES, 21, 40, MEMORY_WORDS)
    array = make(TINY, DIES, MEMORY_WORDS)
    before = Driver(array, first, memory_words=MEMORY_WORDS)
    before.step(0)
    if left == "busy":
        for number in range(DIES):
            before.start(number, 0)
    elif left == "error":
        ERRORS["BAD_ENGINE"](array, first)
        with pytest.raises(DieError, match="BAD_ENGINE"):
            before.step(0)
    goes_on(Driver(array, program, memory_words=MEMORY_WORDS), buffers, 21)
