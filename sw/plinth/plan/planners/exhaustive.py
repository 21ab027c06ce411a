"""Every combination of splits, one after the other: for small spaces, and to judge the other planners."""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from plinth.errors import UserError
from plinth.partition.graph import DP, MP, PlanGraph
from plinth.partition.regions import Splits

#: Most combinations that are tried: HyPar's own largest search (four layers, four levels).
MAXIMUM_COMBINATIONS = 1 << 16


def combinations(graph: PlanGraph, levels: int, splits: Sequence[str] = (DP, MP)) -> int:
    """How many combinations of splits a graph has."""
    return prod(len(graph.choices(number, splits)) ** levels for number in range(len(graph.nodes)))


def exhaustive(graph: PlanGraph, levels: int, cost: Callable[[Splits], float],
               splits: Sequence[str] = (DP, MP)) -> Splits:
    """The cheapest of all combinations; of equal ones the first, dp before mp, from the first layer on.

    Raises
    ------
    UserError
        If there are more than :data:`MAXIMUM_COMBINATIONS`.
    """
    count = combinations(graph, levels, splits)
    if count > MAXIMUM_COMBINATIONS:
        raise UserError(f"network {graph.name!r} on {levels} levels has {count:,} combinations of splits, more than "
                        f"the {MAXIMUM_COMBINATIONS:,} that `exhaustive` tries; choose hypar or joint")
    vectors = [list(product(graph.choices(number, splits), repeat=levels)) for number in range(len(graph.nodes))]
    return min(product(*vectors), key=cost)
