"""What plans need of a die's memory."""

import numpy as np
import pytest

from plinth.model.array import ARRAYS
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planners import simple


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
