"""What plans need of a die's memory."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from plinth.model.array import ARRAYS, ring
from plinth.model.network import perceptron
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planners import simple
from plinth.plan.planning import PLANNERS, memory_bytes, plan_network, task


def planned(name: str, planner: str, batch: int, levels: int) -> Plan:
    graph = from_network(NETWORKS[name])
    return Plan(graph=graph, planner=planner, model="exact", array=ARRAYS["ring-1"].name, batch=batch, chunk_words=64,
                splits=getattr(simple, planner)(graph, levels))


def test_one_die_holds_everything() -> None:
    plan = planned("digits-mlp", "data", 10, 0)
    assert plan.memory_bytes == 4 * 2 * sum(node.weights + node.bias + 10 * (node.input_elements + node.raw_elements)
                                            for node in plan.graph.nodes)


@pytest.mark.parametrize("name", ["sfc", "lenet-c", "resnet-34"])
def test_splits_halve_what_they_split(name: str) -> None:
    def needed(planner: str, levels: int) -> int:
        return planned(name, planner, 64, levels).memory_bytes

    weights = 8 * sum(node.weights + node.bias for node in planned(name, "data", 64, 0).graph.nodes)
    # dp halves maps and keeps weights; mp halves weights and inputs, sums stay whole.
    assert needed("data", 3) - weights == (needed("data", 0) - weights) / 8
    assert needed("data", 0) / 8 < needed("model", 3) < needed("data", 0)


def test_the_fullest_die_counts() -> None:
    # 3 samples over 2 dies: one die has 2.
    assert planned("digits-mlp", "data", 3, 1).memory_bytes == planned("digits-mlp", "data", 4, 1).memory_bytes
    sizes = [planned("digits-cnn", "data", batch, 2).memory_bytes for batch in (1, 4, 5, 8)]
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3] and np.all(np.array(sizes) > 0)


@pytest.mark.parametrize(("planner", "widths"), [
    ("hypar", (32, 8, 64, 256)), ("exhaustive", (32, 8, 64, 256)), ("joint", (256, 8, 8, 8))])
def test_a_plan_that_does_not_fit_is_not_chosen_while_one_fits(planner: str, widths: tuple[int, ...]) -> None:
    """On two dies: memory for the need of the leanest plan of dp and mp, found by trying all."""
    network, array = perceptron("wide", widths), ring(2)
    given = task(from_network(network), array, "exact", 32)
    choices = [given.graph.choices(number, ("dp", "mp")) for number in range(len(given.graph.nodes))]
    needs = {splits: memory_bytes(given, splits) for splits in
             (tuple((split,) for split in some) for some in product(*choices))}
    assert memory_bytes(given, PLANNERS[planner](given)) > min(needs.values())
    for limit in (min(needs.values()), sorted(needs.values())[len(needs) // 2], max(needs.values())):
        found = plan_network(network, replace(array, memory_bytes=limit), planner=planner, batch=32)
        assert found.fits_memory and found.memory_bytes <= limit
    assert not plan_network(network, replace(array, memory_bytes=64), planner=planner, batch=32).fits_memory
