"""Whoever makes, reads or uses a plan walks through its step once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import run

import plinth
from plinth.partition.regions import Splits
from plinth.predict.schedule import Schedule, Times


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    """Splits of the steps that were walked to their ends, in order."""
    found: list[Splits] = []
    step: Callable[..., Times] = Schedule.step

    def noted(self: Schedule, splits: Splits, *rest: object) -> Times:
        found.append(splits)
        return step(self, splits, *rest)

    monkeypatch.setattr(Schedule, "step", noted)
    return found


def test_a_plan_is_walked_once(tmp_path: Path, walked: list[Splits], capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"

    def command(*arguments: object) -> None:
        code, _, complaints = run(capsys, *arguments)
        assert not code, complaints

    for use, most in (
            # Beside it the baselines: everything data-parallel, everything model-parallel.
            (lambda: command("plan", "digits-mlp", "--array", "ring-2", "--planner", "hypar", "--out", path), 3),
            (lambda: plinth.load_plan(path), 3),
            (lambda: command("simulate", path, "--json"), 1),
            (lambda: command("train", path, "--steps", "1", "--device", "golden", "--out", tmp_path / "run"), 1),
            (lambda: plinth.train(path, steps=1), 1),
            (lambda: command("step", path, "--json"), 0)):
        walked.clear()
        use()
        assert len(walked) == len(set(walked)) <= most
        assert walked or not most
