"""A step in numpy against the golden dies: weights, predictions and gradients of some steps, of every kind of plan."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.networks import CONCATENATED, DOUBLED, WORDS, random_data, random_plan, tiled, trainable_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.driver.executor import Executor
from plinth.errors import UserError
from plinth.lower.places import HostView
from plinth.lower.training import lower_training
from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Gelu,
    LeakyRelu,
    Relu6,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.plan.plan import Plan
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.step.build import step_of
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

STEPS = 3
RULE = UpdateRule(rate=0.01)


def trained(network: Network, plan: Plan, die: str, rule: UpdateRule) -> tuple[Session, Session]:
    """Some steps on golden dies, and the same in numpy."""
    data = random_data(network, STEPS * plan.batch, np.random.default_rng(3))
    program = lower_training(network, plan, preset(die), rule=rule, steps=STEPS, memory_words=MEMORY_WORDS)
    golden = session(network, plan, data, program, rule=rule)
    golden.checks = None
    list(golden.epoch(0))
    executor = NumpyExecutor(step_of(replace(plan.sharding, rule=rule), preset(die)))
    mine = Session(network, data, executor.view, executor, None, None, plan.batch, 0)
    mine.load_parameters(initial_parameters(network, 0))
    list(mine.epoch(0))
    return golden, mine


def near(left: NDArray[np.float32], right: NDArray[np.float32]) -> bool:
    return bool(np.abs(left - right).max(initial=0) <= 1e-4 * max(1e-3, np.abs(right).max(initial=0)))


def check(network: Network, plan: Plan, die: str, rule: UpdateRule = RULE) -> None:
    golden, mine = trained(network, plan, die, rule)
    computed, expected = (run.parameters(run.driver) for run in (mine, golden))
    assert computed.keys() == expected.keys() == network.variables.keys()
    assert not [name for name, values in computed.items() if not near(values, expected[name])]
    computed, expected = (run.program.predictions.gather(run.driver) for run in (mine, golden))
    assert near(computed, expected) and np.allclose(mine.losses, golden.losses, rtol=1e-4)
    computed, expected = (run.program.outputs_of(run.driver, list(run.program.outputs)) for run in (mine, golden))
    assert computed.keys() == expected.keys() > {network.layers[-1].name}
    assert golden.program.levels or not [name for name, values in computed.items() if not near(values, expected[name])]


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_under_random_plans(seed: int) -> None:
    generator = np.random.default_rng([9, seed])
    network, dies = trainable_network(generator), (1, 2, 4, 6)[seed % 4]
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies + 3)), generator)
    check(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2])


@pytest.mark.parametrize(("outputs", "weights"), [(2, None), (2, "winograd"), (4, None), (4, "winograd")])
@pytest.mark.parametrize(("dies", "split"), [(1, ("dp", "dp")), (4, ("dp", "ep")), (4, ("ep", "ep")),
                                              (4, ("mp", "ep"))])
def test_tiles(outputs: int, weights: str | None, dies: int, split: tuple[str, str]) -> None:
    check(*tiled(outputs, weights, dies=dies, split=split), "ndp-demo-winograd")


def test_tiles_in_strips() -> None:
    """Of a single image's lines, and of images."""
    for batch in (1, 32):
        check(*tiled(2, "winograd", dies=1, batch=batch), "ndp-demo-winograd")


@pytest.mark.parametrize("rounds", [1, 2, "regions"])
def test_what_is_predicted_is_sent(rounds: int | str) -> None:
    check(*tiled(2, "winograd", rounds, batch=8), "ndp-demo-predict")


@pytest.mark.parametrize("kind", ["momentum", "adagrad", "adagrad-printed", "rmsprop"])
def test_rules_that_keep_states(kind: str) -> None:
    network = NETWORKS["digits-cnn"]
    plan = random_plan(network, 4, 10, np.random.default_rng(5))
    check(network, plan, "ndp-tiny", UpdateRule(kind, rate=0.002, epsilon=0.01))


def test_activations_with_kinks() -> None:
    network = Network(name="kinks", input=Shape((2, 6, 6)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3)), LeakyRelu(name="leaky", slope=0.2), Relu6(name="relu"),
        Flatten(name="flat"), Dense(name="fc", outputs=5), Relu6(name="last"), SoftmaxCrossEntropy(name="loss")))
    check(network, random_plan(network, 2, 5, np.random.default_rng(1)), "ndp-tiny")


