"""Tables for eyes: no wider than the terminal, and no number of theirs is ever cut.

Columns that are justified to the right hold numbers: their cells stay whole and on one line, only their headings wrap.
The others hold text, whose words wrap, and fold where one is longer than there is room. A table whose numbers need more
than the terminal has is wider than it, and the terminal wraps its lines.
"""

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

#: Characters that a column of text keeps of its longest word.
LEAST_TEXT = 8
#: Wider than any table.
_WIDE = 1 << 16


def new_table(*headings: str, text: Iterable[str] = (), title: str | None = None, header: bool = True) -> Table:
    """A table without a frame, with a column for each heading: of text for those in ``text``, else of numbers."""
    table = Table(title=title, title_justify="left", show_header=header, box=None, pad_edge=False)
    texts = set(text)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in texts else "right")
    return table


def _lines(cell: object) -> list[str]:
    return (cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain).splitlines()


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _is_number(text: str) -> bool:
    """Whether it is a number, perhaps with a mark before and a unit behind."""
    return len(text.split()) <= 2 and text.lstrip("~?+-<>(")[:1].isdigit()


def _widths(column: Column) -> tuple[int, int]:
    """Characters that a column takes as it is, and those that it cannot do without."""
    heading = " ".join(_lines(column.header))
    lines = [line for cell in column.cells for line in _lines(cell)]
    words = _longest(heading.split())
    if column.justify != "right":
        return _longest((heading, *lines)), min(LEAST_TEXT, max(words, _longest(lines)))
    return _longest((heading, *lines)), max(words, _longest(
        part for line in lines for part in ([line] if _is_number(line) else line.split())))


class _AsWide:
    """A table with all the room that it takes, where the console would cut its columns."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._table, options.update(max_width=_WIDE))


def print_table(console: Console, table: Table) -> None:
    """Print a table as the module says."""
    options = console.options.update(max_width=_WIDE)

    def too_many() -> int:
        return Measurement.get(console, options, table).maximum - console.width

    if too_many() > 0:
        table.padding = (0, 1, 0, 0)
    if too_many() > 0:
        most, least = map(list, zip(*map(_widths, table.columns), strict=True))
        for column, width in zip(table.columns, most, strict=True):
            column.width, column.overflow = width, "fold"
        # The widest column is made narrower, a character at a time: headings of numbers wrap as texts do.
        for _ in range(max(0, too_many())):
            able = [place for place in range(len(most)) if most[place] > least[place]]
            if not able:
                break
            narrower = max(able, key=most.__getitem__)
            most[narrower] -= 1
            table.columns[narrower].width = most[narrower]
        for column, width in zip(table.columns, most, strict=True):
            column.header = Text("\n".join(textwrap.wrap(" ".join(_lines(column.header)), max(width, 1))))
    console.print(_AsWide(table), crop=False)


def print_markdown(console: Console, text: str) -> None:
    """Print text whose tables are those of Markdown: these as tables, the rest as it is."""
    block: list[str] = []
    for line in [*text.splitlines(), None]:
        if line is not None and line.startswith("|"):
            block.append(line)
            continue
        if block:
            print_table(console, _of_markdown(block))
            block = []
        if line is not None:
            console.print(line, markup=False, highlight=False)


def _cells(line: str) -> list[str]:
    cells = line.replace("\\|", "\0").strip().strip("|").split("|")
    return [cell.strip().replace("\0", "|").replace("`", "").replace("**", "") for cell in cells]


def _of_markdown(lines: Sequence[str]) -> Table:
    headings, rule, *rows = map(_cells, lines)
    table = Table(box=None, pad_edge=False)
    for heading, dashes in zip(headings, rule, strict=True):
        table.add_column(Text(heading), justify="right" if dashes.endswith(":") else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
