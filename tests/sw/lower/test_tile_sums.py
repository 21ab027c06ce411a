"""Sums and means of Winograd layers, and layers that read the same map: tiles are added where their elements are, and
made once; random networks and splits against the float64 reference, RTL against golden, words against the plan."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.support.dies import PREDICTING as TINY
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth.array.array import prime_factors, ring
from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Flatten,
    Join,
    Layer,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.partition.blocks import residuals, shared_tiles, tile_sums
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planning import Planned, outcome, task
from plinth.report.plan import plan_report, show_plan
from plinth.report.simulation import show_simulation, simulation_report
from plinth.sharding import Sharding
from plinth.simulate.rows import layer_rows
from plinth.simulate.step import simulated
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset


def fractal(generator: np.random.Generator) -> Network:
    """Blocks of several convolutions of one map, added or their mean taken, most of them alike; a ReLU behind."""
    def below(limit: int, low: int = 1) -> int:
        return int(generator.integers(low, limit + 1))

    channels, side, outputs = below(4), below(7, 4), int(generator.choice([2, 4]))
    layers: list[Layer] = [Convolution(name="stem", channels=channels, kernel=(3, 3), padding=(1, 1)),
                           Relu(name="relu")]
    source = "relu"
    for block in range(below(2)):
        names = []
        for column in range(below(4, 2)):
            name = f"b{block}c{column}"
            odd = generator.random() < 0.15
            layers.append(Convolution(
                name=name, inputs=(source,), channels=channels, kernel=(3, 3), padding=(1, 1),
                bias=generator.random() < 0.3, winograd="off" if odd else outputs,
                weights="spatial" if odd or generator.random() < 0.5 else "winograd",
                predict=0 if odd else below(1, 0)))
            names.append(name)
            if generator.random() < 0.1:
                layers.append(Relu(name=f"{name}r"))
                names[-1] = f"{name}r"
        inputs = (*names, source) if generator.random() < 0.15 else tuple(names)
        junction = Join if generator.random() < 0.5 else Add
        layers += [junction(name=f"j{block}", inputs=inputs), Relu(name=f"r{block}", inputs=(f"j{block}",))]
        source = f"r{block}"
    layers += [Flatten(name="flatten", inputs=(source,)), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")]
    return Network(name="fractal", input=Shape((below(3), side, side)), layers=tuple(layers))


def case(seed: int, dies: int) -> tuple[Network, Plan]:
    """A network and a split under which tiles are added or shared; nodes of a block are mostly split alike."""
    for number in range(seed, seed + 100_000, 1000):
        generator = np.random.default_rng([number, dies, 9])
        network = fractal(generator)
        graph, factors = from_network(network), prime_factors(dies)
        most = tuple(str(generator.choice(["ep", "ep", "dp", "op"])) for _ in factors)
        splits = []
        for place, node in enumerate(graph.nodes):
            alike = most if node.tiling else ("dp",) * len(factors)
            free = tuple(str(generator.choice(graph.choices(place))) for _ in factors)
            splits.append(alike if generator.random() < 0.9 or node is graph.nodes[-1] else free)
        try:
            batch = int(generator.integers(max(1, dies // 2), 2 * dies + 3))
            plan = Plan(sharding=Sharding(graph=graph, splits=tuple(splits), batch=batch, factors=factors),
                        planner="random", model="exact", array=f"ring-{dies}")
        except UserError:
            continue
        if tile_sums(graph, plan.layouts) or shared_tiles(graph, plan.layouts):
            return network, plan
    raise AssertionError("no such case")


def lowered(network: Network, plan: Plan) -> TrainingProgram:
    return lower_training(network, plan, TINY, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize(("seed", "dies"), [
    *((seed, dies) for dies, count in ((2, 8), (4, 10), (8, 6), (6, 4)) for seed in range(count))])
def test_a_step_is_that_of_the_network(seed: int, dies: int) -> None:
    network, plan = case(seed, dies)
    run = session(network, plan, random_data(network, plan.batch, np.random.default_rng(seed)), lowered(network, plan))
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 3e-5


@pytest.mark.xdist_group("tiny-predict-dies")
@pytest.mark.parametrize(("seed", "dies"), [
    (0, 2), (1, 4), *(pytest.param(seed, dies, marks=pytest.mark.slow) for seed, dies in ((2, 4), (3, 8), (4, 2)))])
def test_rtl_equals_golden_and_links_carry_the_planned_words(seed: int, dies: int) -> None:
    network, plan = case(500 + seed, dies)
    run = session(network, plan, random_data(network, plan.batch, np.random.default_rng(seed)), lowered(network, plan),
                  rtl=True)
    next(iter(run.epoch(0)))
    assert run.equal
    least, most = plan.word_bounds
    assert least <= sum(run.driver.injected_words(die) for die in range(dies)) <= most


def several(columns: str = "abc", junction: type[Layer] = Join) -> Network:
    """A block of as many convolutions."""
    return with_tiles(Network(name="block", input=Shape((2, 6, 6)), layers=(
        Convolution(name="stem", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        *(Convolution(name=name, inputs=("relu",), channels=4, kernel=(3, 3), padding=(1, 1)) for name in columns),
        junction(name="j", inputs=tuple(columns)), Relu(name="r"), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, None)


def planned(network: Network, splits: dict[str, tuple[str, ...]] | None = None) -> Plan:
    graph = from_network(network)
    vectors = tuple((splits or {}).get(node.name, ("dp", "ep") if node.tiling else ("dp", "dp"))
                    for node in graph.nodes)
    return Plan(sharding=Sharding(graph=graph, splits=vectors, batch=8), planner="data", model="exact", array="ring-4")


def alone() -> Plan:
    """One of its convolutions in the place of a block."""
    return planned(with_tiles(Network(name="one", input=Shape((2, 6, 6)), layers=(
        *several().layers[:3], Relu(name="r"), Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss"))), 2, None))


def moved(plan: Plan) -> list[tuple[str, str, str]]:
    """Scatters and gathers of the block."""
    return [(transfer.exchange.layer, transfer.exchange.phase, transfer.exchange.kind) for transfer in plan.transfers
            if transfer.exchange.layer != "stem"]


@pytest.mark.parametrize("junction", [Add, Join])
def test_a_block_moves_tiles_once_each_way(junction: type[Layer]) -> None:
    plan = planned(several(junction=junction))
    assert moved(plan) == [("a", "fprop", "scatter"), ("c", "fprop", "gather"), ("c", "bprop", "scatter"),
                           ("a", "bprop", "gather")]
    assert sum(transfer.words for transfer in plan.transfers) == sum(transfer.words for transfer in alone().transfers)


@pytest.mark.parametrize(("columns", "shared"), [("ab", 4), ("abc", 4), ("abcd", 2)])
def test_words_that_a_block_saves_are_those_of_its_further_layers(columns: str, shared: int) -> None:
    """Of four the sum has too many biases: tiles of the map and of its errors are shared alone."""
    plan = planned(several(columns))
    each = {(transfer.exchange.phase, transfer.exchange.kind): transfer.words for transfer in alone().transfers
            if transfer.exchange.layer == "a" and transfer.exchange.kind != "bias"}
    assert len(each) == 4 and min(each.values()) > 0
    once = [each["fprop", "scatter"], each["bprop", "gather"], each["fprop", "gather"], each["bprop", "scatter"]]
    assert plan.saved_words == (len(columns) - 1) * sum(once[:shared])
    assert alone().saved_words == planned(several(columns), dict.fromkeys(columns, ("dp", "dp"))).saved_words == 0


@pytest.mark.parametrize("command", ["plan", "simulate"])
@pytest.mark.parametrize("groups", [True, False])
def test_reports_say_what_blocks_save_if_they_do(capsys, command: str, groups: bool) -> None:
    plan = replace(planned(several()), definition=several()).resharded(array=ring(4, preset="ndp-demo-winograd"))
    if not groups:
        plan = plan.resharded(splits=tuple(("dp", "dp") for _ in plan.splits))
    if command == "plan":
        problem = task(plan.graph, plan.hardware, "exact", plan.batch)
        planning = Planned(plan, outcome(problem, plan.splits), {
            name: outcome(problem, plan.splits) for name in ("data", "model")}, "", 0, 1, 4, {}, ())
        report, show = plan_report(planning), lambda console: show_plan(console, planning)
        assert report["predicted_injected_words"] == plan.words
    else:
        simulation = simulated(plan, plan.hardware)
        report, show = simulation_report(simulation), lambda console: show_simulation(console, simulation)
    show(Console(width=200))
    text, words = capsys.readouterr().out, plan.saved_words
    assert (words > 0) == groups
    assert report.get("saved_words") == (words or None)
    assert (f"blocks of Winograd layers save {words:,} words a step" in text) == (words > 0)
    assert ("blocks of" in text) == (words > 0)


def test_what_is_not_alike_is_moved_by_itself() -> None:
    """Another split; another reader of a summand; more biases than a vector task adds."""
    network = several()
    assert set(tile_sums(from_network(network), planned(network).layouts)) == {1, 2, 3}
    apart = planned(network, {"b": ("ep", "ep")})
    assert not tile_sums(apart.graph, apart.layouts) and shared_tiles(apart.graph, apart.layouts) == {3: 1}
    assert ("b", "fprop", "scatter") in moved(apart) and ("b", "fprop", "gather") in moved(apart)
    *layers, junction, relu, flatten, loss = network.layers
    read = planned(replace(network, layers=(*layers, replace(junction, inputs=("a", "b")), Add(
        name="k", inputs=("j", "c", "a")), replace(relu, inputs=("k",)), flatten, loss)))
    assert not tile_sums(read.graph, read.layouts)
    biased = planned(several("abcd"))
    assert not tile_sums(biased.graph, biased.layouts)


@pytest.mark.parametrize(("rounds", "predicted"), [((2, 1, 0), 0), ((0, 2, 1), 1)])
def test_the_last_layer_says_whether_a_sum_is_predicted(rounds: tuple[int, ...], predicted: int) -> None:
    """What layers ask for decides what is sent, not what is added."""
    network = several(junction=Add)
    asked = dict(zip("abc", rounds, strict=True))
    network = replace(network, layers=tuple(
        replace(layer, predict=asked[layer.name], bias=layer.name == "b")
        if isinstance(layer, Convolution) and layer.name in asked else layer for layer in network.layers))
    plan = planned(network)
    assert moved(plan) == moved(planned(several()))
    assert [transfer.exchange.coded.rounds for transfer in plan.transfers
            if transfer.exchange.coded and (transfer.exchange.phase, transfer.exchange.kind) == ("fprop", "gather")
            and transfer.exchange.layer != "stem"] == [1] * predicted
    assert lowered(network, plan).notes == (() if predicted else tuple(
        f"layer {name!r}: its gather sends everything, as the last layer of its sum of tiles does not predict"
        for name in "ab"))


def test_windows_that_lie_elsewhere_are_not_shared() -> None:
    """F(4x4,3x3) and F(2x2,5x5) have one B^T, and as many tiles of this map, 4 places apart and 2."""
    network = Network(name="windows", input=Shape((2, 7, 7)), layers=(
        Convolution(name="stem", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        Convolution(name="a", inputs=("relu",), channels=4, kernel=(3, 3), winograd=4),
        Convolution(name="b", inputs=("relu",), channels=4, kernel=(5, 5), winograd=2),
        Convolution(name="c", inputs=("a",), channels=4, kernel=(3, 3)),
        Add(name="j", inputs=("b", "c")), Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss")))
    plan = planned(network)
    assert not shared_tiles(plan.graph, plan.layouts)
    run = session(network, plan, random_data(network, plan.batch, np.random.default_rng(0)), lowered(network, plan))
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None


def test_blocks_are_simulated() -> None:
    network = several()
    plan = planned(network)
    array = ring(4, preset="ndp-demo-winograd")
    assert sum(row.injected_words for row in layer_rows(simulated(plan.resharded(array=array), array))) == plan.words


@pytest.mark.parametrize("predict", [0, 1])
@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_that_is_added_to_itself_is_no_sum_of_tiles(relu: bool, predict: int) -> None:
    """Its map is: no tiles are added, and no other map to its own."""
    def winograd(name: str) -> Convolution:
        return Convolution(name=name, channels=4, kernel=(3, 3), padding=(1, 1), winograd=2, weights="winograd",
                           predict=predict)

    network = Network(name="doubled", input=Shape((2, 6, 6)), layers=(
        Convolution(name="stem", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"), winograd("conv1"),
        *((Relu(name="relu2"),) if relu else ()), Add(name="add", inputs=("relu2" if relu else "conv1",) * 2),
        Relu(name="relu3"), winograd("conv2"), Flatten(name="flatten"), Dense(name="fc", outputs=3),
        SoftmaxCrossEntropy(name="loss")))
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=6), planner="given", model="exact", array="ring-4")
    assert not tile_sums(graph, plan.layouts) and not residuals(graph, plan.layouts, {})
    program = lower_training(network, plan, preset("ndp-demo-predict"), rule=UpdateRule(), steps=1,
                             memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 6, np.random.default_rng(1)), program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 1e-5


@pytest.mark.parametrize("predict", [0, 1])
def test_winograd_layers_before_and_behind_a_concatenation(predict: int) -> None:
    def winograd(name: str, source: str, channels: int) -> Convolution:
        return Convolution(name=name, inputs=(source,), channels=channels, kernel=(3, 3), padding=(1, 1), winograd=2,
                           weights="winograd", predict=predict)

    network = Network(name="concatenated", input=Shape((2, 6, 6)), layers=(
        Convolution(name="stem", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
        winograd("conv1", "relu1", 4), winograd("conv2", "relu1", 2),
        Concat(name="concat", inputs=("conv1", "relu1", "conv2")), Relu(name="relu2"), winograd("conv3", "relu2", 4),
        Relu(name="relu3"), Flatten(name="flatten"), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")))
    graph = from_network(network)
    splits = tuple(("ep", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=6), planner="given", model="exact", array="ring-4")
    program = lower_training(network, plan, preset("ndp-demo-predict"), rule=UpdateRule(), steps=1,
                             memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 6, np.random.default_rng(1)), program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 1e-5
