"""Parts of a page that programs write, each between the lines ``<!-- name -->`` and ``<!-- /name -->``."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

#: From the old text of a part to its new lines, without their ends.
Lines = Callable[[str], Iterable[str]]


class MarkError(ValueError):
    """A page has not one place for a part."""


def replaced(page: str, name: str, lines: Lines) -> str:
    """The text of a page with the part of a name made anew; its lines end as the page's do.

    Raises
    ------
    MarkError
        If one of the two marks is missing, stands twice or before the other.
    """
    rows = page.split("\n")
    places = []
    for mark in (f"<!-- {name} -->", f"<!-- /{name} -->"):
        matches = [place for place, row in enumerate(rows) if row.rstrip() == mark]
        if len(matches) != 1:
            raise MarkError(f"has {len(matches) or 'no'} lines {mark}, which should stand once")
        places += matches
    begin, end = places
    if end < begin:
        raise MarkError(f"has the line <!-- /{name} --> before <!-- {name} -->")
    old = "".join(row.rstrip("\r") + "\n" for row in rows[begin + 1:end])
    ending = "\r" if rows[begin].endswith("\r") else ""
    return "\n".join([*rows[:begin + 1], *(f"{line}{ending}" for line in lines(old)), *rows[end:]])


def remade(page: Path, parts: Mapping[str, Lines]) -> str:
    """The text of the page in a file with parts, by name, made anew.

    Raises
    ------
    OSError
        If the page cannot be read.
    MarkError
        If it is no UTF-8, or has no place for a part.
    """
    try:
        text = page.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise MarkError("is no text in UTF-8") from error
    for name, lines in parts.items():
        text = replaced(text, name, lines)
    return text
