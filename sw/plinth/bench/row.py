"""Results of benchmarks, the conditions that they were measured in, and the file that keeps them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.files.reports import read_report, report
from plinth.output import write_json
from plinth_hw.installation import commit


@dataclass(frozen=True)
class BenchRow:
    """The result of one benchmark, with its unit and what limits it."""

    name: str
    value: float
    unit: str
    limited_by: str
    detail: dict[str, Any]
    #: What was measured: the checkout's commit, None of an installed package.
    commit: str | None = field(default_factory=commit)

    def to_data(self) -> dict[str, Any]:
        """The row as bench reports hold it."""
        return asdict(self)


def kept_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows that ``path`` holds, by name; none if there is no such file.

    Raises
    ------
    UserError
        If the file holds something else, which is not overwritten.
    """
    if not path.exists():
        return {}
    return {row["name"]: row for row in read_report(path, "bench", "move it away, and another is written")["rows"]}


def rows_report(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The report of rows, as ``bench.json`` and ``--json`` hold it."""
    return report("bench", {"rows": list(rows)})


def keep_rows(path: Path, rows: Sequence[BenchRow]) -> None:
    """Put rows among those that ``path`` holds, in the places of older ones of their names."""
    write_json(path, rows_report((kept_rows(path) | {row.name: row.to_data() for row in rows}).values()))


def random_words(count: int, seed: int) -> NDArray[np.uint32]:
    """Normally distributed FP32 numbers, as words."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32).view(np.uint32)
