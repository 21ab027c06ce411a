"""A plan without what it costs, and its simulated step, as commands and the library ask for them."""

from collections.abc import Callable, Mapping

from plinth import defaults
from plinth.api.choices import form_of, planner_of
from plinth.model.array import Array
from plinth.model.network import Network
from plinth.plan.plan import Plan
from plinth.plan.planning import arranged
from plinth.simulate import step
from plinth.simulate.step import Simulated


def split(network: Network, array: Array, *, planner: str | None = None, model: str | None = None,
          batch: int | None = None, update: str | None = None, wide: bool | None = None, stochastic: bool = False
          ) -> Plan:
    """The plan of :func:`plinth.api.splits.planned`, whose costs would take long on large arrays.

    Raises
    ------
    UserError
        As :func:`plinth.api.splits.planned`.
    """
    planner, batch = planner_of(planner, array), batch or defaults.BATCH
    return step.planned(arranged(network, array, planner, batch), array, planner=planner,
                        model=model or defaults.MODEL, batch=batch, rule=form_of(array, update, wide, stochastic))


def simulated(plan: Plan, array: Array, *, cost: str, slow: Mapping[int, float],
              progress: Callable[[int, int], None] | None = None) -> Simulated:
    """Simulate a plan's step.

    Parameters
    ----------
    plan : Plan
    array : Array
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
        If the plan does not fit the dies' memory, or as :func:`plinth.simulate.step.simulated`.
    """
    step.check_memory(plan, array)
    return step.simulated(plan, array, cost=cost, slow=dict(slow), progress=progress)
