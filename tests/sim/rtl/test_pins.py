"""Port lists and the accessors made from them."""

import pytest
from tests.support.standin import standin

from plinth_sim.rtl.pins import accessors, module_ports


def test_ports_of_both_styles() -> None:
    text = """
    module other(input wire x); endmodule
    module \\top (clk, a__b, q); // input [9:9] comment
      input clk;
      wire clk;
      (* keep = 1 *) input [7:0] a__b;
      output reg [31:0] q;
    endmodule
    """.replace("\\top", "top")
    assert module_ports(text, "top") == {"clk": ("input", 1), "a__b": ("input", 8), "q": ("output", 32)}
    ansi = "module top #(parameter X = 1) (input clk, input [7:0] a, b, output reg [3:0] q); endmodule"
    assert module_ports(ansi, "top") == {"clk": ("input", 1), "a": ("input", 8), "b": ("input", 8),
                                         "q": ("output", 4)}


def test_missing_module() -> None:
    with pytest.raises(ValueError, match="no module 'top'"):
        module_ports("module x; endmodule", "top")


def test_missing_port_is_named() -> None:
    ports = module_ports(standin()["standin.sv"], "standin")
    accessors(ports)
    del ports["axi_0_rlast"]
    with pytest.raises(ValueError, match="the die has no port axi_0_rlast"):
        accessors(ports)
