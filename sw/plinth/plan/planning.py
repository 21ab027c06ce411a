"""Run planners: from a network and an array to a Plan, with what it costs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import isclose, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import Array, prime_factors
from plinth.errors import UserError
from plinth.files.forms import described, is_integer
from plinth.limits import MAXIMUM_DIES
from plinth.names import (
    AUTO_COPIES,
    DATA_PARALLEL,
    EXACT,
    EXHAUSTIVE,
    HYPAR,
    HYPERGRAPH,
    JOINT,
    MODEL_PARALLEL,
    MPT,
    ONE_WEIRD_TRICK,
    PARALLAX,
    PIPELINE,
    PUBLISHED,
    RANDOM_ROWS,
    RINGS,
)
from plinth.network.network import Network
from plinth.network.winograd import with_fit
from plinth.network.zoo import NETWORKS
from plinth.partition.cuts import Factors
from plinth.partition.exchanges import total_words
from plinth.partition.graph import DP, EP, MP, SPLITS, PlanGraph, from_network
from plinth.partition.lists import check_lists
from plinth.partition.regions import Lists, Partition, Splits
from plinth.partition.stages import stage_levels
from plinth.plan.plan import Plan
from plinth.plan.planners import simple
from plinth.plan.planners.exhaustive import combinations, exhaustive
from plinth.plan.planners.fitting import fitting
from plinth.plan.planners.hypar import hypar
from plinth.plan.planners.joint import joint
from plinth.plan.planners.mpt import mpt, with_transforms
from plinth.plan.planners.pipeline import can_be_staged, pipeline
from plinth.plan.row_copies import CopyChoice, chosen_copies, named_shares, touched_shares
from plinth.predict.codes import codes_source
from plinth.predict.models import MODELS, CountsWords
from plinth.predict.time import StepCycles, StepTime
from plinth.sharding import Copies, Gathered, Server, Sharding, Touched, are_micro_batches
from plinth.step.copies import copies_of
from plinth.step.step import Step as BuiltStep
from plinth.update.rule import PLAIN, UpdateRule

#: Share by which two predictions of a step may differ: they are sums in another order.
ROUNDING = 1e-6
#: Combinations up to which `joint` also looks at what `exhaustive` finds.
SEEDED_COMBINATIONS = 1 << 12


@dataclass(frozen=True)
class PlanningProblem:
    """The input of planners: a graph on an array, how words are counted, how long a step is predicted to take."""

    words: CountsWords
    time: StepTime
    #: What planners have to say of what they found.
    notes: list[str] = field(default_factory=list, compare=False)
    #: In how many micro-batches the batch goes; None: as the planner chooses.
    micro_batches: int | None = None

    @property
    def graph(self) -> PlanGraph:
        """The network."""
        return self.words.graph

    @property
    def levels(self) -> int:
        """Levels of the array."""
        return self.time.levels

    @property
    def factors(self) -> Factors:
        """The number of parts into which each level cuts the dies."""
        return self.time.factors


def task(graph: PlanGraph, array: Array, model: str, batch: int, rule: UpdateRule = PLAIN,
         progress: Callable[[int], object] | None = None, copies: Copies = (), touched: Touched = (),
         micro_batches: int = 1) -> PlanningProblem:
    """Set up what planners need; ``progress`` is called with the number of steps that were predicted, whose copies of
    weights are kept equal as ``copies`` say, or as suits the dies, whose samples touch as many rows of tables as
    ``touched`` says, and go in so many micro-batches.

    Raises
    ------
    UserError
        If the model does not know the levels of the array.
    """
    return PlanningProblem(MODELS[model](graph, batch, factors=array.factors),
                           StepTime(graph, batch, array, rule=rule, progress=progress, copies=copies, touched=touched,
                                    micro_batches=micro_batches))


def _joint(problem: PlanningProblem) -> Splits:
    """`joint`, seeded with the plans of all others and of both models."""
    graph, levels, words = problem.graph, problem.levels, problem.words
    seeds = [planner(problem) for name, planner in SPLITTERS.items()
             if name not in (EXHAUSTIVE, JOINT, *(() if any(node.tiling for node in graph.nodes) else (MPT,)))]
    for name, make in MODELS.items():
        if name != words.name and (name != PUBLISHED or set(problem.factors) <= {2}):
            seeds.append(hypar(make(graph, words.batch, factors=problem.factors), levels))
    seeds.append(hypar(words, levels, words.splits))
    if combinations(graph, levels) <= SEEDED_COMBINATIONS:
        seeds.append(exhaustive(graph, levels, words.total_bytes))
    return joint(problem.time, SPLITS if words.name == EXACT else words.splits, list(dict.fromkeys(seeds)))


#: Planners that say splits alone, by their names.
SPLITTERS: dict[str, Callable[[PlanningProblem], Splits]] = {
    DATA_PARALLEL: lambda problem: simple.data(problem.graph, problem.levels),
    MODEL_PARALLEL: lambda problem: simple.model(problem.graph, problem.levels),
    ONE_WEIRD_TRICK: lambda problem: simple.one_weird_trick(problem.graph, problem.levels),
    HYPAR: lambda problem: hypar(problem.words, problem.levels),
    EXHAUSTIVE: lambda problem: exhaustive(problem.graph, problem.levels, problem.words.total_bytes),
    JOINT: _joint,
    MPT: lambda problem: mpt(problem.time),
}


def _whole(splitter: Callable[[PlanningProblem], Splits]) -> Callable[[PlanningProblem], tuple[Splits, Partition]]:
    return lambda problem: (splitter(problem), ())


def _partitioned(problem: PlanningProblem, how: str | None = None) -> tuple[Splits, Partition]:
    """Rows of sparse layers by a hypergraph partition."""
    # What partitions takes a while to load.
    from plinth.plan.planners.hypergraph import hypergraph

    return hypergraph(problem.graph, problem.levels, prod(problem.factors), how, notes=problem.notes)


#: Planners by the name that --planner takes: splits, and, of sparse layers, which die has which rows.
PLANNERS: dict[str, Callable[[PlanningProblem], tuple[Splits, Partition]]] = {
    **{name: _whole(splitter) for name, splitter in SPLITTERS.items()},
    HYPERGRAPH: _partitioned,
    RANDOM_ROWS: partial(_partitioned, how="random"),
    PARALLAX: _whole(SPLITTERS[DATA_PARALLEL]),
    PIPELINE: _whole(lambda problem: _staged(problem).splits),
}

#: Planners that choose; the others do what their names say, whatever the memory.
SEARCHES = (HYPAR, EXHAUSTIVE, JOINT)


def memory_bytes(problem: PlanningProblem, splits: Splits, lists: Partition = ()) -> int:
    """Bytes that the places of a step take on every die."""
    return _bytes(problem.time, splits, lists)


def _bytes(time: StepTime, splits: Splits, lists: Partition = ()) -> int:
    return time.machine.parameters.word_bytes * time.schedule.memory_words(splits, lists)


class ChosenSplits(NamedTuple):
    """What a planner has found: splits, lists, and in how many micro-batches the batch goes."""

    splits: Splits
    lists: Partition = ()
    micro_batches: int = 1


def _staged(problem: PlanningProblem) -> ChosenSplits:
    """Pipeline stages; with as many micro-batches as the problem says, or as make the step shortest.

    Raises
    ------
    UserError
        If the network has sparse layers, or fewer layers than there are groups of dies at the first level.
    """
    if not can_be_staged(problem.graph):
        raise UserError(f"network {problem.graph.name!r} has sparse layers, whose rows by list are of no pipeline "
                        f"stage; choose planner {HYPERGRAPH}")
    found = pipeline(problem.time, problem.micro_batches)
    if found is None:
        groups = problem.factors[0] if problem.factors else 1
        raise UserError(f"network {problem.graph.name!r} has {len(problem.graph.nodes) - 1} layers for {groups} groups "
                        "of dies at the first level: no pipeline of two stages and more; choose another planner, or an "
                        "array whose first level has fewer groups, but two")
    time, splits = found
    return ChosenSplits(splits, (), time.schedule.micro_batches)


def chosen(problem: PlanningProblem, array: Array, planner: str) -> ChosenSplits:
    """What a planner finds; if that does not fit the dies' memory, and the planner is one that chooses, what does.
    `joint` takes the rows of `hypergraph`, or pipeline stages, where a step is shorter with them."""
    if planner == PIPELINE:
        return _staged(problem)
    if problem.micro_batches is not None:
        raise UserError(f"planner {planner} plans for a whole batch, without micro_batches=; choose planner={PIPELINE}")
    splits, lists = PLANNERS[planner](problem)
    if planner not in SEARCHES:
        return ChosenSplits(splits, lists)
    if planner == JOINT and problem.words.name == EXACT and problem.graph.sparse:
        # A layer may have fewer rows than there are dies.
        with suppress(UserError):
            found = PLANNERS[HYPERGRAPH](problem)
            if problem.time.seconds(*found) < problem.time.seconds(splits):
                return ChosenSplits(*found)
            problem.notes.clear()
    seeds = [SPLITTERS[name](problem) for name in (DATA_PARALLEL, MODEL_PARALLEL, ONE_WEIRD_TRICK)]
    splits = fitting(problem.time, splits, problem.words.splits if planner == JOINT else (DP, MP), seeds,
                     need=lambda some: memory_bytes(problem, some), most=array.memory_bytes,
                     cost=problem.time.cycles if planner == JOINT else problem.words.total_bytes)
    if planner != JOINT or problem.words.name != EXACT or array.die_parameters().number_format != "fp32":
        return ChosenSplits(splits)
    fits = memory_bytes(problem, splits) <= array.memory_bytes
    staged = pipeline(problem.time, most=problem.time.cycles(splits) if fits else float("inf"),
                      allowed=lambda time, some: _bytes(time, some) <= array.memory_bytes)
    return ChosenSplits(splits) if staged is None else ChosenSplits(staged[1], (), staged[0].schedule.micro_batches)


@dataclass(frozen=True)
class Outcome:
    """The cost of a set of splits: words that are sent, and the step's time."""

    #: Words that all dies send in a step, and its time.
    injected_words: float
    predicted_seconds: float
    step: StepCycles


