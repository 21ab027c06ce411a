"""A paper's tables: on a terminal, and as Markdown between the markers of docs/reproduce.md.

``python -m plinth.reproduce.tables docs/reproduce.md`` brings that page up to date.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from plinth.reproduce.paper import Paper, Row, Status, Table, Value, paper, tally

#: On a terminal: marks before values of the paper that could not simply be read.
READ = {"read-from-garbled": "~", "reconstructed": "?"}
#: On a terminal: what stands for a status, and its colour.
SHORT = {Status.INDEPENDENT: ("indep.", "green"), Status.SELECTED_ON: ("selected", "cyan"),
         Status.NOT_REPRODUCED: ("not repr.", "red"), Status.NOT_ATTEMPTED: ("not tried", "yellow")}
#: What stands where there is nothing.
NOTHING = "-"


def markers(name: str) -> tuple[str, str]:
    """What encloses a paper's tables on the page."""
    return f"<!-- {name} -->\n", f"<!-- /{name} -->"


def _text(value: Value, digits: int = 4) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def _ratio(row: Row) -> str:
    return NOTHING if row.ratio is None else f"{row.ratio:.3f}"


def _footnotes(table: Table) -> list[str]:
    """Notes of rows, each once."""
    return list(dict.fromkeys(text for row in table.rows for text in row.footnotes))


def _values(table: Table, row: Row) -> list[str]:
    """Cells from the paper's value to the last further column."""
    digits = 3 if len(table.further) > 3 else 4
    return [_text(row.paper), _text(row.ours), _ratio(row), *(_text(row.further.get(key), digits)
                                                              for key in table.further)]


def _numbers(table: Table, row: Row) -> str:
    notes = _footnotes(table)
    return ",".join(str(notes.index(text) + 1) for text in row.footnotes)


def _groups(table: Table) -> dict[str, list[Row]]:
    """Rows by series."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.series, []).append(row)
    return groups


def _rule(table: Table) -> str:
    return f"the same: within {100 * table.within:g} % of the paper, unless a row says otherwise"


def show(console: Console, found: Paper, tables: Sequence[Table]) -> None:
    """Print tables, at most 80 columns wide but for their notes, and how many entries have which status."""
    words = "; ".join(f"[{colour}]{short}[/{colour}] = {status}" for status, (short, colour) in SHORT.items())
    console.print(f"{found.data['paper']}; {found.data['conditions']}.", highlight=False)
    console.print(f"{words}; ~ read from labels that run together; ? inferred", highlight=False)
    for table in tables:
        console.print(f"\n[bold]{table.heading}[/bold] ({table.unit})", highlight=False)
        grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in ("", "paper", "ours", "ratio", *table.further.values(), "status", ""):
            grid.add_column(heading, justify="left" if heading in ("", "status") else "right", no_wrap=True)
        for series, rows in _groups(table).items():
            if series:
                grid.add_row(Text(found.data["series"][series], style="italic"))
            for row in rows:
                given, ours, ratio, *further = _values(table, row)
                short, colour = SHORT[row.status] if row.status else ("", "")
                mark = READ.get(row.entry.confidence, "") if row.entry else ""
                # Text, since rich reads brackets as markup.
                grid.add_row(*map(Text, (f" {row.what}" if series else row.what, mark + given, ours)),
                             Text(ratio, style=colour), *map(Text, further), Text(short, style=colour),
                             Text(_numbers(table, row)))
        console.print(grid)
        for number, note in enumerate(_footnotes(table), start=1):
            console.print(f"[{number}] {note}", style="dim", highlight=False, markup=False)
        for note in (*table.notes, _rule(table)):
            console.print(note, style="dim", highlight=False, markup=False)
    _show_counts(console, tables)


def _show_counts(console: Console, tables: Sequence[Table]) -> None:
    counts = tally(tables)
    console.print(f"\n[bold]{sum(found['entries'] for found in counts.values())} published values[/bold]")
    for status, (_, colour) in SHORT.items():
        found = counts[status]
        console.print(Text(f"{found['entries']:5d} {status}", style=colour))
        for reason, number in sorted(found["reasons"].items(), key=lambda pair: -pair[1]):
            console.print(f"{number:9d} {reason}", style="dim", highlight=False, markup=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(found: Paper, tables: Sequence[Table]) -> str:
    """Tables as sections of a page, behind the counts."""
    counts = tally(tables)
    lines = ["### Counts", "", "| status | values | why |", "| --- | ---: | --- |"]
    for status in Status:
        entry = counts[status]
        lines.append(f"| **{status}** | **{entry['entries']}** | |")
        lines += [f"| | {number} | {_cell(reason)} |"
                  for reason, number in sorted(entry["reasons"].items(), key=lambda pair: -pair[1])]
    lines.append("")
    for table in tables:
        headings = ["", "paper", "ours", "ratio", *table.further.values(), "status", "read", "note"]
        lines += [f"### {table.heading}", "", f"{table.where}; {table.unit}.", "", f"| {' | '.join(headings)} |",
                  f"| --- | {'---: | ' * (len(headings) - 4)}--- | --- | --- |"]
        for series, rows in _groups(table).items():
            if series:
                lines.append(f"| **{found.data['series'][series]}** |{' |' * (len(headings) - 1)}")
            for row in rows:
                read = row.entry.confidence if row.entry else NOTHING
                cells = [row.what, *_values(table, row), row.status or NOTHING, read, _numbers(table, row)]
                lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines.append("")
        lines += [f"- [{number}] {note}" for number, note in enumerate(_footnotes(table), start=1)]
        lines += [f"- {note}" for note in (*table.notes, _rule(table))]
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str], name: str = "hypar") -> int:
    """Replace what stands between a paper's markers on a page."""
    page = Path(arguments[0])
    start, finish = markers(name)
    head, begin, rest = page.read_text(encoding="utf-8").partition(start)
    _, end, tail = rest.partition(finish)
    if not begin or not end:
        print(f"{page}: the markers {start.strip()} and {finish} are missing", file=sys.stderr)
        return 2
    found = paper(name)
    page.write_text(head + begin + markdown(found, found.computed()) + end + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
