"""Which steps planners walk through."""

from collections.abc import Callable

import pytest

from plinth.partition.regions import Splits
from plinth.predict.schedule import Schedule, Times


def walked_splits(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    """Splits of the steps that are walked to their ends from here on, in order."""
    found: list[Splits] = []
    step: Callable[..., Times] = Schedule.step

    def noted(self: Schedule, splits: Splits, *rest: object) -> Times:
        found.append(splits)
        return step(self, splits, *rest)

    monkeypatch.setattr(Schedule, "step", noted)
    return found
