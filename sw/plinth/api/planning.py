"""``plinth.plan`` and ``plinth.load_plan``: how a network is split over an array, and what that costs.

Planners and the prediction are loaded when something is planned, not with the names of this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plinth.api import arguments, html
from plinth.api.arguments import choice, flag, integer, optional, real
from plinth.api.choices import array_for, network_of_plan, network_or_plan
from plinth.api.objects import array_given
from plinth.api.objects import network as network_of
from plinth.api.progress import Progress, activity
from plinth.api.results import Result
from plinth.array.array import Array
from plinth.errors import UserError, about
from plinth.files.forms import described
from plinth.limits import MAXIMUM_BATCH
from plinth.names import COPY_NAMES
from plinth.network.network import Network
from plinth.output import check_ending
from plinth.partition.graph import from_network
from plinth.partition.regions import Lists
from plinth.plan import plan_file
from plinth.plan.lists_file import layers_from_data, load_lists
from plinth.plan.plan import Plan
from plinth.report import plan as shown_plan
from plinth.update.kinds import KINDS

if TYPE_CHECKING:
    from plinth.api.simulating import SimulationResult
    from plinth.api.training import TrainingResult
    from plinth.plan.planning import Outcome, Planned


@dataclass(frozen=True, repr=False, eq=False)
class StepListing(Result):
    """The result of :meth:`PlanResult.step`: what dies do in a step.

    Attributes
    ----------
    operations : list of dict
        In the order of every die's program; empty where the tasks of one die were asked for.
    tasks : list of dict
        Of that die.
    digest : str
        SHA-256 of the step, equal in every process.
    """

    report: dict[str, Any]

    @property
    def operations(self) -> list[dict[str, Any]]:
        """The step's operations, in the order of every die's program."""
        return list(self.report.get("operations", ()))

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks of the die that was asked for, in program order."""
        return list(self.report.get("program", ()))

    @property
    def digest(self) -> str:
        """SHA-256 of the step."""
        return str(self.report["digest"])

    def _report(self) -> dict[str, Any]:
        return self.report

    def _line(self) -> str:
        what = f"{len(self.operations)} operations" if self.operations else (
            f"{len(self.tasks)} tasks of die {self.report['die']}")
        return f"step of {self.report['network']} on {self.report['array']}: {what}"

    def _tables(self) -> list[str]:
        from plinth.report import step as shown_step

        if self.operations:
            return [html.table(shown_step.operation_rows(self.report), shown_step.OPERATION)]
        return [html.table([(task["task"], task["engine"] or "-", task["does"]) for task in self.tasks],
                           ("task", "engine", "does"))]


@dataclass(frozen=True, repr=False, eq=False)
class PlanResult(Result):
    """The result of :func:`plan`: a plan and what it costs.

    Attributes
    ----------
    plan : plinth.plan.plan.Plan
        Splits, transfers, reductions.
    network, array
        What it is for.
    totals : plinth.plan.planning.Outcome
        Words that all dies send in a step (``injected_words``), and its predicted time (``predicted_seconds``).
    baselines : dict of str to Outcome
        The same of planners ``data`` and ``model``.
    splits : dict of str to tuple of str
        Of each layer and junction, a split a level.
    notes : tuple of str
        What the planner says of what it found, such as why a table's copies are kept equal as they are.
    """

    plan: Plan
    network: Network
    array: Array
    planned: Planned

    @property
    def totals(self) -> Outcome:
        """Words that all dies send in a step, and its predicted time."""
        return self.planned.outcome

    @property
    def baselines(self) -> dict[str, Outcome]:
        """The totals of planners ``data`` and ``model``."""
        return dict(self.planned.baselines)

    @property
    def splits(self) -> dict[str, tuple[str, ...]]:
        """The split of each layer and junction at each level of the array, by name."""
        head, *rows = shown_plan.split_rows(self.planned)
        return {name: tuple(row[place] for row in rows) for place, name in enumerate(head) if place}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the planner says of what it found, a line each."""
        return self.planned.notes

    def simulate(self, cost: str = "die", slow: Mapping[int, float] | None = None, *, progress: Progress = None
                 ) -> SimulationResult:
        """Simulate the plan's step, as :func:`plinth.simulate`."""
        from plinth.api.simulating import simulate

        return simulate(self, cost=cost, slow=slow, progress=progress)

    def train(self, x: Any = None, y: Any = None, **options: Any) -> TrainingResult:
        """Train by the plan, as :func:`plinth.train`, which has the options."""
        from plinth.api.training import train

        return train(self, x, y, **options)

    def step(self, die: int | None = None) -> StepListing:
        """List what the dies do in a step.

        Parameters
        ----------
        die : int or None
            The tasks of this die; None: operations.

        Raises
        ------
        UserError
            If there is no such die.
        """
        from plinth.report import step as shown_step

        die = optional(integer, "die", die, 0, self.plan.dies - 1)
        return StepListing(shown_step.step_report(self.plan, shown_step.step_of_plan(self.plan), die))

    def save(self, path: str | Path) -> None:
        """Write the plan's file, ``.yaml`` or ``.json``, which ``plinth train`` and :func:`plinth.load_plan` take.

        Raises
        ------
        UserError
            If the path ends otherwise, or the file cannot be written.
        """
        place = arguments.path("path", path)
        check_ending("path", place, ".yaml", ".json")
        plan_file.save_plan(place, self.plan)

    def _report(self) -> dict[str, Any]:
        return shown_plan.plan_report(self.planned)

    def _line(self) -> str:
        plan = self.plan
        return (f"plan of {plan.network} on {plan.array}, batch {plan.batch}, planner {plan.planner}: "
                f"{plan.words:,} words a step, {self.totals.predicted_seconds:.3g} s predicted")

    def _tables(self) -> list[str]:
        head, *rows = shown_plan.split_rows(self.planned)
        return [*([html.table([*rows, shown_plan.copies_row(self.planned)], head)] if rows else []),
                html.table(shown_plan.total_rows(self.planned), shown_plan.TOTALS)]

    def _picture(self) -> bytes:
        return shown_plan.plan_png(self.planned)


