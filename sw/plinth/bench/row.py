"""What a benchmark finds, and what it computes with."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def random_words(count: int, seed: int) -> NDArray[np.uint32]:
    """Normally distributed FP32 numbers, as words."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32).view(np.uint32)
