"""Tables of reports for their page: ``python -m plinth.report.fields docs/reports.md`` replaces what stands there.

The tables follow from :mod:`plinth.files.fields` and :mod:`plinth.files.reports`.
"""

import sys
from pathlib import Path

from plinth.errors import UserError
from plinth.files.fields import FIELDS
from plinth.files.reports import REPORTS, report_schema
from plinth.output import replace_tables
from plinth_hw.terminal.program import program


def kind_lines() -> list[str]:
    """A line for each kind of report."""
    return ["| kind | what | printed or written by |", "| --- | --- | --- |",
            *(f"| `{kind}` | {form.what} | `{form.made_by}` |" for kind, form in REPORTS.items())]


def field_lines() -> list[str]:
    """A line for each field, with the kinds of reports that have it."""
    schemas = {kind: report_schema(kind)["$defs"] for kind in REPORTS}
    lines = ["| field | what | in |", "| --- | --- | --- |"]
    for name, field in FIELDS.items():
        kinds = [kind for kind, fields in schemas.items() if name in fields]
        lines.append(f"| `{name}` | {field.what.replace('|', '/')} | "
                     f"{'all' if len(kinds) == len(REPORTS) else ', '.join(kinds)} |")
    return lines


def main(arguments: list[str]) -> int:
    """Bring the page's tables up to date."""
    if len(arguments) != 1:
        raise UserError("say docs/reports.md")
    replace_tables({Path(arguments[0]): {"kinds": lambda _: kind_lines(), "fields": lambda _: field_lines()}})
    return 0


if __name__ == "__main__":
    with program("plinth.report.fields", (UserError,)):
        sys.exit(main(sys.argv[1:]))