def test_activations_that_keep_their_input() -> None:
    network = Network(name="gelus", input=Shape((2, 6, 6)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3)), Gelu(name="first"), Gelu(name="second"),
        Flatten(name="flat"), Dense(name="fc", outputs=5, bias=False), Gelu(name="last"),
        SoftmaxCrossEntropy(name="loss")))
    check(network, random_plan(network, 2, 5, np.random.default_rng(1)), "ndp-tiny")


@pytest.mark.parametrize("network", [DOUBLED, CONCATENATED], ids=lambda network: network.name)
def test_layers_that_read_a_layer_twice(network: Network) -> None:
    for seed, dies in enumerate((1, 2, 4)):
        check(network, random_plan(network, dies, 5, np.random.default_rng(seed)), "ndp-tiny")


def test_rows_by_number() -> None:
    for seed in range(4):
        check(WORDS, random_plan(WORDS, 4, 9, np.random.default_rng(seed)), "ndp-tiny")


def test_other_formats_are_refused() -> None:
    network = NETWORKS["digits-mlp"]
    plan = random_plan(network, 1, 4, np.random.default_rng(0))
    for die in ("ndp-demo-mixed", "fpga-tiny"):
        with pytest.raises(UserError, match=f"numpy computes in FP32, dies of preset '{die}' do not"):
            NumpyExecutor(step_of(plan.sharding, preset(die)))


@pytest.mark.parametrize("numpy", [False, True], ids=["dies", "numpy"])
def test_what_there_is_not_is_refused_in_one_line(numpy: bool) -> None:
    """A die, a variable or a tensor, and one of another shape."""
    network = NETWORKS["digits-mlp"]
    plan = random_plan(network, 2, 4, np.random.default_rng(0))
    executor: Executor
    view: HostView
    if numpy:
        executor = in_numpy = NumpyExecutor(step_of(plan.sharding, preset("ndp-tiny")))
        view = in_numpy.view
    else:
        data = random_data(network, 4, np.random.default_rng(0))
        program = lower_training(network, plan, preset("ndp-tiny"), rule=RULE, steps=1, memory_words=MEMORY_WORDS)
        executor, view = session(network, plan, data, program).driver, program
    buffer, values = view.weights["fc1"].buffers[0], initial_parameters(network, 0)
    for die in (2, -1):
        for read in (executor.collect, executor.collect_floats):
            with pytest.raises(UserError, match=f"there is no die {die} in an array of 2; give one from 0 to 1$"):
                read([(die, buffer)])
    with pytest.raises(UserError, match=r"there is no variable 'fc9.weights'; did you mean 'fc3.weights'\?$"):
        view.load(executor, values | {"fc9.weights": values["fc1.bias"]})
    with pytest.raises(UserError, match=r"variable 'fc1.bias' is of shape \[3\]; give an array of shape \[128\]$"):
        view.load(executor, values | {"fc1.bias": np.zeros(3, np.float32)})
    with pytest.raises(UserError, match=r"variable 'fc2.bias' is missing; give an array of shape \[64\]$"):
        view.load(executor, {name: array for name, array in values.items() if name != "fc2.bias"})
    with pytest.raises(UserError, match=r"holds no output of a layer 'rleu1'; did you mean 'relu1'\?$"):
        view.outputs_of(executor, ["rleu1"])
    with pytest.raises(UserError, match=r"^input must be real numbers of shape \[4, 1, 64\], not float64 \[4, 3\]$"):
        view.write_batch(executor, np.ones((4, 3)), np.ones((4, 10)))
    with pytest.raises(UserError, match="there is no die 2 in an array of 2"):
        executor.write(2, buffer, np.zeros((buffer.rows, buffer.columns), np.uint32))
    with pytest.raises(UserError, match=r"^words of die 0 must be \[1, \d+\], as its piece of 'fc1.parameters'"):
        executor.write(0, buffer, np.zeros((2, 2), np.uint32))
    # What a layer has put out is read by its name.
    x = np.random.default_rng(1).random((4, 64), np.float32)
    view.load(executor, values)
    view.write_batch(executor, x, np.eye(10)[:4])
    executor.step(0)
    outputs = view.outputs_of(executor, ["relu1", "loss"])
    hidden = np.maximum(x @ values["fc1.weights"] + values["fc1.bias"], 0)
    np.testing.assert_allclose(outputs["relu1"][:, 0], hidden, atol=1e-5)
    np.testing.assert_allclose(outputs["loss"].sum(axis=2), 1, rtol=1e-5)
