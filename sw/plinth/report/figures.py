"""Figures of README and page from measurements: ``python -m plinth.report.figures README.md PAGE.md REPORT BENCH``.

``REPORT`` is the ``report.json`` of ``make train``, ``BENCH`` the file of ``make bench``. Tables between the markers
are replaced: the README's by the training run and :data:`HEADLINES`, the page's by all rows. Benchmark rows that
``BENCH`` does not have stay as they are: one takes up to a quarter of an hour, and can be measured anew by itself. Each
row names the commit that it was measured on.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.files.reports import read_report
from plinth.output import replace_tables
from plinth_hw.terminal.program import program

#: Name of both tables.
TABLE = "figures"
#: In place of a commit, of figures from an installed package.
UNKNOWN = "unknown"
#: Benchmark rows that the README shows.
HEADLINES = (
    "make_train_seconds", "make_train_processor_seconds", "make_test_seconds", "make_test_processor_seconds",
    "cosim_rate", "train_step_utilisation", "gemm_utilisation", "conv_utilisation_late1", "rs_utilisation_conv3",
    "winograd_speedup_late1", "ring_efficiency", "hybrid_speedup", "mpt_speedup_rtl", "digits_accuracy_adagrad",
    "agreement_error_mean", "agreement_holdout_mean", "prediction_error_mean", "mutants_killed")
Row = dict[str, Any]


def training_lines(report: dict[str, Any]) -> list[str]:
    """Lines of the table that depend on nothing but the RTL and the job.

    Raises
    ------
    UserError
        If nothing was counted.
    """
    if report["injected_words"] is None or report["matrix_utilisation"] is None:
        raise UserError(f"the run on device {report['device']!r} has counted neither words nor cycles; give the report "
                        "of `make train`")
    return [f"{line} {report['commit'] or UNKNOWN} |" for line in (
        f"| test accuracy after {report['steps']} steps | {report['test_accuracy']:.1%} |",
        *(f"| largest relative error of {what}, against float64 | {report[f'{name}_error']:.1e} |" for name, what in (
            ("prediction", "predictions"), ("loss", "the loss"), ("gradient", "a gradient"), ("update", "an update"))),
        f"| cycles a step | {report['cycles_per_step']:,.0f} |",
        f"| matrix utilisation over the whole run | {report['matrix_utilisation']:.1%} |",
        f"| bytes on the links, counted (as many as planned) | {report['word_bytes'] * report['injected_words']:,} |")]


def _cell(value: float | str) -> str:
    """As a table of Markdown holds it."""
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return f"{value:.3f}" if value < 100 else f"{value:,.0f}"


def headline(row: Row) -> str:
    """Line of the README's table of a benchmark row."""
    return f"| `{row['name']}`, {_cell(row['unit'])} | {_cell(row['value'])} | {row['commit'] or UNKNOWN} |"


def entry(row: Row) -> str:
    """Line of the page's table."""
    return (f"| `{row['name']}` | {_cell(row['value'])} | {_cell(row['unit'])} | {_cell(row['limited_by'])} | "
            f"{row['commit'] or UNKNOWN} |")


def bench_lines(rows: Sequence[Row], before: str, line: Callable[[Row], str]) -> list[str]:
    """Lines of benchmark rows, each in the place of its line in the text ``before``, or behind all of these."""
    lines = {match[1]: match[0] for match in re.finditer(r"^\| `([^` ]+)`.* \|$", before, re.MULTILINE)}
    return list((lines | {row["name"]: line(row) for row in rows}).values())


def main(arguments: list[str]) -> int:
    """Bring the tables up to date."""
    if len(arguments) != 4:
        raise UserError("say README.md, docs/figures.md, the report of `make train` and the file of `make bench`")
    readme, page, *sources = (Path(argument) for argument in arguments)
    report, rows = read_report(sources[0], "train"), read_report(sources[1], "bench")["rows"]
    measured = {row["name"]: row for row in rows}
    of_readme = [measured[name] for name in HEADLINES if name in measured]
    title = f"`make train`: {report['network']} on {report['dies']} x {report['preset']}"
    columns = "| | commit |\n| --- | ---: | --- |"

    def headlines(before: str) -> list[str]:
        return [f"| {title} {columns}", *training_lines(report), "",
                f"| `make bench`, `make fresh`, `make mutate` {columns}", *bench_lines(of_readme, before, headline)]

    def all_rows(before: str) -> list[str]:
        return ["| row | | unit | limited by | commit |", "| --- | ---: | --- | --- | --- |",
                *bench_lines(rows, before, entry)]

    replace_tables({readme: {TABLE: headlines}, page: {TABLE: all_rows}})
    return 0


if __name__ == "__main__":
    with program("plinth.report.figures", (UserError,)):
        sys.exit(main(sys.argv[1:]))
