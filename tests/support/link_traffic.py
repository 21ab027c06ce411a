"""Packets between all dies of a ring, most of them short, beside an all-reduce, and what they leave in memory: the same
in every step."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tests.support.dies import LINK_TRAFFIC as PARAMETERS

from plinth.buffers import Buffer
from plinth.driver.driver import DieError, Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa.formats import FP32, factor_word
from plinth_hw.isa.operations import CollectiveOperation, Engine, TransferOperation, UpdateOperation
from plinth_hw.isa.registers import Register, Status
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray, Faults

DIES, ROWS, REDUCED, MEMORY_WORDS = 4, 240, 1024, 1 << 18
#: Faults of each rate and kind.
KINDS = {
    "none": Faults(),
    **{f"flips of {rate:g}": Faults(flip=rate) for rate in (1e-6, 1e-5, 1e-4, 1e-3)},
    "bursts": Faults(burst=1e-2), "lost": Faults(lose=1e-2), "repeated": Faults(repeat=1e-2),
    "stuck": Faults(stick=1e-3, stuck_cycles=300),
    "all": Faults(flip=1e-4, burst=1e-3, lose=1e-3, repeat=1e-3, stick=1e-4),
}


@dataclass
class Outcome:
    """Packets that went over links, steps, those in which a die was reset, and the errors that they ended with."""

    packets: int = 0
    steps: int = 0
    resets: int = 0
    errors: list[str] = field(default_factory=list)


class Traffic:
    """Every die sends tiles to every other, and all reduce a gradient.

    Parameters
    ----------
    seed : int
    phits : int
        Pieces of a frame.
    """

    def __init__(self, seed: int, phits: int = 1):
        rng = np.random.default_rng(seed)
        self.parameters = replace(PARAMETERS, link_phits=phits, link_rate=PARAMETERS.link_rate / phits)
        builders = [GraphBuilder(self.parameters) for _ in range(DIES)]
        #: Packets of a step.
        self.packets = 0
        self.places: list[Buffer] = []
        source = [builder.allocate("source", ROWS, 64) for builder in builders]
        gradients, weights = ([builder.allocate(name, 1, REDUCED) for builder in builders] for name in "gw")
        for die, builder in enumerate(builders):
            builder.add("reduce", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
                "source": gradients[die].pointer, "destination": weights[die].pointer, "words": REDUCED, "group": 0,
                "update": UpdateOperation.SGD, "message": 0, "rate": factor_word(FP32, 0.1)},
                reads=[gradients[die]], writes=[weights[die]])
            self.packets += 2 * (DIES - 1) * REDUCED // DIES // PARAMETERS.chunk_words
        for hop in (1, 2, 3):
            for number in range(3):
                # A few long packets.
                columns, rows = (int(rng.integers(1, 4)), ROWS) if hop + number > 1 else (int(rng.integers(5, 65)), 24)
                places = [builder.allocate(f"from{hop}.{number}", rows, columns) for builder in builders]
                self.places.append(places[0])
                for die, builder in enumerate(builders):
                    other = (die + hop) % DIES
                    builder.add(f"to{other}.{number}", Engine.TRANSFER, TransferOperation.COPY, {
                        "source": source[die].pointer, "source_row_stride": source[die].stride,
                        "destination": places[other].pointer, "destination_row_stride": places[other].stride,
                        "columns": columns, "rows": rows, "planes": 1, "remote": 1, "destination_die": other,
                        "arrival_enable": 1, "arrival": 8 + die}, reads=[source[die]])
                    self.packets += rows + 1
        for die, builder in enumerate(builders):
            for other in range(DIES):
                if other != die:
                    builder.expect([self.places[3 * hop + number] for hop in range(3) for number in range(3)
                                    if (other + hop + 1) % DIES == die], 8 + other, 3)
            builder.add("end", Engine.TRANSFER, TransferOperation.COPY, {
                "source": source[die].pointer, "destination": source[die].pointer, "columns": 1, "rows": 1,
                "planes": 1}, reads=[source[die], *self.places])
        setup = [ring_setup(self.parameters, range(DIES), die, 0) for die in range(DIES)]
        self.program = assemble(setup, builders, memory_words=MEMORY_WORDS)
        self.sources = (source[0], gradients[0], weights[0])
        self.words = [rng.standard_normal((DIES, buffer.rows, buffer.columns)).astype(np.float32).view(np.uint32)
                      for buffer in self.sources]
        golden = Driver(GoldenArray(self.parameters, DIES, MEMORY_WORDS), self.program, memory_words=MEMORY_WORDS)
        self._wanted = self._step(golden)

    def _step(self, driver: Driver) -> list[NDArray[np.uint32]]:
        """What is in all places after a step; nothing was before."""
        self.fill(driver)
        driver.step(0)
        return self._found(driver)

    def _found(self, driver: Driver) -> list[NDArray[np.uint32]]:
        return [driver.read(die, place) for die in range(DIES) for place in (self.sources[2], *self.places)]

    def fill(self, driver: Driver) -> None:
        """Sources as they are to be, places empty."""
        for die in range(DIES):
            for source, words in zip(self.sources, self.words, strict=True):
                driver.write(die, source, words[die])
            for place in self.places:
                driver.write(die, place, np.zeros((place.rows, place.columns), dtype=np.uint32))

    def campaign(self, packets: int, faults: Faults, resets: float, seed: int) -> Outcome:
        """Send so many packets, in steps; in each of a share of ``resets`` one die is reset at some cycle.

        Raises
        ------
        AssertionError
            If a word differs, a die hangs, or an error has no name.
        """
        rng, outcome = np.random.default_rng(seed), Outcome()
        with CosimArray(self.parameters, DIES, MEMORY_WORDS, faults=faults) as array:
            driver = Driver(array, self.program, memory_words=MEMORY_WORDS, watchdog_cycles=50_000)
            cycles, gone = 8_000, 0
            while outcome.packets < packets:
                self.fill(driver)
                for die in range(DIES):
                    driver.start(die, 0)
                outcome.steps += 1
                reset = rng.random() < resets
                if reset:
                    array.run(int(rng.integers(1, cycles)))
                    gone = int(rng.integers(DIES))
                    array.reset_die(gone)
                    outcome.resets += 1
                try:
                    cycles = driver.wait()
                except DieError as error:
                    assert reset and "stopped" in str(error), error
                    outcome.errors.append(str(error))
                    array.run(2_000)
                    assert all(array.dies[die].read_register(Register.STATUS) & Status.ERROR
                               for die in range(DIES) if die != gone), "all hear of it"
                    driver.recover()
                else:
                    assert not reset
                    outcome.packets += self.packets
                    for words, wanted in zip(self._found(driver), self._wanted, strict=True):
                        assert np.array_equal(words, wanted)
                assert not any(die.read_register(Register.STATUS) & Status.ERROR for die in array.dies)
        return outcome
