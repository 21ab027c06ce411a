"""Verilator's points of coverage: blocks of statements, and sides of branches."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: A point and how often it was met: ``C '<fields>' <count>``, each field ``\\x01name\\x02value``.
_POINT = re.compile(r"^C '(.*)' (\d+)$")
#: What a page of points begins with, and what these are.
_KINDS = {"v_line": "line", "v_branch": "branch"}


@dataclass(frozen=True, order=True)
class Point:
    """A place in a module's text, in whatever instances."""

    module: str
    #: "line" or "branch"
    kind: str
    line: int
    column: int
    #: What Verilator calls it: "if", "else", "block", "case" ...
    what: str


def read(paths: Iterable[Path]) -> Counter[Point]:
    """How often each point was met, over instances and files.

    Raises
    ------
    ValueError
        If a line is no point.
    """
    met: Counter[Point] = Counter()
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            match = _POINT.match(line)
            if not match:
                raise ValueError(f"{path}: {line[:80]!r} is no point of coverage")
            fields = dict(field.split("\x02", 1) for field in match[1].split("\x01") if field)
            kind, _, module = fields["page"].partition("/")
            if kind in _KINDS:
                point = Point(module, _KINDS[kind], int(fields["l"]), int(fields["n"]), fields.get("o", ""))
                met[point] += int(match[2])
    return met
