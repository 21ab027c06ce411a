"""How far a training run is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from plinth_hw.terminal.activity import Activity

if TYPE_CHECKING:
    from plinth.train.session import StepResult


class TrainingProgress:
    """Told of every step, it tells the activity: steps, loss, accuracy, and cycles of dies that count them.

    Where there is no bar, an epoch's first step and the run's last are lines as well.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._done, self._cycles, self._began = 0, 0, 0.0

    def __call__(self, result: StepResult | None, total: int) -> None:
        """A step, or, before the first, none."""
        if result is None:
            self._activity.begin("training", "steps", total)
            self._began = time.monotonic()
            return
        self._done += 1
        self._cycles += result.cycles
        accuracy = "" if result.accuracy is None else f", accuracy {result.accuracy:.1%}"
        cycles = ""
        if self._cycles:
            rate = self._cycles / (time.monotonic() - self._began)
            cycles = f", {self._cycles / 1e6:,.2f} M cycles, {rate / 1e3:,.0f} k a second"
        state = f"epoch {result.epoch + 1}, loss {result.loss:.4f}{accuracy}{cycles}"
        self._activity.update(self._done, total, state)
        if not self._activity.bar and (result.step == 0 or self._done == total):
            self._activity.say(f"step {self._done:,} of {total:,}: {state}")
