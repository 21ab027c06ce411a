"""Sparse layers on four co-simulated demo dies: the golden model's bits, and on links the words of the hypergraph."""

import numpy as np
import pytest
from tests.support.reports import assert_report_exact
from tests.sw.step.layers.test_sparse import CASES, samples

import plinth
from plinth.api.planning import PlanResult
from plinth.network.layers import Sparse
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.volume import traffic
from plinth.report.step import step_of_plan
from plinth.step.tasks import Multiplication, Task, TileCopy

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo-dies")]

DIES, BATCH = 4, 8


def words_between(plan: PlanResult) -> tuple[np.ndarray, int]:
    """Words of a sample from each die to each other one, by the plan's owners, and the hypergraph's volume."""
    sharding = plan.plan.sharding
    layers = [(node.pattern.matrix(), lists.outputs) for node, lists in zip(
        sharding.graph.nodes, sharding.lists, strict=True) if node.pattern is not None]
    owners = [np.zeros(layers[0][0].shape[1], np.int64)]
    for matrix, parts in layers:
        owners.append(np.full(matrix.shape[0], -1))
        for die, part in enumerate(parts):
            for first, end in part:
                owners[-1][first:end] = die
    words = np.zeros((DIES, DIES), np.int64)
    for number, (matrix, _) in enumerate(layers[1:], 1):
        dense = matrix.toarray() != 0
        for column, owner in enumerate(owners[number]):
            for reader in set(owners[number + 1][dense[:, column]].tolist()) - {owner}:
                words[owner, reader] += 1
                words[reader, owner] += 1
    return words, traffic([matrix for matrix, _ in layers], SparsePartition(DIES, owners[0], tuple(owners[1:])),
                          first_layer="none").words


@pytest.mark.parametrize(("name", "planner", "steps"), [
    ("radix", "hypergraph", 2), ("radix", "random-rows", 2), ("irregular", "hypergraph", 2),
    ("parts", "random-rows", 1)])
def test_steps_are_bit_exact_and_send_the_words_of_the_hypergraph(name: str, planner: str, steps: int) -> None:
    definition = CASES[name]
    plan = plinth.plan(definition, f"ring-{DIES}", planner=planner, batch=BATCH)
    step = step_of_plan(plan.plan)
    if name == "parts":
        # Some blocks are filled up, and several add to the same rows, in a row or by numbers.
        work = [item.work for die in range(DIES) for item in step.tasks(die) if isinstance(item, Task)]
        assert any(some.added for some in work if isinstance(some, Multiplication))
        assert any(some.added and some.index.scatter for some in work if isinstance(some, TileCopy) and some.index)
        assert any(operation.name == "fc1.fprop.zero" for operation in step.operations)
    assert any(operation.name == "fc1.mask" for operation in step.operations) == (name != "radix")

    x, y = samples(definition, 3 * BATCH)
    report = plinth.train(plan, x, y, device="cosim", steps=steps, rate=0.5).report
    assert report["compared_steps"] == steps
    assert_report_exact(report)
    between, volume = words_between(plan)
    assert report["injected_words"] == steps * BATCH * volume == steps * BATCH * between.sum()
    # Each word on each link of its way round the ring.
    apart = np.abs(np.subtract.outer(range(DIES), range(DIES)))
    assert report["link_words"] == steps * BATCH * (between * np.minimum(apart, DIES - apart)).sum()
    entries = [layer.pattern.nonzeros for layer in definition.layers if isinstance(layer, Sparse)]
    assert report["engine_counters"]["matrix"]["useful_macs"] == steps * BATCH * (3 * sum(entries) - entries[0])
