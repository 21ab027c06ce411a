"""Training steps of random networks under random plans: against the float64 reference, and RTL against golden."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support.dies import FIXED, MIXED, NDP, ROWS
from tests.support.networks import CONCATENATED, DOUBLED, random_data, random_plan, trainable_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Flatten,
    Gelu,
    Join,
    Layer,
    LeakyRelu,
    MaxPool,
    MeanSquaredError,
    Relu,
    Relu6,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron
from plinth.network.zoo import NETWORKS
from plinth.plan.plan import Plan
from plinth.plan.planning import data_parallel
from plinth.predict.exact import ExactWords
from plinth.step.build import step_of
from plinth.step.tasks import Task, TileCopy
from plinth.train.data import Dataset
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import DieParameters, preset


def lowered(seed: int, dies: int, name: str) -> tuple[Network, Plan, Dataset, TrainingProgram]:
    generator = np.random.default_rng([seed, dies])
    network = trainable_network(generator)
    batch = int(generator.integers(dies, 4 * dies + 3))
    plan = random_plan(network, dies, batch, generator)
    program = lower_training(network, plan, preset(name), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    return network, plan, random_data(network, batch, generator), program


CASES = [*(("ndp-demo", seed) for seed in range(12)), *(("hypar-tiny", seed) for seed in range(12, 20))]


@pytest.mark.parametrize(("name", "seed", "dies"), [
    *((*case, dies) for dies in (1, 2, 4, 8) for case in CASES),
    *((*case, dies) for dies, some in ((3, CASES[::2]), (5, CASES[1::4]), (6, CASES[::2]), (12, CASES[::5]))
      for case in some)])
def test_a_step_is_that_of_the_network_under_any_plan(name: str, seed: int, dies: int) -> None:
    """Predictions, loss, gradients, and every die's new weights."""
    network, plan, data, program = lowered(seed, dies, name)
    run = session(network, plan, data, program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 1e-5


@pytest.mark.parametrize("name", ["ndp-demo", "ndp-demo-mixed", "fpga-demo", "hypar-tiny"])
def test_activations_with_kinks(name: str) -> None:
    """With the sum before and by themselves, behind pools and junctions, of formats that dies have."""
    generator, mixed = np.random.default_rng(7), name == "ndp-demo-mixed"
    network = Network(name="kinks", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv1", channels=4, kernel=(3, 3), padding=(1, 1)), LeakyRelu(name="leaky1", slope=0.2),
        MaxPool(name="pool1", kernel=(2, 2), stride=(2, 2)), Relu6(name="relu1"),
        Convolution(name="conv2", channels=4, kernel=(3, 3), padding=(1, 1)), Relu6(name="relu2"),
        LeakyRelu(name="leaky2", slope=0.5), *(() if mixed else (Add(name="add", inputs=("leaky2", "relu1")),)),
        LeakyRelu(name="leaky3"), Flatten(name="flat"), Dense(name="fc", outputs=5), SoftmaxCrossEntropy(name="loss")))
    plan = data_parallel(network, dies=2, batch=8)
    data = random_data(network, 16, generator)
    # Sums of some elements are above 6.
    data = replace(data, train_x=data.train_x * (1 if name.startswith("fpga") else 20))
    program = lower_training(network, plan, preset(name), rule=UpdateRule(rate=0.001), steps=2,
                             memory_words=MEMORY_WORDS)
    run = session(network, plan, data, program, rule=UpdateRule(rate=0.001))
    list(run.epoch(0))
    assert run.checks is not None and run.checks.failure is None
    if program.parameters.number_format == "fp32":
        assert max(run.checks.largest.values()) < 1e-5
    assert {"leaky1", "relu1", "relu2", "leaky2", "leaky3", "pool1"} == set(program.maps)
    activations = program.maps["relu2"].gather(run.driver)
    assert activations.min() == 0 and (activations.max() == 6 or name.startswith("fpga"))


