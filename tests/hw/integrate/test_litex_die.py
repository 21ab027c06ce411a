"""A die on the buses of LiteX SoCs, elaborated by LiteX and simulated."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litex.build.generic_platform import GenericPlatform
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from migen import ClockDomain, Module, run_simulation
from tests.support import cocotb_runner, litex_soc

from plinth_hw.integrate.litex_die import HeldReset, LiteXDie, add_die
from plinth_hw.isa.parameters import RESET_CYCLES, preset
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


@pytest.mark.parametrize("cycles", [1, 12])
def test_the_dies_reset_is_held(cycles: int) -> None:
    """From the first cycle of the domain's, for as long as a die needs."""
    class Held(Module):
        def __init__(self) -> None:
            self.clock_domains.cd_sys = ClockDomain()
            self.submodules.held = HeldReset("sys")

    dut, seen = Held(), []

    def bench() -> Iterator[Any]:
        for _ in range(2 * RESET_CYCLES):
            yield
        for cycle in range(cycles + 2 * RESET_CYCLES):
            yield dut.cd_sys.rst.eq(cycle < cycles)
            yield
            seen.append((yield dut.held.o))

    run_simulation(dut, bench())
    assert sum(seen) == cycles + RESET_CYCLES - 1
    assert "".join(map(str, seen)).strip("0") == "1" * sum(seen)


def test_bad_input(tmp_path: Path) -> None:
    platform = GenericPlatform("", [])
    missing = tmp_path / "die.v"
    with pytest.raises(ValueError, match="must hold module ndp_tiny: write it with plinth verilog ndp-tiny --out"):
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
