"""Splits that fit the dies' memory, near those that a planner has found.

The need is that of the step's own places. Small spaces are searched whole. In larger ones a descent starts from what
was found and from every seed: one node's splits change at a time, to what needs less, until all fits; of what fits the
cheapest is taken.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod

from plinth.partition.regions import Splits
from plinth.plan.planners.joint import vectors
from plinth.predict.time import StepTime, Vector

#: Combinations that are searched whole, and steps that a descent may build.
WHOLE, TRIALS = 1 << 9, 2000
#: Splits of a node that are tried, those that by themselves need least.
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
        ranked = [sorted(candidates_, key=partial(time.held, number)) for number, candidates_ in enumerate(candidates)]
        ends = [_descend(time, start, ranked, need, most, TRIALS // len(starts)) for start in starts]
    needs = {end: need(end) for end in dict.fromkeys(ends)}
    fit = [end for end, words in needs.items() if words <= most]
    return min(fit, key=cost) if fit else min(needs, key=needs.__getitem__)


def _descend(time: StepTime, splits: Splits, ranked: Sequence[Sequence[Vector]], need: Callable[[Splits], int],
             most: int, trials: int) -> Splits:
    """Splits that need less; each node's candidates are ``ranked``. Nodes that need most come first."""
    least, improved = need(splits), True
    while least > most and improved and trials > 0:
        improved = False
        for number in sorted(range(len(splits)), key=lambda node: -time.held(node, splits[node])):
            now = time.held(number, splits[number])
            for vector in [vector for vector in ranked[number][:LEAST] if time.held(number, vector) < now]:
                trial = (*splits[:number], vector, *splits[number + 1:])
                words = need(trial)
                trials -= 1
                if words < least:
                    splits, least, improved = trial, words, True
                    break
            if least <= most or trials <= 0:
                break
    return splits
