"""What users are told of a training step against what co-simulated dies count: the digits networks on both machines,
under every planner; data-parallel with operands of 16 bits; Winograd layers over groups and clusters; and cases that
played no part in making predictions.

Simulated cycles are those of the step that `plinth simulate` shows, predicted ones those that `plinth plan` gives, both
through the functions behind the commands. The co-simulation runs the plan on the RTL.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from statistics import mean
from typing import Any

from plinth.array.array import ARRAYS, Array, ring
from plinth.bench import holdouts
from plinth.bench.holdouts import FirstMeasurement, HoldoutCase, Tiles
from plinth.bench.pool import counted_off, spread
from plinth.bench.row import BenchRow
from plinth.bench.steps import BATCH, CountedStep, kept_step, lowered_plan, step_plan, text
from plinth.driver.program import program_digest
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram
from plinth.names import RINGS
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import EP, PlanGraph, from_network
from plinth.partition.regions import Partition, Splits
from plinth.plan.plan import Plan
from plinth.plan.planners.mpt import grouped
from plinth.plan.planning import PLANNERS, SPLITTERS, predicted_seconds, task
from plinth.simulate.step import simulated
from plinth.update.rule import UpdateRule, rule_for
from plinth_hw.installation import checkout

AGREED_NETWORKS = ("digits-mlp", "digits-cnn")
AGREED_PRESETS = ("ndp-demo", "hypar-demo")
AGREED_ARRAYS = ("ring-1", "ring-2", "ring-4", "ring-8", "torus-2x4", "full-2", "full-4", "full-8")
#: Dies with operands of 16 bits, whose plans are data-parallel, and their arrays.
NARROW_PRESETS = ("ndp-demo-mixed", "fpga-demo", "hypar-demo-mixed", "hypar-demo-fixed")
NARROW_ARRAYS = ("ring-1", "ring-2", "ring-4")
#: Winograd layers: network, outputs of a tile's side and what is trained, array; each under all factorings of the dies.
TILED_CASES: tuple[tuple[str, Tiles, Array], ...] = (
    *((network, tiles, ring(dies, preset="ndp-demo-winograd")) for dies in (4, 8)
      for network in ("digits-cnn", "residual-12") for tiles in ((2, "winograd"), (4, "spatial"))),
    ("digits-cnn", (2, "winograd"), ring(16, preset="ndp-tiny-winograd")),
    ("digits-cnn", (2, "winograd", 1), ring(4, preset="ndp-demo-predict")))
#: Samples of their steps: tiles take more memory than maps.
TILED_BATCH = 64
#: The page of the tables, and their markers.
PAGE = "agreement.md"
GRID, HOLDOUTS, SECOND, NONE = "agreement", "hold-outs", "second-hold-outs", "None was measured."


@dataclass(frozen=True)
class AgreementCase:
    """A step to compare. ``planners`` all give these splits; of Winograd layers they may be groups x clusters."""

    network: str
    array: Array
    splits: Splits
    planners: tuple[str, ...]
    batch: int = BATCH
    #: Of the cases of :mod:`holdouts`, which one.
    case: HoldoutCase | None = None
    #: Of Winograd layers.
    tiles: Tiles | None = None
    #: Of sparse layers which die has which rows.
    lists: Partition = ()

    @property
    def definition(self) -> Network:
        """The network whose step is compared, with its Winograd settings."""
        return _network(self.network, self.tiles)

    @property
    def title(self) -> str:
        """The network's name as tables show it, with its Winograd settings."""
        if not self.tiles:
            return self.network
        outputs, weights, *rounds = self.tiles
        predicted = f", predicted in {rounds[0]} round" if rounds else ""
        return f"{self.network}, F({outputs}), {weights} weights{predicted}"

    @property
    def planned(self) -> str:
        """Who gives the plan, as tables show it, and how copies of embeddings' tables are kept equal, if not by rings.
        """
        return ", ".join((*self.planners, *(() if self.copies == RINGS else (self.copies,))))

    @property
    def copies(self) -> str:
        """How copies of all tables are kept equal."""
        return self.case.copies if self.case else RINGS

    @property
    def plan(self) -> Plan:
        """The plan that is simulated and predicted."""
        return step_plan(self.definition, self.array, self.splits, self.batch, self.rule, self.lists, self.copies)

    @property
    def program(self) -> TrainingProgram:
        """The task graphs that are counted."""
        return lowered_plan(self.definition, self.plan, self.array)

    def counted(self, program: TrainingProgram) -> CountedStep:
        """The step on the RTL, unless it was counted before."""
        return kept_step(self.definition, self.array, program, self.batch)

    @property
    def rule(self) -> UpdateRule:
        """How weights are updated: as the case says, else as dies do it best."""
        return self.case.rule if self.case else rule_for(self.array.die_parameters()).form

    @property
    def name(self) -> str:
        """The case as tables show it: network, array, preset and planners."""
        return f"{self.title} on {self.array.name} of {self.array.preset}, {self.planned}"


