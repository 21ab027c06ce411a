"""What plans need of a die's memory."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from plinth.array.array import ring
from plinth.lower.training import lower_training
from plinth.network.network import perceptron
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planners import simple
from plinth.plan.planning import SPLITTERS, plan_network, task
from plinth.plan.planning import memory_bytes as memory_of
from plinth.sharding import Sharding
from plinth.simulate.step import step_on
from plinth.update.rule import UpdateRule


def needed(name: str, planner: str, batch: int, levels: int) -> int:
    graph = from_network(NETWORKS[name])
    array = ring(1 << levels)
    sharding = Sharding(graph=graph, splits=getattr(simple, planner)(graph, levels), batch=batch)
    return step_on(Plan(sharding=sharding, planner=planner, model="exact", array=array.name), array).memory_bytes()


def test_one_die_holds_everything() -> None:
    """What the places of its program take."""
    network, array = NETWORKS["digits-mlp"], ring(1)
    plan = plan_network(network, array, planner="data", batch=10).plan
    program = lower_training(network, plan, array.die_parameters(), rule=UpdateRule(), steps=1, memory_words=1 << 20)
    assert 0 <= 4 * program.records - step_on(plan, array).memory_bytes() < 4 * 64


@pytest.mark.parametrize("name", ["sfc", "lenet-c", "resnet-34"])
def test_splits_halve_what_they_split(name: str) -> None:
    weights = 8 * sum(node.weights + node.bias for node in from_network(NETWORKS[name]).nodes)
    # dp halves maps and keeps weights; mp halves weights and inputs, sums stay whole.
    assert needed(name, "data", 64, 3) - weights == pytest.approx((needed(name, "data", 64, 0) - weights) / 8, rel=0.05)
    assert needed(name, "data", 64, 0) / 8 < needed(name, "model", 64, 3) < needed(name, "data", 64, 0)


def test_the_fullest_die_counts() -> None:
    # 3 samples over 2 dies: one die has 2.
    assert needed("digits-mlp", "data", 3, 1) == needed("digits-mlp", "data", 4, 1)
    sizes = [needed("digits-cnn", "data", batch, 2) for batch in (1, 4, 5, 8)]
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3] and np.all(np.array(sizes) > 0)


@pytest.mark.parametrize(("planner", "widths"), [
    ("hypar", (32, 8, 64, 256)), ("exhaustive", (32, 8, 64, 256)), ("joint", (256, 8, 8, 8))])
def test_a_plan_that_does_not_fit_is_not_chosen_while_one_fits(planner: str, widths: tuple[int, ...]) -> None:
    """On two dies: memory for the need of the leanest plan of dp and mp, found by trying all."""
    network, array = perceptron("wide", widths), ring(2)
    problem = task(from_network(network), array, "exact", 32)
    choices = [problem.graph.choices(number, ("dp", "mp")) for number in range(len(problem.graph.nodes))]
    needs = {splits: memory_of(problem, splits) for splits in
             (tuple((split,) for split in some) for some in product(*choices))}
    assert memory_of(problem, SPLITTERS[planner](problem)) > min(needs.values())
    for limit in (min(needs.values()), sorted(needs.values())[len(needs) // 2], max(needs.values())):
        planned = plan_network(network, replace(array, memory_bytes=limit), planner=planner, batch=32)
        assert planned.fits_memory and planned.memory_bytes <= limit
    assert not plan_network(network, replace(array, memory_bytes=64), planner=planner, batch=32).fits_memory
