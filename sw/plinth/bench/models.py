"""The two models of `plinth simulate` against each other: each step of the agreement's page, and steps on arrays with
switches, that are small enough for both, task by task and in groups of tasks. Nothing is counted on the RTL for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from plinth.array.file import load_array
from plinth.bench import holdouts
from plinth.bench.agreement import AGREED_NETWORKS, AgreementCase, planned, steps_called
from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.simulate.step import simulated, step_on

#: Where the table stands.
TABLE = "models"
#: Arrays with switches, of which there is no RTL, and the networks of their steps.
SWITCHED_ARRAYS = ("hypar-16", "mpt-4x4")
SWITCHED_NETWORKS = (*AGREED_NETWORKS, "lenet-c")


@dataclass(frozen=True)
class ModelComparison:
    """Tasks of a step over all dies, and cycles by either model; of one that does not go task by task none there."""

    step: AgreementCase
    tasks: int
    task_by_task: float
    grouped: float

    @property
    def error(self) -> float:
        """Cycles in groups over those task by task, less 1."""
        return self.grouped / self.task_by_task - 1


def compare(step: AgreementCase) -> ModelComparison | None:
    """Simulate a step with both models; None if it does not go task by task."""
    array = step.array
    plan = step.plan
    built = step_on(plan, array)
    fine = simulated(plan, array, step=built)
    if fine.work.grouped:
        return None
    coarse = simulated(plan, array, step=built, most_tasks=0)
    return ModelComparison(step, sum(fine.work.tasks), fine.cycles, coarse.cycles)


def measure(say: Callable[[str], None] = lambda text: None, only: str = "") -> list[ModelComparison]:
    """Simulate all steps of :func:`plinth.bench.agreement.steps_called` with both models, spread over the processors,
    hold-outs last, but for those on arrays with switches.

    Raises
    ------
    UserError
        If nothing is called so.
    """
    steps = steps_called(only, holdouts.first_measured())
    steps.sort(key=lambda step: step.case is not None)
    steps += planned(((network, load_array(array)) for array in SWITCHED_ARRAYS for network in SWITCHED_NETWORKS), only)
    comparisons: list[ModelComparison | None] = [None] * len(steps)
    for number, (place, comparison) in enumerate(spread(compare, steps), 1):
        comparisons[place] = comparison
        say(f"both models, {number} of {len(steps)}: {steps[place].name}")
    return [comparison for comparison in comparisons if comparison]


def _kind(step: AgreementCase) -> str:
    """What the models differ by: above all how a step is split."""
    if step.array.switches:
        return "on arrays with switches"
    if step.tiles:
        return "with Winograd layers"
    if step.array.dies == 1:
        return "of one die"
    return "data-parallel" if all(split == "dp" for vector in step.splits for split in vector) else "other"


def _kinds(comparisons: Sequence[ModelComparison]) -> dict[str, list[ModelComparison]]:
    kinds: dict[str, list[ModelComparison]] = {}
    for comparison in comparisons:
        kinds.setdefault(_kind(comparison.step), []).append(comparison)
    return kinds


def _errors(comparisons: Sequence[ModelComparison]) -> str:
    errors = [100 * abs(comparison.error) for comparison in comparisons]
    return f"mean {mean(errors):.1f} %, worst {max(errors):.1f} %"


def table(comparisons: Sequence[ModelComparison]) -> str:
    """A row of Markdown for each step, and a line with mean and worst difference, also by kind of split."""
    lines = ["| network | batch | preset | array | planners | tasks | task by task | in groups | difference |",
             "| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| {comparison.step.title} | {comparison.step.batch} | `{comparison.step.array.preset}` | "
              f"{comparison.step.array.name} | {comparison.step.planned} | {comparison.tasks:,} | "
              f"{comparison.task_by_task:,.0f} | {comparison.grouped:,.0f} | "
              f"{100 * comparison.error:+.1f} % |" for comparison in comparisons]
    kinds = "; ".join(f"{len(some)} {name}, {_errors(some)}" for name, some in _kinds(comparisons).items())
    return "\n".join([*lines, "", f"{len(comparisons)} steps, in groups against task by task: {_errors(comparisons)} "
                                  f"({kinds})."])


def tables(comparisons: Sequence[ModelComparison]) -> dict[str, str]:
    """Tables of the page, by their markers."""
    return {TABLE: table(comparisons)}


def rows(comparisons: Sequence[ModelComparison]) -> list[BenchRow]:
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
