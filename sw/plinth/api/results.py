"""What all results of the library have in common: data, a line, and a page for notebooks."""

import json
from abc import ABC, abstractmethod
from typing import Any

from plinth.api import html
from plinth.output import json_text


class Result(ABC):
    """A result: subclasses say its report, its line, its tables and its picture."""

    @abstractmethod
    def _report(self) -> dict[str, Any]:
        """As the command's ``--json`` has it."""

    @abstractmethod
    def _line(self) -> str:
        """In a line."""

    @abstractmethod
    def _tables(self) -> list[str]:
        """Tables of a page, as HTML."""

    def _picture(self) -> bytes | None:
        return None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, as the command's ``--json`` prints it: numbers that are not finite are None."""
        found: dict[str, Any] = json.loads(json_text(self._report()))
        return found

    def __repr__(self) -> str:
        return f"<{self._line()}>"

    def _repr_html_(self) -> str:
        """The tables and the picture of the result, for notebooks."""
        png = self._picture()
        return html.page(self._line(), *self._tables(), *([] if png is None else [html.picture(png, self._line())]))