@dataclass(frozen=True)
class Planned:
    """A Plan, its costs, and those of the planners that everything is compared with."""

    plan: Plan
    outcome: Outcome
    baselines: dict[str, Outcome]
    #: Where the cycles of tasks come from.
    cycles_from: str
    #: Bytes of memory that the fullest die needs, and that a die has.
    needed_memory_bytes: int
    memory_bytes: int

    #: Bytes of a word of its dies' memory.
    word_bytes: int
    #: Bytes of each place of a die's memory, by name, if the plan does not fit.
    place_bytes: Mapping[str, int]
    #: What the planner has to say of what it found.
    notes: tuple[str, ...]

    @property
    def fits_memory(self) -> bool:
        """Whether every die has the memory that the plan needs."""
        return self.needed_memory_bytes <= self.memory_bytes


def outcome(problem: PlanningProblem, splits: Splits, lists: Partition = ()) -> Outcome:
    """Words and time of splits, and of lists if there are any."""
    # In closed form nothing is known of tiles, nor of lists, nor of stages.
    counted = lists or stage_levels(splits[0]) or (
        problem.words.name == EXACT and any(EP in vector for vector in splits))
    words = (total_words(problem.graph, splits, problem.words.batch, problem.factors, lists, problem.time.array)
             if counted else problem.words.total_bytes(splits) / 4)
    return Outcome(words, problem.time.seconds(splits, lists), problem.time.step(splits, lists))


