"""Programs on dies in four states: memory is the golden model's, and no output is ever X.

``DIE`` names one of :mod:`tests.support.dies`, ``DIES`` says how many of them, ``TASKS`` how many tasks a program has,
and ``SEEDS`` which random graphs there are; tiles and codes come where dies have them.
"""

import os
from typing import Any

from cocotb.task import bridge
from tests.support import dies
from tests.support.back_ends import check_equal
from tests.support.power_up import cases

import cocotb
from plinth_sim.rtl.cocotb_device import CocotbArray

DIE, DIES, TASKS = getattr(dies, os.environ["DIE"]), int(os.environ["DIES"]), int(os.environ["TASKS"])
MEMORY_WORDS = int(os.environ["WORDS"])
CASES = list(cases(DIE, DIES, MEMORY_WORDS, TASKS, [int(seed) for seed in os.environ["SEEDS"].split(",")]))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(which=range(len(CASES)))
async def runs_without_x(dut: Any, which: int) -> None:
    """Whatever registers hold as power comes; behind other programs, whatever these have left in them."""
    case = CASES[which]
    array = await CocotbArray.start(dut, DIE, dies=DIES, memory_words=MEMORY_WORDS)
    array.stall(0.2, which)
    await bridge(lambda: check_equal(case.ran(array), case.wanted, case.program))()
    for number in range(DIES):
        unknown = int(getattr(dut, f"die_{number}").unknown.value)
        assert not unknown, f"die {number}: {unknown} times an output was X; the log says which"
