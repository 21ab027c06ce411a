"""Lints the synthesizable Verilog of every preset: ``python -m plinth_sim.rtl.lint [PRESET ...]``."""

import sys
import time
from pathlib import Path

from plinth_hw.isa.parameters import PRESETS, preset
from plinth_sim.rtl import verilator
from plinth_sim.rtl.elaborate import die_verilog, module_name

#: Every waiver, with its reason.
WAIVERS = Path(__file__).resolve().parents[3] / "constraints" / "waivers.vlt"


def main(names: list[str]) -> int:
    """Lint the named presets, or all; prints a line each and returns the exit code."""
    for name in names or PRESETS:
        start = time.perf_counter()
        try:
            parameters = preset(name)
            folder = verilator.build_root() / "lint"
            folder.mkdir(parents=True, exist_ok=True)
            paths = []
            for file, text in die_verilog(parameters, "cells").items():
                paths.append(folder / file)
                paths[-1].write_text(text, encoding="utf-8")
            verilator.lint(paths, module_name(parameters), [WAIVERS])
        except (verilator.ToolError, ValueError) as error:
            print(f"lint: {name}: {error}", file=sys.stderr)
            return 2
        print(f"lint: {name}: clean ({time.perf_counter() - start:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
