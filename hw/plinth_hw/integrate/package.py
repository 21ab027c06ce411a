# amaranth: UnusedElaboratable=no
"""A die as files for other tools: its Verilog, and what stands beside it."""

import re
from collections.abc import Collection
from importlib.resources import files

from plinth_hw import emit
from plinth_hw.die import Die
from plinth_hw.host.top import SerialDie
from plinth_hw.installation import release
from plinth_hw.integrate import constraints, core_file, vivado
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters

#: What can stand beside Verilog: constraints; a FuseSoC core, with all that it names; a list of files for simulators,
#: with waivers for Verilator's lint; a script that makes an IP for Vivado.
KINDS = CONSTRAINTS, FUSESOC, FILELIST, VIVADO = "constraints", "fusesoc", "filelist", "vivado"
_DIALECTS = {f".{dialect}": dialect for dialect in constraints.DIALECTS}
_BESIDE = {CONSTRAINTS: tuple(_DIALECTS), FUSESOC: (*_DIALECTS, ".vlt", "_ooc.tcl", ".core"),
           FILELIST: (".vlt", ".f"), VIVADO: ("_ip.tcl",)}
#: Names that need no quotes in Tcl, YAML and lists of files.
_STEM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def names(stem: str, kinds: Collection[str]) -> list[str]:
    """Names of the files of a die: ``STEM.v``, then those of each kind of :data:`KINDS`.

    Raises
    ------
    ValueError
        If the stem is one that other tools would take apart.
    """
    if kinds and not _STEM.fullmatch(stem):
        raise ValueError(f"other tools would take the name {stem[:40]!r} apart; use letters, digits, _, . and -")
    return list(dict.fromkeys([f"{stem}.v", *(stem + ending for kind in KINDS if kind in kinds
                                              for ending in _BESIDE[kind])]))


def waivers(stem: str) -> str:
    """The waivers of lint, each for the one file."""
    text = (files("plinth_hw") / "waivers.vlt").read_text(encoding="utf-8")
    body = text[text.index("`verilator_config"):]
    return (f"// What `verilator --lint-only -Wall` may say of {stem}.v, with the reason why it is no fault there.\n"
            + re.sub(r"^(lint_off -rule \w+)$", rf'\1 -file "*{stem}.v"', body, flags=re.MULTILINE))


def texts(verilog: str, parameters: DieParameters, bridge: BridgeParameters | None, stem: str, top: str,
          kinds: Collection[str], clock_mhz: float) -> dict[str, str]:
    """The files of :func:`names`, by these.

    Parameters
    ----------
    verilog : str
        Of the die, as :func:`plinth_hw.emit.verilog` writes it.
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
        If the clock is not above 0; and as :func:`names`.
    """
    component = SerialDie(parameters, bridge) if bridge else Die(parameters)
    title = f"Die {parameters.name}{' with a host bridge' if bridge else ''}"
    version, made = release() or "0.0", {f"{stem}.v": emit.exported(verilog, top, vivado.attributes(component))}
    for name in names(stem, kinds)[1:]:
        ending = name.removeprefix(stem)
        if ending in _DIALECTS:
            made[name] = constraints.text(component, title, clock_mhz, _DIALECTS[ending])
        elif ending == ".vlt":
            made[name] = waivers(stem)
        elif ending == ".f":
            made[name] = f"{stem}.v\n"
        elif ending == "_ooc.tcl":
            made[name] = core_file.OUT_OF_CONTEXT
        elif ending == ".core":
            made[name] = core_file.text(stem, top, f"{title} of Plinth, a DNN training accelerator", version)
        else:
            made[name] = vivado.packaging(component, stem, top, f"{title}: DNN training accelerator", version)
    return made
