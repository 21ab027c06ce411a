"""Figures of the README from measurements: ``python -m plinth.report.figures README.md REPORT BENCH``.

``REPORT`` is the ``report.json`` of ``make train``, ``BENCH`` the file of ``make bench``. The tables between the
markers are replaced, but for benchmark rows that ``BENCH`` does not have: a row takes up to a quarter of an hour, and
can be measured anew by itself. Each row names the commit that it was measured on.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.program import program

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"
#: In place of a commit, of figures from an installed package.
UNKNOWN = "unknown"


def training_lines(report: dict[str, Any]) -> list[str]:
    """Lines of the table that depend on nothing but the RTL and the job."""
    return [f"{line} {report['commit'] or UNKNOWN} |" for line in (
        f"| test accuracy after {report['steps']} steps | {report['test_accuracy']:.1%} |",
        *(f"| largest relative error of {what}, against float64 | {report[f'{name}_error']:.1e} |" for name, what in (
            ("prediction", "predictions"), ("loss", "the loss"), ("gradient", "a gradient"), ("update", "an update"))),
        f"| cycles a step | {report['cycles_per_step']:,.0f} |",
        f"| matrix utilisation over the whole run | {report['matrix_utilisation']:.1%} |",
        f"| bytes on the links, counted (as many as planned) | {sum(report['injected_bytes']):,} |")]


def bench_lines(rows: Sequence[dict[str, Any]], before: str = "") -> list[str]:
    """Lines of the table from benchmark rows, each in the place of its line in the text ``before``, or behind all of
    these."""
    def text(value: float) -> str:
        return f"{value:.3f}" if value < 100 else f"{value:,.0f}"

    bar = "\\|"
    lines = {line[1]: line[0] for line in re.finditer(r"^\| `([^`]+)`, .* \|$", before, re.MULTILINE)}
    return list((lines | {row["name"]: f"| `{row['name']}`, {row['unit'].replace('|', bar)} | {text(row['value'])} | "
                                       f"{row['commit'] or UNKNOWN} |" for row in rows}).values())


def main(arguments: list[str]) -> int:
    """Bring the README's table up to date."""
    if len(arguments) != 3:
        raise UserError("say README.md, the report of `make train` and the file of `make bench`")
    readme, report, bench = (Path(argument) for argument in arguments)
    text = readme.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    found = json.loads(report.read_text(encoding="utf-8"))
    title = f"`make train`: {found['network']} on {found['dies']} x {found['preset']}"
    columns = "| | commit |\n| --- | ---: | --- |"
    lines = [f"| {title} {columns}", *training_lines(found), "", f"| `make bench` {columns}",
             *bench_lines(json.loads(bench.read_text(encoding="utf-8")), before)]
    write_text(readme, head + BEGIN + "\n".join(lines) + "\n" + END + tail)
    return 0


if __name__ == "__main__":
    with program("plinth.report.figures", (UserError,)):
        sys.exit(main(sys.argv[1:]))
