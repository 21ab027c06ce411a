"""What rows about the speed of the compiled co-simulation run: training steps, without golden model and reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.driver.driver import Driver
from plinth.lower.program import Program
from plinth.lower.training import lower_training
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.plan.planning import data_parallel
from plinth.runtime.arrays import cosim_array
from plinth.train.data import digits
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

if TYPE_CHECKING:
    from plinth_sim.rtl.cosim import CosimArray
    from plinth_sim.rtl.remote_links import Lockstep

#: Memory of a die, in words.
MEMORY_WORDS = 1 << 22


def training(dies: int, threads: int | None, lockstep: Lockstep | None = None
             ) -> tuple[Session, Driver, CosimArray, Program]:
    """A training session of the digits network on co-simulated demo dies; with a lockstep on those of this process."""
    parameters, network, batch = preset("ndp-demo"), NETWORKS["digits-mlp"], 128
    plan = data_parallel(network, dies=dies, batch=batch)
    program = lower_training(network, plan, parameters, rule=UpdateRule(), steps=11, memory_words=MEMORY_WORDS)
    array, _ = cosim_array(parameters, dies, MEMORY_WORDS, threads=threads, lockstep=lockstep)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    session = Session(network, digits(), program, driver, None, None, batch, 0)
    session.load_parameters(initial_parameters(network, 0))
    return session, driver, array, program


def rate(dies: int, threads: int | None, lockstep: Lockstep | None = None) -> float:
    """Die-cycles a second of the harness over an epoch, all dies together, those of other processes too."""
    session, _, array, _ = training(dies, threads, lockstep)
    before, begun = array.stats(), array.cycle
    for _ in session.epoch(0):
        pass
    return dies * (array.cycle - begun) / (array.stats()["seconds"] - before["seconds"])
