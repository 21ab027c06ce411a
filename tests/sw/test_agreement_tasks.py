"""Tasks of a step on the RTL against the simulator's."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from plinth import cli
from plinth.array.array import ARRAYS
from plinth.bench import agreement, steps, tasks
from plinth.bench.agreement import AgreementCase
from plinth.bench.steps import CountedStep, CountedTasks, operation_of, under_way
from plinth.errors import UserError
from plinth.simulate.step import simulated

STEP = AgreementCase("digits-mlp", ARRAYS["ring-2"], (("dp",),) * 4, ("data",), 32)


@pytest.mark.parametrize(("spans", "covered"), [
    ([], 0), ([(3, 5)], 2), ([(0, 4), (2, 6)], 6), ([(5, 9), (0, 2), (1, 3)], 7), ([(0, 10), (2, 3), (4, 5)], 10)])
def test_spans_that_overlap_count_once(spans: list[tuple[float, float]], covered: float) -> None:
    assert under_way(spans) == covered


@pytest.mark.parametrize(("task", "name"), [
    ("conv1.fprop", "conv1.fprop"), ("conv1.fprop[3]", "conv1.fprop"), ("conv2.untile.1", "conv2.untile"),
    ("conv2.scatter.own.0.1", "conv2.scatter.own"), ("fc2.fprop@1[0]", "fc2.fprop@1")])
def test_tasks_have_the_names_of_their_operations(task: str, name: str) -> None:
    assert operation_of(task) == name


def test_the_simulator_has_tasks_of_the_names_that_dies_record() -> None:
    """Each operation of a die's program, and no other; sums are no longer than the step."""
    run = simulated(STEP.plan, STEP.array)
    program = STEP.program
    whole = run.result.seconds * float(STEP.array.clock_mhz) * 1e6
    mine = tasks.simulated_tasks(run)
    for die, graph in enumerate(program.step):
        recorded = {operation_of(task.name) for task in graph.tasks}
        assert recorded == {name for name, at in mine if at == die}
    assert all(0 <= cycles <= whole + 1e-6 for cycles in mine.values()) and max(mine.values()) > 0.05 * whole


def test_the_largest_differences_stand_first(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    counted = CountedStep(10_000, (CountedTasks("fc1.fprop", "matrix", 4, 2000.0),
                                   CountedTasks("nothing", "vector", 1, 10.0)))
    monkeypatch.setattr(agreement, "kept_step", lambda *_: counted)
    monkeypatch.setattr(tasks, "steps_called", lambda only, known: [STEP])
    monkeypatch.setattr(tasks, "spread", lambda work, cases: list(enumerate(map(work, cases))))
    first, second = (difference for difference in tasks.measure(only="digits-mlp") if difference.tasks)
    assert first.task == "fc1.fprop" and first.counted == 1000 and first.simulated > 1000
    assert first.share == pytest.approx((first.simulated - 1000) / 10_000)
    assert (second.simulated, second.share) == (0, pytest.approx(-5 / 10_000))
    text = tasks.table([first, second])
    assert f"| {STEP.name} | fc1.fprop | matrix | 4 | 1,000 |" in text and "more" not in text
    assert tasks.table([first] * 42).endswith("2 more differ by less.")
    cli.main(["agreement", "--tasks", "--only", "digits-mlp", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["name"] == "task_difference_worst" and row["value"] >= abs(first.share)
    shares = [abs(task["share"]) for task in row["detail"]["tasks"]]
    assert shares == sorted(shares, reverse=True) and len(shares) > 2


def test_steps_in_groups_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others stand; if there are none, a line says so."""
    grouped, other = simulated(STEP.plan, STEP.array, most_tasks=0), dataclasses.replace(STEP, batch=16)
    monkeypatch.setattr(tasks, "simulated", lambda plan, array: grouped if plan.batch == 32 else simulated(plan, array))
    counted = CountedStep(100, (CountedTasks("fc1.fprop", "matrix", 2, 9.0),))
    monkeypatch.setattr(agreement, "kept_step", lambda *_: counted)
    monkeypatch.setattr(tasks, "spread", lambda work, cases: list(enumerate(map(work, cases))))
    monkeypatch.setattr(tasks, "steps_called", lambda only, known: [STEP, other])
    said: list[str] = []
    assert {difference.step for difference in tasks.measure(said.append)} == {other}
    assert sum(line.endswith("it is simulated in groups of them") for line in said) == 1
    # What only the simulator has stands there as well.
    assert any(difference.tasks == 0 < difference.simulated for difference in tasks.compare(other))
    monkeypatch.setattr(tasks, "steps_called", lambda only, known: [STEP])
    with pytest.raises(UserError, match="contains 'digits' are simulated in groups of tasks"):
        tasks.measure(only="digits")


@pytest.mark.parametrize("arguments", [("--out", "page.md"), ("--only", "models"), ("--only", "network")])
def test_what_does_not_go_with_tasks(arguments: tuple[str, ...], capsys: Any, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["agreement", "--tasks", *arguments])
    assert ended.value.code == 2 and "--tasks compares tasks of steps" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_records_of_dies_are_put_together_by_name() -> None:
    class Records:
        """A driver whose dies have recorded this."""

        def records(self, die: int) -> list[Any]:
            from plinth.driver.statistics import TaskRecord
            from plinth_hw.isa.operations import Engine

            spans = ((("a[0]", 0, 10), ("a[1]", 5, 12), ("b.0", 3, 4)), (("a[0]", 1, 3),))[die]
            return [TaskRecord(name, Engine.VECTOR, start, end, 0, 0, 0) for name, start, end in spans]

    assert list(steps._by_name(Records(), 2)) == [  # type: ignore[arg-type]
        CountedTasks("a", "vector", 3, 14.0), CountedTasks("b", "vector", 1, 1.0)]