def usual_copies(planner: str) -> str:
    """How a planner has copies of tables kept equal, unless that is said: a name of :data:`plinth.names.COPY_NAMES`."""
    return AUTO_COPIES if planner == PARALLAX else RINGS


def plan_network(network: Network, array: Array, *, planner: str = JOINT, model: str = EXACT,
                 batch: int = 256, lists: Mapping[str, Lists] | None = None, rule: UpdateRule = PLAIN,
                 copies: CopyChoice | None = None,
                 touched: float | Mapping[str, float] | NDArray[Any] | None = None,
                 micro_batches: int | None = None, progress: Callable[[int], object] | None = None) -> Planned:
    """Plan a network over an array.

    Parameters
    ----------
    lists : mapping of layer to Lists
        How axes are cut that a planner has split.
    copies : CopyChoice or None
        How copies of tables are kept equal; None: round rings, or, by planner ``parallax``, as is best.
    touched : float, mapping of layer to float, array ``[samples, numbers]`` or None
        The share of rows that a die's samples touch in a step, of all tables or of each; or row numbers of which it is
        measured; None: as many as they may.
    micro_batches : int or None
        In how many micro-batches planner ``pipeline`` lets the batch go; None: as many as make the step shortest.
    progress : callable
        Is called with the number of steps that were predicted.

    Raises
    ------
    UserError
        If the planner or the model refuses the array, a list does not fit its layer's splits, or a batch does not
        divide into so many micro-batches.
    """
    if micro_batches is not None and not are_micro_batches(micro_batches, batch):
        raise UserError(f"a batch of {batch} does not divide into {described(micro_batches)} micro-batches; give a "
                        "number that divides it")
    if lists and planner == PIPELINE:
        raise UserError(f"no plan with pipeline stages has parts by list; give no lists, or another planner than "
                        f"{PIPELINE}")
    problem = replace(task(from_network(network), array, model, batch, rule, progress), micro_batches=micro_batches)
    choice = copies or CopyChoice(usual_copies(planner))
    splits, parts, count = chosen(problem, array, planner)
    problem = replace(problem, time=problem.time.with_micro_batches(count))
    if lists and parts:
        raise UserError(f"planner {planner} says itself which die has which rows; give no lists, or another planner")
    parts = tuple((lists or {}).get(node.name) for node in problem.graph.nodes) if lists else parts
    if parts:
        check_lists(problem.graph, splits, parts, batch, array.factors)
        if model != EXACT:
            raise UserError(f"lists of parts are counted as the dies move words, not by the {model} model; choose "
                            "model=exact")
    sharding = Sharding(graph=problem.graph, splits=splits, batch=batch, factors=array.factors, lists=parts,
                        array=array, rule=rule, micro_batches=count)
    if touched is not None:
        sharding = replace(sharding, touched=touched_shares(sharding, touched) if isinstance(touched, np.ndarray)
                           else named_shares(problem.graph, touched))
        sharding.check()
        problem = replace(problem, time=StepTime(problem.graph, batch, array, rule=rule, progress=progress,
                                                 touched=sharding.touched, micro_batches=count))
    if choice.ways != RINGS:
        def seconds(copies: Copies) -> float:
            return StepTime(problem.graph, batch, array, rule=rule, copies=copies, touched=sharding.touched,
                            micro_batches=count).seconds(splits, parts)

        sharding = replace(sharding, copies=chosen_copies(sharding, array.die_parameters(), seconds, choice,
                                                          problem.notes))
    plan = Plan(sharding=sharding, planner=planner, model=model, array=array.name,
                definition=None if NETWORKS.get(network.name) == network else network)
    return _costed(problem, plan, array)


