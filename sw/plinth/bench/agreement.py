"""What users are told of a training step against what co-simulated dies count: the digits networks on both machines,
under every planner; and data-parallel with operands of 16 bits.

Simulated cycles are those of the step that `plinth simulate` shows, predicted ones those that `plinth plan` gives, both
through the functions behind the commands. The co-simulation runs the plan on the RTL.
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
from plinth.model.array import ARRAYS, Array
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.regions import Splits
from plinth.plan.plan import Plan
from plinth.plan.planning import PLANNERS, task
from plinth.simulate.step import simulated

AGREED_NETWORKS = ("digits-mlp", "digits-cnn")
AGREED_PRESETS = ("ndp-demo", "hypar-demo")
AGREED_ARRAYS = ("ring-1", "ring-2", "ring-4", "ring-8", "torus-2x4", "full-2", "full-4", "full-8")
#: Dies with operands of 16 bits, whose plans are data-parallel, and their arrays.
NARROW_PRESETS = ("ndp-demo-mixed", "ndp-demo-fixed", "hypar-demo-mixed", "hypar-demo-fixed")
NARROW_ARRAYS = ("ring-1", "ring-2", "ring-4")
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
    predicted: int

    @property
    def error(self) -> float:
        """Relative, of what was simulated."""
        return self.simulated / self.counted - 1

    @property
    def prediction_error(self) -> float:
        """Relative, of what planners predict."""
        return self.predicted / self.counted - 1

    @property
    def narrow(self) -> bool:
        """Whether operands are of 16 bits."""
        return self.step.array.preset in NARROW_PRESETS

    def to_data(self) -> dict[str, Any]:
        """For programs."""
        step = self.step
        return {"network": step.network, "preset": step.array.preset, "array": step.array.name,
                "planners": list(step.planners), "splits": text(step.splits), "counted": self.counted,
                "simulated": self.simulated, "error": self.error, "predicted": self.predicted,
                "prediction_error": self.prediction_error}


def simulated_cycles(step: Step) -> int:
    """Cycles of a step by `plinth simulate`."""
    array = step.array
    plan = Plan(graph=from_network(NETWORKS[step.network]), planner="given", model="exact", array=array.name,
                batch=BATCH, chunk_words=array.die_parameters().chunk_words, splits=step.splits,
                factors=array.factors)
    return round(simulated(plan, array).result.seconds * float(array.clock_mhz) * 1e6)


def predicted_cycles(step: Step) -> int:
    """Cycles of a step by `plinth plan`."""
    given = task(from_network(NETWORKS[step.network]), step.array, "exact", BATCH)
    return round(given.time.cycles(step.splits))


def compare(step: Step) -> Agreement:
    """Run one step on the RTL, and simulate it.

    Raises
    ------
    UserError
        If a tool fails.
    """
    program = lowered_step(step.network, step.array, step.splits)
    return Agreement(step, counted_cycles(step.network, step.array, program), simulated_cycles(step),
                     predicted_cycles(step))


def plans(network: str, array: Array) -> dict[Splits, tuple[str, ...]]:
    """The different plans that planners give, each with those that give it; of dies with operands of 16 bits the
    data-parallel one."""
    given = task(from_network(NETWORKS[network]), array, "exact", BATCH)
    found: dict[Splits, tuple[str, ...]] = {}
    for name in ("data",) if array.preset in NARROW_PRESETS else PLANNERS:
        try:
            splits = PLANNERS[name](given)
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
        If nothing is called so, or a tool fails.
    """
    cases = [(network, replace(ARRAYS[array], preset=die))
             for dies, arrays in ((AGREED_PRESETS, AGREED_ARRAYS), (NARROW_PRESETS, NARROW_ARRAYS))
             for die in dies for array in arrays for network in AGREED_NETWORKS]
    chosen = [(network, array) for network, array in cases if only in f"{network}/{array.preset}/{array.name}"]
    if not chosen:
        raise UserError(f"no step's network/preset/array contains {only!r}; try {AGREED_NETWORKS[0]} or "
                        f"{AGREED_PRESETS[1]}")
    steps = [Step(network, array, splits, planners) for network, array in chosen
             for splits, planners in plans(network, array).items()]
    found: list[Agreement | None] = [None] * len(steps)
    begin = monotonic()
    for number, (place, one) in enumerate(spread(compare, steps), 1):
        found[place] = one
        left = (monotonic() - begin) / number * (len(steps) - number) / 60
        say(f"{number} of {len(steps)}, about {left:.0f} min left: {steps[place].name}: {100 * one.error:+.1f} %")
    return [one for one in found if one]


