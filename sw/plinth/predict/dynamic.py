"""The cheapest choice of one label for every node where costs lie on nodes and edges: a dynamic programme.

Nodes are taken one after the other; the table holds, for each combination of labels of the *frontier* (nodes taken that
have a neighbour which is not), the cheapest way there. On a chain the frontier is one node and the work linear in the
nodes. Of equal costs the earlier label wins.

Nodes are taken in the network's order, unless the table grows too large in it: then in one that keeps the frontier
narrow, in which two hundred branches between two nodes are as easy as one. Where the table is too large in any order
that was found, the cheapest combinations are kept, and what is found need not be the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log
from typing import Any

from plinth.partition.graph import PlanGraph

#: Cost of what is not allowed.
INFEASIBLE = float("inf")
#: Frontier combinations that are kept; beyond that the cheapest are (graphs of the zoo stay below).
MAXIMUM_STATES = 4096


@dataclass(frozen=True)
class Problem:
    """Labels of each node with their meaning, costs of each, and of each pair of labels of an edge.

    First labels can be afforded together, whatever the others are.
    """

    meanings: Sequence[Sequence[Any]]
    nodes: Sequence[Sequence[float]]
    #: For each edge, [producer's label][consumer's label].
    pairs: Sequence[Sequence[Sequence[float]]]


#: The cheapest way to a state: the way before, and its last label.
_Way = tuple[Any, int] | None


def minimise(graph: PlanGraph, problem: Problem) -> tuple[float, list[Any]]:
    """Lowest cost, and the meaning of each node's label."""
    neighbours = _neighbours(graph)
    order = _order(neighbours, [len(costs) for costs in problem.nodes])
    turns = {number: turn for turn, number in enumerate(order)}
    last = [max((turns[other] for other in others), default=-1) for others in neighbours]
    frontier: list[int] = []
    table: dict[tuple[int, ...], float] = {(): 0}
    ways: dict[tuple[int, ...], _Way] = {(): None}
    for turn, number in enumerate(order):
        entering = [(frontier.index(other), pairs) for other, pairs in _pairs(graph, problem, number)
                    if turns[other] < turn]
        kept = [place for place, node in enumerate(frontier) if last[node] > turn]
        stays = last[number] > turn
        costs = problem.nodes[number]
        next_table: dict[tuple[int, ...], float] = {}
        after: dict[tuple[int, ...], _Way] = {}
        for state, cost in table.items():
            rest = tuple([state[place] for place in kept])
            rows = [pairs[state[place]] for place, pairs in entering]
            way = ways[state]
            for label, own in enumerate(costs):
                value = cost + own
                for row in rows:
                    value += row[label]
                reached = (*rest, label) if stays else rest
                if value < next_table.get(reached, INFEASIBLE):
                    next_table[reached] = value
                    after[reached] = way, label
        if len(next_table) > MAXIMUM_STATES:
            best = sorted(next_table, key=next_table.__getitem__)[:MAXIMUM_STATES]
            # The cheapest may all demand what cannot be; from the first labels on there is a way.
            first = (0,) * (len(kept) + stays)
            table = {state: next_table[state] for state in (*best, first)}
        else:
            table = next_table
        ways = after if table is next_table else {state: after[state] for state in table}
        frontier = [frontier[place] for place in kept] + ([number] if stays else [])
    state, cost = min(table.items(), key=lambda item: item[1])
    way, labels = ways[state], [0] * len(order)
    for number in reversed(order):
        assert way is not None
        way, labels[number] = way
    return cost, [meanings[label] for meanings, label in zip(problem.meanings, labels, strict=True)]


def _pairs(graph: PlanGraph, problem: Problem, number: int) -> list[tuple[int, Sequence[Sequence[float]]]]:
    """Nodes at the other ends of a node's edges, and the edges' costs: [other's label][node's label]."""
    pairs = [(graph.edges[edge].producer, problem.pairs[edge]) for edge in graph.inputs[number]]
    return pairs + [(graph.edges[edge].consumer, list(zip(*problem.pairs[edge], strict=True)))
                    for edge in graph.outputs[number]]


def _neighbours(graph: PlanGraph) -> list[list[int]]:
    """Nodes that share an edge with each node, ascending."""
    neighbours: list[set[int]] = [set() for _ in graph.nodes]
    for edge in graph.edges:
        neighbours[edge.producer].add(edge.consumer)
        neighbours[edge.consumer].add(edge.producer)
    return [sorted(others) for others in neighbours]


class _Frontier:
    """How many combinations the frontier has, as logarithms, while nodes are taken."""

    def __init__(self, neighbours: Sequence[Sequence[int]], sizes: Sequence[int]) -> None:
        self.neighbours, self.sizes = neighbours, [log(size) for size in sizes]
        #: For each node, its neighbours that have not been taken.
        self.left = [len(others) for others in neighbours]
        self.order: list[int] = []
        self.taken = [False] * len(sizes)
        self.width = self.widest = 0.0

    def growth(self, number: int) -> float:
        """What taking a node adds."""
        closed = [other for other in self.neighbours[number] if self.taken[other] and self.left[other] == 1]
        return (self.sizes[number] if self.left[number] else 0.0) - sum(self.sizes[other] for other in closed)

    def take(self, number: int) -> list[int]:
        """Take a node; nodes whose growth has changed."""
        self.width += self.growth(number)
        self.widest = max(self.widest, self.width)
        self.order.append(number)
        self.taken[number] = True
        changed = [other for other in self.neighbours[number] if not self.taken[other]]
        for other in self.neighbours[number]:
            self.left[other] -= 1
            if self.taken[other] and self.left[other] == 1:
                changed += [last for last in self.neighbours[other] if not self.taken[last]]
        return changed


def _order(neighbours: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    """The order in which nodes are taken: their own, or where that is too wide one that always takes, of those beside
    the frontier, the node that widens it least."""
    own = _Frontier(neighbours, sizes)
    for number in range(len(sizes)):
        own.take(number)
    if own.widest <= log(MAXIMUM_STATES) + 1e-9:
        return own.order
    narrow = _Frontier(neighbours, sizes)
    for first in range(len(sizes)):
        beside = [] if narrow.taken[first] else [(narrow.growth(first), first)]
        while beside:
            growth, number = heappop(beside)
            if narrow.taken[number] or growth != narrow.growth(number):
                continue
            for other in narrow.take(number):
                heappush(beside, (narrow.growth(other), other))
    return min(narrow, own, key=lambda frontier: frontier.widest).order
