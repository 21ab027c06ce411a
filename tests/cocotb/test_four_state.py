"""Dies as they are synthesized, without initial values, under Icarus Verilog, which knows X."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support import cocotb_runner, dies, four_state

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not four_state.is_there() and os.environ.get("PLINTH_ICARUS") != "needed", reason=four_state.MISSING)]


def runs(die: str, count: int, tasks: int, seeds: str, words: int = 1 << 14) -> None:
    """Programs of a die, by its name, on a ring of ``count``."""
    cocotb_runner.run_icarus(four_state.build(getattr(dies, die), count), four_state.TOP,
                             "tests.cocotb.four_state_cases", environment={
                                 "DIE": die, "DIES": str(count), "TASKS": str(tasks), "SEEDS": seeds,
                                 "WORDS": str(words)})


@pytest.mark.parametrize("die", [pytest.param("POWERED_TILES", marks=pytest.mark.xdist_group("power-up-tiles")),
                                 pytest.param("POWERED_FIXED", marks=pytest.mark.xdist_group("power-up-fixed"))])
def test_no_output_is_ever_x(die: str) -> None:
    runs(die, 1, 8, "5")


PINS = """module pins (clk, rst, axi_0_rvalid, axi_0_rdata, o, p);
  input clk, rst, axi_0_rvalid;
  input [3:0] axi_0_rdata;
  output reg o;
  output reg [3:0] p;
  always @(posedge clk) begin
    if (rst) o <= 0;
    p <= {4{rst}} | axi_0_rdata;
  end
endmodule
"""


def test_an_x_is_counted(tmp_path: Path) -> None:
    """Of inputs without an offer as of registers; from the first reset on, and not before."""
    bench = """module bench;
  reg clk = 0, rst = 0, valid = 0;
  watched dut (.clk(clk), .rst(rst), .axi_0_rvalid(valid), .axi_0_rdata(4'h5), .o(), .p());
  always #1 clk = ~clk;
  initial begin
    #4 rst = 1;
    #4 rst = 0; valid = 1;
    #8 if (dut.unknown !== 0) $display("early");
    valid = 0;
    #2 valid = 1;
    #8 $display("unknown %0d", dut.unknown);
    $finish;
  end
endmodule
"""
    (tmp_path / "all.v").write_text(PINS + four_state.watched(PINS, "pins") + bench, encoding="utf-8")
    subprocess.run(["iverilog", "-g2012", "-o", "all.vvp", "all.v"], cwd=tmp_path, check=True)
    said = subprocess.run(["vvp", "all.vvp"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "early" not in said and "unknown 1\n" in said and "X at p of bench.dut" in said, said


@pytest.mark.long
@pytest.mark.parametrize(("die", "count"), [
    ("NDP", 2), ("MIXED", 2), ("FIXED", 2), ("ROWS", 2), ("ROWS_MIXED", 1), ("ROWS_FIXED", 1), ("LINKED", 2),
    ("POWERED_TILES", 3), ("POWERED_FIXED", 2), ("PREDICTING", 2), ("PREDICTING_PAIRS", 2), ("MIXED_TILES", 2),
    ("TRANSFORMING", 3), ("ROUTING", 2), ("LINK_TRAFFIC", 2), ("ALONE", 1), ("ON_CHIP", 1)])
def test_of_every_option(die: str, count: int) -> None:
    runs(die, count, 24, "5,11", getattr(dies, die).block_ram_words or 1 << 15)
