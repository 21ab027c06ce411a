"""Parts of a page that programs write, each between ``<!-- name -->`` and ``<!-- /name -->``."""

from collections.abc import Callable, Iterable


def replaced(page: str, name: str, lines: Callable[[str], Iterable[str]]) -> str:
    """The text of a page with the part of a name made anew.

    Parameters
    ----------
    page, name : str
        Text of the page, name of the part.
    lines : function
        From the old text of the part to its new lines, without their ends.

    Raises
    ------
    ValueError
        If the page has not one place for the part.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    parts = page.split(begin)
    if len(parts) == 2:
        before, rest = parts
        old, mark, after = rest.partition(end)
        if mark:
            made = "".join(f"{line}\n" for line in lines(old))
            return f"{before}{begin}{made}{end}{after}"
    raise ValueError(f"there is no place for the table between {begin.strip()} and {end}")