@dataclass(frozen=True)
class Agreement:
    """Cycles of a step."""

    step: AgreementCase
    counted: int
    simulated: int
    predicted: int
    #: Digest of the program that was counted.
    program: str = ""
    #: Of a hold-out, what was measured first.
    first: FirstMeasurement | None = None

    @property
    def error(self) -> float:
        """The relative error of the simulated cycles."""
        return self.simulated / self.counted - 1

    @property
    def prediction_error(self) -> float:
        """The relative error of the cycles that planners predict."""
        return self.predicted / self.counted - 1

    @property
    def narrow(self) -> bool:
        """Whether operands are of 16 bits."""
        return self.step.array.preset in NARROW_PRESETS

    @property
    def at_first(self) -> "Agreement":
        """What was measured first, of a hold-out."""
        first = self.first
        return self if first is None else replace(
            self, counted=first.counted, simulated=first.simulated, predicted=first.predicted, first=None)

    def to_data(self) -> dict[str, Any]:
        """The comparison as reports hold it."""
        step = self.step
        fields = {"network": step.title, "preset": step.array.preset, "array": step.array.name, "batch": step.batch,
                  "update": step.rule.title, "link_rate": str(step.array.rate), "planners": list(step.planners),
                  "copies": step.copies, "splits": text(step.splits),
                  "counted_cycles": self.counted, "simulated_cycles": self.simulated, "simulated_error": self.error,
                  "predicted_cycles": self.predicted, "predicted_error": self.prediction_error,
                  "holdout": bool(step.case)}
        return fields | ({"first": self.at_first.to_data()} if self.first else {})


def simulated_cycles(step: AgreementCase) -> int:
    """Cycles of a step by `plinth simulate`."""
    array = step.array
    return round(simulated(step.plan, array).result.seconds * float(array.clock_mhz) * 1e6)


def predicted_cycles(step: AgreementCase) -> int:
    """Cycles of a step by `plinth plan`."""
    array = step.array
    return round(predicted_seconds(step.plan, array) * float(array.clock_mhz) * 1e6)


def compare(step: AgreementCase) -> Agreement:
    """Run one step on the RTL, unless it was counted before, and simulate it.

    Raises
    ------
    UserError
        If a tool fails.
    """
    program = step.program
    return Agreement(step, step.counted(program).cycles, simulated_cycles(step), predicted_cycles(step),
                     program_digest(program))


def plans(asked: tuple[str, Array]) -> dict[Splits, tuple[str, ...]]:
    """The different plans that planners give for a network on an array, each with those that give it; of dies with
    operands of 16 bits the data-parallel one."""
    network, array = asked
    problem = task(from_network(NETWORKS[network]), array, "exact", BATCH, rule_for(array.die_parameters()))
    planners: dict[Splits, tuple[str, ...]] = {}
    for name in ("data",) if array.preset in NARROW_PRESETS else SPLITTERS:
        try:
            splits = SPLITTERS[name](problem)
        except UserError:
            # The space is too large for `exhaustive`.
            continue
        planners[splits] = (*planners.get(splits, ()), name)
    return planners


def _grid(only: str) -> list[AgreementCase]:
    return planned(((network, replace(ARRAYS[array], preset=die))
                    for dies, arrays in ((AGREED_PRESETS, AGREED_ARRAYS), (NARROW_PRESETS, NARROW_ARRAYS))
                    for die in dies for array in arrays for network in AGREED_NETWORKS), only)


