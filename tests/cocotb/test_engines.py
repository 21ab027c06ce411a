"""Each engine as its own Verilog top under cocotb and Verilator."""

import pytest
from tests.support import cocotb_runner
from tests.support.die_tops import TINY_DIES

from plinth_hw import emit
from plinth_hw.control.dispatch import engine_order
from plinth_hw.die import make_engine
from plinth_hw.isa.operations import Engine
from plinth_sim.rtl.cocotb_device import array_wrapper

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "die"), [
    *((kind, "ndp") for kind in engine_order(TINY_DIES["ndp"])), (Engine.MATRIX, "hypar"),
    *(pytest.param(kind, die, marks=pytest.mark.long) for kind, die in (
        (Engine.MATRIX, "ndp-fixed"), (Engine.MATRIX, "hypar-fixed"), (Engine.OPTIMISER, "ndp-fixed")))])
def test_random_tasks(kind: Engine, die: str) -> None:
    name = kind.name.lower()
    top, dies = f"{name}_top", 1
    sources = {f"{top}.sv": emit.verilog(make_engine(kind, TINY_DIES[die]), top, "loops")}
    if kind is Engine.COLLECTIVE:
        dies = 2
        sources["array.sv"] = array_wrapper(sources[f"{top}.sv"], top, dies, [], latency=1)
        top = "array"
    cocotb_runner.run(sources, top, "tests.cocotb.engine_cases",
                      environment={"ENGINE": name, "DIE": die, "INSTANCES": str(dies)})