def _lists(lists: Any, network: Network) -> Mapping[str, Lists] | None:
    """Lists of parts by layer, from a file or as a file has them."""
    if lists is None:
        return None
    graph = from_network(network)
    return (layers_from_data(dict(lists), graph, "lists") if isinstance(lists, Mapping) else
            load_lists(arguments.path("lists", lists), graph))


def update_settings(update: Any, wide: Any, stochastic: Any) -> dict[str, Any]:
    """How weights are updated, whatever the numbers.

    Raises
    ------
    UserError
        If one is not what it may be.
    """
    return {"update": optional(choice, "update", update, KINDS), "wide": optional(flag, "wide", wide),
            "stochastic": flag("stochastic", stochastic)}


def split_settings(planner: Any, model: Any, batch: Any) -> dict[str, Any]:
    """How a network is split, and for how many samples.

    Raises
    ------
    UserError
        If one is not what it may be.
    """
    from plinth.plan.planning import PLANNERS
    from plinth.predict.models import MODELS

    return {"planner": optional(choice, "planner", planner, PLANNERS),
            "model": optional(choice, "model", model, MODELS),
            "batch": optional(integer, "batch", batch, 1, MAXIMUM_BATCH)}


def touched_rows(touched: Any) -> Any:
    """The share of rows that samples touch, or row numbers, as planners take it.

    Raises
    ------
    UserError
        If it is neither.
    """
    if touched is None or (isinstance(touched, (int, float)) and not isinstance(touched, bool)):
        return touched
    if isinstance(touched, Mapping):
        return dict(touched)
    numbers = np.asarray(touched) if not isinstance(touched, (str, bytes)) else np.empty(0, object)
    if numbers.ndim != 2 or numbers.dtype.kind not in "iu":
        raise UserError(f"touched must be a share, shares by layer, or row numbers [samples, numbers], not "
                        f"{described(touched)}")
    return numbers


