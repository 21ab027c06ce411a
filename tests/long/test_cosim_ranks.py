"""A co-simulated array that is large for one process, on two ranks: cycles, memory and rate beside one process's."""

import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.support.lockstep import MEMORY_WORDS, RULE
from tests.support.networks import random_data
from tests.support.ranks import in_ranks
from tests.support.shares import assert_same

from plinth.driver.driver import Driver
from plinth.lower.training import lower_training
from plinth.network.network import perceptron
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import data_parallel
from plinth.runtime.arrays import cosim_array
from plinth.runtime.mpi_cosim import MpiLockstep
from plinth.runtime.processes import split_dies
from plinth.train.session import Session
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.remote_links import Lockstep

pytestmark = pytest.mark.long

DIES = 64


@dataclass(frozen=True)
class Step:
    """A data-parallel step of a small network, a sample a die."""

    threads: int

    def __call__(self, lockstep: Lockstep) -> dict[str, Any]:
        """Cycles, loss and weights; megabytes of this process, and its die-cycles a second."""
        network, die = perceptron("small", (64, 64, 10)), preset("ndp-tiny")
        plan = data_parallel(network, dies=DIES, batch=DIES)
        data = random_data(network, DIES, np.random.default_rng(3))
        program = lower_training(network, plan, die, rule=RULE, steps=1, memory_words=MEMORY_WORDS)
        array, _ = cosim_array(die, DIES, MEMORY_WORDS, threads=self.threads, lockstep=lockstep)
        driver = Driver(array, program, memory_words=MEMORY_WORDS)
        session = Session(network, data, program, driver, None, None, plan.batch, 0)
        session.load_parameters(initial_parameters(network, 0))
        driver.clear_counters()
        started, begun = time.perf_counter(), array.cycle
        (result,) = session.epoch(0)
        seconds = time.perf_counter() - started
        return {"cycles": result.cycles, "cycle": array.cycle, "loss": result.loss,
                "parameters": session.parameters(driver),
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "rate": len(array.numbers) * (array.cycle - begun) / seconds}


def test_sixty_four_dies_on_two_ranks() -> None:
    (alone,) = in_ranks(split_dies(DIES, 1), Step(threads=2), MpiLockstep)
    ranks = in_ranks(split_dies(DIES, 2), Step(threads=1), MpiLockstep)
    for rank in ranks:
        for key in ("cycles", "cycle", "loss", "parameters"):
            assert_same(rank[key], alone[key], key)
    megabytes = " and ".join(f"{rank['megabytes']:.0f}" for rank in ranks)
    rate = sum(rank["rate"] for rank in ranks)
    print(f"{alone['cycles']} cycles of {DIES} dies; one process: {alone['megabytes']:.0f} MB, {alone['rate']:.0f} "
          f"die-cycles a second; two ranks: {megabytes} MB, {rate:.0f} die-cycles a second")
    assert max(rank["megabytes"] for rank in ranks) < alone["megabytes"]
