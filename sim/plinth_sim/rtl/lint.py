"""Lints the synthesizable Verilog of every preset: ``python -m plinth_sim.rtl.lint [--whole] [PRESET ...]``.

Verilator's time and memory grow with the number of instances, not with the text: the 4,096 elements of
``ndp-paper`` take it minutes and gigabytes, all for one module's few lines. So a die is linted in *units*: each
module that is placed many times (an element, a row of them, a RAM, a vector lane), and the die itself, is a
unit with what only it contains; inside other units an empty module with the same ports stands for it.
Every line of the file is linted, once, and a unit that several presets have is linted once as well. ``--whole``
lints the file as it is.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.resources import files
from pathlib import Path

from plinth_hw.cache import digest as text_digest
from plinth_hw.installation import output_root
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.program import end_with_parent, program
from plinth_sim.rtl import verilator
from plinth_sim.rtl.elaborate import die_verilog, module_name
from plinth_sim.rtl.pins import module_ports

#: Every waiver, with its reason. Verilator reads it where it lies: packages are installed as files.
WAIVERS = Path(str(files("plinth_hw") / "waivers.vlt"))

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
    verilog = {name: "".join(modules) for name, modules in parts.items()}
    return {name: own + "".join(_stand_in(other, placed) for placed, other in verilog.items()
                                if placed != name and re.search(rf"^\s*{re.escape(placed)} ", own, re.MULTILINE))
            for name, own in verilog.items()}


def _write(name: str, whole: bool) -> dict[Path, tuple[str, int]]:
    """Write the units of the die of a preset into ``build/lint``; each one's digest and bytes.

    Raises
    ------
    SimulatorError
        If Verilator is missing.
    ValueError
        If there is no such preset.
    """
    parameters = preset(name)
    top = module_name(parameters)
    (text,) = die_verilog(parameters, "cells").values()
    folder = output_root() / "lint" / top
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for unit, verilog in ({top: text} if whole else units(text)).items():
        path = folder / f"{unit}.v"
        path.write_text(verilog, encoding="utf-8")
        written[path] = text_digest(verilog), len(verilog)
    return written


def _fault(path: Path) -> str:
    """What Verilator says against a unit; empty if it is clean."""
    try:
        verilator.lint([path], path.stem, [WAIVERS])
    except verilator.SimulatorError as error:
        return str(error)
    return ""


def lint(names: Sequence[str], whole: bool = False) -> Iterator[tuple[str, str]]:
    """Lint the dies of presets, as much at once as there are processors; yields each preset with what is wrong with it
    (nothing if it is clean), as soon as that is known. A unit that several presets have is linted once."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), initializer=end_with_parent) as pool:
        # The largest die first, and then the largest unit, for they take longest.
        names = sorted(names, key=lambda name: -PRESETS[name].rows * PRESETS[name].columns if name in PRESETS else 0)
        writers = {name: pool.submit(_write, name, whole) for name in names}
        pending: dict[str, set[str]] = {}
        paths: dict[str, tuple[int, Path]] = {}
        for name, writer in writers.items():
            try:
                written = writer.result()
            except (verilator.SimulatorError, ValueError) as error:
                yield name, str(error)
                continue
            pending[name] = {digest for digest, _ in written.values()}
            paths.update((digest, (size, path)) for path, (digest, size) in written.items())
        order = sorted(paths, key=lambda digest: paths[digest][0], reverse=True)
        waiting = {pool.submit(_fault, paths[digest][1]): digest for digest in order}
        faults: dict[str, str] = {}
        for done in as_completed(waiting):
            faults[waiting[done]] = done.result()
            for name in [name for name, digests in pending.items() if digests <= faults.keys()]:
                wrong = [fault for digest in pending.pop(name) if (fault := faults[digest])]
                yield name, min(wrong, default="")


def main(arguments: list[str]) -> int:
    """Lint the named presets, or all; prints a line each and returns the exit code."""
    names = [argument for argument in arguments if argument != "--whole"] or list(PRESETS)
    code = 0
    with Activity("linting", "presets") as activity:
        for done, (name, fault) in enumerate(lint(names, "--whole" in arguments), 1):
            print(f"lint: {name}: {fault or 'clean'}", file=sys.stderr if fault else sys.stdout, flush=True)
            activity.update(done, len(names))
            code = 2 if fault else code
    return code


if __name__ == "__main__":
    with program("plinth_sim.rtl.lint", (verilator.SimulatorError,)):
        sys.exit(main(sys.argv[1:]))
