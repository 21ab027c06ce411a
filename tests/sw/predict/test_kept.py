"""What walks have in common is kept: steps of neighbouring plans share most operations."""

import random
from itertools import product

import pytest

from plinth.array.array import ring
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.regions import Splits
from plinth.predict import schedule
from plinth.predict.schedule import StepSchedule
from plinth.predict.time import StepTime


def _random(time: StepTime, seed: int) -> Splits:
    """Splits that the dies can do."""
    rng = random.Random(seed)
    graph = time.graph
    return tuple(rng.choice([vector for vector in product(graph.choices(number, SPLITS), repeat=time.levels)
                             if time.able(number, vector)]) for number in range(len(graph.nodes)))


@pytest.mark.parametrize("most", [1 << 10, 4])
def test_what_is_kept_of_operations_is_that_of_a_step_alone(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is room for a few only."""
    array, graph = ring(4), from_network(NETWORKS["digits-cnn"])
    computed: list[str] = []
    works = StepSchedule._works
    monkeypatch.setattr(StepSchedule, "_works", lambda self, operation, *rest: (
        computed.append(operation.name), works(self, operation, *rest))[1])
    monkeypatch.setattr(schedule, "MOST_KNOWN", most)
    kept = StepTime(graph, 128, array)
    plans = [(vector, *_random(kept, 0)[1:]) for vector in product(SPLITS[:3], repeat=2)]
    alone = [StepTime(graph, 128, array).step(splits) for splits in plans]
    every = len(computed)
    computed.clear()
    assert [kept.step(splits) for splits in plans] == alone
    assert len(kept.schedule._known) <= most
    assert (len(computed) < 0.7 * every) == (most > 4), (len(computed), every)
