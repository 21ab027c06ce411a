"""In which order micro-batches go through pipeline stages: one forward, one backward (1F1B; Narayanan et al., SC 2021,
section 2.2).

A stage goes forward with as many micro-batches as there are stages behind it, then in turn forward with one and
backward with the oldest, then backward with what is left: no stage has maps under way of more micro-batches than there
are stages from it to the end (each has places of its own all the same). Of one stage each micro-batch goes forward and
backward before the next one does.
"""

from collections.abc import Iterator
from typing import NamedTuple


class StagePass(NamedTuple):
    """What a stage does with a micro-batch."""

    stage: int
    micro_batch: int
    forward: bool


def of_stage(stage: int, stages: int, micro_batches: int) -> Iterator[StagePass]:
    """What a stage does, in its order."""
    ahead = min(stages - 1 - stage, micro_batches)
    for number in range(micro_batches + ahead):
        if number < micro_batches:
            yield StagePass(stage, number, True)
        if number >= ahead:
            yield StagePass(stage, number - ahead, False)


def one_forward_one_backward(stages: int, micro_batches: int) -> Iterator[StagePass]:
    """What all stages do, so that each has its order, and nothing stands before what gives its maps or errors: each
    time what can go on of all stages, the last stage first, so that maps and errors are sent when they are there."""
    waiting = [list(of_stage(stage, stages, micro_batches)) for stage in range(stages)]
    done: set[StagePass] = set()
    while any(waiting):
        ready = [passes[0] for passes in reversed(waiting) if passes and _needed(passes[0], stages) <= done]
        for each in ready:
            waiting[each.stage].pop(0)
            yield each
        done.update(ready)


def _needed(each: StagePass, stages: int) -> set[StagePass]:
    """What must be done before."""
    stage, number, forward = each
    if forward:
        return {StagePass(stage - 1, number, True)} if stage else set()
    before = {StagePass(stage, number, True)}
    return before | {StagePass(stage + 1, number, False)} if stage + 1 < stages else before
