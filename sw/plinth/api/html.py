"""Results as a notebook shows them: a line, tables, a picture that the page itself holds."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

_CELL = "padding:1px 10px 1px 0"


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Rows as a table, the first column to the left, the others to the right."""
    def row(cells: Sequence[str], tag: str) -> str:
        sides = ("left", *("right" for _ in cells[1:]))
        return "<tr>" + "".join(f'<{tag} style="{_CELL};text-align:{side}">{escape(cell)}</{tag}>'
                                for cell, side in zip(cells, sides, strict=True)) + "</tr>"

    lines = ([row(head, "th")] if head else []) + [row(cells, "td") for cells in rows]
    return f"<table>{''.join(lines)}</table>"


def picture(png: bytes, what: str) -> str:
    """A PNG as an image; ``what`` stands for it where it is not seen."""
    return f'<img alt="{escape(what)}" style="max-width:100%" src="data:image/png;base64,{b64encode(png).decode()}">'


def page(line: str, *parts: str) -> str:
    """A line and what follows it."""
    return f"<div><p><b>{escape(line)}</b></p>{''.join(parts)}</div>"
