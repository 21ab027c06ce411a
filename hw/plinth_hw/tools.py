"""Programs of YoWASP wheels: run at low priority, each with its output in a log."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from plinth_hw.installation import install
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
    with open(folder / log, "w") as handle, Activity(f"{program} runs; its output is in {folder / log}"):
        run = subprocess.run(["nice", sys.executable, "-c", code, *arguments], cwd=folder, stdout=handle,
                             stderr=subprocess.STDOUT)
    if run.returncode:
        lines = (folder / log).read_text().splitlines()
        first = next((line for line in lines if re.search("ERROR|Error", line)), f"exit code {run.returncode}")
        raise ToolError(f"{program} of {package} failed: {first.strip()}; see {folder / log}")
