"""Pipeline stages: neighbouring layers on groups of dies of their own, with micro-batches that follow each other.

The first levels of an array are of stages; inside a stage the other levels split the batch. Layers are cut in as many
runs as there are stages, so that the longest run takes as little as it can, by what layers compute on a stage's dies.
Of all numbers of stages and of micro-batches that are tried the shortest predicted step is taken. A step of m
micro-batches on s stages takes at least (m + s - 1) / m of what the longest stage computes (Narayanan et al., SC 2021,
section 2.2.1), so that where that is more than is known no step is walked.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from plinth.partition.graph import DP, PlanGraph
from plinth.partition.regions import Splits
from plinth.partition.stages import stage_split
from plinth.predict.time import StepTime, Vector
from plinth.step.layers.kinds import accumulates

#: Micro-batches a stage, at most; and nodes of all micro-batches together, but for one micro-batch: steps take as long
#: to build.
MOST_EACH, MOST_NODES = 8, 640
#: How often the bound of the longest run of layers is halved.
HALVINGS = 64


def _stage_vector(stage: int, depth: int, time: StepTime) -> Vector:
    """Splits of a layer of a stage, where the first ``depth`` levels are of stages."""
    digits = np.unravel_index(stage, time.factors[:depth])
    return (*(stage_split(int(digit)) for digit in digits), *(DP,) * (time.levels - depth))


def _computed(time: StepTime, depth: int) -> list[float]:
    """Cycles that each node computes on the dies of a stage."""
    vector = _stage_vector(0, depth, time)
    totals = []
    for number in range(len(time.graph.nodes)):
        cost = time.compute(number, vector)
        totals.append(cost.forward + cost.backward + cost.input_error + cost.update)
    return totals


def _runs(costs: Sequence[float], stages: int, most: float) -> list[int] | None:
    """The stage of each of some costs in a row, if runs of at most so much are enough; each stage has some."""
    numbers, total, stage = list[int](), 0.0, 0
    for place, cost in enumerate(costs):
        # A new run where this one is full, or as few costs are left as stages.
        if numbers and (total + cost > most or len(costs) - place < stages - stage):
            stage, total = stage + 1, 0.0
        total += cost
        numbers.append(stage)
        if total > most or stage == stages:
            return None
    return numbers


def _cut(costs: Sequence[float], stages: int) -> list[int]:
    """The stage of each of some costs in a row, with as small a largest sum as there is; each stage has some."""
    low, high = max(costs), sum(costs)
    best = _runs(costs, stages, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = _runs(costs, stages, middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    # The bound itself may be as low as it gets.
    best = _runs(costs, stages, low) or best
    assert best is not None
    return best


def stagings(time: StepTime) -> Iterator[tuple[int, float, Splits]]:
    """For each number of stages that the first levels have: how many, cycles of the longest one's computations, and the
    splits; the loss is of the last stage, with the layer before it."""
    nodes = len(time.graph.nodes) if can_be_staged(time.graph) else 0
    for depth in range(1, time.levels + 1):
        stages = prod(time.factors[:depth])
        if stages > nodes - 1:
            return
        costs = _computed(time, depth)
        costs[-2:] = [sum(costs[-2:])]
        numbers = _cut(costs, stages)
        numbers.append(numbers[-1])
        sums = [sum(cost for cost, number in zip(costs, numbers, strict=False) if number == stage)
                for stage in range(stages)]
        yield stages, max(sums), tuple(_stage_vector(number, depth, time) for number in numbers)


def micro_batches(batch: int, stages: int, nodes: int) -> Iterator[int]:
    """Numbers of micro-batches that are tried, ascending: powers of two that divide the batch."""
    count = 1
    while count <= MOST_EACH * stages and batch % count == 0 and (count == 1 or count * nodes <= MOST_NODES):
        yield count
        count *= 2


def can_be_staged(graph: PlanGraph) -> bool:
    """Whether there is a pipeline of a network: rows of sparse layers by list are of no stage."""
    return not graph.sparse


def pipeline(time: StepTime, count: int | None = None, *, most: float = float("inf"),
             allowed: Callable[[StepTime, Splits], bool] = lambda time, splits: True) -> tuple[StepTime, Splits] | None:
    """The stages and micro-batches of the shortest predicted step, with the predictions of so many micro-batches.

    Parameters
    ----------
    count : int or None
        Of micro-batches; None: as many as make the step shortest.
    most : float
        Cycles that the step takes less than.
    allowed : callable
        Whether a plan may be taken.

    Returns
    -------
    tuple or None
        None if there is no such plan.
    """
    found, shortest = None, most
    nodes = time.graph.nodes
    whole = not all(map(accumulates, nodes))
    for stages, longest, splits in stagings(time):
        counts = (count,) if count is not None else (1,) if whole else micro_batches(time.batch, stages, len(nodes))
        before = float("inf")
        for number in counts:
            if longest * (number + stages - 1) / number >= shortest:
                continue
            staged = time.with_micro_batches(number)
            if not allowed(staged, splits):
                continue
            cycles = staged.cycles(splits)
            if cycles < shortest:
                found, shortest = (staged, splits), cycles
            if cycles > before:
                break
            before = cycles
    return found
