"""Why points are not met: ``reasons.yaml``."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.coverage.points import Point

from plinth.errors import UserError

REASONS = Path(__file__).with_name("reasons.yaml")


@dataclass(frozen=True)
class Reason:
    """Patterns of a module and of the Verilog of a line, and why the points there are not met."""

    module: re.Pattern[str]
    text: re.Pattern[str]
    reason: str


def read_reasons(path: Path = REASONS) -> list[Reason]:
    """All entries.

    Raises
    ------
    UserError
        If one has no pattern or reason.
    """
    result = []
    for number, entry in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")) or [], 1):
        missing = {"module", "reason"} - entry.keys()
        if missing:
            raise UserError(f"{path}: entry {number} has no {', '.join(sorted(missing))}; add it")
        result.append(Reason(re.compile(entry["module"]), re.compile(entry.get("text", "")), entry["reason"]))
    return result


def explained(point: Point, text: str, reasons: list[Reason]) -> str:
    """The first reason for a point, or ""."""
    return next((entry.reason for entry in reasons
                 if entry.module.fullmatch(point.module) and entry.text.search(text)), "")
