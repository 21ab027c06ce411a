"""Dies with memory on the chip: what they compute is what the golden model computes, and hosts reach all of it."""

import numpy as np
import pytest
from tests.support.compiled import compare
from tests.support.dies import ON_CHIP as HALF
from tests.support.graphs import random_program

from plinth.driver.driver import DieError, Driver
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import ControlBits, Register, Status
from plinth_sim.rtl.cosim import CosimArray, CosimError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("block-ram-dies")]

WORDS = HALF.block_ram_words
WHOLE = preset("ndp-tiny", block_ram_words=WORDS, axi_ports=0)
#: What its graphs work on lies on both sides of the bound.
BOTH = preset("ndp-tiny", block_ram_words=512)


def program_of(die: DieParameters, dies: int, seed: int, tasks: int = 15):
    """A random graph that fits, and its buffers."""
    return random_program(die, dies, seed, tasks, WORDS)


@pytest.mark.parametrize(("die", "seed"), [
    pytest.param(HALF, 3, id="16 bits"), pytest.param(HALF, 4, id="16 bits, another", marks=pytest.mark.long),
    pytest.param(WHOLE, 3, id="32 bits", marks=pytest.mark.long),
    pytest.param(BOTH, 5, id="both", marks=pytest.mark.long)])
def test_random_graphs_give_equal_memory(die: DieParameters, seed: int) -> None:
    program, buffers = program_of(die, 2, seed)
    compare(program, buffers, seed, memory_words=WORDS)


@pytest.mark.long
@pytest.mark.parametrize(("memory_latency", "write_latency"), [(1, 1), (200, 100)])
def test_latency_behind_the_bound_changes_nothing(memory_latency: int, write_latency: int) -> None:
    program, buffers = program_of(BOTH, 2, 6, 40)
    compare(program, buffers, 6, memory_words=WORDS, memory_latency=memory_latency, write_latency=write_latency)


def test_the_window_is_open_while_a_die_runs_and_while_it_is_stopped() -> None:
    """Reads and writes of words that the graph leaves alone, while it runs; then a stop, amid it."""
    program, _ = program_of(HALF, 1, 3)
    with CosimArray(HALF, 1, WORDS) as rtl:
        driver, die, free = Driver(rtl, program, memory_words=WORDS), rtl.dies[0], program.memory_words + 1
        driver.step(0)
        words = np.random.default_rng(2).integers(0, 1 << 16, 61, dtype=np.uint16)
        driver.start(0, 0)
        die.write_memory(free, words)
        assert die.read_register(Register.STATUS) & Status.BUSY
        assert (die.read_memory(free, 61) == words).all()
        assert die.read_register(Register.STATUS) & Status.BUSY
        die.write_memory(free + 3, words[:2])
        die.write_register(Register.CONTROL, ControlBits.STOP)
        assert (die.read_memory(free, 5) == [*words[:3], *words[:2]]).all()
        assert die.read_register(Register.STATUS) & Status.STOPPED
        die.write_memory(0, words)
        assert (die.read_memory(0, 61) == words).all()
        driver.recover()
        driver.step(0)


def test_nothing_is_reached_beyond_the_chip() -> None:
    program, _ = program_of(HALF, 1, 3)
    with pytest.raises(ValueError, match=f"memory_words must be at most the {WORDS} words on the chip"):
        CosimArray(HALF, 1, WORDS + 1)
    with CosimArray(HALF, 1, WORDS) as rtl:
        die = rtl.dies[0]
        with pytest.raises(ValueError, match=f"outside die 0's memory of {WORDS} words"):
            die.read_memory(WORDS - 1, 2)
        driver = Driver(rtl, program, memory_words=WORDS)
        for access in (lambda: die.read_register(Register.WINDOW_DATA),
                       lambda: (die.write_register(Register.WINDOW_DATA, 1), die.read_register(Register.STATUS))):
            die.write_register(Register.WINDOW_ADDRESS, WORDS)
            with pytest.raises(CosimError, match="register 0x84 was answered with response 2"):
                access()
        assert not die.read_register(Register.STATUS) & Status.ERROR
        driver.step(0)


def test_a_program_for_another_die_is_refused() -> None:
    program, _ = program_of(preset("ndp-tiny"), 1, 3)
    text = (r"die 0 is a systolic q3\.12 die of 4 x 4 \(digest \w{8}\), the plan is for a systolic FP32 die of 4 x 4 "
            r"\(digest \w{8}\): format of sums q23\.24, not FP32, format of memory q3\.12, not FP32, .*, "
            r"axi_ports 0, not 1, block_ram_words 8192, not 0; take the bitstream or Verilog of ndp-tiny, or plan for ")
    with CosimArray(HALF, 1, WORDS) as rtl:
        with pytest.raises(DieError, match=text):
            Driver(rtl, program, memory_words=WORDS)
        assert rtl.dies[0].read_register(Register.VERILOG_DIGEST) != 0


def test_a_step_counts_no_cycles_of_what_was_written_before() -> None:
    program, _ = program_of(HALF, 1, 3)
    with CosimArray(HALF, 1, WORDS) as rtl:
        driver = Driver(rtl, program, memory_words=WORDS)
        cycles = []
        for words in (0, 1000):
            rtl.dies[0].write_memory(program.memory_words + 1, np.zeros(words, np.uint16))
            cycles.append(driver.step(0))
        assert abs(cycles[1] - cycles[0]) < 100
