"""Training sessions of a lowered network, on dies whose memories are full of what somebody has left there."""

from dataclasses import replace

import numpy as np

from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.lower.training import TrainingProgram
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.plan import Plan
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.train.checks import against_float64
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.transport import Transport

#: Memory of a die.
MEMORY_WORDS = 1 << 20
#: How programs update weights.
RULE = UpdateRule(rate=0.1)
#: NaN: what is left in memories if nothing else is said.
LEFT = 0x7FC00000


def session(network: Network, plan: Plan, data: Dataset, program: TrainingProgram, *, rtl: bool = False,
            left: int = LEFT, rule: UpdateRule = RULE, transport: Transport | None = None) -> Session:
    """On golden dies, with a transport on those of this process; with ``rtl`` on co-simulated ones, beside golden dies
    that each step is compared with."""
    def driver(array: DeviceArray) -> Driver:
        for die in array.dies:
            die.write_memory(0, np.full(program.memory_words, left, dtype=np.uint32))
        return Driver(array, program, memory_words=MEMORY_WORDS)

    parameters = program.parameters
    golden = driver(golden_array(parameters, plan.dies, MEMORY_WORDS, transport))
    trained = golden
    if rtl:
        # The driver sets the links' rate: one model runs all rates.
        model = replace(parameters, link_rate=preset(parameters.name).link_rate)
        trained = driver(cosim_array(model, plan.dies, MEMORY_WORDS)[0])
    session = Session(network, data, program, trained, golden if rtl else None,
                      against_float64(network, rule, parameters.number_format), plan.batch, 0)
    session.load_parameters(initial_parameters(network, 0))
    trained.clear_counters()
    return session
