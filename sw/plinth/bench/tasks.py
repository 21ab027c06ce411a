"""Where a simulated step differs from the counted one: tasks of one name, on the RTL and in the simulator.

The tasks of an operation have its name. What they take is the time in which at least one of them is under way on a die,
by completion records and by what the simulator started and ended, summed over dies: of tasks that overlap it counts
once. A task that is under way may wait: a sender for links and the memory of its receiver, a reduction for its ring.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plinth.bench import holdouts
from plinth.bench.agreement import AgreementCase, steps_called
from plinth.bench.pool import counted_off, spread
from plinth.bench.row import BenchRow
from plinth.bench.steps import operation_of, under_way
from plinth.errors import UserError
from plinth.simulate.step import Simulated, simulated

#: Rows of a table.
MOST_ROWS = 40
#: What the simulator does of a task: its own activity, or one of a vector task's three or of what begins a tile's.
_ACTIVITY = re.compile(r"(?P<task>.*?)@(?P<die>\d+)( \(\d+\))?( load| compute| store| begin| set)?")


@dataclass(frozen=True)
class TaskDifference:
    """Tasks of one name of a step.

    Attributes
    ----------
    step : AgreementCase
    task, engine : str
        What their names begin with, and their engine.
    tasks : int
        On all dies.
    counted, simulated : float
        Cycles in which one of them is under way, a die: sums over all dies, divided by how many there are.
    whole : int
        Counted cycles of the step.
    """

    step: AgreementCase
    task: str
    engine: str
    tasks: int
    counted: float
    simulated: float
    whole: int

    @property
    def share(self) -> float:
        """The difference as a share of the step."""
        return (self.simulated - self.counted) / self.whole


def simulated_tasks(step: Simulated) -> dict[tuple[str, int], float]:
    """Cycles in which tasks of a name are under way, by name and die, of a step that was simulated task by task."""
    result, cycle = step.result, 1 / (float(step.array.clock_mhz) * 1e6)
    rings = {activity.name: start for activity, start in zip(step.work.activities, result.starts.tolist(), strict=True)
             if activity.name.startswith("ring ")}
    spans: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for activity, start, done in zip(step.work.activities, result.starts.tolist(), result.dones.tolist(), strict=True):
        match = _ACTIVITY.fullmatch(activity.name)
        if match is not None:
            # A reduction begins with its ring's message.
            begin = min((start, *(rings[wait.counter] for wait in activity.waits if wait.counter in rings)))
            spans.setdefault((operation_of(match["task"]), int(match["die"])), []).append((begin / cycle, done / cycle))
    return {key: under_way(some) for key, some in spans.items()}


def compare(step: AgreementCase) -> list[TaskDifference]:
    """The tasks of a step on the RTL, unless they were counted before, and simulated; none of one that is simulated in
    groups of tasks.

    Raises
    ------
    UserError
        If a tool fails.
    """
    run = simulated(step.plan, step.array)
    if run.work.grouped:
        return []
    counted = step.counted(step.program)
    mine: dict[str, float] = {}
    for (name, _), cycles in simulated_tasks(run).items():
        mine[name] = mine.get(name, 0.0) + cycles
    dies, whole = step.array.dies, counted.cycles
    known = {task.name for task in counted.tasks}
    return [*(TaskDifference(step, task.name, task.engine, task.tasks, task.cycles / dies,
                             mine.get(task.name, 0.0) / dies, whole) for task in counted.tasks),
            *(TaskDifference(step, name, "none", 0, 0.0, cycles / dies, whole)
              for name, cycles in mine.items() if name not in known)]


def measure(say: Callable[[str], None] = lambda text: None, only: str = "") -> list[TaskDifference]:
    """The tasks of all steps whose name contains ``only``, but of those that are simulated in groups of tasks, spread
    over the processors; the largest differences, as shares of their steps, first.

    Raises
    ------
    UserError
        If nothing is called so, no step is simulated task by task, or a tool fails.
    """
    say("planning")
    steps = steps_called(only, holdouts.first_measured())
    differences: list[TaskDifference] = []
    for told, (place, some) in counted_off(spread(compare, steps), len(steps)):
        differences += some
        say(f"tasks, {told}: {steps[place].name}" + ("" if some else ": none, as it is simulated in groups of them"))
    if not differences:
        raise UserError(f"all steps whose network/preset/array contains {only!r} are simulated in groups of tasks, "
                        "which no die records; give a smaller one by --only")
    return sorted(differences, key=lambda difference: -abs(difference.share))


def table(differences: Sequence[TaskDifference]) -> str:
    """The largest differences as a Markdown table."""
    lines = ["| step | task | engine | tasks | counted | simulated | of the step |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| {difference.step.name} | {difference.task} | {difference.engine} | {difference.tasks:,} | "
              f"{difference.counted:,.0f} | {difference.simulated:,.0f} | {100 * difference.share:+.1f} % |"
              for difference in differences[:MOST_ROWS]]
    left = len(differences) - MOST_ROWS
    return "\n".join([*lines, *(["", f"{left:,} more differ by less."] if left > 0 else [])])


def rows(differences: Sequence[TaskDifference]) -> list[BenchRow]:
    """The largest difference, which stands first, with all of them as its details."""
    worst = differences[0]
    detail = {"tasks": [{"step": difference.step.name, "task": difference.task, "engine": difference.engine,
                         "tasks": difference.tasks, "counted_cycles": difference.counted,
                         "simulated_cycles": difference.simulated, "share": difference.share}
                        for difference in differences]}
    return [BenchRow("task_difference_worst", abs(worst.share), "|simulated - counted| / counted step",
                     f"{worst.task} of {worst.step.name}", detail)]