def plan(network: str | Path | Network | None = None, array: str | Path | Array | None = None, *,
         planner: str | None = None, model: str | None = None, batch: int | None = None, update: str | None = None,
         wide: bool | None = None, stochastic: bool = False, lists: str | Path | Mapping[str, Any] | None = None,
         copies: str | None = None, touched: Any = None, tolerance: float | None = None,
         dense_from: float | None = None, micro_batches: int | None = None, progress: Progress = None
         ) -> PlanResult:
    """Split a network over an array, layer by layer and level by level.

    Parameters
    ----------
    network : str, Path, Network or None
        As :func:`plinth.network` takes it.
    array : str, Path, Array or None
        As :func:`plinth.array` takes it. Where its dies cannot make the network's Winograd layers, dies alike that can
        take their place.
    planner : str or None
        How layers are split; None: ``joint``, of dies of 16-bit formats ``data``.
    model : {"exact", "published"} or None
        How words are counted: as the dies move them (None), or as HyPar publishes them.
    batch : int or None
        Samples of a step, up to 1,048,576; None: 128.
    update : str or None
        An update rule of :data:`plinth.update.kinds.KINDS`: ``"sgd"``, ``"momentum"``, ``"adagrad"`` and others. None:
        what the dies do best, Adagrad with an optimiser engine, else plain descent.
    wide : bool or None
        Whether fixed-point weights and states have 32 bits; None: with Adagrad.
    stochastic : bool
        Whether fixed-point weights and states of 16 bits are rounded at random.
    lists : str, Path, mapping or None
        Lists of parts by layer: a YAML file, or what it would hold.
    copies : {"auto", "rings", "gathered", "servers"} or None
        How copies of embeddings' tables are kept equal: by sums that go round rings, by gathered rows, by servers, or
        for each as is best. None: ``"rings"``, by planner ``"parallax"`` ``"auto"``.
    touched : float, mapping of str to float, array_like or None
        The share of a table's rows that the samples of one die touch in a step: of all tables, or by layer; or row
        numbers ``[samples, numbers]`` of which it is measured. None: as many as they may.
    tolerance : float or None
        With ``copies="auto"``: the share of a step's time, from 0 to 1, by which it has to be shorter for a table to go
        by gathered rows in place of rings, or by servers in place of either; and by which it has to be longer to end
        the search for the number of pieces. None: 0.
    dense_from : float or None
        The share of ``touched`` rows, from 0 to 1, from which a table is taken for dense, and goes round rings. None:
        never.
    micro_batches : int or None
        In how many parts, one behind the other, planner ``pipeline`` lets the batch go; None: as many as make the step
        shortest.
    progress : callable, True or None
        Told (done, total, text) of steps that are predicted, whose total nobody knows (0); True: a bar on standard
        error.

    Raises
    ------
    UserError
        If an argument is not what it may be, or the planner refuses the array.
    """
    from plinth.api.splits import planned

    settings = split_settings(planner, model, batch) | update_settings(update, wide, stochastic)
    definition = network_of(network)
    where = array_for(definition, array_given(array))
    parts = _lists(lists, definition)
    with activity(progress, f"planning {definition.name} on {where.name}", "steps predicted") as told:
        planning = planned(definition, where, lists=parts, copies=optional(choice, "copies", copies, COPY_NAMES),
                           touched=touched_rows(touched), tolerance=optional(real, "tolerance", tolerance, 0, 1),
                           dense_from=optional(real, "dense_from", dense_from, 0, 1),
                           micro_batches=optional(integer, "micro_batches", micro_batches, 1, MAXIMUM_BATCH),
                           progress=told.update, **settings)
    return PlanResult(planning.plan, network_of_plan(planning.plan), where, planning)


def load_plan(path: str | Path) -> PlanResult:
    """The plan in a file that ``plinth plan --out`` or :meth:`PlanResult.save` wrote; the file is untrusted.

    Raises
    ------
    UserError
        If it is not such a file, states what does not follow from its splits, or says what dies cannot run.
    """
    from plinth.plan.planning import check_prediction

    place = arguments.path("path", path)
    plan = plan_file.load_plan(place)
    with about(place):
        loaded = result_of(plan)
    check_prediction(plan, str(place), loaded.plan.predicted_seconds)
    return loaded


def result_of(plan: Plan) -> PlanResult:
    """A plan that stands with what it costs.

    Raises
    ------
    UserError
        If it does not say what its array is, or dies cannot run it.
    """
    from plinth.plan.planning import costed

    planning = costed(plan)
    assert plan.hardware is not None, "a plan without an array is refused above"
    return PlanResult(planning.plan, network_of_plan(plan), plan.hardware, planning)


def plan_given(network: Any) -> tuple[Plan | None, str]:
    """The plan that an argument ``network`` is, or the file of one that it names, and what messages call it.

    Raises
    ------
    UserError
        If the file cannot be read as a plan.
    """
    if isinstance(network, PlanResult):
        return network.plan, "plan"
    if isinstance(network, (str, os.PathLike)) and isinstance(os.fspath(network), str):
        _, place = network_or_plan(os.fspath(network), None)
        if place is not None:
            return plan_file.load_plan(place), str(place)
    return None, ""


def refuse_beside(settings: Iterable[str]) -> None:
    """Refuse what was given beside a plan, which says it.

    Raises
    ------
    UserError
        Naming the first of the settings.
    """
    for name in settings:
        raise UserError(f"{name}= and a plan both say what a step does; leave one of them out")
