"""Runs benchmarks and keeps their rows in one file."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from plinth.bench.rows import BENCHES
from plinth.errors import UserError
from plinth.output import write_json


def run_benches(path: Path, only: str | None, console: Console) -> list[dict[str, Any]]:
    """Run all rows or one, print them as a table, and merge them, and what was measured along with them, into the rows
    that ``path`` holds.

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
        console.print(f"measuring {name}" + ("" if only else f" ({number} of {len(BENCHES)})"), highlight=False)
        for row in measure():
            done.add(row.name)
            kept[row.name] = row.to_data()
            if only in (None, row.name):
                rows.append(row.to_data())
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, list(kept.values()))
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "value", "unit", "limited by"):
        table.add_column(heading, justify="right" if heading == "value" else "left", overflow="fold")
    for found in rows:
        value = found["value"]
        table.add_row(found["name"], f"{value:,.3f}" if value < 100 else f"{value:,.0f}", found["unit"],
                      found["limited_by"])
    console.print(table)
    return rows
