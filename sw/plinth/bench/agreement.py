"""Simulated against co-simulated cycles of a training step: the digits networks on both machines, under every planner.

The array simulator gets the task graphs that the dies run (:mod:`plinth.simulate.task_graphs`) and the cycles of tasks
from the calibration tables; the co-simulation runs them on the RTL.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from time import monotonic
from typing import Any

from plinth.bench.pool import spread
from plinth.bench.row import Row
from plinth.bench.steps import BATCH, counted_cycles, lowered_step, text
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram
from plinth.model.array import ARRAYS, Array
from plinth.model.zoo import NETWORKS
from plinth.plan.cost.machine import machine
from plinth.plan.graph import from_network
from plinth.plan.partition import Splits
from plinth.plan.planning import PLANNERS, task
from plinth.simulate.step import check_calibration
from plinth.simulate.task_graphs import TaskGraphs
from plinth_hw.isa.parameters import preset
from plinth_sim.array.simulate import simulate

AGREED_NETWORKS = ("digits-mlp", "digits-cnn")
AGREED_PRESETS = ("ndp-demo", "hypar-demo")
AGREED_ARRAYS = ("ring-1", "ring-2", "ring-4", "ring-8", "torus-2x4", "full-2", "full-4", "full-8")
#: Where the table stands.
PAGE = Path(__file__).resolve().parents[3] / "docs" / "agreement.md"
BEGIN, END = "<!-- agreement -->", "<!-- /agreement -->"


@dataclass(frozen=True)
class Step:
    """A step to compare. ``planners`` all give these splits."""

    network: str
    array: Array
    splits: Splits
    planners: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.network} on {self.array.name} of {self.array.preset}, {', '.join(self.planners)}"


@dataclass(frozen=True)
class Agreement:
    """Cycles of a step."""

    step: Step
    counted: int
    simulated: int

    @property
    def error(self) -> float:
        """Relative, of what was simulated."""
        return self.simulated / self.counted - 1

    def to_data(self) -> dict[str, Any]:
        """For programs."""
        step = self.step
        return {"network": step.network, "preset": step.array.preset, "array": step.array.name,
                "planners": list(step.planners), "splits": text(step.splits), "counted": self.counted,
                "simulated": self.simulated, "error": self.error}


def simulated_cycles(program: TrainingProgram, array: Array) -> int:
    """Cycles of a step by the array simulator."""
    graphs = TaskGraphs(program, array, machine(preset(array.preset)))
    return round(simulate(graphs.given, graphs.activities()).seconds)


def compare(step: Step) -> Agreement:
    """Run one step on the RTL, and simulate it.

    Raises
    ------
    UserError
        If a tool fails.
    """
    program = lowered_step(step.network, step.array, step.splits)
    return Agreement(step, counted_cycles(step.network, step.array, program), simulated_cycles(program, step.array))


def plans(network: str, array: Array) -> dict[Splits, tuple[str, ...]]:
    """The different plans that planners give, each with those that give it."""
    given = task(from_network(NETWORKS[network]), array, "exact", BATCH)
    found: dict[Splits, tuple[str, ...]] = {}
    for name, planner in PLANNERS.items():
        try:
            splits = planner(given)
        except UserError:
            # The space is too large for `exhaustive`.
            continue
        found[splits] = (*found.get(splits, ()), name)
    return found


def measure(say: Callable[[str], None] = lambda text: None, only: str = "") -> list[Agreement]:
    """All steps whose name (network/preset/array) contains ``only``, spread over the processors.

    Raises
    ------
    UserError
        If nothing is called so, a preset has no calibration table or one of another Verilog, or a tool fails.
    """
    cases = [(network, replace(ARRAYS[array], preset=die)) for die in AGREED_PRESETS for array in AGREED_ARRAYS
             for network in AGREED_NETWORKS]
    chosen = [(network, array) for network, array in cases if only in f"{network}/{array.preset}/{array.name}"]
    if not chosen:
        raise UserError(f"no step's network/preset/array contains {only!r}; try {AGREED_NETWORKS[0]} or "
                        f"{AGREED_PRESETS[1]}")
    for name in dict.fromkeys(array.preset for _, array in chosen):
        die = machine(preset(name))
        if die.calibration is None:
            raise UserError(f"preset {name!r} has no calibration table; measure it with `plinth calibrate --preset "
                            f"{name}`")
        check_calibration(die)
    steps = [Step(network, array, splits, planners) for network, array in chosen
             for splits, planners in plans(network, array).items()]
    found: list[Agreement | None] = [None] * len(steps)
    begin = monotonic()
    for number, (place, one) in enumerate(spread(compare, steps), 1):
        found[place] = one
        left = (monotonic() - begin) / number * (len(steps) - number) / 60
        say(f"{number} of {len(steps)}, about {left:.0f} min left: {steps[place].name}: {100 * one.error:+.1f} %")
    return [one for one in found if one]


def table(found: list[Agreement]) -> str:
    """As Markdown."""
    lines = ["| network | preset | array | planners | counted | simulated | error |",
             "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    lines += [f"| {one.step.network} | `{one.step.array.preset}` | {one.step.array.name} | "
              f"{', '.join(one.step.planners)} | {one.counted:,} | {one.simulated:,} | {100 * one.error:+.1f} % |"
              for one in found]
    errors = [abs(one.error) for one in found]
    return "\n".join([*lines, "", f"{len(found)} steps: mean error {100 * mean(errors):.1f} %, worst "
                                  f"{100 * max(errors):.1f} %."])


def write_page(found: list[Agreement], page: Path = PAGE) -> None:
    """Replace the table of docs/agreement.md.

    Raises
    ------
    UserError
        If the page is missing or has no place for the table.
    """
    try:
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        _, after = rest.split(END)
    except (OSError, ValueError) as error:
        raise UserError(f"{page}: there is no place for the table between {BEGIN} and {END}") from error
    page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}", encoding="utf-8")


def rows(found: list[Agreement]) -> list[Row]:
    """Mean and worst error."""
    errors = [abs(one.error) for one in found]
    worst = max(found, key=lambda one: abs(one.error))
    detail = {"batch": BATCH, "steps": [one.to_data() for one in found]}
    unit = "|simulated / counted - 1|"
    return [Row("agreement_error_mean", mean(errors), unit, "tiles that meet on their way", detail),
            Row("agreement_error_worst", max(errors), unit,
                f"{worst.step.network} on {worst.step.array.name} of {worst.step.array.preset}, "
                f"{worst.step.planners[0]}", detail)]


def agreement_errors() -> list[Row]:
    """Simulated against counted cycles of a step, for every planner; mean and worst."""
    return rows(measure())


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[Row]]] = dict.fromkeys(("agreement_error_mean", "agreement_error_worst"),
                                                           agreement_errors)
