"""A command builds the step of a sharding on dies of some parameters once, reads a plan's file once, and predicts with
one predictor."""

from pathlib import Path

import pytest

from plinth import cli
from plinth.plan import plan_file
from plinth.predict.time import StepTime
from plinth.simulate.step import step_on
from plinth.step import build
from plinth.step.step import Step


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan.yaml"
    cli.main(["plan", "digits-cnn", "--array", "ring-2", "--planner", "data", "--out", str(path)])
    capsys.readouterr()
    return path


class Counted:
    """What a command does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        self.predictors: list[object] = []
        self.loads: list[object] = []
        built, started, loaded = build._build, StepTime.__init__, plan_file.plan_from_data

        def count_step(step: Step) -> None:
            self.steps.append(step)
            built(step)

        def count_predictor(time: StepTime, *arguments: object, **settings: object) -> None:
            self.predictors.append(time)
            started(time, *arguments, **settings)  # type: ignore[arg-type]

        def count_load(*arguments: object) -> object:
            self.loads.append(arguments)
            return loaded(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(build, "_build", count_step)
        monkeypatch.setattr(StepTime, "__init__", count_predictor)
        monkeypatch.setattr(plan_file, "plan_from_data", count_load)

    def check(self, *, loads: int, predictors: int = 1) -> None:
        """Steps differ from each other, and nothing was read or predicted twice."""
        digests = [step.digest() for step in self.steps]
        assert digests and len(set(digests)) == len(digests)
        assert (len(self.loads), len(self.predictors)) == (loads, predictors)


@pytest.mark.parametrize("arguments", [
    ("simulate", "digits-mlp", "--array", "ring-4"),
    ("simulate", "digits-cnn", "--array", "hypar-16", "--planner", "hypar"),
    ("simulate", "digits-mlp", "--array", "ring-2", "--planner", "data", "--json"),
    ("plan", "digits-mlp", "--array", "ring-4"),
    ("plan", "digits-mlp", "--array", "ring-4", "--planner", "data")],
    ids=lambda arguments: " ".join(arguments))
def test_of_a_network(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    cli.main([*arguments])
    counted.check(loads=0)


def test_of_the_plan_that_a_long_search_ends_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before the end, when several other steps have been built since."""
    counted, path = Counted(monkeypatch), tmp_path / "plan.yaml"
    cli.main(["plan", "digits-cnn", "--array", "ring-4", "--batch", "16", "--out", str(path)])
    digests = [step.digest() for step in counted.steps]
    plan = plan_file.load_plan(path)
    assert plan.hardware is not None
    own = step_on(plan, plan.hardware).digest()
    assert digests.count(own) == 1 and digests.index(own) < len(digests) - 2


@pytest.mark.parametrize("arguments", [("simulate",), ("simulate", "--json")], ids=lambda arguments: arguments[-1])
def test_of_a_plan_that_is_simulated(plan: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    cli.main([*arguments, str(plan)])
    counted.check(loads=1)
    assert len(counted.steps) == 1


def test_of_a_plan_that_is_trained(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prediction knows nothing of the rule's numbers, which are part of what dies do."""
    counted = Counted(monkeypatch)
    cli.main(["train", str(plan), "--device", "golden", "--epochs", "1", "--steps", "1"])
    counted.check(loads=1)
    assert len(counted.steps) == 2
