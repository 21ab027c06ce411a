"""Runs benchmarks and keeps their rows in one file."""

from pathlib import Path
from typing import Any

from rich.console import Console

from plinth.bench.row import keep_rows, kept_rows
from plinth.bench.rows import BENCHES
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.table import new_table, print_table


def run_benches(path: Path, only: str | None, activity: Activity) -> list[dict[str, Any]]:
    """Run all rows or one, and merge them, and what was measured along with them, into the rows that ``path`` holds.

    Raises
    ------
    UserError
        If the file holds something else, or a tool fails.
    """
    kept_rows(path)  # Refuses a wrong file before anything is measured.
    done: set[str] = set()
    rows: list[dict[str, Any]] = []
    for number, (name, measure) in enumerate(BENCHES.items(), 1):
        if name in done or only not in (None, name):
            continue
        text = f"measuring {name}" + ("" if only else f" ({number} of {len(BENCHES)})")
        activity.begin(text)
        if not activity.bar:
            activity.say(text)
        measured = measure()
        keep_rows(path, measured)
        done |= {row.name for row in measured}
        # Of what is measured together the row that was asked for, if it is one of them.
        rows += [row.to_data() for row in [row for row in measured if only == row.name] or measured]
    return rows


def show(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print a row's name, value, unit and what limits it, a line each."""
    table = new_table("name", "value", "unit", "limited by", text=("name", "unit", "limited by"))
    for row in rows:
        value = row["value"]
        table.add_row(row["name"], f"{value:,.3f}" if value < 100 else f"{value:,.0f}", row["unit"],
                      row["limited_by"])
    print_table(console, table)
