"""Embeddings on the dies: training steps against the float64 reference, and RTL against golden; order of adds."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.networks import random_data, random_plan
from tests.support.sessions import MEMORY_WORDS, session

from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Dense,
    Embedding,
    Join,
    Layer,
    MeanSquaredError,
    Relu,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.step.granularity import SPARE_ROWS
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset


def embedded(*layers: Layer, tokens: int) -> Network:
    return Network(name="embedded", input=Shape((tokens,)), layers=layers)


def random_embedded(generator: np.random.Generator) -> Network:
    """One table or two, read as they are, through activations, or as a sum."""

    def below(limit: int) -> int:
        return int(generator.integers(1, limit + 1))

    width, tokens = below(20), below(6)
    layers: list[Layer] = [Embedding(name="words", inputs=("input",), rows=below(40), width=width)]
    if generator.random() < 0.5:
        layers.append((Relu, Tanh, Sigmoid)[below(3) - 1](name="curve"))
    if generator.random() < 0.4:
        layers.append(Embedding(name="kinds", inputs=("input",), rows=below(40), width=width))
        layers.append((Add, Join)[below(2) - 1](name="both", inputs=(layers[-2].name, "kinds")))
    if generator.random() < 0.8:
        layers += [Dense(name="hidden", outputs=below(12)), Relu(name="relu")]
    layers.append(Dense(name="classifier", outputs=1 + below(8)))
    layers.append((SoftmaxCrossEntropy, MeanSquaredError)[below(2) - 1](name="loss"))
    return embedded(*layers, tokens=tokens)


def lowered(network: Network, plan: Plan, name: str, steps: int = 1) -> TrainingProgram:
    return lower_training(network, plan, preset(name), rule=UpdateRule(), steps=steps, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("dies", [1, 2, 4, 8])
@pytest.mark.parametrize(("name", "seed"), [*(("ndp-demo", seed) for seed in range(10)),
                                            *(("hypar-tiny", seed) for seed in range(10, 14))])
def test_gradients_are_those_of_the_network_under_any_plan(name: str, seed: int, dies: int) -> None:
    generator = np.random.default_rng([seed, dies])
    network = random_embedded(generator)
    batch = int(generator.integers(dies, 4 * dies + 3))
    plan = random_plan(network, dies, batch, generator)
    program = lowered(network, plan, name, 2)
    run = session(network, plan, random_data(network, 2 * batch, generator), program)
    assert len(list(run.epoch(0))) == 2
    assert run.gradient_error < 1e-5


@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("dies", "splits"), [
    (1, ()), (2, ("dp",)), (2, ("mp",)), (2, ("op",)), (4, ("mp", "dp")), (4, ("op", "mp"))])
def test_rtl_equals_golden_and_links_carry_the_planned_words(dies: int, splits: tuple[str, ...]) -> None:
    generator = np.random.default_rng(dies)
    network = embedded(Embedding(name="words", rows=11, width=7), Relu(name="relu"), Dense(name="fc", outputs=5),
                       SoftmaxCrossEntropy(name="loss"), tokens=4)
    plan = random_plan(network, dies, 9, generator)
    plan = plan.resharded(splits=(splits, *plan.splits[1:]))
    program = lowered(network, plan, "ndp-tiny", 2)
    run = session(network, plan, random_data(network, 18, generator), program, rtl=True)
    assert len(list(run.epoch(0))) == 2
    assert run.equal
    assert run.compared_steps == 2
    assert run.gradient_error < 1e-5
    assert sum(run.driver.injected_words(die) for die in range(dies)) == 2 * plan.words


def test_rows_that_come_again_are_added_in_the_order_of_the_batch() -> None:
    """One row for all: its gradient is the chain of all errors, rounded add by add."""
    network = embedded(Embedding(name="words", rows=3, width=4), Dense(name="fc", outputs=4, bias=False),
                       MeanSquaredError(name="loss"), tokens=1)
    batch, generator = 50, np.random.default_rng(0)
    plan = random_plan(network, 1, batch, generator)
    program = lowered(network, plan, "ndp-tiny")
    data = replace(random_data(network, batch, generator), train_x=np.full((batch, 1), 1))
    run = session(network, plan, data, program)
    next(iter(run.epoch(0)))
    errors = run.driver.read_floats(0, program.buffers["fc.input_error"])
    expected = np.zeros(4, dtype=np.float32)
    for error in errors:
        expected += error
    gradient = run.driver.read_floats(0, program.gradients["words"].buffers[0]).reshape(3, 4)
    assert np.array_equal(gradient, np.stack([0 * expected, expected, 0 * expected]))


def test_rows_of_other_dies_are_spare_ones() -> None:
    network = embedded(Embedding(name="words", rows=5, width=3), Dense(name="fc", outputs=2),
                       SoftmaxCrossEntropy(name="loss"), tokens=5)
    plan = random_plan(network, 2, 4, np.random.default_rng(0)).resharded(splits=(("mp",), ("dp",), ("dp",)))
    program = lowered(network, plan, "ndp-tiny")
    data = random_data(network, 4, np.random.default_rng(1))
    run = session(network, plan, replace(data, train_x=np.tile(np.arange(5), (4, 1))), program)
    next(iter(run.epoch(0)))
    numbers = [run.driver.read(die, buffer).reshape(4, 5) for die, buffer in enumerate(program.inputs[0].buffers)]
    assert numbers[0][0].tolist() == [0, 1, 2, 3 + 3, 3 + 4]
    assert numbers[1][0].tolist() == [2, 2 + 1, 2 + 2, 0, 1]
    assert all(row_indices.max() < piece.inputs + SPARE_ROWS for row_indices, piece in zip(
        numbers, program.weights["words"].slices, strict=True))
    for die, (place, piece) in enumerate(zip(program.weights["words"].buffers, program.weights["words"].slices,
                                             strict=True)):
        assert not run.driver.read(die, place.part("spare", piece.words, piece.spare, piece.outputs)).any()


@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize("left", [0x7F800000, 0xFF800000, 0x7FC00000, 0xC0000000, 0x40000000])
def test_a_gradient_starts_from_zeros_whatever_lies_there(left: int) -> None:
    network = embedded(Embedding(name="words", rows=9, width=5), Dense(name="fc", outputs=2),
                       SoftmaxCrossEntropy(name="loss"), tokens=2)
    plan = random_plan(network, 1, 3, np.random.default_rng(0))
    program = lowered(network, plan, "ndp-tiny")
    run = session(network, plan, random_data(network, 3, np.random.default_rng(1)), program, rtl=True, left=left)
    next(iter(run.epoch(0)))
    assert run.equal
    assert run.gradient_error < 1e-5


def test_a_table_larger_than_the_scratchpad() -> None:
    network = embedded(Embedding(name="words", rows=700, width=5), Dense(name="fc", outputs=2),
                       SoftmaxCrossEntropy(name="loss"), tokens=3)
    plan = random_plan(network, 2, 6, np.random.default_rng(0))
    program = lowered(network, plan, "ndp-tiny", 2)
    run = session(network, plan, random_data(network, 12, np.random.default_rng(1)), program)
    list(run.epoch(0))
    assert run.gradient_error < 1e-5


def test_embeddings_are_not_lowered_with_narrow_operands() -> None:
    network = embedded(Embedding(name="words", rows=7, width=4), Dense(name="fc", outputs=2),
                       SoftmaxCrossEntropy(name="loss"), tokens=2)
    with pytest.raises(UserError, match=r"'words' cannot be lowered with operands of 16 bits"):
        lowered(network, random_plan(network, 1, 4, np.random.default_rng(0)), "ndp-demo-mixed")
