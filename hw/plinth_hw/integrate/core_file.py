"""A FuseSoC core (CAPI2) around the generated Verilog of a die.

Beside ``DIE.v`` stand ``DIE.core``, the constraints ``DIE.sdc`` and ``DIE.xdc``, the waivers ``DIE.vlt`` of lint, and
``DIE.tcl``, which tells Vivado that the pins are no pads.
Targets:

- ``default``: the Verilog alone, for cores that depend on this one;
- ``lint``: ``verilator --lint-only -Wall`` with the waivers, none of which hides what is a fault;
- ``ecp5``: synthesis for Lattice ECP5 by Yosys, without placement: a die by itself has more pins than the parts;
- ``vivado``: synthesis out of context, under the XDC; another part is chosen with ``--part``.
"""

import json

from plinth_hw.integrate.vivado import PART

#: Settings of Vivado's project.
OUT_OF_CONTEXT = ("set_property -name {STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS} -value {-mode out_of_context} "
                  "-objects [get_runs synth_1]\n")


def _list(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


def text(stem: str, top: str, description: str, version: str) -> str:
    """The core file.

    Parameters
    ----------
    stem : str
        Name of the files without their suffix.
    top : str
        Top module, and name of the core.
    description : str
        One line.
    version : str
        Of the core.
    """
    filesets = {"rtl": (f"{stem}.v", "verilogSource"), "waivers": (f"{stem}.vlt", "vlt"),
                "sdc": (f"{stem}.sdc", "SDC"), "xdc": (f"{stem}.xdc", "xdc"),
                "vivado": (f"{stem}_ooc.tcl", "tclSource")}
    targets: dict[str, tuple[list[str], list[str]]] = {
        "default": (["rtl"], []),
        "lint": (["waivers", "rtl"], ["flow: lint", "flow_options:", "  tool: verilator",
                                      "  verilator_options: [-Wall, --no-timing]"]),
        "ecp5": (["rtl"], ["flow: trellis", "flow_options:", "  pnr: none"]),
        "vivado": (["rtl", "xdc", "vivado"], ["flow: vivado", "flow_options:", f"  part: {PART}", "  pnr: none",
                                    "  synth: vivado"]),
    }
    lines = ["CAPI=2:", f"name: plinth:die:{top}:{version}", f"description: {json.dumps(description)}", "filesets:"]
    for name, (file, kind) in filesets.items():
        lines += [f"  {name}:", f"    files: {_list([file])}", f"    file_type: {kind}"]
    lines.append("targets:")
    for name, (used, flow) in targets.items():
        lines += [f"  {name}:", f"    filesets: {_list(used)}", f"    toplevel: {top}",
                  *(f"    {line}" for line in flow)]
    return "\n".join(lines) + "\n"
