"""What a benchmark finds."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One benchmark's result."""

    name: str
    value: float
    unit: str
    limited_by: str
    detail: dict[str, Any]

    def to_data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)
