"""Co-simulated dies of several processes, each in a thread of its own; and training runs on them, as one process has
them."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.dies import NDP
from tests.support.networks import random_data, random_plan, trainable_network
from tests.support.sessions import LEFT
from tests.support.shares import assert_same

from plinth.array.array import Array
from plinth.driver.driver import Driver
from plinth.lower.training import lower_training
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.plan import Plan
from plinth.runtime.arrays import WaveWindow, cosim_array
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.rtl.remote_links import Bytes, Lockstep

#: Memory of a die.
MEMORY_WORDS = 1 << 18
RULE = UpdateRule(rate=0.01)
#: Seconds after which a process that does not come is given up.
PATIENCE = 300


class ThreadLockstep:
    """One of several processes that are threads: see :class:`plinth_sim.rtl.remote_links.Lockstep`."""

    def __init__(self, processes: Sequence[Sequence[int]], own: int, barrier: threading.Barrier,
                 board: dict[tuple[int, int, int], Any]) -> None:
        self.processes, self.own = processes, own
        #: What each process has laid out for each other one, by channel.
        self.barrier, self._board = barrier, board
        self._channels = 1

    def _swap(self, channel: int, outgoing: Sequence[Any]) -> list[Any]:
        others = [process for process in range(len(self.processes)) if process != self.own]
        try:
            self.barrier.wait(PATIENCE)
            self._board.update({(channel, self.own, other): told for other, told in zip(others, outgoing, strict=True)})
            self.barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            raise ConnectionError("another process is gone") from None
        return [self._board[channel, other, self.own] for other in others]

    def channel(self, outgoing: Sequence[Bytes], incoming: Sequence[Bytes]) -> Callable[[], None]:
        channel = self._channels
        self._channels += 1

        def swap() -> None:
            for buffer, came in zip(incoming, self._swap(channel, [told.copy() for told in outgoing]), strict=True):
                buffer[:] = came

        return swap

    def meet(self, told: Any, patient: bool = False) -> list[Any]:
        came = self._swap(0, [told] * (len(self.processes) - 1))
        return [*came[:self.own], told, *came[self.own:]]


def in_lockstep(processes: Sequence[Sequence[int]], work: Callable[[Lockstep], Any]) -> list[Any]:
    """``work`` of every process in a thread of its own; what it returns. An error of one ends all."""
    barrier, board = threading.Barrier(len(processes)), dict[tuple[int, int, int], Any]()

    def run(own: int) -> Any:
        try:
            return work(ThreadLockstep(processes, own, barrier, board))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(len(processes)) as pool:
        return [future.result() for future in [pool.submit(run, own) for own in range(len(processes))]]


def outcome_of(work: Callable[[Lockstep], Any]) -> Callable[[Lockstep], Any]:
    """What the work returns, or what ends it: then for the others as well."""
    def run(lockstep: Lockstep) -> Any:
        try:
            return work(lockstep)
        except Exception as error:
            assert isinstance(lockstep, ThreadLockstep)
            lockstep.barrier.abort()
            return error

    return run


def _nothing(driver: Driver) -> None:
    pass


@dataclass(frozen=True)
class CosimTraining:
    """Some steps of a network under a plan on co-simulated dies."""

    network: Network
    plan: Plan
    die: DieParameters
    steps: int = 2
    bit_errors: float = 0.0
    threads: int = 1
    #: Die whose waves are recorded, and the file.
    waves: tuple[int, Path] | None = None
    #: Called with the driver before the first step.
    before: Callable[[Driver], None] = _nothing
    #: Links, if not those of a ring.
    array: Array | None = None

    def __call__(self, lockstep: Lockstep | None) -> tuple[dict[int, Any], dict[str, Any]]:
        """Train on the dies of a process: the memory of each after the last step, and all that the host has read."""
        network, plan, die = self.network, self.plan, self.die
        links = self.array and self.array.directed()
        data = random_data(network, self.steps * plan.batch, np.random.default_rng(3))
        program = lower_training(network, plan, die, rule=RULE, steps=self.steps, memory_words=MEMORY_WORDS)
        window = self.waves and WaveWindow(self.waves[0], 500, 600, self.waves[1])
        array, _ = cosim_array(die, plan.dies, MEMORY_WORDS, threads=self.threads, links=links,
                               bit_errors=self.bit_errors, window=window, lockstep=lockstep)
        for device in array.dies:
            device.write_memory(0, np.full(MEMORY_WORDS, LEFT, dtype=np.uint32))
        driver = Driver(array, program, memory_words=MEMORY_WORDS, links=links)
        session = Session(network, data, program, driver, None, None, plan.batch, 0)
        session.load_parameters(initial_parameters(network, 0))
        driver.clear_counters()
        self.before(driver)
        cycles = [(result.cycles, array.cycle) for result in session.epoch(0)]
        read = {"cycles": cycles, "losses": session.losses, "parameters": session.parameters(driver),
                "statistics": [vars(die) for die in driver.statistics()], "last": array.cycle}
        memories = {number: device.memory.copy() for number, device in zip(array.numbers, array.dies, strict=True)}
        array.close()
        return memories, read


def small(die: DieParameters = NDP, array: Array | None = None, **options: Any) -> CosimTraining:
    """A small network with a convolution on four dies."""
    generator = np.random.default_rng([12, 4])
    network = trainable_network(generator)
    plan = random_plan(network, 4, 8, generator)
    return CosimTraining(network, plan.resharded(array=array) if array else plan, die, array=array, **options)


def assert_one_process(outcomes: Sequence[tuple[dict[int, Any], dict[str, Any]]],
                       alone: tuple[dict[int, Any], dict[str, Any]]) -> None:
    """What processes have seen is what one process has."""
    memories, read = alone
    assert_same(dict(sorted((die, image) for images, _ in outcomes for die, image in images.items())), memories, "die")
    for _, theirs in outcomes:
        assert_same(theirs, read, "read")