def gelus(*, joined: bool) -> Network:
    """With the sum before and by themselves, behind and before pools, with bias and without, and behind a join, which
    reads four maps."""
    join = Join(name="join", inputs=("gelu3", "gelu4", "conv2", "pool1")), Gelu(name="gelu5")
    return Network(name="gelus", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv1", channels=4, kernel=(3, 3), padding=(1, 1)), Gelu(name="gelu1"), Gelu(name="gelu2"),
        MaxPool(name="pool1", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="conv2", channels=4, kernel=(3, 3), padding=(1, 1), bias=False),
        Convolution(name="conv3", channels=4, kernel=(1, 1)), Gelu(name="gelu3"),
        Convolution(name="conv4", channels=4, kernel=(1, 1)), Gelu(name="gelu4"), *(join if joined else ()),
        MaxPool(name="pool2", kernel=(2, 2), stride=(2, 2)), Gelu(name="gelu6"), Flatten(name="flat"),
        Dense(name="fc1", outputs=6), Gelu(name="gelu7"), Dense(name="fc2", outputs=5),
        SoftmaxCrossEntropy(name="loss")))


@pytest.mark.parametrize(("name", "bound"), [("ndp-demo", 1e-5), ("ndp-demo-mixed", 5e-3), ("fpga-demo", 0.02),
                                             ("hypar-tiny", 1e-5)])
def test_gelus(name: str, bound: float) -> None:
    """In formats that dies have, whose inputs backward reads."""
    network = gelus(joined=not name.endswith("mixed"))
    plan, data = data_parallel(network, dies=2, batch=8), random_data(network, 16, np.random.default_rng(3))
    # In Q3.12 sums of larger samples saturate.
    data, rule = replace(data, train_x=data.train_x * np.float32(0.25)), UpdateRule(rate=0.001)
    program = lower_training(network, plan, preset(name), rule=rule, steps=2, memory_words=MEMORY_WORDS)
    run = session(network, plan, data, program, rule=rule)
    assert len(list(run.epoch(0))) == 2
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < bound
    assert run.checks.unsaturated is None or run.checks.unsaturated.judged == 2
    assert set(program.maps) == {"pool1", "pool2"}


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("die", "dies"), [(NDP, 2), (MIXED, 2), (FIXED, 2), (ROWS, 1)],
                         ids=["ndp", "mixed", "fixed", "rows"])
def test_gelus_on_rtl(die: DieParameters, dies: int) -> None:
    network = gelus(joined=die is not MIXED)
    plan = data_parallel(network, dies=dies, batch=4)
    program = lower_training(network, plan, die, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 4, np.random.default_rng(1)), program, rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal and run.compared_steps == 1
    assert sum(run.driver.injected_words(die) for die in range(dies)) == plan.words