def _kinds(found: list[Agreement]) -> dict[str, list[Agreement]]:
    """Steps with FP32 operands, and with operands of 16 bits, by what their rows are called, if there are any."""
    kinds = {"agreement": [one for one in found if not one.narrow],
             "agreement_16_bits": [one for one in found if one.narrow]}
    return {name: steps for name, steps in kinds.items() if steps}


def table(found: list[Agreement]) -> str:
    """As Markdown."""
    lines = ["| network | preset | array | planners | counted | simulated | error | predicted | error |",
             "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| {one.step.network} | `{one.step.array.preset}` | {one.step.array.name} | "
              f"{', '.join(one.step.planners)} | {one.counted:,} | {one.simulated:,} | {100 * one.error:+.1f} % | "
              f"{one.predicted:,} | {100 * one.prediction_error:+.1f} % |" for one in found]
    for steps in _kinds(found).values():
        operands = "operands of 16 bits" if steps[0].narrow else "FP32 operands"
        lines += ["", f"{len(steps)} steps with {operands}, " + ", ".join(
            f"{what}: mean error {mean(errors):.1f} %, worst {max(errors):.1f} %" for what, errors in (
                ("simulated", [100 * abs(one.error) for one in steps]),
                ("predicted", [100 * abs(one.prediction_error) for one in steps]))) + "."]
    return "\n".join(lines)


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


def regrets(found: list[Agreement]) -> list[tuple[float, Agreement]]:
    """For each network on each array, the counted step of the plan that is predicted to be the shortest over that of
    the best plan, and the former."""
    groups: dict[tuple[str, Array], list[Agreement]] = {}
    for one in found:
        groups.setdefault((one.step.network, one.step.array), []).append(one)
    chosen = [min(steps, key=lambda one: one.predicted) for steps in groups.values()]
    return [(one.counted / min(other.counted for other in steps), one)
            for one, steps in zip(chosen, groups.values(), strict=True)]


def rows(found: list[Agreement]) -> list[Row]:
    """Mean and worst error of what is simulated and of what is predicted, and what a choice by predictions costs."""
    detail = {"batch": BATCH, "steps": [one.to_data() for one in found]}
    made = []
    for name, what, errors in (("agreement", "simulated", [abs(one.error) for one in found]),
                               ("prediction", "predicted", [abs(one.prediction_error) for one in found])):
        unit = f"|{what} / counted - 1|"
        worst = found[max(range(len(found)), key=errors.__getitem__)].step
        made += [Row(f"{name}_error_mean", mean(errors), unit, "tiles that meet on their way", detail),
                 Row(f"{name}_error_worst", max(errors), unit, f"{worst.name}", detail)]
    regret, one = max(regrets(found), key=lambda pair: pair[0])
    return [*made, Row("ranking_regret_worst", regret, "counted step of the plan predicted best / of the best plan",
                       one.step.name, detail)]


def agreement_errors() -> list[Row]:
    """Simulated and predicted against counted cycles of a step, for every planner."""
    return rows(measure())


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[Row]]] = dict.fromkeys(
    ("agreement_error_mean", "agreement_error_worst", "prediction_error_mean", "prediction_error_worst",
     "ranking_regret_worst"), agreement_errors)
