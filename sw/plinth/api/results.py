"""The base class of results of the library: a JSON report, a summary line, and a page for notebooks."""

import json
from abc import ABC, abstractmethod
from typing import Any

from plinth.api import html
from plinth.output import json_text


class Result(ABC):
    """Base of the library's results; subclasses give their report, summary line, tables and picture."""

    @abstractmethod
    def _report(self) -> dict[str, Any]:
        """The result's report, as the command's ``--json`` prints it."""

    @abstractmethod
    def _line(self) -> str:
        """A summary of the result in one line, which ``repr()`` shows in angle brackets."""

    @abstractmethod
    def _tables(self) -> list[str]:
        """The tables of the notebook page, as HTML."""

    def _picture(self) -> bytes | None:
        """The picture of the notebook page, as PNG; None: there is none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, as the command's ``--json`` prints it: numbers that are not finite are None."""
        report: dict[str, Any] = json.loads(json_text(self._report()))
        return report

    def __repr__(self) -> str:
        return f"<{self._line()}>"

    def _repr_html_(self) -> str:
        """The tables and the picture of the result, for notebooks."""
        png = self._picture()
        return html.page(self._line(), *self._tables(), *([] if png is None else [html.picture(png, self._line())]))