@pytest.mark.parametrize("dies", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("name", ["ndp-demo", "hypar-tiny"])
@pytest.mark.parametrize("network", [DOUBLED, CONCATENATED], ids=lambda network: network.name)
def test_layers_that_read_a_layer_twice(network: Network, name: str, dies: int) -> None:
    """What is added twice moves once, also its error, and counts as often as it is read; what is concatenated twice
    has two errors."""
    for seed in range(3):
        generator = np.random.default_rng([seed, dies])
        plan = random_plan(network, dies, 2 * dies + 1, generator)
        program = lower_training(network, plan, preset(name), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
        run = session(network, plan, random_data(network, plan.batch, generator), program)
        next(iter(run.epoch(0)))
        assert run.checks is not None and run.checks.failure is None
        assert max(run.checks.largest.values()) < 1e-5
        step = step_of(plan.sharding, preset(name))
        works = [item.work for die in range(dies) for item in step.tasks(die) if isinstance(item, Task)]
        assert sum(work.source.rows * work.source.columns for work in works
                   if isinstance(work, TileCopy) and work.die is not None) == sum(
                       transfer.words for transfer in plan.transfers)
        assert 4 * plan.words == ExactWords(plan.graph, plan.batch, plan.factors).total_bytes(plan.splits)


@pytest.mark.parametrize("kind", [Add, Concat])
def test_a_layer_read_twice_in_fixed_point(kind: type[Layer]) -> None:
    network = Network(name="doubled", input=Shape((3, 4, 4)), layers=(
        Convolution(name="conv", channels=3, kernel=(3, 3)), Relu(name="relu"),
        kind(name="both", inputs=("relu", "relu")), Flatten(name="flat"), Dense(name="fc", outputs=4),
        Join(name="join", inputs=("fc", "fc")), SoftmaxCrossEntropy(name="loss")))
    plan, data = data_parallel(network, dies=2, batch=8), random_data(network, 8, np.random.default_rng(2))
    data = replace(data, train_x=data.train_x * np.float32(0.25))
    program = lower_training(network, plan, preset("fpga-demo"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    run = session(network, plan, data, program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None and run.checks.unsaturated is not None
    assert run.checks.unsaturated.judged == 1 and max(run.checks.largest.values()) < 0.02


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize("network", [DOUBLED, CONCATENATED], ids=lambda network: network.name)
def test_layers_that_read_a_layer_twice_on_rtl(network: Network) -> None:
    plan = random_plan(network, 2, 5, np.random.default_rng(1))
    program = lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 5, np.random.default_rng(1)), program, rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal and run.compared_steps == 1
    assert sum(run.driver.injected_words(die) for die in range(2)) == plan.words


@pytest.mark.parametrize("dies", [2, 3])
def test_dies_without_a_collective_engine_train_alone(dies: int) -> None:
    network, target = NETWORKS["digits-mlp"], preset("fpga-ulx3s")
    common = {"rule": UpdateRule(), "steps": 1, "memory_words": MEMORY_WORDS}
    with pytest.raises(UserError, match="dies of preset 'fpga-ulx3s' have no collective engine, so that each trains "
                                        "alone; choose dies=1"):
        lower_training(network, data_parallel(network, dies=dies, batch=6), target, **common)  # type: ignore[arg-type]
    assert lower_training(network, data_parallel(network, dies=1, batch=6), target, **common)  # type: ignore[arg-type]


@pytest.mark.parametrize("dies", [1, 2])
def test_a_network_with_one_output(dies: int) -> None:
    """Its bias is one word, which the loss adds, and whose gradient it gives."""
    generator = np.random.default_rng(dies)
    network = Network(name="one", input=Shape((5,)), layers=(
        Dense(name="fc1", outputs=4), Relu(name="relu"), Dense(name="fc2", outputs=1), MeanSquaredError(name="loss")))
    plan = random_plan(network, dies, 6, generator)
    program = lower_training(network, plan, preset("ndp-demo"), rule=UpdateRule(), steps=2, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 12, generator), program)
    assert len(list(run.epoch(0))) == 2
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 1e-5


def test_every_map_that_decides_a_kink_can_be_read() -> None:
    """What a step is checked with: relu's output, the input of a maximum."""
    network = Network(name="kinks", input=Shape((2, 6, 6)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3)), Relu(name="relu"),
        MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"), Dense(name="hidden", outputs=6),
        Relu(name="last"), Dense(name="classifier", outputs=3), SoftmaxCrossEntropy(name="loss")))
    plan = random_plan(network, 2, 8, np.random.default_rng(1))
    program = lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    assert {name: (tensor.positions, tensor.channels) for name, tensor in program.maps.items()} == {
        "relu": (16, 4), "pool": (16, 4), "last": (1, 6)}


@pytest.mark.parametrize("dies", [1, 2, 4])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", [SoftmaxCrossEntropy, MeanSquaredError])
def test_a_loss_reads_all_positions_of_a_map(loss: type[Layer], bias: bool, dies: int) -> None:
    network = Network(name="flat", input=Shape((2, 4, 5)), layers=(
        Convolution(name="conv", channels=3, kernel=(3, 3), bias=bias), Flatten(name="flatten"), loss(name="loss")))
    for seed in range(3):
        generator = np.random.default_rng(seed)
        plan = random_plan(network, dies, 9, generator)
        program = lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1,
                                 memory_words=MEMORY_WORDS)
        run = session(network, plan, random_data(network, 9, generator), program)
        result = next(iter(run.epoch(0)))
        assert run.gradient_error < 1e-5
        assert np.isfinite(result.loss)


