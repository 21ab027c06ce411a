"""Splits that fit the dies' memory, near those that a planner has found.

The need is that of the step's own places. Small spaces are searched whole. In larger ones a descent starts from what
was found and from every seed: node by node takes the splits which by themselves need least, those first that save most,
until all fits; of what fits the cheapest is taken. Where nothing does, one node's splits change at a time, as long as
the step then needs less.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod

from plinth.partition.regions import Splits
from plinth.plan.planners.joint import vectors
from plinth.predict.time import StepTime, Vector

#: Combinations that are searched whole; steps that are built where nothing fits.
WHOLE, TRIALS = 1 << 9, 160
#: Splits of a node that are tried there, those that by themselves need least.
LEAST = 4


def fitting(time: StepTime, planned: Splits, splits: Sequence[str], seeds: Sequence[Splits], *,
            need: Callable[[Splits], int], most: int, cost: Callable[[Splits], float]) -> Splits:
    """The planned splits if they need at most so much; else the cheapest that do, or those which need least."""
    if need(planned) <= most:
        return planned
    candidates = [vectors(time, number, splits, (planned, *seeds)) for number in range(len(time.graph.nodes))]
    if prod(map(len, candidates)) <= WHOLE:
        ends = list(product(*candidates))
    else:
        starts = list(dict.fromkeys((planned, *seeds)))
        ranked = [sorted(vectors_, key=partial(time.held, number)) for number, vectors_ in enumerate(candidates)]
        ends = [_descend(time, start, tuple(vectors_[0] for vectors_ in ranked), need, most) for start in starts]
        if all(need(end) > most for end in ends):
            ends += [_search(time, start, ranked, need, most, TRIALS // len(starts)) for start in starts]
    needs = {end: need(end) for end in dict.fromkeys(ends)}
    fit = [end for end, words in needs.items() if words <= most]
    return min(fit, key=cost) if fit else min(needs, key=needs.__getitem__)


def _descend(time: StepTime, splits: Splits, least: Splits, need: Callable[[Splits], int], most: int) -> Splits:
    """Splits of which as few nodes as fit have their ``least`` ones, those first that then need less by most; all,
    where that does not do."""
    saved = {number: time.held(number, vector) - time.held(number, least[number])
             for number, vector in enumerate(splits)}
    order = sorted((number for number, words in saved.items() if words > 0), key=lambda number: -saved[number])

    def changed(count: int) -> Splits:
        return tuple(least[number] if number in order[:count] else vector for number, vector in enumerate(splits))

    return changed(bisect_left(range(len(order)), True, key=lambda count: need(changed(count)) <= most))


def _search(time: StepTime, splits: Splits, ranked: Sequence[Sequence[Vector]], need: Callable[[Splits], int],
            most: int, trials: int) -> Splits:
    """Splits that need less, node by node, those first that by themselves need most; candidates are ``ranked``."""
    words, improved = need(splits), True
    while words > most and improved and trials > 0:
        improved = False
        for number in sorted(range(len(splits)), key=lambda node: -time.held(node, splits[node])):
            now = time.held(number, splits[number])
            for vector in [vector for vector in ranked[number][:LEAST] if time.held(number, vector) < now]:
                trial = (*splits[:number], vector, *splits[number + 1:])
                trials -= 1
                if (needed := need(trial)) < words:
                    splits, words, improved = trial, needed, True
                    break
            if words <= most or trials <= 0:
                break
    return splits
