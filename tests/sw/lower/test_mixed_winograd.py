"""Winograd layers with products of FP16 operands: random networks under random splits against the float64 reference,
RTL against golden, words against the plan; and what is rounded to 16 bits and what is not."""

from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.dies import MIXED_TILES as TINY
from tests.support.networks import random_data, winograd_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.array.array import prime_factors, ring
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.machine.convolution import FeatureMap
from plinth.network.layers import Add, Convolution, Flatten, MeanSquaredError, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import elements_of_kernel, tiled, with_fit, with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.predict.tasks import matrix_cost, vector_cost
from plinth.predict.time import StepTime
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.step.step import LOSS_SCALE
from plinth.step.tasks import Multiplication, Task, TransformTiles, Vector
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import form


def lowered(network: Network, plan: Plan) -> TrainingProgram:
    return lower_training(network, plan, TINY, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


def planned(network: Network, dies: int, batch: int, generator: np.random.Generator) -> Plan:
    """Samples split over all dies; elements of each layer's tiles over some of the last levels."""
    graph, factors = from_network(network), prime_factors(dies)
    counts = [int(generator.integers(len(factors) + 1)) if node.tiling else 0 for node in graph.nodes]
    splits = tuple(("dp",) * (len(factors) - count) + ("ep",) * count for count in counts)
    return Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch, factors=factors), planner="data",
                model="exact", array=f"ring-{dies}")


def cases(seed: int, dies: int) -> Iterator[tuple[Network, Plan, Dataset, TrainingProgram]]:
    """Networks with a Winograd layer whose plans can be lowered."""
    for number in range(seed, seed + 100_000, 1000):
        generator = np.random.default_rng([number, dies])
        network = with_fit(winograd_network(generator))
        if not tiled(network):
            continue
        batch = int(generator.integers(max(1, dies // 2), 3 * dies + 3))
        try:
            plan = planned(network, dies, batch, generator)
            program = lowered(network, plan)
        except UserError as error:
            assert any(why in str(error) for why in (
                "times, above 2", "even number of channels", "but a tile has")), error
            continue
        yield network, plan, random_data(network, batch, generator), program


@pytest.mark.parametrize(("seed", "dies"), [
    *((seed, dies) for dies, count in ((1, 6), (2, 6), (4, 6), (3, 3)) for seed in range(count))])
def test_a_step_is_that_of_the_network_under_any_plan(seed: int, dies: int) -> None:
    network, plan, data, program = next(cases(seed, dies))
    run = session(network, plan, data, program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert 1e-6 < run.checks.largest["prediction"] < 5e-3


@pytest.mark.xdist_group("tiny-mixed-winograd-dies")
@pytest.mark.parametrize(("seed", "dies"), [(0, 2), *(
    pytest.param(seed, dies, marks=pytest.mark.slow) for seed, dies in ((1, 1), (2, 4), (3, 4), (4, 8)))])
def test_rtl_equals_golden_and_links_carry_the_planned_words(seed: int, dies: int) -> None:
    network, plan, data, program = next(cases(200 + seed, dies))
    run = session(network, plan, data, program, rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal
    assert sum(run.driver.injected_words(die) for die in range(dies)) == plan.words


def digits(weights: str, split: str, dies: int = 2) -> tuple[Session, TrainingProgram, Network]:
    network = with_tiles(NETWORKS["digits-cnn"], 2, weights)
    graph = from_network(network)
    splits = tuple(((split if node.tiling else "dp"),) for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits if dies > 1 else ((),) * len(splits), batch=8,
                                  factors=(2,) if dies > 1 else ()),
                planner="data", model="exact", array=f"ring-{dies}")
    program = lowered(network, plan)
    run = session(network, plan, random_data(network, 8, np.random.default_rng(3)), program)
    return run, program, network


@pytest.mark.parametrize("split", ["dp", "ep"])
def test_kernels_become_elements_and_back_in_fp32(split: str) -> None:
    """Elements are rounded to FP16 once, as operands; gradients are not."""
    run, program, network = digits("spatial", split)
    layer = next(layer for layer in network.weighted if isinstance(layer, Convolution) and layer.name == "conv2")
    inputs = network.shapes["conv2"].inputs[0].channels
    kernel = run.parameters(run.driver)["conv2.weights"]
    next(iter(run.epoch(0)))
    wanted = elements_of_kernel(form((3, 3), 2), kernel).reshape(16, inputs, layer.channels)
    g = np.array(form((3, 3), 2).transforms[0].g, dtype=np.float64)
    for die in range(2):
        piece = program.gradients["conv2"].slices[die]
        # Half of a tile is two columns of it.
        columns = (2 * die, 2 * die + 1)
        mine = [4 * row + column for column in columns for row in range(4)] if split == "ep" else list(range(16))
        count = len(mine)
        operand, element_gradients, kernel_gradients = (
            run.driver.read(die, program.buffers[f"conv2.{name}"]).ravel() for name in (
                "elements", "element_gradient", "gradients"))
        words = count * inputs * layer.channels
        assert np.array_equal(operand[:words // 2].view(np.float16).reshape(count, inputs, layer.channels),
                              wanted[mine].astype(np.float32).astype(np.float16))
        tiles = np.zeros((16, inputs, layer.channels))
        tiles[mine] = element_gradients[:words].view(np.float32).reshape(count, inputs, layer.channels)
        exact = np.einsum("uk,vl,uvio->klio", g, g, tiles.reshape(4, 4, inputs, layer.channels)).ravel()
        error = np.abs(kernel_gradients[:piece.weights].view(np.float32) - exact).max() / np.abs(exact).max()
        assert error < 3e-7


def test_the_matrix_engine_reads_16_bits_and_tiles_are_made_of_32() -> None:
    """A map that a direct layer reads beside tiles is narrow, and widened for them; one that only tiles are made of is
    not narrow at all."""
    def layer(name: str, source: str, winograd: str | int, kernel: int = 3) -> Convolution:
        return Convolution(name=name, inputs=(source,), channels=8, kernel=(kernel, kernel),
                           padding=(kernel // 2, kernel // 2), winograd=winograd)

    network = Network(name="block", input=Shape((2, 6, 6)), layers=(
        layer("conv0", "input", 2), Relu(name="relu0"), layer("conv1", "relu0", 2), Relu(name="relu1"),
        layer("conv2", "relu1", 2), layer("side", "relu1", "off", 1), Add(name="add", inputs=("conv2", "side")),
        layer("conv3", "add", 2), MeanSquaredError(name="loss")))
    step = step_of(Sharding(graph=from_network(network), splits=((),) * len(from_network(network).nodes), batch=4),
                            TINY)
    packed = {place.name: place.what.packed for place in step.places if place.what is not None}
    assert not packed["input"] and not packed["conv0.output"] and not packed["add.output"]
    assert packed["conv1.output"] and not packed["conv1.wide"] and packed["side.operand"]
    matrix = transforms = 0
    for task in step.tasks(0):
        assert isinstance(task, Task)
        if isinstance(task.work, Multiplication):
            matrix += task.work.layer != "side"
            a, b, c = (operand.buffer if isinstance(operand, FeatureMap) else operand for operand in (
                task.work.a, task.work.b, task.work.c))
            assert a.packed and b.packed and not c.packed
        elif isinstance(task.work, TransformTiles):
            transforms += 1
            assert not task.work.maps.buffer.packed and not task.work.tiles.packed
        elif isinstance(task.work, Vector):
            task.work.program.body()
    assert matrix == 16 * (4 * 3 - 1) and transforms == 4 * 4 - 1


def test_predictions_know_what_is_narrow() -> None:
    """Operands of products are half as many words; tiles take the vector engine's time, which writes half of what it
    reads. The PEs are as fast."""
    network = with_tiles(NETWORKS["wrn-40-10"], 2, "winograd")
    graph, read, narrow, forward = from_network(network), [], [], []
    number = next(number for number, node in enumerate(graph.nodes) if node.name == "conv3_2a")
    for name in ("ndp-demo-winograd", "ndp-demo-mixed-winograd"):
        array = ring(1, preset=name)
        time = StepTime(graph, 4, array)
        step = step_of(Sharding(graph=graph, splits=((),) * len(graph.nodes), batch=4), preset(name))
        tasks = [task for task in step.tasks(0, 4) if isinstance(task, Task) and task.node is graph.nodes[number]]
        read.append(sum(matrix_cost(time.machine, task.work).reads * task.count for task in tasks
                        if isinstance(task.work, Multiplication)))
        narrow.append([vector_cost(time.machine, task.work) for task in tasks
                       if isinstance(task.work, Vector) and "tiles.narrow" in task.name])
        forward.append(time.compute(number, ()).forward)
    assert 0.3 < read[1] / read[0] < 0.6
    assert not narrow[0] and all(cost.writes == cost.reads / 2 for cost in narrow[1]) and len(narrow[1]) >= 2
    assert forward[1] > forward[0]


def test_errors_are_scaled_and_their_factor_is_taken_back() -> None:
    run, program, _ = digits("winograd", "dp", 1)
    next(iter(run.epoch(0)))
    assert program.gradient_scale == LOSS_SCALE
    assert run.checks is not None and run.checks.failure is None


@pytest.mark.parametrize(("kernel", "outputs", "why"), [
    ((3, 3), 4, r"F\(4,3\) on preset '.*': with it errors of FP16 operands grow 10.8 times, above 2; choose winograd="
                "2, winograd=off, or format=fp32"),
    ((5, 5), 2, r"F\(2,5\) .* grow 12.3 times, above 2; choose winograd=off, or format=fp32")])
def test_what_is_not_fit_is_refused(kernel: tuple[int, int], outputs: int, why: str) -> None:
    network = Network(name="one", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv", channels=4, kernel=kernel, winograd=outputs), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss")))
    plan = planned(network, 1, 4, np.random.default_rng(0))
    with pytest.raises(UserError, match=why):
        lowered(network, plan)