def test_the_networks_input_has_fourteen_readers() -> None:
    layers = [Dense(name=f"fc{number}", inputs=("input",), outputs=3) for number in range(15)]

    def lowered(count: int) -> TrainingProgram:
        network = Network(name="wide", input=Shape((4,)), layers=(
            *layers[:count], Add(name="sum", inputs=tuple(layer.name for layer in layers[:count])),
            SoftmaxCrossEntropy(name="loss")))
        plan = random_plan(network, 1, 4, np.random.default_rng(0))
        return lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)

    assert len(lowered(14).inputs) == 14
    with pytest.raises(UserError, match="layer 'fc14' is one too many that reads the network's input"):
        lowered(15)


@pytest.mark.parametrize("dies", [1, 2])
@pytest.mark.parametrize("name", ["ndp-tiny", "ndp-demo-mixed"])
def test_rows_wider_than_the_scratchpad_are_cut(name: str, dies: int) -> None:
    wide = preset(name).vector_buffer_words + 6
    network = perceptron("wide", (3, wide, 5))
    batch = 7
    plan = random_plan(network, dies, batch, np.random.default_rng(0)).resharded(splits=(("dp",) * (dies - 1),) * 3)
    program = lower_training(network, plan, preset(name), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    data = random_data(network, batch, np.random.default_rng(1))
    run = session(network, plan, data, program)
    next(iter(run.epoch(0)))
    assert run.gradient_error < (1e-5 if name == "ndp-tiny" else 1e-2)


def test_a_loss_wider_than_the_scratchpad_is_refused() -> None:
    network = perceptron("wide", (3, preset("ndp-tiny").vector_buffer_words))
    plan = random_plan(network, 1, 4, np.random.default_rng(0))
    with pytest.raises(UserError, match="a row of 1024 values, which a loss or a sparse layer takes"):
        lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("seed", "dies"), [
    (0, 2), (0, 4), *(pytest.param(seed, dies, marks=pytest.mark.slow) for seed, dies in (
        (1, 2), (1, 4), (2, 2), (2, 4), (3, 2), (3, 4), (0, 3), (1, 3), (0, 6)))])
def test_rtl_equals_golden_and_links_carry_the_planned_words(seed: int, dies: int) -> None:
    network, plan, data, program = lowered(100 + seed, dies, "ndp-tiny")
    run = session(network, plan, data, program, rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal
    assert run.compared_steps == 1
    assert sum(run.driver.injected_words(die) for die in range(dies)) == plan.words


@pytest.mark.xdist_group("tiny-dies")
def test_rings_of_several_kinds_do_not_hold_each_other_up() -> None:
    """Three sets of rings on two reduce blocks, over slow links: dies are far apart in their messages."""
    network = perceptron("turns", (40, 48, 48, 48, 48, 8))
    splits = (("dp", "dp"), ("op", "dp"), ("dp", "mp"), ("op", "dp"), ("dp", "dp"), ("dp", "dp"))
    plan = random_plan(network, 4, 8, np.random.default_rng(0)).resharded(splits=splits)
    parameters = preset("ndp-tiny", link_rate=Fraction(1, 8))
    program = lower_training(network, plan, parameters, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 8, np.random.default_rng(1)), program, rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal
