# amaranth: UnusedElaboratable=no
"""Attributes of ports, held against the Verilog; and the packaging script, run by a Tcl interpreter on stand-ins."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from plinth_hw import emit
from plinth_hw.die import Die
from plinth_hw.host.top import SerialDie
from plinth_hw.host.uart import Receiver
from plinth_hw.integrate import constraints, vivado
from plinth_hw.integrate.package import KINDS, names, texts, waivers
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl import verilator
from plinth_sim.rtl.pins import module_ports

SMALL = preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}))
BRIDGE = BridgeParameters(cycles_per_bit=8)


@pytest.mark.parametrize("bridge", [None, BRIDGE])
def test_attributes_stand_before_their_ports(bridge: BridgeParameters | None) -> None:
    top: Any = SerialDie(SMALL.with_window, bridge) if bridge else Die(SMALL)
    text = emit.exported(emit.verilog(top, "top"), "top", vivado.attributes(top))
    found = dict(re.findall(r'^  \(\* X_INTERFACE_INFO = "([^"]*)".*\*\)\n  (?:input|output) [^;]*?(\w+) ?;$', text,
                            re.MULTILINE))
    names = {port: info for info, port in found.items()}
    ports = module_ports(text, "top")
    assert names.keys() <= ports.keys()
    left = {name for name in ports if name not in names}
    assert left == {"busy", "done", "error"} | {name for name in ports if name.startswith("link_")}
    assert names["axi_0_rdata"] == "xilinx.com:interface:aximm:1.0 axi_0 RDATA"
    assert names["clk"] == "xilinx.com:signal:clock:1.0 clk CLK"
    assert ("axil_awvalid" in names) == (bridge is None) and ("rx" in names) == (bridge is not None)
    (line,) = (line for line in text.splitlines() if "PROTOCOL AXI4," in line)
    bits, width = ports["axi_0_rdata"][1], ports["axi_0_araddr"][1]
    assert f"XIL_INTERFACENAME axi_0, PROTOCOL AXI4, DATA_WIDTH {bits}, ADDR_WIDTH {width}" in line
    buses = "axi_0" if bridge else "axil:axi_0"
    assert f"XIL_INTERFACENAME clk, ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET rst" in text


def test_a_line_belongs_to_no_clock() -> None:
    """Its constraints say so, and the registers that settle it carry what tools know them by."""
    top = SerialDie(SMALL.with_window, BRIDGE)
    for dialect in constraints.DIALECTS:
        text = constraints.text(top, "a die", 100, dialect)
        assert "set_false_path -from [get_ports {rx}]" in text and "set_false_path -to [get_ports {tx}]" in text
        assert not re.search(r"_delay [^\n]*\b[rt]x\b", text) and "axi_0_arvalid" in text
    verilog = emit.verilog(top, "top")
    (module,) = re.findall(r"^module \S*settle .*?^endmodule", verilog, re.MULTILINE | re.DOTALL)
    for stage in ("stage0", "stage1"):
        (before,) = re.findall(rf"((?:  \(\* [^\n]*\n)+)(?:  output {stage};\n)?  reg {stage}\b", module)
        for attribute in ('ASYNC_REG = "TRUE"', 'shreg_extract = "no"', 'keep = "true"',
                          'altera_attribute = "-name SYNCHRONIZER_IDENTIFICATION FORCED"'):
            assert attribute in before


def test_an_attribute_needs_its_port() -> None:
    with pytest.raises(ValueError, match="there is no port 'clok' for an attribute"):
        emit.exported(emit.verilog(Receiver(8), "top"), "top", {"clok": "(* a = 1 *)"})


def test_two_dies_can_be_in_one_design(tmp_path: Path) -> None:
    """Whose modules of the same name differ: of each all modules begin with its own, and its digest is the text's."""
    dies = {"one": SMALL, "two": preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}), counters=32)}
    texts = {name: emit.verilog(Die(die), name) for name, die in dies.items()}
    own = {name: emit.exported(text, name, {}) for name, text in texts.items()}
    modules = {name: set(re.findall(r"^module (\\?[^ (]+)", text, re.MULTILINE)) for name, text in own.items()}
    assert not modules["one"] & modules["two"]
    for name, text in own.items():
        assert all(module.lstrip("\\").startswith(name) for module in modules[name])
        assert len(modules[name]) == texts[name].count("\nendmodule")
        body, _, _ = text.partition(f"\nmodule {name}_digest(")
        assert emit.held_digest(text, name) == int(hashlib.sha256(body.encode()).hexdigest()[:8], 16) != 0
        (tmp_path / f"{name}.v").write_text(text)
        (tmp_path / f"{name}.vlt").write_text(waivers(name))
    ports = module_ports(own["one"], "one")
    pins = {name: ", ".join(f".{port}()" for port in ports) for name in own}
    (tmp_path / "both.v").write_text("module both;\n" + "".join(
        f"  {name} die_{name} ({pins[name]});\n" for name in own) + "endmodule\n")
    verilator.lint([*(tmp_path / f"{name}.v" for name in own), tmp_path / "both.v"], "both",
                   [tmp_path / f"{name}.vlt" for name in own] + [_silence(tmp_path)])


