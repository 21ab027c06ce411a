"""Padding that differs on opposite sides: training steps of convolutions and pools on all machines and executors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.networks import random_data, random_plan
from tests.support.sessions import MEMORY_WORDS, session

from plinth.array.array import ring
from plinth.lower.training import lower_training
from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.predict.time import StepTime
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.sharding import Sharding
from plinth.simulate.step import simulated
from plinth.step.build import step_of
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

RULE = UpdateRule(rate=0.05)


def network(seed: int, **settings: Any) -> Network:
    """Convolutions and pools of random windows, of which some sides are padded alike and most are not; the first map
    has more on every side than the second kernel."""
    rng = np.random.default_rng(seed)

    def window(most: int) -> dict[str, Any]:
        kernel = tuple(int(taps) for taps in rng.integers(2, most + 1, 2))
        return {"kernel": kernel, "stride": tuple(int(step) for step in rng.integers(1, 3, 2)),
                "padding": tuple(int(rng.integers(0, taps // 2 + 1)) for taps in kernel * 2)}

    pool = (MaxPool, MeanPool)[seed % 2]
    layers: list[Layer] = [
        Convolution(name="conv1", channels=6, **window(4)), Relu(name="relu1"),
        pool(name="pool1", ceil=bool(seed % 3), **window(3)),
        Convolution(name="conv2", channels=4, **(window(3) | settings)), Relu(name="relu2"),
        Flatten(name="flatten"), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")]
    return Network(name="padded", input=Shape((3, 11, 12)), layers=tuple(layers))


def check(network: Network, plan: Plan, die: str) -> Session:
    program = lower_training(network, plan, preset(die), rule=RULE, steps=2, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 2 * plan.batch, np.random.default_rng(1)), program, rule=RULE)
    assert len(list(run.epoch(0))) == 2
    assert run.checks is not None and run.checks.failure is None
    return run


@pytest.mark.parametrize("die", ["ndp-tiny", "ndp-demo-mixed", "hypar-tiny", "fpga-tiny"])
@pytest.mark.parametrize("seed", range(4))
def test_steps_are_those_of_float64(die: str, seed: int) -> None:
    padded = network(seed)
    assert any(len(getattr(layer, "padding", ())) == 4 for layer in padded.layers)
    fp32 = die in ("ndp-tiny", "hypar-tiny")
    dies = 1 + seed % 3 if fp32 else 1
    plan = random_plan(padded, dies, 4, np.random.default_rng(seed))
    run = check(padded, plan, die)
    assert run.checks is not None and (not fp32 or run.checks.largest["gradient"] < 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_numpy_computes_the_same(seed: int) -> None:
    padded = network(seed)
    plan = random_plan(padded, 2, 4, np.random.default_rng(seed))
    golden = check(padded, plan, "ndp-tiny")
    executor = NumpyExecutor(step_of(replace(plan.sharding, rule=RULE), preset("ndp-tiny")))
    mine = Session(padded, random_data(padded, 8, np.random.default_rng(1)), executor.view, executor, None, None, 4, 0)
    mine.load_parameters(initial_parameters(padded, 0))
    list(mine.epoch(0))
    expected, computed = golden.parameters(golden.driver), mine.parameters(executor)
    assert computed.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(computed[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("padding", [(0, 1, 1, 0), (2, 0, 1, 2)])
@pytest.mark.parametrize("weights", ["spatial", "winograd"])
@pytest.mark.parametrize("split", ["dp", "ep"])
def test_winograd_tiles(padding: tuple[int, ...], weights: str, split: str) -> None:
    """Of dies that have whole tiles, and of such as share their elements."""
    padded = network(0, kernel=(3, 3), stride=(1, 1), padding=padding, winograd=2, weights=weights)
    graph = from_network(padded)
    splits = tuple((split,) if node.name == "conv2" else ("dp",) for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=4, factors=(2,)), planner="given", model="exact",
                array="ring-2")
    check(padded, plan, "ndp-tiny-winograd")


def test_predicted_gathers() -> None:
    """What a ReLU makes 0 is found out of tiles whose windows begin before the map."""
    padded = network(0, kernel=(3, 3), stride=(1, 1), padding=(2, 0, 1, 2), winograd=2, weights="winograd", predict=1)
    graph = from_network(padded)
    splits = tuple(("ep",) if node.name == "conv2" else ("dp",) for node in graph.nodes)
    check(padded, Plan(sharding=Sharding(graph=graph, splits=splits, batch=4, factors=(2,)), planner="given",
                       model="exact", array="ring-2"), "ndp-demo-predict")


def test_a_step_takes_what_sizes_of_maps_say() -> None:
    """Windows on other places of the same maps: of 8 x 8, two apart, with one row and column padded or two."""
    times = []
    for padding in ((0, 0, 1, 1), (1, 1), (1, 1, 0, 0)):
        padded = Network(name="padded", input=Shape((3, 8, 8)), layers=(
            Convolution(name="conv", channels=6, kernel=(3, 3), stride=(2, 2), padding=padding),
            Flatten(name="flatten"), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")))
        graph, array = from_network(padded), ring(2)
        plan = Plan(sharding=Sharding(graph=graph, splits=(("dp",),) * len(graph.nodes), batch=8, factors=(2,)),
                    planner="data", model="exact", array=array.name)
        times.append((simulated(plan, array).result.seconds, StepTime(graph, 8, array).cycles(plan.splits)))
    assert times[0] == times[1] == times[2] and min(times[0]) > 0
