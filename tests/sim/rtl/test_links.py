"""Dies joined by link layers over wires on which things go wrong: the same memory, or a named error, and the next graph
runs."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.support.back_ends import Image, check_equal, images
from tests.support.graphs import random_program

from plinth.buffers import Buffer
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth_hw.isa import registers as regs
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register, Status
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray, CosimError, Faults

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS, DIES = 1 << 18, 3
TINY = preset("ndp-tiny-links")
KINDS = {
    "none": None,
    **{f"flips of {rate:g}": Faults(flip=rate) for rate in (1e-6, 1e-5, 1e-4, 1e-3)},
    "bursts": Faults(burst=1e-2), "lost": Faults(lose=1e-2), "repeated": Faults(repeat=1e-2),
    "stuck": Faults(stick=1e-3, stuck_cycles=300),
    "all": Faults(flip=1e-4, burst=1e-3, lose=1e-3, repeat=1e-3, stick=1e-4),
}


@cache
def case(seed: int) -> tuple[Program, list[Buffer]]:
    return random_program(TINY, DIES, seed, 40, MEMORY_WORDS)


@cache
def wanted(seed: int) -> Image:
    (image,) = images(GoldenArray(TINY, DIES, MEMORY_WORDS), *case(seed), seed, memory_words=MEMORY_WORDS, steps=1)
    return image


def goes_on(driver: Driver, seed: int) -> None:
    """A step leaves what a golden one does."""
    program, buffers = case(seed)
    (found,) = images(driver.array, program, buffers, seed, memory_words=MEMORY_WORDS, steps=1, driver=driver)
    check_equal(found, wanted(seed), program)


def counted(rtl: CosimArray, array: int) -> int:
    """Sum of a counter of all links."""
    return sum(die.read_register(array + 8 * port) for die in rtl.dies for port in range(TINY.ports))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_that_of_perfect_wires(kind: str, seed: int) -> None:
    faults = KINDS[kind] and replace(KINDS[kind], seed=seed)
    with CosimArray(TINY, DIES, MEMORY_WORDS, faults=faults) as rtl:
        driver = Driver(rtl, case(seed)[0], memory_words=MEMORY_WORDS, watchdog_cycles=200_000)
        goes_on(driver, seed)
        wrong, again = (counted(rtl, array) for array in (regs.LINK_BAD_FRAMES, regs.LINK_REPLAYS))
        if kind != "flips of 1e-06":  # some or none
            assert (wrong > 0) == (kind not in ("none", "repeated", "lost"))
        assert again or kind in ("none", "flips of 1e-06", "flips of 1e-05")


def test_a_die_reset_at_any_cycle() -> None:
    """Its neighbours stop with LINK, which names the port, the others with REMOTE; all go on."""
    program, _ = case(5)
    rng, codes = np.random.default_rng(1), set()
    with CosimArray(TINY, DIES, MEMORY_WORDS, faults=Faults(flip=1e-5)) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
        whole = driver.step(0)
        for number in range(10):
            for die in range(DIES):
                driver.start(die, 0)
            rtl.run(int(rng.integers(1, whole)))
            gone = number % DIES
            rtl.reset_die(gone)
            with pytest.raises(DieError) as stopped:
                driver.wait()
            codes.add(str(stopped.value).split("stopped with ")[1].split(";")[0])
            assert not rtl.dies[gone].read_register(Register.STATUS) & Status.BUSY
            driver.recover()
            goes_on(driver, 5)
    assert {f"LINK: the link of its port {port} went down while it was in use" for port in (0, 1)} <= codes


def test_a_die_reset_without_link_layers() -> None:
    """The others hang, or it gets what it cannot know; an error says so, and all go on."""
    program, buffers = random_program(preset("ndp-tiny"), DIES, 5, 40, MEMORY_WORDS)
    with CosimArray(preset("ndp-tiny"), DIES, MEMORY_WORDS) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
        for die in range(DIES):
            driver.start(die, 0)
        rtl.run(900)
        rtl.reset_die(1)
        with pytest.raises(DieError, match=r"TIMEOUT|NO_ROUTE"):
            driver.wait()
        driver.recover()
        (found,) = images(rtl, program, buffers, 5, memory_words=MEMORY_WORDS, steps=1, driver=driver)
        check_equal(found, wanted(5), program)


def test_wires_that_are_cut() -> None:
    """A link that was up is given up after replays in vain; one that never was comes to the watchdog."""
    program, _ = case(2)
    cut = Faults(seed=3, lose=1.0)
    with CosimArray(TINY, DIES, MEMORY_WORDS, faults=cut) as rtl:
        with pytest.raises(DieError, match="TIMEOUT"):
            Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000).step(0)
        assert all(die.read_register(Register.LINKS_UP) == 0 for die in rtl.dies)


@pytest.mark.parametrize("phits", [2, pytest.param(4, marks=pytest.mark.long)])
def test_frames_in_pieces(phits: int) -> None:
    """As the whole die's test; a flit takes as many cycles as it has pieces."""
    die = replace(TINY, name=f"{TINY.name}-{phits}", link_phits=phits, link_rate=TINY.link_rate / phits)
    program, buffers = random_program(die, DIES, 1, 40, MEMORY_WORDS)
    with CosimArray(die, DIES, MEMORY_WORDS, faults=Faults(flip=1e-4, lose=1e-3)) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=200_000)
        (found,) = images(rtl, program, buffers, 1, memory_words=MEMORY_WORDS, steps=1, driver=driver)
    check_equal(found, wanted(1), program)


def test_registers_of_links() -> None:
    """A rate for each port, which LINK_RATE sets for all; links that are up; nothing of it without link layers."""
    with CosimArray(TINY, 2, MEMORY_WORDS) as rtl, CosimArray(preset("ndp-tiny"), 2, MEMORY_WORDS) as bare:
        die = rtl.dies[0]
        rates = [regs.LINK_RATES + 4 * port for port in range(TINY.ports)]
        assert [die.read_register(rate) for rate in rates] == [15 | 16 << 8] * 2
        die.write_register(rates[1], 3 | 7 << 8)
        assert [die.read_register(rate) for rate in rates] == [15 | 16 << 8, 3 | 7 << 8]
        die.write_register(Register.LINK_RATE, 1 | 2 << 8)
        assert [die.read_register(rate) for rate in rates] == [1 | 2 << 8] * 2
        rtl.run(500)
        assert die.read_register(Register.LINKS_UP) == 3
        for address in (Register.LINKS_UP, regs.LINK_RATES, regs.LINK_BAD_FRAMES, regs.LINK_REPLAYS):
            with pytest.raises(CosimError, match="was answered with response 2"):
                bare.dies[0].read_register(address)
        with pytest.raises(CosimError, match="was answered with response 2"):
            die.read_register(regs.LINK_RATES + 4 * TINY.ports)


def test_faults_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="links of ndp-tiny have no link layer"):
        CosimArray(preset("ndp-tiny"), 2, MEMORY_WORDS, faults=Faults())
    with pytest.raises(ValueError, match="flip must be a probability from 0 to 1, not 2"):
        Faults(flip=2)
    with pytest.raises(ValueError, match="stuck_cycles must be positive, not 0"):
        Faults(stuck_cycles=0)
