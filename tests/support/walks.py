"""Which steps planners walk through."""

from collections.abc import Callable

import pytest

from plinth.partition.regions import Splits
from plinth.predict.schedule import StepSchedule, Times


def walked_splits(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    """Splits of the steps that are walked to their ends from here on, in order."""
    walked: list[Splits] = []
    step: Callable[..., Times] = StepSchedule.step

    def noted(self: StepSchedule, splits: Splits, *rest: object) -> Times:
        walked.append(splits)
        return step(self, splits, *rest)

    monkeypatch.setattr(StepSchedule, "step", noted)
    return walked
