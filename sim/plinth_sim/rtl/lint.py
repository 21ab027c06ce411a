"""Lints the synthesizable Verilog of every preset: ``python -m plinth_sim.rtl.lint [--whole] [PRESET ...]``.

Verilator's time and memory grow with the number of instances, not with the text: the 4,096 elements of
``ndp-paper`` take it minutes and gigabytes, all for one module's few lines. So a die is linted in *units*: each
module that is placed many times (an element, a row of them, a RAM, a vector lane), and the die itself, is a
unit with what only it contains; inside other units an empty module with the same ports stands for it.
Every line of the file is linted, once. ``--whole`` lints the file as it is.
"""

import re
import sys
import time
from pathlib import Path

from plinth_hw.isa.parameters import PRESETS, preset
from plinth_sim.rtl import verilator
from plinth_sim.rtl.elaborate import die_verilog, module_name
from plinth_sim.rtl.pins import module_ports

#: Every waiver, with its reason.
WAIVERS = Path(__file__).resolve().parents[3] / "constraints" / "waivers.vlt"

_MODULE = re.compile(r"(?:^\(\*[^\n]*\n)*^module\s+\\?(?P<name>\S+?)\s*\(.*?^endmodule\n", re.MULTILINE | re.DOTALL)


def _stand_in(text: str, name: str) -> str:
    """An empty module with the ports of ``name``."""
    ports = module_ports(text, name)
    declarations = ", ".join(f"{direction} [{bits - 1}:0] {port}" for port, (direction, bits) in ports.items())
    return f"module {name}({declarations});\nendmodule\n"


def units(text: str) -> dict[str, str]:
    """Verilog of each unit of a file, by the name of its top module."""
    parts: dict[str, list[str]] = {}
    for match in _MODULE.finditer(text):
        parts.setdefault(match["name"].split(".")[0], []).append(match[0])
    found = {name: "".join(modules) for name, modules in parts.items()}
    return {name: own + "".join(_stand_in(other, placed) for placed, other in found.items()
                                if placed != name and re.search(rf"^\s*{re.escape(placed)} ", own, re.MULTILINE))
            for name, own in found.items()}


def main(arguments: list[str]) -> int:
    """Lint the named presets, or all; prints a line each and returns the exit code."""
    whole = "--whole" in arguments
    clean: set[str] = set()
    for name in [one for one in arguments if one != "--whole"] or PRESETS:
        start = time.perf_counter()
        try:
            parameters = preset(name)
            top = module_name(parameters)
            (text,) = die_verilog(parameters, "cells").values()
            folder = verilator.build_root() / "lint" / top
            folder.mkdir(parents=True, exist_ok=True)
            for unit, verilog in ({top: text} if whole else units(text)).items():
                if verilog in clean:
                    continue
                path = folder / f"{unit}.v"
                path.write_text(verilog, encoding="utf-8")
                verilator.lint([path], unit, [WAIVERS])
                clean.add(verilog)
        except (verilator.ToolError, ValueError) as error:
            print(f"lint: {name}: {error}", file=sys.stderr)
            return 2
        print(f"lint: {name}: clean ({time.perf_counter() - start:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
