"""``plinth.simulate``: the time and energy of a training step, and where they go."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plinth.api import arguments, html
from plinth.api.arguments import choice, integer, real, shown
from plinth.api.choices import array_for
from plinth.api.objects import array_given
from plinth.api.objects import network as network_of
from plinth.api.planning import PlanResult, plan_given, refuse_beside, split_settings, update_settings
from plinth.api.progress import Progress, activity
from plinth.api.results import Result
from plinth.api.steps import array_of_use, simulated, split
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.limits import MAXIMUM_DIES
from plinth.network.network import Network
from plinth.output import check_ending
from plinth.plan.plan import Plan
from plinth.report import simulation
from plinth.simulate.costs import COSTS
from plinth.simulate.rows import LayerRow, layer_rows
from plinth.simulate.step import Simulated, write_trace

#: How many times longer tasks of a die may take.
LEAST_FACTOR, MOST_FACTOR = 0.001, 100_000


@dataclass(frozen=True, repr=False, eq=False)
class SimulationResult(Result):
    """The result of :func:`simulate`: a simulated step.

    Attributes
    ----------
    plan, array
        What was simulated.
    seconds : float
        Of the step.
    joules : dict of str to float
        Energy of the step by kind.
    layer_work : tuple of LayerRow
        What the step spends on each layer in each direction: ``layer``, ``direction`` ("fprop", "bprop" or "update"),
        ``cycles`` of the critical path, ``busy_cycles``, ``injected_words``, ``dram_words``, ``energy_joules``.
    """

    simulated: Simulated

    @property
    def plan(self) -> Plan:
        """The plan whose step was simulated."""
        return self.simulated.plan

    @property
    def array(self) -> Array:
        """The array that the step was simulated on."""
        return self.simulated.array

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return float(self.simulated.result.seconds)

    @property
    def joules(self) -> dict[str, float]:
        """Energy of the step by kind."""
        return dict(self.simulated.joules)

    @property
    def layer_work(self) -> tuple[LayerRow, ...]:
        """What the step spends on each layer in each direction; rows add up to the step."""
        return tuple(layer_rows(self.simulated))

    def save_trace(self, path: str | Path) -> None:
        """Write the step for Perfetto, as ``.json``.

        Raises
        ------
        UserError
            If the path ends otherwise, or the file cannot be written.
        """
        place = arguments.path("path", path)
        check_ending("path", place, ".json")
        write_trace(place, self.simulated)

    def _report(self) -> dict[str, Any]:
        return simulation.simulation_report(self.simulated)

    def _line(self) -> str:
        plan = self.plan
        return (f"step of {plan.network} on {self.array.name}, batch {plan.batch}, planner {plan.planner}: "
                f"{self.seconds:.4g} s, {sum(self.joules.values()):.3g} J")

    def _tables(self) -> list[str]:
        return [html.table(simulation.total_rows(self.simulated)),
                html.table(simulation.engine_rows(self.simulated),
                           ("engine", *(label for _, label, _ in simulation.STATES))),
                html.table(simulation.layer_work_rows(self.simulated), simulation.LAYER_WORK)]

    def _picture(self) -> bytes:
        return simulation.simulation_png(self.simulated)


def _slow(slow: Any) -> dict[int, float]:
    """How many times longer tasks of some dies take."""
    if slow is not None and not isinstance(slow, Mapping):
        raise UserError(f"slow must be a mapping of dies to factors, not {shown(slow)}")
    return {integer("a die of slow", die, 0, MAXIMUM_DIES - 1):
            real("a factor of slow", factor, LEAST_FACTOR, MOST_FACTOR) for die, factor in (slow or {}).items()}


def simulate(network: str | Path | Network | PlanResult | None = None, array: str | Path | Array | None = None, *,
             planner: str | None = None, model: str | None = None, batch: int | None = None,
             update: str | None = None, wide: bool | None = None, stochastic: bool = False, cost: str = "die",
             slow: Mapping[int, float] | None = None, progress: Progress = None) -> SimulationResult:
    """Simulate a training step of a network, or of a plan.

    Parameters
    ----------
    network : str, Path, Network, PlanResult or None
        As :func:`plinth.network` takes it; or a plan or the path of its file, which says all that follows up to
        ``stochastic``.
    array, planner, model, batch, update, wide, stochastic
        As :func:`plinth.plan`.
    cost : {"die", "paper"}
        The array's dies by their engines' formulas, or HyPar's as its paper states them.
    slow : mapping of int to float or None
        How many times longer tasks of a die take, from 0.001 to 100,000.
    progress : callable, True or None
        Told (done, total, text) of tasks; True: a bar on standard error.

    Raises
    ------
    UserError
        If an argument is not what it may be, or the plan does not fit the array or its dies' memory.
    """
    settings = split_settings(planner, model, batch) | update_settings(update, wide, stochastic)
    factors = _slow(slow)
    choice("cost", cost, COSTS)
    plan, name = plan_given(network)
    definition = None
    if plan is None:
        assert not isinstance(network, PlanResult)
        definition = network_of(network)
        where = array_for(definition, array_given(array))
    else:
        refuse_beside(key for key, value in settings.items() if value is not (False if key == "stochastic" else None))
        where, step = array_of_use(plan, name, array_given(array))
    with activity(progress, f"planning on {where.name}", "tasks") as told:
        if definition is not None:
            plan, step = split(definition, where, **settings)
        assert plan is not None
        told.begin(f"simulating {plan.network} on {where.name}", "tasks")
        return SimulationResult(simulated(plan, where, step, cost=cost, slow=factors, progress=told.update))
