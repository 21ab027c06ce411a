"""Verilog of a die, cached by the hardware's sources and the die's parameters, and of its modules, by their RTLIL."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import amaranth

import plinth_hw
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters


def module_name(parameters: DieParameters, bridge: BridgeParameters | None = None) -> str:
    """Top module of a die: the preset's name with underscores, and what a die with a host bridge has behind it."""
    return parameters.name.replace("-", "_") + ("_serial" if bridge else "")


def _sources_digest() -> str:
    folder = Path(plinth_hw.__file__).parent
    files = sorted(folder.rglob("*.py"))
    return digest(*(part for path in files
                              for part in (str(path.relative_to(folder)), path.read_bytes())))


def _parameters_text(parameters: DieParameters) -> str:
    """All fields; sets in order, for their own order changes from run to run."""
    fields = ((field.name, getattr(parameters, field.name)) for field in dataclasses.fields(parameters))
    return repr([(name, sorted(map(repr, value)) if isinstance(value, frozenset) else value)
                 for name, value in fields])


def module_text(make: Callable[[str], str], netlist: str) -> str:
    """Verilog of a module's RTLIL; dies have many modules in common."""
    folder = cache_root() / "verilog" / "modules" / digest(amaranth.__version__, netlist)
    with cached_folder(folder, "module.v") as scratch:
        if scratch is not None:
            (scratch / "module.v").write_text(make(netlist))
    return (folder / "module.v").read_text()


def die_verilog(parameters: DieParameters, array_form: Literal["cells", "loops"] = "loops",
                bridge: BridgeParameters | None = None) -> dict[str, str]:
    """File name to text of a die's Verilog; elaborated only when sources or parameters have changed.

    Parameters
    ----------
    array_form : "loops" or "cells"
        ``loops`` for fast simulation, ``cells`` for synthesis.
    bridge : BridgeParameters or None
        Of the host bridge in front of the die, if it is to have one.
    """
    name = module_name(parameters, bridge)
    key = digest(_sources_digest(), amaranth.__version__, _parameters_text(parameters), array_form,
                           repr(bridge))
    folder = cache_root() / "verilog" / f"{name}-{array_form}-{key}"
    with cached_folder(folder, f"{name}.sv") as scratch:
        if scratch is not None:
            # Loading the generator takes longer than reading a cached result.
            from plinth_hw import emit
            from plinth_hw.die import Die
            from plinth_hw.host.top import SerialDie
            top = SerialDie(parameters, bridge) if bridge else Die(parameters)
            (scratch / f"{name}.sv").write_text(emit.verilog(
                top, name, array_form, registered=r"(axil?|link)_.*", cache=module_text))
    return {f"{name}.sv": (folder / f"{name}.sv").read_text()}
