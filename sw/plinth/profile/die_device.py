"""Dies as devices: golden, co-simulated, and behind a serial line, all run by the driver.

A co-simulated die and a board count: a batch takes the cycles from its first task's start to its last one's end, and an
operation those of its tasks in a second run, in which each task waits for the one before, so that none shares memory
with another. Cycles become seconds by a clock that is stated, not measured. A golden die counts nothing: its batches
are timed by the clock on the wall, as a whole. So are all transfers: of a golden die and a co-simulated one to memory
of this process, of a board over its line.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.driver.program import NamedDescriptor
from plinth.driver.statistics import TaskRecord
from plinth.lower.builder import DieMemoryError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import data_parallel
from plinth.profile.batches import MeasuredBatch, TimedTransfer, operation_of, random_batch, training_rule
from plinth.profile.timing import busy_seconds
from plinth.profile.works import READ, WRITE, batch_works
from plinth.runtime.arrays import cosim_array, golden_array, serial_array
from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS, TaskHeader
from plinth_hw.isa.formats import word_type
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Steps of a batch on a golden die, of which the shortest counts; transfers of each size likewise.
GOLDEN_STEPS, TRANSFER_TURNS = 3, 3
#: Seconds of a transfer behind which no longer one is timed: a serial line would take minutes.
TRANSFER_SECONDS = 0.25
#: Rounds in which all batches are timed on a golden die.
GOLDEN_ROUNDS = 2
#: Bits of the narrower of the two words that dies have.
HALF_BITS = 16


@lru_cache(maxsize=8)
def lowered(network: Network, batch: int, parameters: DieParameters, memory_words: int) -> TrainingProgram:
    """The training step of a network on one die, with the memory that a batch of its own has.

    Raises
    ------
    UserError
        If it cannot be lowered, or does not fit so many words.
    """
    plan = data_parallel(network, dies=1, batch=batch)
    return lower_training(network, plan, parameters, rule=training_rule(parameters), steps=1,
                          memory_words=memory_words)


def one_by_one(program: TrainingProgram) -> TrainingProgram:
    """The program of one die whose tasks each wait for the one before, whatever its engine: an operation takes then
    what it takes alone."""
    (graph,) = program.step
    done: dict[Engine, int] = {}
    tasks: list[NamedDescriptor] = []
    for task in graph.tasks:
        words = np.array(task.words, np.uint32)
        header = vars(layout.unpack(TaskHeader, words[:HEADER_WORDS]))
        waits = [tasks[-1].engine] if tasks else []
        fields = header | {
            "wait_enable": len(waits), "wait_counter": [engine.value for engine in waits] + [0] * (WAITS - len(waits)),
            "wait_value": [done[engine] for engine in waits] + [0] * (WAITS - len(waits))}
        tasks.append(replace(task, words=(*layout.pack(TaskHeader, fields), *task.words[HEADER_WORDS:])))
        done[task.engine] = done.get(task.engine, 0) + 1
    return replace(program, step=[replace(graph, tasks=tuple(tasks))])


@dataclass(frozen=True)
class DieDevice:
    """One die and its driver (:class:`~plinth.profile.batches.BenchDevice`).

    Parameters
    ----------
    name : str
        As the command line names it.
    parameters : DieParameters
    memory_words : int
        Memory of the die.
    array : DeviceArray
        Of one die.
    clock_mhz : float or None
        The clock that its cycles are of; None: it counts none, and is timed.
    """

    name: str
    parameters: DieParameters
    memory_words: int
    array: DeviceArray
    clock_mhz: float | None
    rounds: int = 1

    @property
    def channel_step(self) -> int:
        """Two of dies of 16 bits, which pool and flatten channels in pairs; else 1."""
        return 2 if self.parameters.word_bits == HALF_BITS else 1

    @property
    def conditions(self) -> dict[str, str]:
        """The preset, the clock, and where times come from."""
        clock = {} if self.clock_mhz is None else {"clock": f"{self.clock_mhz:g} MHz, stated"}
        return {"preset": self.parameters.name, "memory": f"{self.memory_words} words", **clock,
                "time": "wall clock" if self.clock_mhz is None else
                "cycles of the die's counters over the clock; of transfers wall clock"}

    def holds(self, network: Network, batch: int) -> bool:
        """Whether the lowered step fits the die's memory."""
        return self.memory_bytes(network, batch) <= self.memory_words * self.parameters.word_bytes

    def batch(self, network: Network, batch: int) -> MeasuredBatch:
        """Run a training batch; its cycles over the clock, or the shortest time of several."""
        program = lowered(network, batch, self.parameters, self.memory_words)
        driver = self._loaded(program, network, batch)
        if self.clock_mhz is None:
            return MeasuredBatch(network, batch, min(
                busy_seconds(lambda: driver.step(0)) for _ in range(GOLDEN_STEPS)))
        driver.step(0)
        together = driver.records(0)
        driver = self._loaded(one_by_one(program), network, batch)
        driver.step(0)
        return self._counted(network, batch, together, driver.records(0))

    def _loaded(self, program: TrainingProgram, network: Network, batch: int) -> Driver:
        """A driver of the die with weights and samples in its memory."""
        driver = Driver(self.array, program, memory_words=self.memory_words)
        # A fresh die begins as one that has run, so that both take as many cycles.
        driver.recover()
        program.load(driver, initial_parameters(network, 0))
        program.write_batch(driver, *random_batch(network, batch))
        return driver

    def _counted(self, network: Network, batch: int, together: Sequence[TaskRecord], alone: Iterable[TaskRecord]
                 ) -> MeasuredBatch:
        """A batch by its completion records, from the first task's start to the last one's end, and its operations by
        those of tasks one by one."""
        assert self.clock_mhz is not None
        cycle = 1e-6 / self.clock_mhz
        first, last = min(record.start for record in together), max(record.end for record in together)
        forward = {work.operation for work in batch_works(network, batch) if work.is_forward}
        turned = max(record.end for record in together if operation_of(record.task) in forward)
        operations: dict[str, float] = {}
        for record in alone:
            name = operation_of(record.task)
            operations[name] = operations.get(name, 0.0) + cycle * (record.end - record.start)
        return MeasuredBatch(network, batch, cycle * (last - first), cycle * (turned - first), operations)

    def transfers(self, words: Iterable[int]) -> list[TimedTransfer]:
        """Time writes to the die's memory and reads of it, in ascending sizes, as far as it reaches. None is timed
        behind one that takes longer than :data:`TRANSFER_SECONDS`.
        """
        (die,) = self.array.dies
        found: list[TimedTransfer] = []
        for count in words:
            if count > self.memory_words or (found and found[-1].seconds > TRANSFER_SECONDS):
                break
            values = np.zeros(count, word_type(self.parameters.memory_format))
            actions: dict[str, Callable[[], object]] = {
                WRITE: partial(die.write_memory, 0, values), READ: partial(die.read_memory, 0, count)}
            found += [TimedTransfer(kind, count, min(_seconds(action) for _ in range(TRANSFER_TURNS)))
                      for kind, action in actions.items()]
        return found

    def memory_bytes(self, network: Network, batch: int) -> int:
        """Bytes of the die's memory that the lowered step takes, be it more than there is."""
        try:
            words = lowered(network, batch, self.parameters, self.parameters.most_memory_words).memory_words
        except DieMemoryError as error:
            words = error.needed_words
        return words * self.parameters.word_bytes

    def close(self) -> None:
        """Give a port back, if there is one."""
        with suppress(AttributeError):
            self.array.close()  # type: ignore[attr-defined]


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def golden_die(parameters: DieParameters, memory_words: int) -> DieDevice:
    """A golden die, timed by the clock on the wall."""
    return DieDevice("golden", parameters, memory_words, golden_array(parameters, 1, memory_words), None,
                     GOLDEN_ROUNDS)


def cosim_die(parameters: DieParameters, memory_words: int, clock_mhz: float) -> DieDevice:
    """A co-simulated die, of which cycles are counted.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the build folder cannot be written.
    """
    return DieDevice("cosim", parameters, memory_words, cosim_array(parameters, 1, memory_words)[0], clock_mhz)


def serial_die(parameters: DieParameters, memory_words: int, clock_mhz: float, port: str, baud: int) -> DieDevice:
    """A die behind a serial line, of which cycles are counted and transfers are timed.

    Raises
    ------
    LineError
        If the port cannot be opened, or there is no host bridge behind it.
    """
    parameters = parameters.with_window
    return DieDevice(f"serial:{port}", parameters, memory_words, serial_array(parameters, [(port, baud)]), clock_mhz)
