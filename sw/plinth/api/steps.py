"""A plan without what it costs, and its simulated step, as commands and the library ask for them."""

from collections.abc import Callable, Mapping

from plinth import defaults
from plinth.api.choices import array_of_plan, form_of, network_of_plan, planner_of
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.plan.plan_file import check_use
from plinth.plan.planning import arranged, check_prediction
from plinth.simulate import step
from plinth.simulate.step import Simulated
from plinth.step.step import Step


def split(network: Network, array: Array, *, planner: str | None = None, model: str | None = None,
          batch: int | None = None, update: str | None = None, wide: bool | None = None, stochastic: bool = False
          ) -> tuple[Plan, Step]:
    """The plan of :func:`plinth.api.splits.planned`, whose costs would take long on large arrays, and its step.

    Raises
    ------
    UserError
        As :func:`plinth.api.splits.planned`.
    """
    planner, batch = planner_of(planner, array), batch or defaults.BATCH
    return step.planned(arranged(network, array, planner, batch), array, planner=planner,
                        model=model or defaults.MODEL, batch=batch, rule=form_of(array, update, wide, stochastic))


def array_of_use(plan: Plan, name: str, source: str | Array | None, dies: int | None = None,
                 machine: str | None = None, number_format: str | None = None) -> tuple[Array, Step]:
    """The array that a plan's step is simulated on, the plan's own, with which what was asked for is compared; and the
    step.

    Parameters
    ----------
    plan : Plan
    name : str
        What messages call it.
    source, dies, machine, number_format
        As :func:`plinth.api.choices.array_of_plan`.

    Raises
    ------
    UserError
        If the plan is for another array, whose dies cannot do its step, or predicts another step than it has.
    """
    array = array_of_plan(plan, network_of_plan(plan), source, dies, machine, number_format)
    check_use(plan, name, array=array)
    built = step.step_on(plan, array)
    check_prediction(plan, name, built=built)
    return array, built


def simulated(plan: Plan, array: Array, built: Step, *, cost: str, slow: Mapping[int, float],
              progress: Callable[[int, int], None] | None = None) -> Simulated:
    """Simulate a plan's step.

    Parameters
    ----------
    plan : Plan
    array : Array
        The plan's.
    built : Step
        The plan's.
    cost : str
        A key of :data:`plinth.simulate.costs.COSTS`.
    slow : mapping of int to float
        How many times longer tasks of a die take.
    progress : callable or None
        Called with tasks that are done, and all.

    Raises
    ------
    UserError
        If the step does not fit the dies' memory, hosts are to cost what HyPar's paper says, or as
        :func:`plinth.simulate.step.simulated`.
    """
    if array.host is not None and cost != "die":
        raise UserError(f"array {array.name!r} is of hosts, which have rates of their own; leave out cost={cost}")
    step.check_memory(built, array)
    return step.simulated(plan, array, cost=cost, slow=dict(slow), progress=progress, step=built)
