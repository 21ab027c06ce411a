"""A die on the buses of LiteX SoCs, elaborated by LiteX and simulated."""

from pathlib import Path

import pytest
from litex.build.generic_platform import GenericPlatform
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from tests.support import cocotb_runner, litex_soc

from plinth_hw.integrate.litex_die import LiteXDie, add_die
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.elaborate import die_verilog


@pytest.mark.slow
@pytest.mark.parametrize("standard", [
    "wishbone", *(pytest.param(name, marks=pytest.mark.long) for name in ("axi-lite", "axi"))])
def test_a_product_over_the_bus(tmp_path: Path, standard: str) -> None:
    ((name, text),) = die_verilog(litex_soc.DIE).items()
    verilog = tmp_path / name
    verilog.write_text(text)
    soc = litex_soc.make(verilog, bus_standard=standard)
    cocotb_runner.run(soc.sources, litex_soc.TOP, "tests.cocotb.litex_cases", environment={"ENABLE": str(soc.enable)})


def test_bad_input(tmp_path: Path) -> None:
    platform = GenericPlatform("", [])
    missing = tmp_path / "die.v"
    with pytest.raises(ValueError, match="must hold module ndp_tiny: write it with python -m plinth_hw ndp-tiny --out"):
        LiteXDie(platform, preset("ndp-tiny"), missing)
    missing.write_text("module ndp_demo(")
    with pytest.raises(ValueError, match="must hold module ndp_tiny"):
        LiteXDie(platform, preset("ndp-tiny"), missing)
    soc = SoCMini(platform, 1e6)
    with pytest.raises(ValueError, match="a die on a bus must have one AXI4 port, not 2: connect the ports"):
        add_die(soc, preset("ndp-paper"), missing, SoCRegion(origin=0, size=4096))
    for region in (SoCRegion(origin=0, size=5000), SoCRegion(origin=4096, size=8192)):
        with pytest.raises(ValueError, match="a power of two of bytes at a multiple of itself"):
            add_die(soc, preset("ndp-tiny"), missing, region)
