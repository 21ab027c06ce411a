"""Pages that commands write their tables into: those of a checkout's ``docs``, or of the output folder."""

from collections.abc import Callable, Mapping
from pathlib import Path

from plinth.output import replace_tables, write_whole
from plinth_hw.installation import checkout, output_root


def default_page(name: str) -> Path:
    """A page by its name: the checkout's, or, of an installed package, one in the output folder."""
    root = checkout()
    return output_root() / name if root is None else root / "docs" / name


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Replace tables of a page, each between its markers; a page that does not exist begins with these tables.

    Raises
    ------
    UserError
        If the page cannot be read or written, or has no place for a table.
    """
    def lines(table: str) -> Callable[[str], list[str]]:
        return lambda old: table.splitlines()

    if not page.exists():
        text = "\n\n".join(f"<!-- {name} -->\n{table}\n<!-- /{name} -->" for name, table in tables.items())
        write_whole(page, lambda path: path.write_text(f"{text}\n", encoding="utf-8"))
        return
    replace_tables({page: {name: lines(table) for name, table in tables.items()}})
