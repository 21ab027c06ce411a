"""The cheapest choice of one label for every node where costs lie on nodes and edges: a dynamic programme.

Nodes are taken in order; the table holds, for each combination of labels of the *frontier* (nodes that later ones
read), the cheapest way there. On a chain the frontier is one node and the work linear in the nodes. Of equal costs
the earlier label wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plinth.plan.graph import PlanGraph

#: Cost of what is not allowed.
INFEASIBLE = float("inf")
#: Frontier combinations that are kept; beyond that the cheapest are (graphs of the zoo stay below).
MAXIMUM_STATES = 4096


@dataclass(frozen=True)
class Problem:
    """Labels of each node with their meaning, costs of each, and of each pair of labels of an edge."""

    meanings: Sequence[Sequence[Any]]
    nodes: Sequence[Sequence[float]]
    #: For each edge, [producer's label][consumer's label].
    pairs: Sequence[Sequence[Sequence[float]]]


def minimise(graph: PlanGraph, problem: Problem) -> tuple[float, list[Any]]:
    """Lowest cost, and the meaning of each node's label."""
    frontier: list[int] = []
    table: dict[tuple[int, ...], float] = {(): 0}
    back: list[dict[tuple[int, ...], tuple[tuple[int, ...], int]]] = []
    for number in range(len(graph.nodes)):
        entering = [(frontier.index(graph.edges[edge].producer), problem.pairs[edge]) for edge in graph.inputs[number]]
        last = [max(graph.edges[edge].consumer for edge in graph.outputs[node]) for node in frontier]
        kept = [place for place, consumer in enumerate(last) if consumer > number]
        stays = bool(graph.outputs[number])
        costs = problem.nodes[number]
        found: dict[tuple[int, ...], float] = {}
        ways: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
        for state, cost in table.items():
            rest = tuple([state[place] for place in kept])
            rows = [pairs[state[place]] for place, pairs in entering]
            for label, own in enumerate(costs):
                value = cost + own
                for row in rows:
                    value += row[label]
                after = (*rest, label) if stays else rest
                if value < found.get(after, INFEASIBLE):
                    found[after] = value
                    ways[after] = (state, label)
        if len(found) > MAXIMUM_STATES:
            best = sorted(found, key=found.__getitem__)[:MAXIMUM_STATES]
            found = {state: found[state] for state in best}
        table = found
        back.append(ways)
        frontier = [frontier[place] for place in kept] + ([number] if stays else [])
    state, cost = min(table.items(), key=lambda item: item[1])
    labels = []
    for ways in reversed(back):
        state, label = ways[state]
        labels.append(label)
    return cost, [meanings[label] for meanings, label in zip(problem.meanings, reversed(labels), strict=True)]