def planned(cases: Iterable[tuple[str, Array]], only: str) -> list[AgreementCase]:
    """The steps of :func:`plans` of networks on arrays, of those whose network/preset/array contains ``only``."""
    chosen = [(network, array) for network, array in cases if only in f"{network}/{array.preset}/{array.name}"]
    case_plans = dict(spread(plans, chosen)) if chosen else {}
    return [AgreementCase(network, array, splits, planners) for place, (network, array) in enumerate(chosen)
            for splits, planners in case_plans[place].items()]


def _network(name: str, tiles: Tiles | None) -> Network:
    """A network, with Winograd layers if there are tiles."""
    network = (NETWORKS | holdouts.NETWORKS)[name]
    return with_tiles(network, *tiles) if tiles else network


def arrangements(asked: tuple[str, Tiles, Array]) -> dict[Splits, tuple[str, ...]]:
    """The plans of a network with Winograd layers on an array: each factoring into groups and clusters for all of them,
    and the plan of `mpt`, each with its names."""
    name, tiles, array = asked
    graph = from_network(_network(name, tiles))
    names = {splits: (title,) for title, splits in _factored(graph, array).items()}
    chosen = SPLITTERS["mpt"](task(graph, array, "exact", TILED_BATCH, rule_for(array.die_parameters()).form))
    return {**names, chosen: (*names.get(chosen, ()), "mpt")}


def _factored(graph: PlanGraph, array: Array) -> dict[str, Splits]:
    """Each factoring of an array into groups x clusters for all Winograd layers, by "2 x 4"."""
    plans = [grouped(graph, array, levels) for levels in range(array.levels + 1)]
    groups = [max(prod(factor for split, factor in zip(vector, array.factors, strict=True) if split == EP)
                  for vector in splits) for splits in plans]
    return {f"{count} x {array.dies // count}": splits for count, splits in zip(groups, plans, strict=True)}


def _tiled(only: str) -> list[AgreementCase]:
    cases = [(network, tiles, array) for network, tiles, array in TILED_CASES
             if only in f"{network}/{array.preset}/{array.name}"]
    case_plans = dict(spread(arrangements, cases)) if cases else {}
    return [AgreementCase(network, array, splits, planners, TILED_BATCH, tiles=tiles)
            for place, (network, tiles, array) in enumerate(cases) for splits, planners in case_plans[place].items()]


def _held_out(only: str, known: dict[tuple[str, ...], FirstMeasurement]) -> list[AgreementCase]:
    """Cases, under the plans of their first measurement, or of today if there was none; rows of sparse layers lie as
    planners give them today."""
    cases = [case for case in holdouts.CASES
             if only in f"{HOLDOUTS}/{case.network}/{case.array.preset}/{case.array.name}"]
    fresh = [case for case in cases if case.key not in known or (case.planner in PLANNERS and
                                                                 case.planner not in SPLITTERS)]
    plans = {fresh[place]: plan for place, plan in spread(_planned, fresh)} if fresh else {}
    found = [plans[case] if case in plans else (known[case.key].splits, ()) for case in cases]
    return [AgreementCase(case.network, case.array, splits, (case.planner,), case.batch, case, case.tiles, lists)
            for case, (splits, lists) in zip(cases, found, strict=True)]


def _planned(case: HoldoutCase) -> tuple[Splits, Partition]:
    """What its planner gives today, or its groups and clusters."""
    graph = from_network(_network(case.network, case.tiles))
    if case.planner not in PLANNERS:
        return _factored(graph, case.array)[case.planner], ()
    return PLANNERS[case.planner](task(graph, case.array, "exact", case.batch, case.rule))


def steps_called(only: str, known: dict[tuple[str, ...], FirstMeasurement]) -> list[AgreementCase]:
    """Find all steps whose name (network/preset/array, of hold-outs behind ``hold-outs/``) contains ``only``:
    hold-outs, which take longest, first.

    Raises
    ------
    UserError
        If nothing is called so.
    """
    steps = [*_held_out(only, known), *_grid(only), *_tiled(only)]
    if not steps:
        raise UserError(f"no step's network/preset/array contains {only!r}; try {AGREED_NETWORKS[0]}, "
                        f"{AGREED_PRESETS[1]} or {HOLDOUTS}")
    return steps


