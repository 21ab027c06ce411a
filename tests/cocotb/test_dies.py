"""A die by itself and a ring of two under cocotb and Verilator."""

import pytest
from tests.support import cocotb_runner
from tests.support.die_tops import ON_CHIP, die_top


@pytest.mark.slow
@pytest.mark.parametrize("dies", [
    pytest.param(1, marks=pytest.mark.xdist_group("cocotb-die")),
    pytest.param(2, marks=pytest.mark.xdist_group("cocotb-ring"))])
def test_random_graphs(dies: int) -> None:
    sources, top = die_top(dies)
    cocotb_runner.run(sources, top, "tests.cocotb.die_cases", environment={"DIES": str(dies)})


@pytest.mark.slow
@pytest.mark.long
def test_memory_on_the_chip() -> None:
    sources, top = die_top(1, ON_CHIP)
    cocotb_runner.run(sources, top, "tests.cocotb.die_cases", testcase="memory_on_the_chip",
                      environment={"DIES": "1", "CHIP": "1"})


@pytest.mark.slow
@pytest.mark.xdist_group("cocotb-die")
def test_memory_errors() -> None:
    sources, top = die_top(1)
    cocotb_runner.run(sources, top, "tests.cocotb.memory_error_cases")
