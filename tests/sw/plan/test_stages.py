"""Vector work that predictions count is that of the programs which lowering makes."""

from collections.abc import Iterator

import pytest

from plinth.lower.training import lower_training
from plinth.model.layers import (
    Convolution,
    Dense,
    Flatten,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.model.network import Network
from plinth.plan.cost.cuts import folding
from plinth.plan.cost.machine import Work
from plinth.plan.cost.stages import NARROWED, backward_stages, bias_stage, forward_stages, is_fused, loss_work
from plinth.plan.graph import LOSS, from_network
from plinth.plan.partition import layouts
from plinth.plan.plan import Plan
from plinth.simulate.task_graphs import _decode, vector_work
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.tasks import Engine

#: Activations before and behind pools, both kinds of pools, layers with and without bias. Followers are called by their
#: kind.
NETWORK = Network(name="all", input=Shape((2, 12, 12)), layers=(
    Convolution(name="one", channels=4, kernel=(3, 3), padding=(1, 1)), Tanh(name="tanh"),
    MeanPool(name="mean-pool", kernel=(2, 2), stride=(2, 2)),
    Convolution(name="two", channels=6, kernel=(3, 3), bias=False),
    MaxPool(name="max-pool", kernel=(2, 2), stride=(2, 2)), Sigmoid(name="sigmoid"),
    Convolution(name="three", channels=4, kernel=(1, 1)), Flatten(name="flat"),
    Dense(name="four", outputs=8, bias=False), Relu(name="relu"),
    Dense(name="five", outputs=5), SoftmaxCrossEntropy(name="loss")))
GRAPH = from_network(NETWORK)
SPLITS = ((),) * len(GRAPH.nodes)


def lowered(parameters: DieParameters) -> dict[str, Work]:
    """Work of the first task of each kind, by name."""
    plan = Plan(graph=GRAPH, planner="given", model="exact", array="ring-1", batch=8,
                chunk_words=parameters.chunk_words, splits=SPLITS)
    program = lower_training(NETWORK, plan, parameters, rate=0.1, steps=1, memory_words=1 << 22)
    found: dict[str, Work] = {}
    for task in map(_decode, program.step[0].tasks):
        if task.engine is Engine.VECTOR:
            name, _, end = task.name.partition("[")[0].partition(".")
            end = end.rpartition(".")[0] if end.rpartition(".")[2].isdigit() else end
            found.setdefault(f"{name}.{end}" if end else name, vector_work(task.body)[0])
    return found


def predicted(parameters: DieParameters) -> Iterator[tuple[str, Work]]:
    """The same by the stages that predictions walk through."""
    narrow = parameters.packing > 1
    for number, (node, here) in enumerate(zip(GRAPH.nodes, layouts(GRAPH, SPLITS), strict=True)):
        if node.kind == LOSS:
            yield node.name, loss_work(node, GRAPH.nodes[number - 1], True, narrow)
            continue
        if narrow:
            yield f"{node.name}.narrow", NARROWED
        if is_fused(GRAPH, number, here):
            continue
        forward, backward = [f"{node.name}.output"], [f"{node.name}.backward"]
        for place, follower in enumerate(node.followers):
            pool, kind = follower.kind.endswith("pool"), follower.kind
            if not place and not pool:
                # The first activation has no program of its own.
                continue
            forward += [f"{kind}.down", f"{kind}.across"] if pool else [f"{kind}.forward"]
            backward[:0] = [f"{kind}.backward_across", f"{kind}.backward_down"] if pool else [kind]
        yield from zip(forward, (stage.work for stage in forward_stages(node, 1, narrow)), strict=True)
        yield from zip(backward, (stage.work for stage in backward_stages(node, node.bias > 0, narrow)), strict=False)
        positions = node.raw_elements // node.output_channels
        if node.bias and not narrow and folding(parameters, positions, node.output_channels) > 1:
            yield f"{node.name}.backward.sum", bias_stage(node).work


@pytest.mark.parametrize("name", ["ndp-demo", "ndp-demo-mixed", "ndp-demo-fixed"])
def test_stages_are_what_lowering_makes(name: str) -> None:
    parameters = preset(name)
    assert lowered(parameters) == dict(predicted(parameters))
