"""The dynamic programme against every combination, on graphs of any shape, and where the table is cut."""

import random
from itertools import product

import pytest

from plinth.partition.graph import LOSS, Edge, Node, PlanGraph
from plinth.predict import dynamic
from plinth.predict.dynamic import INFEASIBLE, Problem, minimise


def _graph(nodes: int, edges: list[tuple[int, int]]) -> PlanGraph:
    """Nodes with edges from lower to higher numbers."""
    graph_nodes = tuple(Node(name=f"n{number}", kind=LOSS if number == nodes - 1 else "dense", input_channels=1,
                             output_channels=1, input_elements=1, raw_elements=1, map_elements=1)
                        for number in range(nodes))
    return PlanGraph(name="net", nodes=graph_nodes,
                     edges=tuple(Edge(*ends, 1, 1) for ends in sorted(edges, key=lambda edge: edge[1])))


def _problem(graph: PlanGraph, rng: random.Random, *, most: int = 3, forbidden: float = 0.0) -> Problem:
    """Integer costs; of pairs without a first label some are not allowed."""
    sizes = [rng.randint(1, most) for _ in graph.nodes]
    pairs = [[[INFEASIBLE if source and target and rng.random() < forbidden else rng.randint(0, 9)
               for target in range(sizes[edge.consumer])] for source in range(sizes[edge.producer])]
             for edge in graph.edges]
    return Problem([[f"{number}.{label}" for label in range(size)] for number, size in enumerate(sizes)],
                   [[rng.randint(0, 9) for _ in range(size)] for size in sizes], pairs)


def _cost(graph: PlanGraph, problem: Problem, labels: tuple[int, ...]) -> float:
    return (sum(costs[label] for costs, label in zip(problem.nodes, labels, strict=True))
            + sum(pairs[labels[edge.producer]][labels[edge.consumer]]
                  for edge, pairs in zip(graph.edges, problem.pairs, strict=True)))


def _labels(meanings: list[str]) -> tuple[int, ...]:
    return tuple(int(meaning.partition(".")[2]) for meaning in meanings)


@pytest.mark.parametrize("states", [4096, 12, 1])
@pytest.mark.parametrize("seed", range(12))
def test_against_every_combination(seed: int, states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer states nodes are taken in another order, or the table is cut: then it need not be the best."""
    rng = random.Random(seed)
    monkeypatch.setattr(dynamic, "MAXIMUM_STATES", states)
    graph = _graph(8, [(lower, higher) for lower in range(8) for higher in range(lower + 1, 8)
                       if rng.random() < (0.3 if seed % 2 else 0.5) or lower == higher - 1])
    problem = _problem(graph, rng, forbidden=0.3)
    cost, meanings = minimise(graph, problem)
    assert cost == _cost(graph, problem, _labels(meanings)) < INFEASIBLE
    best = min(_cost(graph, problem, labels) for labels in product(*(range(len(costs)) for costs in problem.nodes)))
    assert cost == best if states == 4096 else cost >= best


def test_of_equal_costs_the_earlier_label_wins() -> None:
    graph = _graph(5, [(0, 1), (1, 2), (0, 3), (2, 3), (3, 4)])
    problem = Problem([["dp", "mp"]] * 5, [[1, 1]] * 5, [[[2, 2], [2, 2]]] * 5)
    assert minimise(graph, problem) == (15, ["dp"] * 5)


@pytest.mark.parametrize("shuffled", [False, True])
def test_many_branches_are_planned_as_well_as_one(shuffled: bool) -> None:
    """Between two nodes each branch decides for itself: far more combinations than are kept, and still the best."""
    rng, branches = random.Random(3), 200
    middles = list(range(1, branches + 1))
    edges = [(0, number) for number in middles] + [(number, branches + 1) for number in middles]
    graph = _graph(branches + 2, edges)
    problem = _problem(graph, rng)
    if shuffled:
        # Longer branches, whose second parts all come behind the first ones.
        graph = _graph(2 * branches + 2, [(0, number) for number in middles]
                       + [(number, number + branches) for number in middles]
                       + [(number + branches, 2 * branches + 1) for number in middles])
        problem = _problem(graph, rng)
    into = {(edge.producer, edge.consumer): pairs for edge, pairs in zip(graph.edges, problem.pairs, strict=True)}
    last = len(graph.nodes) - 1

    def branch(number: int, first: int, end: int) -> float:
        own = problem.nodes
        if not shuffled:
            return min(own[number][label] + into[0, number][first][label] + into[number, last][label][end]
                       for label in range(len(own[number])))
        other = number + branches
        return min(own[number][label] + own[other][other_label] + into[0, number][first][label]
                   + into[number, other][label][other_label] + into[other, last][other_label][end]
                   for label in range(len(own[number])) for other_label in range(len(own[other])))

    best = min(first_cost + end_cost + sum(branch(number, first, end) for number in middles)
               for first, first_cost in enumerate(problem.nodes[0]) for end, end_cost in enumerate(problem.nodes[last]))
    cost, meanings = minimise(graph, problem)
    assert cost == best == _cost(graph, problem, _labels(meanings))


def test_a_cut_table_keeps_a_way_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second labels are cheap, but the last node allows them of no two nodes that disagree."""
    monkeypatch.setattr(dynamic, "MAXIMUM_STATES", 4)
    graph = _graph(7, [(lower, higher) for higher in range(1, 7) for lower in range(higher)])
    pairs = [[[0, INFEASIBLE if edge.consumer == 6 else 0], [0 if edge.consumer < 6 else INFEASIBLE] * 2]
             for edge in graph.edges]
    problem = Problem([["0.0", "0.1"]] * 7, [[5, 0]] * 6 + [[0, 0]], pairs)
    assert minimise(graph, problem) == (30, ["0.0"] * 7)
