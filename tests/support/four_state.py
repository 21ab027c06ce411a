"""Dies for simulators of four states: registers and memories that begin with X, inputs that are X while nothing is
offered on them, and a look at every output in every cycle."""

import re
import shutil
import subprocess
from pathlib import Path

from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.rtl.cocotb_device import array_wrapper
from plinth_sim.rtl.cosim import ring
from plinth_sim.rtl.elaborate import die_verilog, module_name
from plinth_sim.rtl.pins import module_ports
from plinth_sim.rtl.power_up import without_initial_values

TOP, WATCHED = "array", "watched"
#: Registers between dies.
LINK_LATENCY = 3
#: Why tests are skipped where it is missing.
MISSING = "Icarus Verilog (iverilog) is not installed"
#: What goes beside a VALID, and means nothing without it; of links with a link layer nothing does.
_OFFERED = re.compile(r"(axi_\d+_[rb]|axil_(?:aw|w|ar)|link_in_\d+_)(?:id|data|resp|last|addr|strb|prot|flit)")
_SAID = 10


def is_there() -> bool:
    """Whether Icarus Verilog is installed."""
    return bool(shutil.which("iverilog") and shutil.which("vvp"))


def watched(text: str, top: str) -> str:
    """Module :data:`WATCHED` with the ports of ``top`` around it: ``unknown`` counts outputs with an X, cycle by cycle,
    from the end of the first reset on; the first ones are printed."""
    declared, inside, pins, outputs = [], [], [], []
    for name, (direction, bits) in module_ports(text, top).items():
        declared.append(f"{direction} [{bits - 1}:0] {name}")
        offered = _OFFERED.fullmatch(name)
        if direction == "output":
            outputs.append(name)
        if direction == "input" and offered:
            inside.append(f"wire [{bits - 1}:0] seen_{name} = {offered[1]}valid === 1'b1 ? {name} : {bits}'bx;")
            pins.append(f".{name}(seen_{name})")
        else:
            pins.append(f".{name}({name})")
    looks = [f"if (^{name} === 1'bx) begin unknown = unknown + 1; if (unknown <= {_SAID}) "
             f'$display("X at {name} of %m in cycle %0t: %b", $time, {name}); end' for name in outputs]
    return "\n".join([
        f"module {WATCHED} ({', '.join(declared)});", *inside, f"{top} die ({', '.join(pins)});",
        "integer unknown = 0;", "reg begun = 0;",
        "always @(posedge clk) if (rst) begun <= 1; else if (begun) begin", *looks, "end", "endmodule", ""])


def build(parameters: DieParameters, dies: int) -> Path:
    """Folder of ``sim.vvp`` of a ring of dies (cached), with module :data:`TOP`."""
    top = module_name(parameters)
    (die,) = without_initial_values(die_verilog(parameters, "cells")).values()
    around = watched(die, top)
    texts = {"die.v": die, "watched.v": around,
             "array.v": array_wrapper(around, WATCHED, dies, ring(dies), latency=LINK_LATENCY),
             "flags.f": "+timescale+1ns/1ps\n"}
    version = subprocess.run(["iverilog", "-V"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    folder = cache_root() / "icarus" / digest(version, *(part for item in texts.items() for part in item))
    with cached_folder(folder, "sim.vvp") as scratch:
        if scratch is not None:
            for name, text in texts.items():
                (scratch / name).write_text(text, encoding="utf-8")
            subprocess.run(["iverilog", "-g2012", "-s", TOP, "-f", "flags.f", "-o", "sim.vvp", "die.v", "watched.v",
                            "array.v"], cwd=scratch, check=True, capture_output=True, text=True)
    return folder
