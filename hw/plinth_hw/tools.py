"""Programs of YoWASP wheels, run at low priority, each with its output in a log; and Yosys as Amaranth runs it.

All are WebAssembly on wasmtime, which keeps what it compiles in the user's cache folder, and fails where there is none
to write to.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plinth_hw.installation import cache_root, install
from plinth_hw.terminal.activity import Activity


class ToolError(Exception):
    """A tool is missing, or failed; the message says what to do, and names the log if there is one."""


def require(*packages: str) -> None:
    """See that Python packages are installed.

    Raises
    ------
    ToolError
        If one is not; the message names it and the command that installs it.
    """
    for package in packages:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise ToolError(f"the wheel {package} is not installed; run {install('dev')}")


def version(package: str) -> str:
    """Version of an installed package."""
    return importlib.metadata.version(package)


@contextmanager
def _compiled_kept() -> Iterator[None]:
    """Lets programs that are started keep what wasmtime compiles: in our caches where the user's cannot be written."""
    usual = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(usual or "~/.cache").expanduser() / "wasmtime"
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # no such folder, no home
        usable = False
    if usable:
        yield
        return
    os.environ["XDG_CACHE_HOME"] = str(cache_root() / "wasm")
    try:
        yield
    finally:
        if usual is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = usual


def verilog_of(netlist: str) -> str:
    """Verilog of RTLIL, as Amaranth makes it by Yosys; its own way there takes no component.

    Raises
    ------
    ToolError
        If Yosys is missing or fails.
    """
    from amaranth._toolchain.yosys import YosysError
    from amaranth.back import verilog

    try:
        with _compiled_kept():
            return verilog._convert_rtlil_text(netlist)
    except YosysError as error:
        why = (str(error).splitlines() or ["no message"])[-1]
        raise ToolError(f"Yosys failed: {why}; see that there are room on the disk and memory for it") from error


def run(package: str, arguments: list[str], folder: Path, log: str, program: str | None = None) -> None:
    """Run a program of a YoWASP wheel, at low priority, with paths relative to ``folder``.

    ``program``: its name with underscores; by default the wheel's.

    Raises
    ------
    ToolError
        If the wheel is missing or the program fails; the message has the first line of it that says why.
    """
    require(package)
    module = package.replace("-", "_")
    program = program or module.removeprefix("yowasp_")
    code = f"import sys, {module}; sys.exit({module}.run_{program}(sys.argv[1:]))"
    with (open(folder / log, "w") as handle, Activity(f"{program} runs; its output is in {folder / log}"),
          _compiled_kept()):
        run = subprocess.run(["nice", sys.executable, "-c", code, *arguments], cwd=folder, stdout=handle,
                             stderr=subprocess.STDOUT)
    if run.returncode:
        lines = (folder / log).read_text().splitlines()
        first = next((line for line in lines if re.search("ERROR|Error", line)), f"exit code {run.returncode}")
        raise ToolError(f"{program} of {package} failed: {first.strip()}; see {folder / log}")