def _silence(folder: Path) -> Path:
    """Of the design that leaves pins open."""
    file = folder / "both.vlt"
    file.write_text('`verilator_config\nlint_off -rule PINCONNECTEMPTY -file "*both.v"\n')
    return file


def test_waivers_are_of_one_file(tmp_path: Path) -> None:
    """Whoever else is linted beside it hears all."""
    (tmp_path / "user.v").write_text("module user(input [3:0] a, output [1:0] q);\n  assign q = a;\nendmodule\n")
    (tmp_path / "die.vlt").write_text(waivers("die"))
    with pytest.raises(verilator.SimulatorError, match="WIDTHTRUNC"):
        verilator.lint([tmp_path / "user.v"], "user", [tmp_path / "die.vlt"])


def test_the_packaging_script_runs(tmp_path: Path) -> None:
    tkinter = pytest.importorskip("tkinter")
    parameters = SMALL.with_window
    verilog = emit.verilog(Die(parameters), "ndp_tiny")
    made = texts(verilog, parameters, None, "die", "ndp_tiny", KINDS, 100)
    assert sorted(made) == sorted(names("die", KINDS)) == [
        "die.core", "die.f", "die.sdc", "die.v", "die.vlt", "die.xdc", "die_ip.tcl", "die_ooc.tcl"]
    (tmp_path / "die.v").write_text("")
    (tmp_path / "die_ip.tcl").write_text(made["die_ip.tcl"])
    interpreter = tkinter.Tcl()
    calls: list[tuple[str, ...]] = []

    def stand_in(name: str) -> None:
        def called(*words: str) -> str:
            calls.append((name, *words))
            return f"<{name}>"

        interpreter.createcommand(name, called)

    interpreter.eval("namespace eval ipx {}; set argc 1; set argv {xc7a100tcsg324-1}")
    for name in ("create_project", "add_files", "set_property", "current_fileset", "close_project", *(
            f"ipx::{name}" for name in ("package_project", "current_core", "associate_bus_interfaces",
                                        "create_xgui_files", "update_checksums", "check_integrity", "save_core"))):
        stand_in(name)
    interpreter.eval(f"source {{{tmp_path / 'die_ip.tcl'}}}")
    assert ("create_project", "-force", "die_ip", str(tmp_path / "die_ip"), "-part", "xc7a100tcsg324-1") in calls
    assert ("add_files", str(tmp_path / "die.v")) in calls
    assert ("set_property", "top", "ndp_tiny", "<current_fileset>") in calls
    buses = [call[2] for call in calls if call[0] == "ipx::associate_bus_interfaces"]
    assert sorted(buses) == ["axi_0", "axil"] == sorted(vivado.buses(Die(parameters)))
    assert calls[-2:] == [("ipx::save_core", "<ipx::current_core>"), ("close_project",)]
