"""What a step is certain to take: never more than its walk says, and joint finds the same with it as without."""

import random
from fractions import Fraction
from itertools import product

import pytest
from tests.support.walks import walked_splits

from plinth.array.array import Array, full, ring
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.regions import Splits
from plinth.plan.planning import SPLITTERS, task
from plinth.predict import schedule
from plinth.predict.schedule import StepSchedule
from plinth.predict.time import StepTime

TORUS = Array(name="torus", topology="torus", dies=8, dimensions=(2, 4), preset="ndp-tiny", link_rate=Fraction(1, 2))
SLOW = ring(4, link_rate=Fraction(1, 8), speeds=(1, 1, 1, Fraction(1, 2)))
ROW_STATIONARY = ring(2, preset="hypar-demo")


def _random(time: StepTime, seed: int) -> Splits:
    """Splits that the dies can do."""
    rng = random.Random(seed)
    graph = time.graph
    return tuple(rng.choice([vector for vector in product(graph.choices(number, SPLITS), repeat=time.levels)
                             if time.able(number, vector)]) for number in range(len(graph.nodes)))


@pytest.mark.parametrize(("network", "array"), [
    ("digits-cnn", ring(4)), ("digits-cnn", SLOW), ("digits-mlp", TORUS), ("lenet-c", full(4)), ("sconv", ring(2)),
    ("digits-mlp", ring(6)), ("digits-cnn", ROW_STATIONARY)], ids=lambda value: getattr(value, "name", value))
def test_no_step_takes_less_than_it_is_certain_to(network: str, array: Array) -> None:
    def time() -> StepTime:
        return StepTime(from_network(NETWORKS[network]), 64, array)

    both = time()
    for seed in range(4):
        splits = _random(both, seed)
        whole = time().schedule.step(splits)
        least = both.schedule.least(splits)
        assert 0.5 * whole.cycles < least < whole.cycles
        # What was walked on the way there is no other walk.
        assert both.schedule.step(splits) == whole
        for share in (0.1, 0.5, 0.9):
            early = both.schedule.least(splits, share * whole.cycles)
            assert early <= whole.cycles
            assert early == least or share * whole.cycles <= early
        assert both.schedule.step(splits) == whole
        assert time().cycles(splits, whole.cycles * 1.01) == time().step(splits).cycles
        assert whole.cycles / 2 <= time().cycles(splits, whole.cycles / 2) <= whole.cycles


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    return walked_splits(monkeypatch)


@pytest.mark.parametrize(("network", "array"), [("digits-cnn", ring(4)), ("digits-mlp", ring(6))],
                         ids=lambda value: getattr(value, "name", value))
def test_joint_walks_few_steps_to_their_ends_and_finds_the_same(
        network: str, array: Array, walked: list[Splits], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = from_network(NETWORKS[network])
    problem = task(graph, array, "exact", 128)
    splits = SPLITTERS["joint"](problem)
    few = len(walked)
    assert few == len(set(walked)), "no step is walked twice"
    walked.clear()
    monkeypatch.setattr(StepTime, "cycles", lambda self, splits, limit=0.0: self.step(splits).cycles)
    assert SPLITTERS["joint"](other := task(graph, array, "exact", 128)) == splits
    assert other.time.step(splits) == problem.time.step(splits)
    assert few < 0.6 * len(set(walked))


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
