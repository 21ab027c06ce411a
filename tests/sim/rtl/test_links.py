"""Dies joined by link layers over wires on which things go wrong: the same memory, or a named error, and the next graph
runs."""

import re
from functools import cache

import pytest
from tests.support.back_ends import check_equal, images
from tests.support.graphs import random_program
from tests.support.link_traffic import KINDS, PARAMETERS, Traffic

from plinth.driver.driver import DieError, Driver
from plinth_hw.isa import registers as regs
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray, CosimError, Faults

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 18


@cache
def traffic() -> Traffic:
    return Traffic(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_the_campaign(kind: str) -> None:
    """tests/long has ten million packets; with dies that are reset in between."""
    outcome = traffic().campaign(17_000, KINDS[kind], 0.0 if kind == "none" else 0.3, seed=len(kind))
    assert outcome.packets >= 17_000 and len(outcome.errors) == outcome.resets


def test_a_die_reset_at_any_cycle() -> None:
    """Its neighbours stop with LINK, which names the port; what comes first is told."""
    outcome = traffic().campaign(1, KINDS["flips of 1e-05"], 0.9, seed=1)
    ports = {int(port) for error in outcome.errors for port in re.findall(
        r"stopped with LINK: the link of its port (\d) went down while it was in use", error)}
    assert ports == {0, 1} and outcome.resets >= 8


def test_a_die_reset_without_link_layers() -> None:
    """The others hang, or it gets what it cannot know; an error says so, and all go on."""
    die, dies = preset("ndp-tiny"), 3
    program, buffers = random_program(die, dies, 5, 40, MEMORY_WORDS)
    with CosimArray(die, dies, MEMORY_WORDS) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
        for number in range(dies):
            driver.start(number, 0)
        rtl.run(900)
        rtl.reset_die(1)
        with pytest.raises(DieError, match=r"TIMEOUT|NO_ROUTE"):
            driver.wait()
        driver.recover()
        golden = GoldenArray(die, dies, MEMORY_WORDS)
        both = (images(array, program, buffers, 5, memory_words=MEMORY_WORDS, steps=1, driver=its)
                for array, its in ((rtl, driver), (golden, None)))
        for image, wanted in zip(*both, strict=True):
            check_equal(image, wanted, program)


def test_wires_that_are_cut() -> None:
    """Links that never come up: what waits for them comes to the watchdog."""
    with CosimArray(PARAMETERS, 4, MEMORY_WORDS, faults=Faults(lose=1.0)) as rtl:
        driver = Driver(rtl, traffic().program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
        with pytest.raises(DieError, match="TIMEOUT"):
            driver.step(0)
        assert all(die.read_register(Register.LINKS_UP) == 0 for die in rtl.dies)


def test_registers_of_links() -> None:
    """A rate for each port, which LINK_RATE sets for all; links that are up; counts; none of it without link layers."""
    with CosimArray(PARAMETERS, 2, MEMORY_WORDS, faults=Faults(flip=1e-3)) as rtl, \
            CosimArray(preset("ndp-tiny"), 2, MEMORY_WORDS) as bare:
        die = rtl.dies[0]
        rates = [regs.LINK_RATES + 4 * port for port in range(PARAMETERS.ports)]
        assert [die.read_register(rate) for rate in rates] == [15 | 16 << 8] * 2
        die.write_register(rates[1], 3 | 7 << 8)
        assert [die.read_register(rate) for rate in rates] == [15 | 16 << 8, 3 | 7 << 8]
        die.write_register(Register.LINK_RATE, 1 | 2 << 8)
        assert [die.read_register(rate) for rate in rates] == [1 | 2 << 8] * 2
        rtl.run(2000)
        assert die.read_register(Register.LINKS_UP) == 3
        assert all(die.read_register(regs.LINK_BAD_FRAMES + 8 * port) > 50 for port in range(PARAMETERS.ports))
        for address in (Register.LINKS_UP, regs.LINK_RATES, regs.LINK_BAD_FRAMES, regs.LINK_REPLAYS):
            with pytest.raises(CosimError, match="was answered with response 2"):
                bare.dies[0].read_register(address)
        with pytest.raises(CosimError, match="was answered with response 2"):
            die.read_register(regs.LINK_RATES + 4 * PARAMETERS.ports)


def test_faults_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="links of ndp-tiny have no link layer"):
        CosimArray(preset("ndp-tiny"), 2, MEMORY_WORDS, faults=Faults())
    with pytest.raises(ValueError, match="flip must be a probability from 0 to 1, not 2"):
        Faults(flip=2)
    with pytest.raises(ValueError, match="stuck_cycles must be positive, not 0"):
        Faults(stuck_cycles=0)
