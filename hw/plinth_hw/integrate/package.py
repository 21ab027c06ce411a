# amaranth: UnusedElaboratable=no
"""A die as files for other tools: what stands beside its Verilog."""

import importlib.metadata
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from plinth_hw.die import Die
from plinth_hw.host.top import SerialDie
from plinth_hw.integrate import constraints, core_file, vivado
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters

#: Waivers of ``verilator --lint-only``, each with its reason.
WAIVERS = Path(str(files("plinth_hw") / "waivers.vlt"))
#: What can stand beside Verilog: constraints; a FuseSoC core, with all that it names; a list of files for simulators;
#: a script that makes an IP for Vivado.
KINDS = CONSTRAINTS, FUSESOC, FILELIST, VIVADO = "constraints", "fusesoc", "filelist", "vivado"


def beside(parameters: DieParameters, bridge: BridgeParameters | None, stem: str, top: str, kinds: Collection[str],
           clock_mhz: float = constraints.CLOCK_MHZ) -> dict[str, str]:
    """Files beside ``STEM.v``, their texts by their names.

    Parameters
    ----------
    parameters : DieParameters
    bridge : BridgeParameters or None
        Of the host bridge in front of the die, if it has one.
    stem : str
        Name of the Verilog's file without its ending.
    top : str
        Top module.
    kinds : collection of str
        Of :data:`KINDS`.
    clock_mhz : float
        Clock of the constraints in MHz.

    Raises
    ------
    ValueError
        If the clock is not above 0.
    """
    component = SerialDie(parameters, bridge) if bridge else Die(parameters)
    title = f"Die {parameters.name}{' with a host bridge' if bridge else ''}"
    version = importlib.metadata.version("plinth")
    texts: dict[str, str] = {}
    if CONSTRAINTS in kinds or FUSESOC in kinds:
        texts |= {f"{stem}.{dialect}": constraints.text(component, title, clock_mhz, dialect)
                  for dialect in constraints.DIALECTS}
    if FILELIST in kinds or FUSESOC in kinds:
        texts[f"{stem}.vlt"] = WAIVERS.read_text(encoding="utf-8")
    if FILELIST in kinds:
        texts[f"{stem}.f"] = f"// Verilator: verilator -F {stem}.f --top-module {top}\n{stem}.vlt\n{stem}.v\n"
    if FUSESOC in kinds:
        texts[f"{stem}.tcl"] = core_file.OUT_OF_CONTEXT
        texts[f"{stem}.core"] = core_file.text(stem, top, f"{title} of Plinth, a DNN training accelerator", version)
    if VIVADO in kinds:
        texts[f"{stem}_ip.tcl"] = vivado.packaging(component, stem, top, f"{title}: DNN training accelerator", version)
    return texts
