"""The command: it measures what is asked for and rewrites that table of its page."""

import sys
from pathlib import Path

from plinth_hw import tools
from plinth_hw.fpga import area, arith, timing
from plinth_hw.installation import NO_PAGES, checkout
from plinth_hw.isa.parameters import preset
from plinth_hw.terminal.activity import Activity


def main(arguments: list[str]) -> int:
    """Entry point; 2 if a tool is missing, there are no pages, or the arguments are wrong; 1 if tables are stale."""
    root = checkout()
    if root is None:
        print(f"plinth_hw.fpga: error: {NO_PAGES}", file=sys.stderr)
        return 2
    try:
        done = _measure(root / "docs", arguments)
    except tools.ToolError as error:
        print(f"plinth_hw.fpga: error: {error}", file=sys.stderr)
        return 2
    if done is None:
        print(f"plinth_hw.fpga: error: say arith, area (of {' or '.join(area.DIES)}), "
              f"{', '.join((*area.TABLES, *area.PARTS))}, timing (of {', '.join(timing.BLOCKS)}) or check",
              file=sys.stderr)
        return 2
    return done


def _measure(docs: Path, arguments: list[str]) -> int | None:
    """Do what is asked; None if that is nothing that can be."""
    of_area, of_timing = docs / "area.md", docs / "timing.md"
    what, *names = arguments or [""]
    if what == "timing" and set(names) <= timing.BLOCKS.keys():
        timing.timing(of_timing, names)
    elif what == "area" and len(names) == 1 and names[0] in area.DIES:
        area.area(of_area, preset(names[0]))
    elif names:
        return None
    elif what == "arith":
        arith.arith(docs / "arith.md")
    elif what == "area":
        for name in area.DIES:
            area.area(of_area, preset(name))
        for measure in area.TABLES.values():
            measure(of_area)
    elif what in area.TABLES:
        area.TABLES[what](of_area)
    elif what in area.PARTS:
        page, title, make = area.PARTS[what]
        area.parts(docs / page, what, title, make)
    elif what == "check":
        return _check(of_area, of_timing)
    else:
        return None
    return 0


def _check(of_area: Path, of_timing: Path) -> int:
    """1 if a table is of other Verilog than today's, and a line says so."""
    with Activity("writing the Verilog of dies and blocks"):
        dies = [name for name in area.DIES if not area.is_current(of_area, preset(name))]
        blocks = timing.stale(of_timing)
    for page, names, remedy in ((of_area, dies, "fpga-area"), (of_timing, blocks, "fpga-timing")):
        if names:
            print(f"docs/{page.name} is of other Verilog, of {', '.join(names)}: run make {remedy}", file=sys.stderr)
    return 1 if dies or blocks else 0