def measure(say: Callable[[str], None] = lambda text: None, only: str = "") -> list[Agreement]:
    """All steps of :func:`steps_called`, spread over the processors; hold-outs, which begin, stand last. In a checkout
    what was never measured of them before is written to their file.

    Raises
    ------
    UserError
        If nothing is called so, or a tool fails.
    """
    known = holdouts.first_measured()
    say("planning")
    steps = steps_called(only, known)
    later = [step for step in steps if step.case]
    agreements: list[Agreement | None] = [None] * len(steps)
    for told, (place, agreement) in counted_off(spread(compare, steps), len(steps)):
        agreements[place] = agreement
        say(f"{told}: {steps[place].name}: {100 * agreement.error:+.1f} %")
    measured = [agreement for agreement in agreements if agreement]
    if checkout() is not None:
        holdouts.write_first([
            (agreement.step.case, FirstMeasurement(agreement.step.splits, agreement.program, agreement.counted,
                                                   agreement.simulated, agreement.predicted))
            for agreement in measured if agreement.step.case])
        known = holdouts.first_measured()
    measured = [replace(agreement, first=known.get(agreement.step.case.key)) if agreement.step.case else agreement
                for agreement in measured]
    return [*measured[len(later):], *measured[:len(later)]]


def _kinds(agreements: Sequence[Agreement]) -> dict[str, list[Agreement]]:
    """Steps of a kind by what the kind is called, of those there are."""
    grid = [agreement for agreement in agreements if not agreement.step.case]
    kinds = {"steps with FP32 operands": [agreement for agreement in grid
                                          if not agreement.narrow and not agreement.step.tiles],
             "steps with Winograd layers": [agreement for agreement in grid if agreement.step.tiles],
             "steps with operands of 16 bits": [agreement for agreement in grid if agreement.narrow],
             "hold-outs": [agreement for agreement in agreements if agreement.step.case]}
    return {name: steps for name, steps in kinds.items() if steps}


def _errors(steps: Sequence[Agreement]) -> str:
    return ", ".join(f"{what}: mean error {mean(errors):.1f} %, worst {max(errors):.1f} %" for what, errors in (
        ("simulated", [100 * abs(agreement.error) for agreement in steps]),
        ("predicted", [100 * abs(agreement.prediction_error) for agreement in steps])))


def table(agreements: Sequence[Agreement]) -> str:
    """The comparisons of the grid as a Markdown table."""
    grid = [agreement for agreement in agreements if not agreement.step.case]
    if not grid:
        return NONE
    lines = ["| network | preset | array | planners | counted | simulated | error | predicted | error |",
             "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| {agreement.step.title} | `{agreement.step.array.preset}` | {agreement.step.array.name} | "
              f"{', '.join(agreement.step.planners)} | {agreement.counted:,} | {agreement.simulated:,} | "
              f"{100 * agreement.error:+.1f} % | {agreement.predicted:,} | "
              f"{100 * agreement.prediction_error:+.1f} % |" for agreement in grid]
    for name, steps in _kinds(grid).items():
        lines += ["", f"{len(steps)} {name}, {_errors(steps)}."]
    return "\n".join(lines)


