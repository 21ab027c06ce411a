"""The two models of `plinth simulate` against each other: each step of the agreement's page that is small enough for
both, task by task and in groups of tasks. Nothing is counted on the RTL for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from plinth.bench import holdouts
from plinth.bench.agreement import AgreementCase, steps_called
from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.partition.graph import from_network
from plinth.plan.planning import given_plan
from plinth.simulate.step import simulated, step_on

#: Where the table stands.
TABLE = "models"


@dataclass(frozen=True)
class Found:
    """Tasks of a step over all dies, and cycles by either model; of one that does not go task by task none there."""

    step: AgreementCase
    tasks: int
    task_by_task: float
    grouped: float

    @property
    def error(self) -> float:
        """Cycles in groups over those task by task, less 1."""
        return self.grouped / self.task_by_task - 1


def compare(step: AgreementCase) -> Found | None:
    """Simulate a step with both models; None if it does not go task by task."""
    array = step.array
    plan = given_plan(from_network(step.definition), array, step.splits, step.batch, step.rule)
    built = step_on(plan, array)
    fine = simulated(plan, array, step=built)
    if fine.work.grouped:
        return None
    return Found(step, sum(fine.work.tasks), fine.cycles, simulated(plan, array, step=built, most_tasks=0).cycles)


def measure(say: Callable[[str], None] = lambda text: None, only: str = "") -> list[Found]:
    """All steps of :func:`plinth.bench.agreement.steps_called`, spread over the processors, hold-outs last.

    Raises
    ------
    UserError
        If nothing is called so.
    """
    steps = steps_called(only, holdouts.first_measured())
    steps.sort(key=lambda step: step.case is not None)
    comparisons: list[Found | None] = [None] * len(steps)
    for number, (place, comparison) in enumerate(spread(compare, steps), 1):
        comparisons[place] = comparison
        say(f"both models, {number} of {len(steps)}: {steps[place].name}")
    return [comparison for comparison in comparisons if comparison]


def _kinds(comparisons: Sequence[Found]) -> dict[str, list[Found]]:
    """By how a step is split, which is what the models differ by."""
    kinds: dict[str, list[Found]] = {}
    for comparison in comparisons:
        batch = all(split == "dp" for vector in comparison.step.splits for split in vector)
        kinds.setdefault("with Winograd layers" if comparison.step.tiles else
                         "of one die" if comparison.step.array.dies == 1 else
                         "data-parallel" if batch else "other", []).append(comparison)
    return kinds


def _errors(comparisons: Sequence[Found]) -> str:
    errors = [100 * abs(comparison.error) for comparison in comparisons]
    return f"mean {mean(errors):.1f} %, worst {max(errors):.1f} %"


def table(comparisons: Sequence[Found]) -> str:
    """A row of Markdown for each step, and a line with mean and worst difference, also by kind of split."""
    lines = ["| network | batch | preset | array | planners | tasks | task by task | in groups | difference |",
             "| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| {comparison.step.title} | {comparison.step.batch} | `{comparison.step.array.preset}` | "
              f"{comparison.step.array.name} | {', '.join(comparison.step.planners)} | {comparison.tasks:,} | "
              f"{comparison.task_by_task:,.0f} | {comparison.grouped:,.0f} | "
              f"{100 * comparison.error:+.1f} % |" for comparison in comparisons]
    kinds = "; ".join(f"{len(some)} {name}, {_errors(some)}" for name, some in _kinds(comparisons).items())
    return "\n".join([*lines, "", f"{len(comparisons)} steps, in groups against task by task: {_errors(comparisons)} "
                                  f"({kinds})."])


def tables(comparisons: Sequence[Found]) -> dict[str, str]:
    """Tables of the page, by their markers."""
    return {TABLE: table(comparisons)}


def rows(comparisons: Sequence[Found]) -> list[BenchRow]:
    """Mean and worst difference, if something was measured."""
    if not comparisons:
        return []
    errors = [abs(comparison.error) for comparison in comparisons]
    detail = {"steps": [{"network": comparison.step.title, "batch": comparison.step.batch,
                         "preset": comparison.step.array.preset, "array": comparison.step.array.name,
                         "planners": list(comparison.step.planners), "tasks": comparison.tasks,
                         "task_by_task_cycles": comparison.task_by_task, "grouped_cycles": comparison.grouped,
                         "grouped_error": comparison.error} for comparison in comparisons]}
    return [BenchRow("grouped_error_mean", mean(errors), "|in groups / task by task - 1|", "exchanges as one flow",
                     detail),
            BenchRow("grouped_error_worst", max(errors), "|in groups / task by task - 1|",
                     comparisons[errors.index(max(errors))].step.name, detail)]


def grouped_errors() -> list[BenchRow]:
    """The coarser model of the simulator against the finer one."""
    return rows(measure())


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = dict.fromkeys(("grouped_error_mean", "grouped_error_worst"),
                                                                 grouped_errors)
