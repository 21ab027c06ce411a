"""A paper's tables: on a terminal, and as Markdown between the markers of docs/reproduce.md.

``python -m plinth.reproduce.tables docs/reproduce.md`` brings that page up to date. ``--paper NAME`` takes one alone;
``--report FILE`` takes tables from what ``plinth reproduce NAME --json`` printed, and computes none of that paper.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from plinth.errors import UserError
from plinth.files.reports import read_report
from plinth.reproduce.paper import PAPERS, Judgement, Paper, PaperRow, Table, Value, Verdict, paper, tally, verdicts
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.program import program
from plinth_hw.terminal.table import print_table

#: On a terminal: marks before values of the paper that could not simply be read.
READ = {"read-from-garbled": "~", "reconstructed": "?"}
#: On a terminal: what stands for a status, and its colour.
SHORT = {Judgement.INDEPENDENT: ("indep.", "green"), Judgement.SELECTED_ON: ("selected", "cyan"),
         Judgement.BETTER: ("better", "blue"), Judgement.NOT_REPRODUCED: ("not repr.", "red"),
         Judgement.NOT_ATTEMPTED: ("not tried", "yellow")}
#: On a terminal: colours of verdicts.
VERDICTS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.NOT_ATTEMPTED: "yellow"}
#: Further columns beyond which a table has fewer digits, and no column of distances on a terminal.
MANY_COLUMNS = 3
#: Characters beyond which a text that is the paper's is not printed a second time on a terminal.
LONG_TEXT = 24
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


def _ratio(row: PaperRow) -> str:
    return NOTHING if row.ratio is None else f"{row.ratio:.3f}"


def _footnotes(table: Table) -> list[str]:
    """Notes of rows, each once."""
    return list(dict.fromkeys(text for row in table.rows for text in row.footnotes))


def _values(table: Table, row: PaperRow) -> list[str]:
    """Cells from the paper's value to the last further column."""
    digits = 3 if _is_wide(table) else 4
    return [_text(row.paper), _text(row.ours), _ratio(row), *(_text(row.further.get(key), digits)
                                                              for key in table.further)]


def _own_tolerance(table: Table, row: PaperRow) -> str:
    """The distance within which ours is the same, where the row has another than its table."""
    entry = row.entry
    return "" if entry is None or entry.within == table.within else f"{100 * entry.within:g} %"


def _tolerances(table: Table) -> list[str]:
    """Heading of the column of rows' own distances, if a row has one."""
    return ["within"] if any(_own_tolerance(table, row) for row in table.rows) else []


def _numbers(table: Table, row: PaperRow) -> str:
    notes = _footnotes(table)
    return ",".join(str(notes.index(text) + 1) for text in row.footnotes)


def _groups(table: Table) -> dict[str, list[PaperRow]]:
    """Rows by series."""
    groups: dict[str, list[PaperRow]] = {}
    for row in table.rows:
        groups.setdefault(row.series, []).append(row)
    return groups


def _rule(table: Table) -> str:
    own = ", unless a row says otherwise (column 'within')" if _tolerances(table) else ""
    return f"the same: within {100 * table.within:g} % of the paper{own}"


def _shown_rule(table: Table) -> str:
    """The rule below a table on a terminal, which has no room for rows' own distances beside many columns."""
    return _rule(table).replace("(column 'within')", "(--json has each)") if _is_wide(table) else _rule(table)


def _is_wide(table: Table) -> bool:
    return len(table.further) > MANY_COLUMNS


def show(console: Console, paper: Paper, tables: Sequence[Table]) -> None:
    """Print tables, at most 80 columns wide but for their notes, and how many entries have which status."""
    words = "; ".join(f"[{colour}]{short}[/{colour}] = {status}" for status, (short, colour) in SHORT.items())
    console.print(f"{paper.data['paper']}; {paper.data['conditions']}.", highlight=False)
    console.print(f"{words}; ~ read from labels that run together; ? inferred", highlight=False)
    for table in tables:
        console.print(f"\n[bold]{table.heading}[/bold] ({table.unit})", highlight=False)
        grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        tolerances = [] if _is_wide(table) else _tolerances(table)
        for heading in ("", "paper", "ours", "ratio", *table.further.values(), *tolerances, "status", ""):
            grid.add_column(heading, justify="left" if heading in ("", "status") else "right")
        for series, rows in _groups(table).items():
            if series:
                grid.add_row(Text(paper.data["series"][series], style="italic"))
            for row in rows:
                published, ours, ratio, *further = _values(table, row)
                if len(ours) > LONG_TEXT and ours == published:
                    ours = "the same"
                short, colour = SHORT[row.status] if row.status else ("", "")
                mark = READ.get(row.entry.confidence, "") if row.entry else ""
                # Text, since rich reads brackets as markup.
                grid.add_row(*map(Text, (f" {row.what}" if series else row.what, mark + published, ours)),
                             Text(ratio, style=colour), *map(Text, further),
                             *(Text(_own_tolerance(table, row)) for _ in tolerances), Text(short, style=colour),
                             Text(_numbers(table, row)))
        print_table(console, grid)
        for number, note in enumerate(_footnotes(table), start=1):
            console.print(f"[{number}] {note}", style="dim", highlight=False, markup=False)
        for note in (*table.notes, _shown_rule(table)):
            console.print(note, style="dim", highlight=False, markup=False)
    _show_claims(console, tables)
    _show_counts(console, tables)


def _evidence(row: PaperRow) -> str:
    """The paper's value and ours, and why ours is another or missing."""
    values = f"paper {_text(row.paper)}, ours {_text(row.ours)}"
    return values if row.verdict == Verdict.HOLDS else f"{values}: {row.reason}"


