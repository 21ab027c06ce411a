"""Runs benchmarks and keeps their rows in one file."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from plinth.bench.rows import BENCHES
from plinth.errors import UserError
from plinth.output import write_json
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.table import new_table, print_table


def run_benches(path: Path, only: str | None, activity: Activity) -> list[dict[str, Any]]:
    """Run all rows or one, and merge them, and what was measured along with them, into the rows that ``path`` holds.

    Raises
    ------
    UserError
        If the file holds something else, or a tool fails.
    """
    kept: dict[str, dict[str, Any]] = {}
    if path.exists():
        try:
            kept = {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: not a list of benchmark rows; delete it") from error
    done: set[str] = set()
    rows: list[dict[str, Any]] = []
    for number, (name, measure) in enumerate(BENCHES.items(), 1):
        if name in done or only not in (None, name):
            continue
        text = f"measuring {name}" + ("" if only else f" ({number} of {len(BENCHES)})")
        activity.begin(text)
        if not activity.bar:
            activity.say(text)
        for row in measure():
            done.add(row.name)
            kept[row.name] = row.to_data()
            if only in (None, row.name):
                rows.append(row.to_data())
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, list(kept.values()))
    return rows


def show(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    table = new_table("name", "value", "unit", "limited by", text=("name", "unit", "limited by"))
    for found in rows:
        value = found["value"]
        table.add_row(found["name"], f"{value:,.3f}" if value < 100 else f"{value:,.0f}", found["unit"],
                      found["limited_by"])
    print_table(console, table)
