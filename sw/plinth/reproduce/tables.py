"""Figures as tables: on a terminal, and as Markdown between the markers of docs/reproduce.md.

``python -m plinth.reproduce.tables docs/reproduce.md`` brings that page up to date.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from plinth.reproduce.hypar import SERIES, Figure, Row, Value, published, reproduce

#: Markers of the page.
BEGIN, END = "<!-- hypar -->\n", "<!-- /hypar -->"
#: How values of the paper were read, on a terminal.
READ = {"read-from-garbled": "garbled", "reconstructed": "inferred"}
#: What stands where there is nothing.
NOTHING = "-"


def _text(value: Value, digits: int = 4) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else f"{value:.{digits}g}"


def _ratio(row: Row) -> str:
    return NOTHING if row.ratio is None else f"{row.ratio:.3f}"


def _footnotes(figure: Figure) -> list[str]:
    """Notes of rows, each once."""
    return list(dict.fromkeys(row.note for row in figure.rows if row.note))


def _cells(figure: Figure, row: Row) -> list[str]:
    notes = _footnotes(figure)
    cells = [row.what, _text(row.paper), _text(row.ours), _ratio(row),
             *(_text(row.further.get(key), 3 if len(figure.further) > 3 else 4) for key in figure.further)]
    return [*cells, row.confidence or NOTHING, f"[{notes.index(row.note) + 1}]" if row.note else ""]


def _headings(figure: Figure) -> list[str]:
    return ["", "paper", "ours", "ratio", *figure.further.values(), "read", "note"]


def _groups(figure: Figure) -> dict[str, list[Row]]:
    """Rows by series."""
    groups: dict[str, list[Row]] = {}
    for row in figure.rows:
        groups.setdefault(row.series, []).append(row)
    return groups


def _looks(row: Row) -> str:
    """Colour of a ratio: within 1 %, within 5 %, beyond."""
    if row.ratio is None:
        return ""
    distance = abs(row.ratio - 1)
    return "green" if distance <= 0.01 else "yellow" if distance <= 0.05 else "red"


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print figures, at most 80 columns wide but for their notes."""
    paper = published()
    console.print(f"{paper['paper']}; {paper['conditions']}.", highlight=False)
    for figure in figures:
        console.print(f"\n[bold]Figure {figure.number}: {figure.title}[/bold] ({figure.unit})", highlight=False)
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for place, heading in enumerate(_headings(figure)):
            right = 0 < place < len(_headings(figure)) - 2
            table.add_column("" if heading == "note" else heading, justify="right" if right else "left", no_wrap=True)
        for series, rows in _groups(figure).items():
            table.add_row(Text(SERIES[series], style="italic"))
            for row in rows:
                cells: list[str | Text] = [*_cells(figure, row)]
                cells[0], cells[3] = f" {row.what}", Text(_ratio(row), style=_looks(row))
                # Text, since rich reads brackets as markup.
                cells[-1] = Text(str(cells[-1]))
                cells[-2] = READ.get(str(cells[-2]), str(cells[-2]))
                table.add_row(*cells)
        console.print(table)
        for number, note in enumerate(_footnotes(figure), start=1):
            console.print(f"[{number}] {note}", style="dim", highlight=False, markup=False)
        for note in figure.notes:
            console.print(note, style="dim", highlight=False, markup=False)


def markdown(figures: Sequence[Figure]) -> str:
    """Figures as sections of a page."""
    lines: list[str] = []
    for figure in figures:
        headings = _headings(figure)
        lines += [f"### Figure {figure.number}: {figure.title}", "", f"{figure.where}; {figure.unit}.", "",
                  f"| {' | '.join(headings)} |",
                  f"| --- | {'---: | ' * (len(headings) - 3)}--- | --- |"]
        for series, rows in _groups(figure).items():
            lines.append(f"| **{SERIES[series]}** |{' |' * (len(headings) - 1)}")
            lines += [f"| {' | '.join(_cells(figure, row))} |" for row in rows]
        lines.append("")
        lines += [f"- [{number}] {note}" for number, note in enumerate(_footnotes(figure), start=1)]
        lines += [f"- {note}" for note in figure.notes]
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Replace what stands between the markers of a page."""
    page = Path(arguments[0])
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{page}: the markers {BEGIN.strip()} and {END} are missing", file=sys.stderr)
        return 2
    page.write_text(head + begin + markdown(reproduce()) + end + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
