"""``python -m tests.fresh``: what a newcomer waits for. ``make train`` and ``make test``, each in a clone of its own,
without environment or builds: wall time and time of the processor, as rows of ``make bench``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from plinth.bench.commands import usage_of
from plinth.bench.row import BenchRow, keep_rows
from plinth.errors import UserError
from plinth_hw.installation import commit, output_root
from plinth_hw.terminal.commands import Command
from plinth_hw.terminal.program import program

TARGETS = ("train", "test")
_ROOT = Path(__file__).resolve().parents[1]
#: Beginnings of variables of a user's environment that would help or hinder.
_OWN = ("PLINTH_", "PYTHON", "VIRTUAL_ENV", "MAKE", "MFLAGS", "PYTEST_")


def newcomers_environment(makefile: str, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what is ours, settings of the Makefile included: make hands down its own."""
    settings = set(re.findall(r"^([A-Z]+) *\?=", makefile, re.MULTILINE))
    return {name: value for name, value in environment.items() if not name.startswith(_OWN) and name not in settings}


def measured(root: Path, target: str) -> list[BenchRow]:
    """Rows of ``make target`` in a clone of the repository ``root``, its output on standard error.

    Raises
    ------
    UserError
        If the target fails.
    """
    with tempfile.TemporaryDirectory(prefix="plinth-fresh-") as folder:
        clone = Path(folder) / "plinth"
        cloned = subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], capture_output=True, text=True)
        if cloned.returncode:
            raise UserError(f"{root}: cannot be cloned: {cloned.stderr.strip()}")
        environment = newcomers_environment((clone / "Makefile").read_text(encoding="utf-8"), os.environ)
        started = time.perf_counter()
        child = subprocess.Popen(["make", target], cwd=clone, env=environment, stdout=sys.stderr.fileno())
        usage = usage_of(child)
        seconds = time.perf_counter() - started
        if child.returncode:
            raise UserError(f"make {target} fails in a clone of {root}, see its output")
    detail = {"processors": os.cpu_count()}
    limits = "setting up the environment, building simulators"
    return [BenchRow(f"make_{target}_seconds", seconds, "seconds in a fresh clone", limits, detail),
            BenchRow(f"make_{target}_processor_seconds", usage.ru_utime + usage.ru_stime,
                     "seconds of a processor, all processes together", limits, detail)]


@click.command(cls=Command)
@click.argument("targets", nargs=-1, type=click.Choice(TARGETS))
def main(targets: tuple[str, ...]) -> None:
    """Measure TARGETS (train and test) as a newcomer meets them, in clones of the last commit."""
    if (revision := commit()) is None or shutil.which("git") is None:
        raise UserError("clones are measured: run this in a checkout with its history, where git is installed")
    if revision.endswith("-dirty"):
        raise UserError("clones have the last commit alone: commit your changes, or stash them")
    for target in dict.fromkeys(targets or TARGETS):
        rows = measured(_ROOT, target)
        keep_rows(output_root() / "bench.json", rows)
        for row in rows:
            click.echo(f"{row.name}: {row.value:,.0f} {row.unit}")


if __name__ == "__main__":
    with program("fresh", (UserError,)):
        main(standalone_mode=False)
