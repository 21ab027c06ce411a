"""A scale and a shift of each channel, both trained: steps against the float64 reference, RTL against golden, and what
is refused."""

from collections.abc import Sequence

import numpy as np
import pytest
from tests.support.networks import random_data, random_plan
from tests.support.sessions import MEMORY_WORDS, session

import plinth
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Affine,
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanSquaredError,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planning import plan_network
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

#: Of maps before and behind a ReLU, a pool and a residual add, of features, and before the loss.
LAYERS: tuple[Layer, ...] = (
    Convolution(name="conv", channels=5, kernel=(3, 3), padding=(1, 1)), Affine(name="first"), Relu(name="relu"),
    Affine(name="second", bias=False), Convolution(name="conv2", channels=5, kernel=(1, 1)),
    Add(name="add", inputs=("conv2", "relu")), Affine(name="third"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
    Flatten(name="flat"), Dense(name="fc1", outputs=6), Affine(name="fourth"), Tanh(name="tanh"),
    Dense(name="fc2", outputs=4), Affine(name="fifth", bias=False))
MAPS = Network(name="scaled", input=Shape((3, 4, 6)), layers=(*LAYERS, SoftmaxCrossEntropy(name="loss")))
INPUT = Network(name="first", input=Shape((7,)), layers=(
    Affine(name="scale"), Dense(name="fc", outputs=3), MeanSquaredError(name="loss")))


def lowered(network: Network, plan: Plan, rule: UpdateRule | None = None, die: str = "ndp-tiny") -> TrainingProgram:
    return lower_training(network, plan, preset(die), rule=rule or UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("network", [MAPS, INPUT], ids=lambda network: network.name)
@pytest.mark.parametrize("dies", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("rule", [UpdateRule(), UpdateRule(kind="momentum")], ids=lambda rule: rule.kind)
def test_a_step_is_that_of_the_network_under_any_plan(network: Network, dies: int, rule: UpdateRule) -> None:
    """Other layers are split in any way."""
    generator = np.random.default_rng([dies, len(rule.kind)])
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies + 3)), generator)
    run = session(network, plan, random_data(network, plan.batch, generator), lowered(network, plan, rule), rule=rule)
    before = run.parameters(run.driver)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 3e-5
    moved = {name for name, values in run.parameters(run.driver).items() if (values != before[name]).any()}
    assert moved == set(network.variables), "everything is trained"


@pytest.mark.xdist_group("tiny-dies")
def test_rtl_equals_golden_and_links_carry_the_planned_words() -> None:
    plan = random_plan(MAPS, 2, 5, np.random.default_rng(4))
    run = session(MAPS, plan, random_data(MAPS, 5, np.random.default_rng(5)), lowered(MAPS, plan), rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal and sum(run.driver.injected_words(die) for die in range(2)) == plan.words


@pytest.mark.parametrize("planner", ["data", "model", "one-weird-trick", "hypar", "mpt", "joint"])
def test_every_planner_splits_its_batch(planner: str) -> None:
    plan = plan_network(MAPS, plinth.array("ring-4"), planner=planner, batch=8).plan
    for node, vector in zip(plan.graph.nodes, plan.splits, strict=True):
        assert not node.per_channel or set(vector) == {"dp"}
    simulated = plinth.plan(MAPS, "ring-4", planner=planner, batch=8).simulate()
    assert simulated.seconds > 0


@pytest.mark.parametrize(("layers", "message"), [
    ((Flatten(name="flat"), Affine(name="scale"), Dense(name="fc", outputs=2)),
     "layer 'scale' scales 72 features of 3 channels at several positions, of a flattened map or of rows")])
def test_what_cannot_be_scaled_is_a_line(layers: Sequence[Layer], message: str) -> None:
    network = Network(name="wrong", input=Shape((3, 4, 6)), layers=(*layers, SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=message):
        from_network(network)


@pytest.mark.parametrize(("die", "number_format"), [("ndp-demo-mixed", "mixed"), ("fpga-tiny", "fixed")])
def test_dies_of_16_bits_have_none(die: str, number_format: str) -> None:
    plan = random_plan(INPUT, 1, 4, np.random.default_rng(0))
    with pytest.raises(UserError, match=rf"layer 'scale' \(affine\) cannot be lowered to dies of format {number_format}"
                                        ".* it can be planned for and simulated; choose format=fp32"):
        lowered(INPUT, plan, die=die)
