"""Whoever makes, reads or uses a plan walks through its step once."""

from pathlib import Path

import pytest
from tests.support.commands import run
from tests.support.walks import walked_splits

import plinth
from plinth.partition.regions import Splits


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    return walked_splits(monkeypatch)


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
