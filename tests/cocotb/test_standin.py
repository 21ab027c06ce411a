"""The shared cocotb runner and the CocotbDevice adaptor, on the stand-in die."""

import pytest
from tests.support import cocotb_runner
from tests.support.standin import standin

from plinth_sim.rtl.cocotb_device import array_wrapper
from plinth_sim.rtl.cosim import ring

CASES = "tests.cocotb.standin_cases"


@pytest.mark.slow
@pytest.mark.parametrize("axi_ports", [1, 2])
def test_one_die(axi_ports: int) -> None:
    cocotb_runner.run(standin(axi_ports), "standin", CASES, testcase="copies_and_sends",
                      environment={"DIES": "1", "AXI_PORTS": str(axi_ports)})


@pytest.mark.slow
def test_two_dies() -> None:
    sources = standin()
    wrapper = array_wrapper(sources["standin.sv"], "standin", 2, ring(2), latency=5)
    cocotb_runner.run({**sources, "array.sv": wrapper}, "array", CASES, testcase="copies_and_sends",
                      environment={"DIES": "2", "AXI_PORTS": "1"})


@pytest.mark.slow
def test_failure_is_seen_and_leaves_waves() -> None:
    with pytest.raises(AssertionError, match="1 of 1 cocotb tests failed") as caught:
        cocotb_runner.run(standin(), "standin", CASES, testcase="fails", environment={"FAIL": "1"})
    waves = str(caught.value).rsplit(" ", 1)[1]
    with open(waves) as handle:
        assert "axil_awvalid" in handle.read(20_000)
