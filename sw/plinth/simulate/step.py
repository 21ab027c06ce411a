"""Simulate the step of a Plan, or of a network and a planner."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from plinth.array.array import Array
from plinth.errors import UserError
from plinth.network.file import load_network
from plinth.network.network import Network
from plinth.output import write_whole
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.plan_file import load_plan
from plinth.plan.planning import chosen, task
from plinth.sharding import Sharding
from plinth.simulate.costs import COSTS
from plinth.simulate.routes import LinkRoutes
from plinth.simulate.workload import MOST_TASKS, Workload, workload
from plinth.step.build import step_of
from plinth.step.step import Step
from plinth.units import largest, size
from plinth.update.rule import PLAIN, UpdateRule
from plinth_sim.array import trace
from plinth_sim.array.energy import Energy
from plinth_sim.array.simulate import SimulatedRun, simulate


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A step, what it was made of, and what came out."""

    plan: Plan
    array: Array
    #: What the dies do.
    step: Step
    #: Name of the costs, and where they come from.
    cost: str
    source: str
    slow: dict[int, float]
    #: What operations and words cost.
    energy: Energy
    work: Workload
    result: SimulatedRun

    @property
    def hertz(self) -> float:
        """Cycles a second of the array's clock."""
        return float(self.array.clock_mhz) * 1e6

    @property
    def cycles(self) -> float:
        """Cycles that the step takes."""
        return self.result.seconds * self.hertz

    @property
    def joules(self) -> dict[str, float]:
        """Energy of the step by kind."""
        return self.result.counts.joules(self.energy)


def simulated(plan: Plan, array: Array, *, cost: str = "die", slow: dict[int, float] | None = None,
              routes: LinkRoutes | None = None, overlap: bool = True, form: str = "exact",
              progress: Callable[[int, int], None] | None = None, step: Step | None = None,
              most_tasks: int = MOST_TASKS) -> Simulated:
    """Simulate a Plan's step on an array: ``step``, if it has been built.

    Raises
    ------
    UserError
        As :func:`plinth.simulate.workload.workload`.
    """
    costs = COSTS[cost](array)
    step = step or step_on(plan, array)
    work = workload(step, array, costs, slow, routes, overlap, form, most_tasks)
    return Simulated(plan=plan, array=array, step=step, cost=cost, source=costs.source, slow=slow or {},
                     energy=costs.energy, work=work,
                     result=simulate(work.machine, work.activities, progress, work.tasks))


def planned(network: Network, array: Array, *, planner: str, model: str, batch: int,
            rule: UpdateRule = PLAIN) -> tuple[Plan, Step]:
    """A plan, without predictions, and its step, which planners that look at memory or time have built.

    Raises
    ------
    UserError
        If the planner or the model refuses the array.
    """
    problem = task(from_network(network), array, model, batch, rule)
    splits, lists, micro_batches = chosen(problem, array, planner)
    plan = Plan(sharding=Sharding(graph=problem.graph, splits=splits, batch=batch, factors=problem.factors, lists=lists,
                                  array=array, rule=rule, micro_batches=micro_batches),
                planner=planner, model=model, array=array.name)
    return plan, problem.time.with_micro_batches(micro_batches).schedule.built(splits, lists)


def load(path: Path, network: str | None) -> Plan:
    """A plan from its file, for a network by name or file, or for the one that the plan names.

    Raises
    ------
    UserError
        If the file is not a plan, or its network is unknown or another one.
    """
    return load_plan(path, None if network is None else load_network(network))


def step_on(plan: Plan, array: Array) -> Step:
    """The step that dies of an array do by a plan.

    Raises
    ------
    UserError
        If the array has another number of dies, or its dies cannot do the step.
    """
    if plan.dies != array.dies:
        raise UserError(f"the plan is for {plan.dies} dies, but array {array.name!r} has {array.dies}; choose an array "
                        "of as many, or plan again with `plinth plan --array`")
    return step_of(replace(plan.sharding, array=array), array.die_parameters())


def check_memory(step: Step, array: Array) -> None:
    """Compare what a step needs of every die's memory with what a die of the array has.

    Raises
    ------
    UserError
        If it does not fit.
    """
    places = step.place_bytes()
    need = sum(places.values())
    if need > array.memory_bytes:
        raise UserError(f"the plan does not fit the dies' memory: a die needs {size(need)}, a die of array "
                        f"{array.name!r} has {size(array.memory_bytes)} ({largest(places)}); choose another planner, a "
                        f"smaller batch or more dies, or an array file with memory_bytes of at least {need}")


def write_trace(path: Path, simulation: Simulated) -> int:
    """Write the step as a trace for Perfetto; returns how many events.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    count = 0

    def write(place: Path) -> None:
        nonlocal count
        with place.open("w", encoding="utf-8") as file:
            count = trace.write(file, simulation.work.machine, simulation.work.activities, simulation.result)

    write_whole(path, write)
    return count