def costed(plan: Plan) -> Planned:
    """A plan that stands with what it costs.

    Raises
    ------
    UserError
        If the plan does not say what its array is.
    """
    if plan.hardware is None:
        raise UserError(f"the plan does not say what array {plan.array!r} is, and so not what it costs; make it again "
                        "with `plinth plan`")
    return _costed(task(plan.graph, plan.hardware, plan.model, plan.batch, plan.rule, touched=plan.sharding.touched,
                        micro_batches=plan.sharding.micro_batches), plan, plan.hardware)


def _costed(problem: PlanningProblem, plan: Plan, array: Array) -> Planned:
    splits, parts, copies = plan.splits, plan.lists, plan.sharding.copies
    usual = copies_of(replace(plan.sharding, copies=()), array.die_parameters())
    # Of a plan that says another order of its sums, the step is another one.
    mine = problem if copies == usual else task(
        plan.graph, array, plan.model, plan.batch, plan.rule, copies=copies, touched=plan.sharding.touched,
        micro_batches=plan.sharding.micro_batches)
    moves_rows = any(isinstance(sync, Server | Gathered) for _, sync in copies)
    # Of the step that the planner has left, before baselines take its place; rows that move have places of their own.
    asked = mine if moves_rows else problem
    need, word = memory_bytes(asked, splits, parts), problem.time.machine.parameters.word_bytes
    places = {} if need <= array.memory_bytes else asked.time.schedule.built(splits, parts).place_bytes()
    planned_outcome = outcome(mine, splits, parts)
    if moves_rows or plan.sharding.micro_batches > 1:
        # Rows that move one by one are no words of splits, and a micro-batch is cut otherwise than a batch.
        planned_outcome = replace(planned_outcome, injected_words=plan.words)
    plan = replace(plan, predicted_seconds=planned_outcome.predicted_seconds)
    # What it is compared with has no micro-batches.
    problem = replace(problem, time=problem.time.with_micro_batches(1))
    baselines = {name: outcome(problem, SPLITTERS[name](problem)) for name in (DATA_PARALLEL, MODEL_PARALLEL)}
    return Planned(plan, planned_outcome, baselines, problem.time.machine.source + codes_source(array), need,
                   array.memory_bytes, word, places, tuple(problem.notes))


