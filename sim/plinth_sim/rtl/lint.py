"""Lints the synthesizable Verilog of every preset: ``python -m plinth_sim.rtl.lint [--whole] [PRESET ...]``.

Verilator's time and memory grow with the number of instances, not with the text: the 4,096 elements of
``ndp-paper`` take it minutes and gigabytes, all for one module's few lines. So a die is linted in *units*: each
module that is placed many times (an element, a row of them, a RAM, a vector lane), and the die itself, is a
unit with what only it contains; inside other units an empty module with the same ports stands for it.
Every line of the file is linted, once. ``--whole`` lints the file as it is.
"""

import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
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


#: Units that this process has found clean; presets share many.
_clean: set[str] = set()


def lint_preset(name: str, whole: bool = False) -> float:
    """Lint the die of a preset; returns the seconds that it took.

    Raises
    ------
    ToolError
        If there is a warning that no waiver covers, or Verilator is missing.
    ValueError
        If there is no such preset.
    """
    start = time.perf_counter()
    parameters = preset(name)
    top = module_name(parameters)
    (text,) = die_verilog(parameters, "cells").values()
    folder = verilator.build_root() / "lint" / top
    folder.mkdir(parents=True, exist_ok=True)
    for unit, verilog in ({top: text} if whole else units(text)).items():
        if verilog not in _clean:
            path = folder / f"{unit}.v"
            path.write_text(verilog, encoding="utf-8")
            verilator.lint([path], unit, [WAIVERS])
            _clean.add(verilog)
    return time.perf_counter() - start


def _lines(name: str, whole: bool) -> tuple[bool, str]:
    """Whether a preset is clean, and what to say of it."""
    try:
        return True, f"lint: {name}: clean ({lint_preset(name, whole):.1f} s)"
    except (verilator.ToolError, ValueError) as error:
        return False, f"lint: {name}: {error}"


def main(arguments: list[str]) -> int:
    """Lint the named presets, or all, as many at once as there are processors; prints a line each and returns the exit
    code."""
    names = [one for one in arguments if one != "--whole"]
    # The largest one first, for it takes longest.
    names = names or sorted(PRESETS, key=lambda name: -PRESETS[name].rows * PRESETS[name].columns)
    code = 0
    with ProcessPoolExecutor(min(len(names), len(os.sched_getaffinity(0)))) as pool:
        waiting = [pool.submit(_lines, name, "--whole" in arguments) for name in names]
        for done in as_completed(waiting):
            clean, line = done.result()
            print(line, file=sys.stdout if clean else sys.stderr, flush=True)
            code = code if clean else 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
