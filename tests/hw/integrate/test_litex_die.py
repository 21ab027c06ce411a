"""A die on the buses of LiteX SoCs, elaborated by LiteX and simulated."""

from pathlib import Path
from typing import Any

import pytest
from litex.build.generic_platform import GenericPlatform
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from tests.support import cocotb_runner, litex_soc

from plinth_hw.integrate.litex_die import LiteXDie, add_die
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.elaborate import die_verilog


@pytest.mark.slow
@pytest.mark.parametrize(("ports", "bus"), [
    # One port, wider than the bus; four that are as wide, so that bursts pass as they are; four on a narrower kind.
    pytest.param(1, {}, id="wishbone"),
    pytest.param(4, {"bus_standard": "axi"}, id="axi", marks=pytest.mark.long),
    pytest.param(4, {"bus_standard": "axi-lite"}, id="axi-lite", marks=pytest.mark.long)])
def test_a_product_over_the_bus(tmp_path: Path, ports: int, bus: dict[str, Any]) -> None:
    parameters = litex_soc.die(ports)
    ((name, text),) = die_verilog(parameters).items()
    verilog = tmp_path / name
    verilog.write_text(text)
    soc = litex_soc.make(parameters, verilog, **bus)
    cocotb_runner.run(soc.sources, litex_soc.TOP, "tests.cocotb.litex_cases",
                      environment={"ENABLE": str(soc.enable), "PORTS": str(ports)})


def test_bad_input(tmp_path: Path) -> None:
    platform = GenericPlatform("", [])
    missing = tmp_path / "die.v"
    with pytest.raises(ValueError, match="must hold module ndp_tiny: write it with python -m plinth_hw ndp-tiny --out"):
        LiteXDie(platform, preset("ndp-tiny"), missing)
    missing.write_text("module ndp_demo(")
    with pytest.raises(ValueError, match="must hold module ndp_tiny"):
        LiteXDie(platform, preset("ndp-tiny"), missing)
    soc = SoCMini(platform, 1e6)
    with pytest.raises(ValueError, match="a region for each of 2 AXI4 ports, not 1"):
        add_die(soc, preset("ndp-paper"), missing, [SoCRegion(origin=0, size=4096)])
    for region in (SoCRegion(origin=0, size=5000), SoCRegion(origin=4096, size=8192)):
        with pytest.raises(ValueError, match="a power of two of bytes at a multiple of itself"):
            add_die(soc, preset("ndp-tiny"), missing, [region])
