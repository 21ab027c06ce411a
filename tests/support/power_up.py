"""Programs on dies as they are synthesized, without initial values, that are reset at any time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tests.support.back_ends import Image, check_equal, images
from tests.support.code_graphs import CODES, coded_program
from tests.support.graphs import random_program
from tests.support.tiles import RandomTiles

from plinth.buffers import Buffer
from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.driver.program import Program
from plinth.driver.serial import SerialArray
from plinth_hw.isa.formats import word_type
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray
from plinth_sim.rtl.elaborate import die_verilog
from plinth_sim.rtl.power_up import PowerUp
from plinth_sim.rtl.simulated_port import SimulatedPort

#: More cycles than anything is on a wire.
_QUIET_CYCLES = 32
#: One run in so many begins with ones.
_ONES = 8


@dataclass(frozen=True)
class Case:
    """A program, with buffers to be filled, or tiles that fill theirs."""

    program: Program
    memory_words: int
    buffers: Sequence[Buffer] = ()
    tiles: RandomTiles | None = None

    def _fill(self, array: DeviceArray) -> None:
        if self.tiles is not None:
            self.tiles.fill(array, 3)

    def ran(self, array: DeviceArray) -> Image:
        """What it leaves in the memory of an array, which was zero."""
        self._fill(array)
        return next(images(array, self.program, self.buffers, 3, memory_words=self.memory_words, steps=1))

    def begin(self, array: DeviceArray) -> None:
        """Start it on an array."""
        self._fill(array)
        driver = Driver(array, self.program, memory_words=self.memory_words)
        for number in range(self.program.dies):
            driver.start(number, 0)

    @cached_property
    def wanted(self) -> Image:
        """What the golden model leaves."""
        return self.ran(GoldenArray(self.program.parameters, self.program.dies, self.memory_words))


def cases(die: DieParameters, dies: int, memory_words: int, tasks: int, seeds: Sequence[int]) -> Iterator[Case]:
    """Random graphs of all engines, but of dies that have links and no collective engine; tiles and codes where there
    are such."""
    # The set-up of a random graph is that of rings of the collective engine.
    for seed in seeds if Engine.COLLECTIVE in die.engines or not die.ports else ():
        program, buffers = random_program(die, dies, seed, tasks, memory_words)
        yield Case(program, memory_words, buffers)
    if die.transforms:
        tiles = RandomTiles(die, dies, seeds[0])
        for number in range(tasks):
            (tiles.transform, tiles.transfer, tiles.spread, tiles.transfer)[number % 4](f"t{number}")
        yield Case(tiles.finish(memory_words), memory_words, tiles=tiles)
    for code in CODES if die.codes else ():
        program = coded_program(die, dies, code, memory_words=memory_words)
        yield Case(program, memory_words, [program.buffers["runs"]])


class PoweredDies:
    """Dies without initial values, by whatever way a host has to them.

    Parameters
    ----------
    die : DieParameters
    dies, memory_words : int
    state : PowerUp
    bridge : BridgeParameters or None
        Of the serial line that each die is behind, if it is.
    """

    def __init__(self, die: DieParameters, dies: int, memory_words: int, state: PowerUp,
                 bridge: BridgeParameters | None = None):
        self.die = die
        self.rtl = CosimArray(die, dies, memory_words, verilog=die_verilog(die, "cells", bridge), power_up=state,
                              bridge=bridge)

    def hosts(self) -> DeviceArray:
        """A new host's view of the dies."""
        if self.rtl.bridge is None:
            return self.rtl
        return SerialArray(self.die, [SimulatedPort(self.rtl, number) for number in range(self.rtl.size)])

    def reset(self) -> None:
        """Reset all dies, in the middle of whatever they do."""
        for number in range(self.rtl.size):
            self.rtl.reset_die(number)

    def reset_amid(self, case: Case, rng: np.random.Generator, most_cycles: int) -> None:
        """Reset all dies somewhere in a program.

        Dies with link layers are reset one after the other, in any order and at different times. Without, what is on
        wires as a die is reset would come to dies that are not: so all are reset, three times, with time between for
        that to arrive."""
        case.begin(self.hosts())
        self.rtl.run(int(rng.integers(1, most_cycles)))
        if self.die.link_phits:
            for number in rng.permutation(self.rtl.size):
                self.rtl.reset_die(int(number))
                self.rtl.run(int(rng.integers(1, 200)))
        else:
            for _ in range(2):
                self.reset()
                self.rtl.run(_QUIET_CYCLES)
            self.reset()

    def clear(self, memory_words: int) -> None:
        """Memory, which the dies have filled, or power on the chip."""
        for device in self.hosts().dies:
            device.write_memory(0, np.zeros(memory_words, dtype=word_type(self.die.memory_format)))


def campaign(die: DieParameters, dies: int, memory_words: int, runs: int, tasks: int,
             bridge: BridgeParameters | None = None) -> None:
    """Programs on dies whose registers and memories hold anything, about one run in eight ones; two runs in three are
    behind one or two resets in the middle of work. Where nothing was before, a program takes as many cycles each time.

    Raises
    ------
    AssertionError
        If memory is not what the golden model leaves, or cycles differ.
    """
    rng = np.random.default_rng(runs)
    those = [*cases(die, dies, memory_words, tasks, (5, 11, 17))]
    #: Cycles that each takes where nothing was before.
    taken: dict[int, int] = {}
    for number in range(runs):
        which = number % len(those)
        case = those[which]
        state = PowerUp(seed=number + 1) if rng.integers(_ONES) else PowerUp()
        powered = PoweredDies(die, dies, memory_words, state, bridge)
        with powered.rtl as rtl:
            for _ in range(number // len(those) % 3 if which in taken else 0):
                powered.reset_amid(case, rng, taken[which])
            begun = rtl.cycle
            if begun or die.block_ram_words:
                powered.clear(memory_words)
            check_equal(case.ran(powered.hosts()), case.wanted, case.program)
            assert begun or taken.setdefault(which, rtl.cycle) == rtl.cycle
