"""All levels together, dp, mp, op and ep, for the shortest predicted step.

1. *Seeds*: the plans of every other planner.
2. *Beam search* along the nodes: a state is the splits of the nodes so far, for all levels at once; states that agree
   on the frontier (nodes that later ones read, and the first readers that their owners go by) are merged, the cheapest
   :data:`WIDTH` are kept. Its cost is a sum: compute, transfers, and a share of the weight reductions; the search is
   made once with all of them exposed and once with all hidden.
3. *Local improvement* of the best of these: all levels of one node, or of two neighbours at one level, change at a
   time; first under the estimate of the step, which is quick to compute, then, up to 3 levels, under the
   predicted step itself.

Everything that is found is scored by the same predicted step and the best is taken, so no other planner's plan is ever
better.
Up to 4 levels a node may take any combination; above that those of the seeds, those in which each kind of split stands
on neighbouring levels, and of a Winograd layer its tile elements in any number of groups, samples in clusters.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

from plinth.partition.axes import KEPT_DIES
from plinth.partition.graph import EP, SPLITS, PlanGraph
from plinth.partition.regions import Splits
from plinth.plan.planners.mpt import factorings
from plinth.predict.time import StepTime, Vector

#: States that the beam keeps.
WIDTH = 32
#: Extensions of states over a whole search, up to ALL_LEVELS levels and above; larger graphs get a narrower beam.
MAXIMUM_EXTENSIONS = 200_000, 60_000
#: Steps that local improvement predicts, and nodes of them.
MAXIMUM_TRIALS, MAXIMUM_NODE_TRIALS = 10_000, 300_000
#: Steps that are walked through task by task at the end, and nodes of them; levels up to which that is done.
MAXIMUM_WALKS, MAXIMUM_NODE_WALKS = 60, 200
WALKED_LEVELS = 3
#: Estimates up to so many times that of the best are near enough for a walk.
NEAR = 1.03
#: Levels up to which a node may take any combination, and the combinations that it may take above that.
ALL_LEVELS, MAXIMUM_VECTORS = 4, 64
#: Pairs of combinations over all nodes that are looked at above that; the second number where each costs a walk over
#: the links of more than 64 dies.
MAXIMUM_PAIRS, MAXIMUM_WALKED_PAIRS = 250_000, 6_000


def vectors(time: StepTime, number: int, splits: Sequence[str], seeds: Iterable[Splits]) -> list[Vector]:
    """Combinations of splits that the search gives a node: those that dies can do."""
    most_pairs = MAXIMUM_WALKED_PAIRS if time.links.walked and time.array.dies > KEPT_DIES else MAXIMUM_PAIRS
    candidates = _vectors(time.graph, number, time.levels, splits, seeds, most_pairs)
    if EP in splits and time.graph.nodes[number].tiling is not None:
        candidates = list(dict.fromkeys((*candidates, *factorings(time.array))))
    return [vector for vector in candidates if time.able(number, vector)]


def _vectors(graph: PlanGraph, number: int, levels: int, splits: Sequence[str], seeds: Iterable[Splits], most_pairs: int
             ) -> list[Vector]:
    choices = graph.choices(number, splits)
    if levels <= ALL_LEVELS:
        return list(product(choices, repeat=levels))
    most = max(8, min(MAXIMUM_VECTORS, int((most_pairs / len(graph.nodes)) ** 0.5)))
    vectors = dict.fromkeys(seed[number] for seed in seeds)
    for order in permutations(choices):
        for counts in product(range(levels + 1), repeat=len(choices)):
            if sum(counts) == levels and len(vectors) < most:
                vectors[tuple(split for split, count in zip(order, counts, strict=True) for _ in range(count))] = None
    return list(vectors)


#: Splits so far, the last node's first.
_Way = tuple[Any, Vector] | None
#: Cost, splits so far, splits of the nodes that later ones need.
_State = tuple[float, _Way, tuple[Vector, ...]]


class _Rows:
    """Costs of every combination of a node beside combinations of others, each computed once."""

    def __init__(self, time: StepTime, candidates: Sequence[Sequence[Vector]]) -> None:
        self.time, self.candidates = time, candidates
        self._known: dict[tuple[int, Vector, Vector | None], list[list[float]]] = {}

    def of(self, edge: int, from_vector: Vector, owner: Vector | None) -> list[list[float]]:
        """Of an edge to the node, under an owner that another node decides, or None: under the node's own. Then also of
        the producer's partial sums, if the edge is its first."""
        key = (edge, from_vector, owner)
        rows = self._known.get(key)
        if rows is None:
            map_edge, time = self.time.graph.edges[edge], self.time
            vectors = self.candidates[map_edge.consumer]
            rows = [[time.between(edge, from_vector, vector if owner is None else owner, vector) for vector in vectors]]
            if owner is None and time.graph.outputs[map_edge.producer][0] == edge:
                rows.append([time.own(map_edge.producer, from_vector, vector) for vector in vectors])
            self._known[key] = rows
        return rows