def _show_claims(console: Console, tables: Sequence[Table]) -> None:
    """Claims in words, each with its verdict."""
    rows = [row for table in tables for row in table.claims]
    if not rows:
        return
    console.print(f"\n[bold]Claims in words[/bold]: {_verdicts(tables)}", highlight=False)
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in rows:
        assert row.entry is not None and row.verdict is not None
        short = "not tried" if row.verdict == Verdict.NOT_ATTEMPTED else row.verdict
        grid.add_row(Text(short, style=VERDICTS[row.verdict]),
                     Text.assemble(row.entry.claim, (f" -- {_evidence(row)}", "dim")))
    console.print(grid)


def _verdicts(tables: Sequence[Table]) -> str:
    plural = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail", Verdict.NOT_ATTEMPTED: "not attempted"}
    return ", ".join(f"{number} {plural[Verdict(verdict)]}" for verdict, number in verdicts(tables).items())


def _show_counts(console: Console, tables: Sequence[Table]) -> None:
    counts = tally(tables)
    console.print(f"\n[bold]{sum(count['entries'] for count in counts.values())} published values[/bold]")
    for status, (_, colour) in SHORT.items():
        count = counts[status]
        console.print(Text(f"{count['entries']:5d} {status}", style=colour))
        for reason, number in sorted(count["reasons"].items(), key=lambda pair: -pair[1]):
            console.print(f"{number:9d} {reason}", style="dim", highlight=False, markup=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(paper: Paper, tables: Sequence[Table]) -> str:
    """Tables as sections of a page, behind the counts and the claims in words."""
    counts = tally(tables)
    lines = ["### Counts", "", "| status | values | why |", "| --- | ---: | --- |"]
    for status in Judgement:
        entry = counts[status]
        lines.append(f"| **{status}** | **{entry['entries']}** | |")
        lines += [f"| | {number} | {_cell(reason)} |"
                  for reason, number in sorted(entry["reasons"].items(), key=lambda pair: -pair[1])]
    lines += ["", *claims(tables)]
    for table in tables:
        lines += section(paper, table)
    return "\n".join(lines)


def claims(tables: Sequence[Table]) -> list[str]:
    """Lines of the claims in words, none if there are none."""
    rows = [row for table in tables for row in table.claims]
    if not rows:
        return []
    lines = ["### Claims in words", "", f"{_verdicts(tables)}. The verdict follows from the values.", "",
             "| claim | verdict | paper | ours | why | id |", "| --- | --- | ---: | ---: | --- | --- |"]
    for row in rows:
        assert row.entry is not None and row.verdict is not None
        cells = [row.entry.claim, row.verdict, _text(row.paper), _text(row.ours), row.reason, f"`{row.entry.id}`"]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def section(paper: Paper, table: Table) -> list[str]:
    """Lines of a table."""
    tolerances = _tolerances(table)
    headings = ["", "paper", "ours", "ratio", *table.further.values(), *tolerances, "status", "read", "note", "id"]
    lines = [f"### {table.heading}", "", f"{table.where}; {table.unit}.", "", f"| {' | '.join(headings)} |",
             f"| --- | {'---: | ' * (len(headings) - 5)}--- | --- | --- | --- |"]
    for series, rows in _groups(table).items():
        if series:
            lines.append(f"| **{paper.data['series'][series]}** |{' |' * (len(headings) - 1)}")
        for row in rows:
            read, id_ = (row.entry.confidence, f"`{row.entry.id}`") if row.entry else (NOTHING, NOTHING)
            cells = [row.what, *_values(table, row), *(_own_tolerance(table, row) for _ in tolerances),
                     row.status or NOTHING, read, _numbers(table, row), id_]
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    lines.append("")
    lines += [f"- [{number}] {note}" for number, note in enumerate(_footnotes(table), start=1)]
    lines += [f"- {note}" for note in (*table.notes, _rule(table))]
    lines.append("")
    return lines


def parts(text: str, name: str) -> tuple[str, str, str] | None:
    """A page up to a paper's tables, these, and what stands behind them; None without markers."""
    start, finish = markers(name)
    head, begin, rest = text.partition(start)
    inside, end, tail = rest.partition(finish)
    return (head + begin, inside, end + tail) if begin and end else None


def main(arguments: Sequence[str]) -> int:
    """Replace what stands between papers' markers on a page."""
    parser = argparse.ArgumentParser(prog="plinth.reproduce.tables", description="Write papers' tables into a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--paper", action="append", choices=PAPERS, help="default: all")
    parser.add_argument("--report", action="append", type=Path, default=[], metavar="FILE",
                        help="what `plinth reproduce NAME --json` printed")
    options = parser.parse_args(arguments)
    reports = [read_report(path, "reproduce") for path in options.report]
    text, chosen = options.page.read_text(encoding="utf-8"), options.paper or PAPERS
    for name in chosen:
        if parts(text, name) is None:
            print(f"{options.page}: the markers {' and '.join(map(str.strip, markers(name)))} are missing",
                  file=sys.stderr)
            return 2
    for name in chosen:
        publication, around = paper(name), parts(text, name)
        assert around is not None
        report = next((report for report in reports if report["citation"] == publication.data["paper"]), None)
        with Activity(f"computing tables of {name}"):
            tables = publication.computed() if report is None else publication.kept(report)
        text = around[0] + markdown(publication, tables) + around[2]
    write_text(options.page, text)
    return 0


if __name__ == "__main__":
    with program("plinth.reproduce.tables", (UserError,)):
        sys.exit(main(sys.argv[1:]))