def holdout_table(agreements: Sequence[Agreement], second: bool = False) -> str:
    """The comparisons of the first or second set of hold-outs, as first measured and today, as a Markdown table."""
    steps = [agreement for agreement in agreements if agreement.step.case and agreement.step.case.second == second]
    if not steps:
        return NONE
    lines = ["| network | batch | preset | array | words a cycle | planner | update | counted first | simulated | "
             "predicted | counted today | simulated | predicted |",
             "| --- | ---: | --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for agreement in steps:
        step, cells = agreement.step, [
            f"{when.counted:,} | {100 * when.error:+.1f} % | {100 * when.prediction_error:+.1f} %"
            for when in (agreement.at_first, agreement)]
        lines.append(f"| {step.title} | {step.batch} | `{step.array.preset}` | {step.array.name} | "
                     f"{step.array.rate} | {step.planned} | {step.rule.title} | {' | '.join(cells)} |")
    for what, some in (("hold-outs", steps), ("of these with Winograd layers",
                                              [agreement for agreement in steps if agreement.step.tiles])):
        if some:
            lines += ["", f"{len(some)} {what}, first measurement, "
                          f"{_errors([agreement.at_first for agreement in some])}; today, {_errors(some)}."]
    return "\n".join(lines)


def tables(agreements: Sequence[Agreement]) -> dict[str, str]:
    """Tables of the page, by their markers."""
    return {GRID: table(agreements), HOLDOUTS: holdout_table(agreements),
            SECOND: holdout_table(agreements, second=True)}


def regrets(agreements: Sequence[Agreement]) -> list[tuple[float, Agreement]]:
    """For each network, batch and update on each array, the counted step of the plan that is predicted to be the
    shortest over that of the best plan, and the former."""
    groups: dict[tuple[str, int, Array, UpdateRule], list[Agreement]] = {}
    for agreement in agreements:
        groups.setdefault((agreement.step.title, agreement.step.batch, agreement.step.array, agreement.step.rule),
                          []).append(agreement)
    chosen = [min(steps, key=lambda agreement: agreement.predicted) for steps in groups.values()]
    return [(agreement.counted / min(other.counted for other in steps), agreement)
            for agreement, steps in zip(chosen, groups.values(), strict=True)]


def rows(agreements: Sequence[Agreement]) -> list[BenchRow]:
    """Mean and worst error of what is simulated, of the grid, of hold-outs as first measured and of steps with Winograd
    layers, and of what is predicted of all; of the second set of hold-outs both as they are today, and of its Winograd
    layers; and what a choice by predictions costs."""
    detail = {"steps": [agreement.to_data() for agreement in agreements]}
    first = [agreement.at_first for agreement in agreements]
    grid, tiled, others = ([agreement for agreement in first if kind(agreement.step)] for kind in (
        lambda step: not step.case and not step.tiles, lambda step: not step.case and step.tiles,
        lambda step: step.case and not step.case.second))
    second = [agreement for agreement in agreements if agreement.step.case and agreement.step.case.second]
    second_tiled, today = [agreement for agreement in second if agreement.step.tiles], ", second set, today"
    bench_rows = []
    for name, what, steps, which in (
            ("agreement_error", "simulated", grid, ""), ("agreement_holdout", "simulated", others, ""),
            ("agreement_mpt", "simulated", tiled, ""), ("prediction_error", "predicted", [*grid, *tiled, *others], ""),
            *((f"holdout_{tiles}{what}", what, some, today) for tiles, some in (("", second), ("tiles_", second_tiled))
              for what in ("simulated", "predicted"))):
        if steps:
            errors = [abs(agreement.error if what == "simulated" else agreement.prediction_error)
                      for agreement in steps]
            unit, worst = f"|{what} / counted - 1|{which}", steps[max(range(len(steps)), key=errors.__getitem__)].step
            bench_rows += [BenchRow(f"{name}_mean", mean(errors), unit, "tiles that meet on their way", detail),
                           BenchRow(f"{name}_worst", max(errors), unit, worst.name, detail)]
    regret, agreement = max(regrets(first), key=lambda pair: pair[0])
    return [*bench_rows, BenchRow("ranking_regret_worst", regret,
                                  "counted step of the plan predicted best / of the best plan", agreement.step.name,
                                  detail)]


def agreement_errors() -> list[BenchRow]:
    """Simulated and predicted against counted cycles of a step, for every planner and of hold-outs."""
    return rows(measure())


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = dict.fromkeys(
    (f"{name}_{which}" for name in ("agreement_error", "agreement_holdout", "agreement_mpt", "prediction_error",
                                    "holdout_simulated", "holdout_predicted", "holdout_tiles_simulated",
                                    "holdout_tiles_predicted")
     for which in ("mean", "worst")), agreement_errors) | {"ranking_regret_worst": agreement_errors}