def _beam(time: StepTime, candidates: Sequence[Sequence[Vector]], rows: _Rows, exposed: float) -> Splits:
    """Cheapest splits that the beam finds if ``exposed`` of every weight reduction counts."""
    graph = time.graph
    extensions = MAXIMUM_EXTENSIONS[time.levels > ALL_LEVELS]
    width = max(2, min(WIDTH, extensions // max(1, sum(map(len, candidates)))))
    last = [max((graph.edges[edge].consumer for edge in edges), default=-1) for edges in graph.outputs]
    #: Nodes whose splits states have.
    known: list[int] = []
    states: list[_State] = [(0.0, None, ())]
    for number, vectors in enumerate(candidates):
        own = []
        for vector in vectors:
            compute = time.compute(number, vector)
            own.append(compute.forward + compute.backward + compute.input_error + compute.update
                       + exposed * time.ring(number, vector))
        needed = {node for node in (*known, number) if last[node] > number}
        needed |= {time.first[node] for node in needed if time.first[node] <= number}
        # For each edge, where states have the producer and the node that its owner goes by.
        entering = []
        for edge in graph.inputs[number]:
            producer = graph.edges[edge].producer
            first = time.first[producer]
            entering.append((edge, known.index(producer), -1 if first == number else known.index(first)))
        kept = [place for place, node in enumerate(known) if node in needed]
        stays = number in needed
        # By what states still need of other nodes, numbered, and of this one: the cheapest.
        rests: dict[tuple[Vector, ...], int] = {}
        cheapest: dict[tuple[int, int], tuple[float, _Way, tuple[Vector, ...], int]] = {}
        for cost, way, held in states:
            costs = [row for edge, place, owner in entering
                     for row in rows.of(edge, held[place], None if owner < 0 else held[owner])]
            rest = tuple([held[place] for place in kept])
            same = rests.setdefault(rest, len(rests))
            for index, value in enumerate(own):
                total = cost + value
                for row in costs:
                    total += row[index]
                key = (same, index if stays else 0)
                if key not in cheapest or total < cheapest[key][0]:
                    cheapest[key] = (total, way, rest, index)
        best = sorted(cheapest.values(), key=lambda state: state[0])[:width]
        states = [(total, (way, vectors[index]), (*rest, vectors[index]) if stays else rest)
                  for total, way, rest, index in best]
        known = [known[place] for place in kept] + ([number] if stays else [])
    splits: list[Vector] = []
    way = states[0][1]
    while way is not None:
        way, vector = way
        splits.append(vector)
    return tuple(reversed(splits))


def _changes(time: StepTime, splits: Splits, candidates: Sequence[Sequence[Vector]], number: int
             ) -> Iterator[dict[int, Vector]]:
    """What a node, or it and a neighbour at a level, can change to."""
    yield from ({number: vector} for vector in candidates[number])
    for edge in time.graph.outputs[number]:
        reader = time.graph.edges[edge].consumer
        here, there = ([split for split in SPLITS if any(split in vector for vector in candidates[node])]
                       for node in (number, reader))
        for level in range(time.levels):
            for producer_split, reader_split in product(here, there):
                yield {node: (*splits[node][:level], split, *splits[node][level + 1:])
                       for node, split in ((number, producer_split), (reader, reader_split))}


def _changed(time: StepTime, splits: Splits, change: dict[int, Vector]) -> Splits | None:
    """Splits with a change; None if it is none, or dies cannot do it."""
    if all(splits[node] == vector for node, vector in change.items()) or not all(
            time.able(node, vector) for node, vector in change.items()):
        return None
    trial = list(splits)
    for node, vector in change.items():
        trial[node] = vector
    return tuple(trial)


def _improve(time: StepTime, splits: Splits, candidates: Sequence[Sequence[Vector]], budget: int) -> Splits:
    """Change a node, or two neighbours at a level, as long as the estimate of the step is shorter."""
    best, trials = time.estimate(splits), 0
    improved = True
    while improved and trials < budget:
        improved = False
        for number in time.graph.planned:
            for change in list(_changes(time, splits, candidates, number)):
                if (trial := _changed(time, splits, change)) is None:
                    continue
                trials += 1
                cycles = time.estimate(trial)
                if cycles < best * (1 - 1e-9):
                    splits, best, improved = trial, cycles, True
                if trials >= budget:
                    return splits
    return splits


def _walk(time: StepTime, splits: Splits, candidates: Sequence[Sequence[Vector]], budget: int) -> Splits:
    """Change a node, or two neighbours at a level, as long as the predicted step is shorter: of all changes those of
    the shortest estimates first, as far as these are near that of the best."""
    best, walked = time.cycles(splits), {splits}
    while True:
        near, trials = time.estimate(splits) * NEAR, dict.fromkeys(
            trial for number in time.graph.planned for change in _changes(time, splits, candidates, number)
            if (trial := _changed(time, splits, change)) is not None and trial not in walked)
        for trial in sorted((trial for trial in trials if time.estimate(trial) < near), key=time.estimate):
            if not budget:
                return splits
            budget -= 1
            walked.add(trial)
            cycles = time.cycles(trial)
            if cycles < best * (1 - 1e-9):
                splits, best = trial, cycles
                break
        else:
            return splits


def joint(time: StepTime, splits: Sequence[str], seeds: Sequence[Splits]) -> Splits:
    """Splits with the shortest predicted step that the search finds; of equal ones the first seed."""
    graph = time.graph
    if not time.levels:
        return seeds[0]
    candidates = [vectors(time, number, splits, seeds) for number in range(len(graph.nodes))]
    rows = _Rows(time, candidates)
    ranked = sorted((*seeds, *(_beam(time, candidates, rows, exposed) for exposed in (1.0, 0.0))), key=time.estimate)
    budget = max(1, min(MAXIMUM_TRIALS, MAXIMUM_NODE_TRIALS // len(graph.nodes)))
    starts = list(dict.fromkeys(ranked))[:2]
    improved = [_improve(time, start, candidates, budget) for start in starts]
    best = sorted(dict.fromkeys((*seeds, *ranked[:2], *improved)), key=time.cycles)[:2]
    if time.levels > WALKED_LEVELS:
        return best[0]
    walks = min(MAXIMUM_WALKS, MAXIMUM_NODE_WALKS // len(graph.nodes))
    return min((best[0], *(_walk(time, start, candidates, walks) for start in best)), key=time.cycles)
