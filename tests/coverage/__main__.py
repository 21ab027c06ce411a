"""``python -m tests.coverage``: what of the Verilog of the smallest dies the regression runs, by Verilator's counts."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from tests.coverage.points import Point, read
from tests.coverage.reasons import Reason, explained, read_reasons
from tests.support import dies

from plinth.errors import UserError
from plinth.output import replace_tables
from plinth.train.job import write_json
from plinth_hw.installation import cache_root, output_root
from plinth_hw.terminal.commands import Command
from plinth_hw.terminal.program import program
from plinth_sim.rtl.cosim import COVERAGE
from plinth_sim.rtl.elaborate import die_verilog
from plinth_sim.rtl.power_up import without_zeros

_ROOT = Path(__file__).resolve().parents[2]
_PAGE, _MARK = _ROOT / "docs" / "verification.md", "coverage"
#: Tests that co-simulate whole dies.
TESTS = ("tests/sim/rtl",)
#: The smallest die of each machine, of FP32 and of fixed point.
DIES = {"NDP": dies.NDP, "FIXED": dies.FIXED, "ROWS": dies.ROWS}
#: Yosys' processes wait for a constant, of which this is the other value.
_ARTEFACT = "$auto$verilog_backend.cc:"


def counted(folder: Path, text: str) -> Counter[Point]:
    """What was met of a die, of all builds of a text, without points of Yosys' own."""
    lines = text.splitlines()
    builds = {path.parent.name for path in (cache_root() / "verilator").glob("*/*.sv")
              if path.read_text(encoding="utf-8") == text}
    met = read(path for path in sorted(folder.glob("*.dat")) if path.name.split("-")[0] in builds)
    return Counter({point: count for point, count in met.items() if _ARTEFACT not in lines[point.line - 1]})


def shares(met: Mapping[Point, int]) -> dict[str, tuple[int, int]]:
    """Points that were met, and all, by kind."""
    return {kind: (sum(count > 0 for point, count in met.items() if point.kind == kind),
                   sum(point.kind == kind for point in met)) for kind in ("line", "branch")}


def report(met: Mapping[Point, int], text: str, reasons: list[Reason]) -> dict[str, Any]:
    """Shares of a die, what was not met by reason, and what has none."""
    lines = text.splitlines()
    missed = [(point, lines[point.line - 1].strip()) for point, count in sorted(met.items()) if not count]
    why = {point: explained(point, line, reasons) for point, line in missed}
    return {
        **{kind: {"met": some, "all": all_} for kind, (some, all_) in shares(met).items()},
        "reasons": dict(Counter(reason for reason in why.values() if reason)),
        "unexplained": [{**asdict(point), "text": line} for point, line in missed if not why[point]]}


def _share(part: Mapping[str, int]) -> str:
    return f"{100 * part['met'] / max(1, part['all']):.1f}"


def listed(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """Lines of the page's table."""
    lines = ["| die | blocks met, % | of | branches met, % | of | not met, with a reason | without |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| `{DIES[name].name}` | {_share(part['line'])} | {part['line']['all']:,} | {_share(part['branch'])} "
              f"| {part['branch']['all']:,} | {sum(part['reasons'].values()):,} | {len(part['unexplained']):,} |"
              for name, part in results.items()]
    return lines


@click.command(cls=Command)
@click.argument("tests", nargs=-1)
@click.option("--write", is_flag=True, help="put the table into docs/verification.md")
@click.option("--json", "as_json", is_flag=True, help="print what build/coverage.json holds")
def main(tests: tuple[str, ...], write: bool, as_json: bool) -> None:
    """Run TESTS (those of whole dies by default) on dies that count, and say what of their Verilog has run."""
    reasons = read_reasons()
    folder = output_root().resolve() / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, COVERAGE: str(folder), "PLINTH_COMPILE": "quick"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--dist", "loadgroup", "-m", "not long",
         *(tests or TESTS)], cwd=_ROOT, env=environment, stdout=sys.stderr)
    if run.returncode:
        raise UserError("tests fail on dies that count, see their output")
    results = {}
    for name, die in DIES.items():
        (text,) = without_zeros(die_verilog(die)).values()
        if not (met := counted(folder, text)):
            raise UserError(f"no test has run the die {die.name}; leave TESTS out, or name some that do")
        results[name] = report(met, text, reasons)
    # Some three megabytes a die of each test.
    shutil.rmtree(folder)
    data = {"dies": results}
    write_json(output_root() / "coverage.json", data)
    if write:
        replace_tables({_PAGE: {_MARK: lambda old: listed(results)}})
    if as_json:
        click.echo(json.dumps(data, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("die", "blocks %", "of", "branches %", "of", "with a reason", "without"):
        table.add_column(heading, justify="left" if heading == "die" else "right")
    for name, part in results.items():
        table.add_row(DIES[name].name, _share(part["line"]), str(part["line"]["all"]), _share(part["branch"]),
                      str(part["branch"]["all"]), str(sum(part["reasons"].values())), str(len(part["unexplained"])))
    Console().print(table)
    click.echo(f"what was not met, line by line: {output_root() / 'coverage.json'}")


if __name__ == "__main__":
    with program("coverage", (UserError,)):
        main(standalone_mode=False)