def given_plan(graph: PlanGraph, array: Array, splits: Splits, batch: int, rule: UpdateRule = PLAIN,
               lists: Partition = (), micro_batches: int = 1) -> Plan:
    """A plan of given splits, and of lists if sparse layers have them, without predictions."""
    sharding = Sharding(graph=graph, splits=splits, batch=batch, factors=array.factors, lists=lists, array=array,
                        rule=rule, micro_batches=micro_batches)
    return Plan(sharding=sharding, planner="given", model=EXACT, array=array.name)


def arranged(network: Network, array: Array, planner: str, batch: int) -> Network:
    """The network with what a planner chooses of its layers, beside their splits: `mpt` transforms. Where operands have
    16 bits layers that may choose have those that are fit."""
    if array.die_parameters().packing > 1:
        network = with_fit(network)
    if planner != MPT:
        return network
    return with_transforms(network, StepTime(from_network(network), batch, array))


def predicted_seconds(plan: Plan, array: Array, built: BuiltStep | None = None) -> float:
    """Seconds of a plan's step on its array; ``built`` is that step, if it has been built."""
    time = StepTime(plan.graph, plan.batch, array, rule=plan.rule, copies=plan.sharding.copies,
                    touched=plan.sharding.touched, micro_batches=plan.sharding.micro_batches)
    if built is not None:
        time.schedule.keep(plan.splits, plan.lists, built)
    return time.seconds(plan.splits, plan.lists)


def check_prediction(plan: Plan, where: str, seconds: float | None = None, built: BuiltStep | None = None) -> None:
    """Compare the step that a plan's file predicts with what the prediction gives: ``seconds``, if they are known, or
    those of its step ``built``, if it has been built.

    Raises
    ------
    UserError
        If they differ; with both values.
    """
    if plan.predicted_seconds is None or plan.hardware is None:
        return
    if seconds is None:
        seconds = predicted_seconds(plan, plan.hardware, built)
    if not isclose(seconds, plan.predicted_seconds, rel_tol=ROUNDING):
        raise UserError(f"{where}: predicted_seconds is {plan.predicted_seconds:.9g}, but a step of this plan is "
                        f"predicted to take {seconds:.9g}; make the plan again with `plinth plan`")


def data_parallel(network: Network, *, dies: int, batch: int) -> Plan:
    """Every layer data-parallel on a ring of dies.

    Raises
    ------
    UserError
        If there are too many dies, or a size is out of range.
    """
    if not is_integer(dies, 1, MAXIMUM_DIES):
        raise UserError(f"a plan is for 1 to {MAXIMUM_DIES} dies, not {described(dies)}")
    graph, factors = from_network(network), prime_factors(dies)
    return Plan(sharding=Sharding(graph=graph, splits=simple.data(graph, len(factors)), batch=batch, factors=factors),
                planner=DATA_PARALLEL, model=EXACT, array=f"ring-{dies}")
