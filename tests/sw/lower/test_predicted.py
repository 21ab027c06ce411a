"""Gathers that send what a ReLU lets through: a step with them is one without, word for word; RTL against golden; words
between the plan's bounds."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from tests.support.dies import PREDICTING as TINY
from tests.support.dies import PREDICTING_PAIRS as WIDER
from tests.support.networks import NARROW_DIGITS, enlarged_digits, random_data, random_plan, winograd_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.bench.holdouts import NETWORKS as NETWORKS_28
from plinth.errors import UserError
from plinth.lower.codes import LAYER_LEVELS, level_of
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Flatten,
    Join,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.winograd import predicts, with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.predicted import SKIPPED, expected_words, least_most
from plinth.plan.plan import Plan
from plinth.plan.plan_file import plan_from_data
from plinth.sharding import Sharding
from plinth.step.tasks import CodePart
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.golden import prediction

DEMO = "ndp-demo-predict"


def lowered(network: Network, plan: Plan, die: DieParameters = TINY) -> TrainingProgram:
    return lower_training(network, plan, die, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


def case(seed: int, dies: int) -> tuple[Network, Plan]:
    """A network and a split of it such that a gather is predicted."""
    for number in range(seed, seed + 100_000, 1000):
        generator = np.random.default_rng([number, dies, 7])
        network = winograd_network(generator)
        network = replace(network, layers=tuple(
            replace(layer, predict=(1, 2, "regions")[generator.integers(3)] if layer.winograd != "off" else 0)
            if isinstance(layer, Convolution) else layer for layer in network.layers))
        try:
            plan = random_plan(network, dies, int(generator.integers(max(1, dies // 2), 3 * dies + 3)), generator)
        except (UserError, ValueError):
            continue
        if any(transfer.exchange.coded for transfer in plan.transfers):
            return network, plan
    raise AssertionError("no such case")


def plain(network: Network, plan: Plan) -> tuple[Network, Plan]:
    """The same without predictions."""
    network = with_tiles(network, None, None, 0)
    return network, plan.resharded(graph=from_network(network))


def trained(network: Network, plan: Plan, *, rtl: bool = False, die: DieParameters = TINY,
            even: bool = False) -> Session:
    """Two steps; of inputs that are ``even``, the same everywhere."""
    data = random_data(network, 2 * plan.batch, np.random.default_rng(11))
    if even:
        data = replace(data, train_x=np.repeat(data.train_x[:, :1], data.train_x.shape[1], axis=1))
    run = session(network, plan, data, lowered(network, plan, die), rtl=rtl)
    for _ in run.epoch(0):
        assert run.checks is not None and run.checks.failure is None
    return run


def check_alike(left: Session, right: Session) -> None:
    """That weights, biases and gradients are the same, to the bit."""
    for places, others in ((left.program.weights, right.program.weights),
                           (left.program.gradients, right.program.gradients)):
        for name, layer in places.items():
            for die, (buffer, theirs) in enumerate(zip(layer.buffers, others[name].buffers, strict=True)):
                np.testing.assert_array_equal(left.driver.read(die, buffer), right.driver.read(die, theirs))


@pytest.mark.parametrize(("seed", "dies"), [
    *((seed, dies) for dies, count in ((2, 6), (4, 8), (8, 6), (3, 3), (6, 3)) for seed in range(count))])
def test_a_step_is_that_of_gathers_that_send_everything(seed: int, dies: int) -> None:
    network, plan = case(seed, dies)
    check_alike(trained(network, plan), trained(*plain(network, plan)))


@pytest.mark.xdist_group("tiny-predict-dies")
@pytest.mark.parametrize(("seed", "dies"), [
    (0, 2), (7, 2), (32, 2), (36, 2), (1, 4), *(pytest.param(seed, dies, marks=pytest.mark.slow) for seed, dies in (
        (2, 8), (3, 4), (4, 2), (5, 8), (6, 3)))])
def test_rtl_equals_golden_and_words_lie_between_bounds(seed: int, dies: int) -> None:
    network, plan = case(200 + seed, dies)
    run = trained(network, plan, rtl=True)
    assert run.equal
    least, most = plan.word_bounds
    counted = sum(run.driver.injected_words(die) for die in range(dies))
    assert 2 * least <= counted <= 2 * most and least < most
    check_alike(run, trained(*plain(network, plan)))


def followed(*between: Layer) -> tuple[Network, Plan]:
    """Two layers, the first with a bias above 0 and something behind it."""
    network = with_tiles(Network(name="two", input=Shape((2, 10, 10)), layers=(
        Convolution(name="a", channels=4, kernel=(3, 3)), *between, Convolution(name="b", channels=4, kernel=(3, 3)),
        Relu(name="last"), Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss"))), 2, None, 1)
    graph = from_network(network)
    return network, Plan(sharding=Sharding(graph=graph, splits=(("dp", "ep"), ("dp", "ep"), ("dp", "dp")), batch=8,
                                           factors=(2, 2)),
                         planner="data", model="exact", array="ring-4")


@pytest.mark.parametrize("between", [(), (MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),),
                                     (MaxPool(name="pool", kernel=(3, 3), stride=(1, 1)),)])
def test_errors_of_inputs_come_back_where_tiles_are_0_by_differences(between: tuple[Layer, ...]) -> None:
    """Even maps have tiles of which most elements are +0; the errors of these are needed all the same."""
    network, plan = followed(Relu(name="relu"), *between)
    assert ("b", "bprop", "gather") in coded(plan)
    check_alike(trained(network, plan, even=True), trained(*plain(network, plan), even=True))


def coded(plan: Plan) -> list[tuple[str, str, str]]:
    """Exchanges that send codes."""
    return [(transfer.exchange.layer, transfer.exchange.phase, transfer.exchange.kind) for transfer in plan.transfers
            if transfer.exchange.coded]


def test_errors_behind_a_mean_all_come_back() -> None:
    """It may be 0 of numbers above 0, which errors pass."""
    pool = MeanPool(name="pool", kernel=(2, 2), stride=(2, 2))
    assert [("b", "bprop", "gather") in coded(followed(*between)[1]) for between in (
        (Relu(name="relu"), pool), (pool, Relu(name="relu")))] == [False, True]
    assert ("b", "fprop", "scatter") in coded(followed(Relu(name="relu"), pool)[1])


def residual(rounds: int | str, outputs: int = 2, *, junction: type[Layer] = Add, swapped: bool = False,
             bias: bool = True, behind: tuple[Layer, ...] = ()) -> tuple[Network, Plan]:
    """A residual block, of maps that tiles do not divide."""
    inputs = ("b", "relu") if swapped else ("relu", "b")
    network = with_tiles(Network(name="block", input=Shape((2, 9, 7)), layers=(
        Convolution(name="a", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        Convolution(name="b", channels=4, kernel=(3, 3), padding=(1, 1), bias=bias),
        junction(name="sum", inputs=inputs), Relu(name="last"), *behind, Flatten(name="flatten"),
        Dense(name="classifier", outputs=6), SoftmaxCrossEntropy(name="loss"))), outputs, None, rounds)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=8), planner="data", model="exact",
                         array="ring-4")


@pytest.mark.parametrize(("rounds", "outputs", "others"), [
    (1, 2, {}), (2, 4, {"swapped": True}), ("regions", 2, {"bias": False}), (1, 4, {"junction": Join}),
    (2, 2, {"behind": (MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),)})])
def test_a_map_that_is_added_before_the_relu(rounds: int | str, outputs: int, others: dict[str, Any]) -> None:
    """Neurons are dead with it, or live with it; errors of the layer are those that masks name."""
    network, plan = residual(rounds, outputs, **others)
    assert {("b", "fprop", "gather"), ("b", "bprop", "scatter")} <= set(coded(plan))
    check_alike(trained(network, plan), trained(*plain(network, plan)))


def test_maps_that_are_not_there() -> None:
    """Made behind the gather, or the network's input, or on other dies."""
    def reason(inputs: tuple[str, str], first: tuple[str, str] = ("dp", "dp")) -> str:
        network = with_tiles(Network(name="block", input=Shape((4, 8, 8)), layers=(
            Convolution(name="a", channels=4, kernel=(1, 1)), Relu(name="relu"),
            Convolution(name="b", channels=4, kernel=(3, 3), padding=(1, 1), inputs=("relu",)),
            Convolution(name="c", channels=4, kernel=(1, 1), inputs=("relu",)),
            Add(name="sum", inputs=inputs), Relu(name="between"),
            *(() if "c" in inputs else (Add(name="other", inputs=("between", "c")), Relu(name="last"))),
            MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"),
            Dense(name="classifier", outputs=6), SoftmaxCrossEntropy(name="loss"))), 2, None, 1)
        graph = from_network(network)
        splits = tuple(("dp", "ep") if node.tiling else first if node.name == "a" else ("dp", "dp")
                       for node in graph.nodes)
        plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=8, factors=(2, 2)), planner="data",
                    model="exact", array="ring-4")
        note, = lowered(network, plan).notes or ("",)
        assert bool(note) != (("b", "fprop", "gather") in coded(plan))
        return note.rpartition(", as ")[2]

    assert reason(("relu", "b")) == ""
    assert reason(("input", "b")) == "the network's input is added to its sums"
    assert reason(("relu", "b"), ("dp", "op")) == "what is added to its sums lies on other dies"
    assert reason(("b", "c")) == "what is added to its sums is made behind them"


@pytest.mark.xdist_group("tiny-predict-dies")
def test_rtl_equals_golden_where_a_map_is_added() -> None:
    network, plan = residual(1)
    run = trained(network, plan, rtl=True)
    assert run.equal
    least, most = plan.word_bounds
    assert 2 * least <= sum(run.driver.injected_words(die) for die in range(4)) <= 2 * most


def digits(rounds: int | str, outputs: int = 2, batch: int = 16, network: Network = NETWORKS["digits-cnn"]
           ) -> tuple[Network, Plan]:
    network = with_tiles(network, outputs, None, rounds)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="data", model="exact",
                         array="ring-4")


@pytest.mark.parametrize(("rounds", "outputs"), [(1, 2), (2, 4)])
def test_gathers_before_a_max_pool_need_less(monkeypatch: pytest.MonkeyPatch, rounds: int, outputs: int) -> None:
    """Than those that do not know of it; the same bits as of both and of none."""
    network, plan = digits(rounds, outputs)
    assert [node.tiling.pooled for node in plan.graph.nodes if node.tiling] == [True, True]
    apart = plan.resharded(graph=replace(plan.graph, nodes=tuple(
        node if node.tiling is None else replace(node, tiling=replace(node.tiling, pooled=False))
        for node in plan.graph.nodes)))
    counts, needed = [0], prediction.needed

    def counted(way: prediction.Way, live: prediction.Mask) -> prediction.Mask:
        mask = needed(way, live)
        counts[-1] += int(mask.sum())
        return mask

    monkeypatch.setattr(prediction, "needed", counted)
    run = trained(network, plan)
    counts.append(0)
    check_alike(run, trained(network, apart))
    check_alike(run, trained(*plain(network, plan)))
    less, more = counts
    assert 0 < less < 0.97 * more and plan.words < apart.words


RELU, POOL = Relu(name="relu"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2))


@pytest.mark.parametrize(("behind", "side", "convolution", "known"), [
    ((RELU, POOL), 8, {}, True), ((RELU, POOL), 9, {}, True), ((RELU, replace(POOL, ceil=True)), 8, {}, True),
    ((RELU, replace(POOL, ceil=True)), 9, {}, False), ((RELU, replace(POOL, kernel=(3, 3))), 8, {}, False),
    ((RELU, replace(POOL, kernel=(3, 3), stride=(3, 3))), 8, {}, False),
    ((RELU, replace(POOL, padding=(1, 1))), 8, {}, False), ((POOL, RELU), 8, {}, False),
    ((RELU, MeanPool(name="pool", kernel=(2, 2), stride=(2, 2))), 8, {}, False),
    ((RELU, POOL), 8, {"predict": 0}, False), ((RELU, POOL), 8, {"predict": "regions"}, False),
    ((RELU, POOL), 8, {"kernel": (1, 3), "padding": (0, 1)}, False)])
def test_pools_that_gathers_know_of(behind: tuple[Layer, ...], side: int, convolution: dict, known: bool) -> None:
    """Of windows of 2x2 within tiles, right behind the ReLU; of others everything that lives is needed."""
    settings = {"kernel": (3, 3), "padding": (1, 1), "winograd": 2, "predict": 1} | convolution
    network = Network(name="one", input=Shape((2, side, side)), layers=(
        Convolution(name="a", channels=4, **settings), *behind, Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss")))
    graph = from_network(network)
    tiling = graph.nodes[0].tiling
    assert tiling is not None and tiling.pooled is known
    plan = Plan(sharding=Sharding(graph=graph, splits=(("ep",), ("dp",)), batch=4, factors=(2,)), planner="data",
                model="exact", array="ring-2")
    check_alike(trained(network, plan, even=True), trained(*plain(network, plan), even=True))


@pytest.mark.slow
@pytest.mark.xdist_group("demo-predict-dies")
def test_dies_of_two_words_a_flit() -> None:
    """Channels are multiples of what moves a cycle; both rounds, and levels that differ by element."""
    network, plan = digits(2, 4, 8, NARROW_DIGITS)
    run = trained(network, plan, rtl=True, die=WIDER)
    assert run.equal
    check_alike(run, trained(*plain(network, plan), die=WIDER))


@pytest.mark.slow
@pytest.mark.xdist_group("demo-predict-dies")
def test_a_lenet() -> None:
    """Kernels of 5x5, two pools, three dense layers; the middle of real digits, of 20, whose maps behind the kernels,
    16 and 4, tiles and pools divide as they do 24 and 8."""
    network = with_tiles(replace(NETWORKS_28["lenet-28"], input=Shape((1, 20, 20))), 2, None, 1)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=4), planner="data", model="exact", array="ring-4")
    data = enlarged_digits()
    data = replace(data, train_x=data.train_x[:8, 4:-4, 4:-4], train_y=data.train_y[:8])
    run = session(network, plan, data, lowered(network, plan, WIDER), rtl=True)
    for _ in run.epoch(0):
        assert run.equal and run.checks is not None and run.checks.failure is None
    assert run.compared_steps == 2


def residual_12(rounds: int | str, outputs: int, side: int = 12) -> tuple[Network, Plan]:
    """A residual block, and a join one summand of which is made behind the other's gather."""
    network = with_tiles(replace(NETWORKS_28["residual-12"], input=Shape((3, side, side))), outputs, None, rounds)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=4), planner="data", model="exact",
                         array="ring-4")


def test_a_residual_block_of_a_whole_network() -> None:
    network, plan = residual_12(2, 4)
    assert ("conv3", "fprop", "gather") in coded(plan) and ("wide", "fprop", "gather") not in coded(plan)
    check_alike(trained(network, plan, die=WIDER), trained(*plain(network, plan), die=WIDER))


@pytest.mark.slow
@pytest.mark.xdist_group("demo-predict-dies")
def test_a_residual_block_on_dies_of_two_words_a_flit() -> None:
    """On maps of 8, which tiles and pools divide as they do those of 12."""
    assert trained(*residual_12(1, 2, 8), rtl=True, die=WIDER).equal


def test_levels_follow_the_neurons_of_the_step_before() -> None:
    network, plan = digits(1)
    data = random_data(network, 4 * plan.batch, np.random.default_rng(12))
    program = lowered(network, plan)
    runs = []
    for set_first in (False, True):
        run = session(network, plan, data, program)
        if set_first:
            run.set_levels({"conv1": LAYER_LEVELS[-1], "conv2": LAYER_LEVELS[0]})
        for _ in run.epoch(0):
            living = run.program.living["conv1"].gather(run.driver)
            size = float(np.sqrt((living[living > 0].astype(np.float64) ** 2).mean()))
            assert run.levels["conv1"] == level_of(size, CodePart("conv1", 0, 1, 2, pooled=True))
        runs.append(run)
    check_alike(*runs)
    with pytest.raises(ValueError, match="the level of layer 'conv1' must be from"):
        runs[0].set_levels({"conv1": LAYER_LEVELS.stop})


@pytest.mark.parametrize("size", [0.0, -1.0, inf, nan])
def test_sizes_that_give_no_level(size: float) -> None:
    with pytest.raises(UserError, match="levels of layer 'a' cannot follow from neurons of size"):
        level_of(size, CodePart("a", 0, 1, 2))


def test_a_plan_says_what_is_expected_and_its_bounds() -> None:
    _, plan = digits(2)
    entries = [transfer for transfer in plan.to_data()["transfers"] if "coded" in transfer]
    assert [(transfer["layer"], transfer["phase"], transfer["kind"]) for transfer in entries] == [
        ("conv1", "fprop", "gather"), ("conv2", "fprop", "scatter"), ("conv2", "fprop", "gather"),
        ("conv2", "bprop", "scatter"), ("conv2", "bprop", "gather"), ("conv1", "bprop", "scatter")]
    for transfer in entries:
        assert transfer["coded"]["least"] <= transfer["words"] <= transfer["coded"]["most"]
        assert sum(words for *_, words in transfer["pairs"]) == transfer["words"]
    assert plan_from_data(plan.to_data(), plan.graph, "plan.yaml") == plan
    forged = plan.to_data()
    next(transfer for transfer in forged["transfers"] if "coded" in transfer)["coded"]["most"] += 1
    with pytest.raises(UserError, match=r"plan\.yaml"):
        plan_from_data(forged, plan.graph, "plan.yaml")


def test_a_plan_of_regions_says_what_always_goes() -> None:
    """Lengths, codes and masks, and what masks may name: of 320 words each of 8 elements, between two pairs of dies."""
    _, plan = digits("regions")
    data = plan.to_data()
    coded, = [transfer["coded"] for transfer in data["transfers"]
              if (transfer["layer"], transfer["phase"], transfer["kind"]) == ("conv2", "fprop", "gather")]
    assert coded["regions"] and coded["rounds"] == 1
    assert coded["least"] == 32 * (2 + 320 * 6 // 32 + 320 // 32) and coded["most"] == coded["least"] + 32 * 320
    assert plan_from_data(data, plan.graph, "plan.yaml") == plan


@pytest.mark.parametrize("rounds", [1, 2, "regions"])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 3)])
def test_what_is_expected_lies_between_its_bounds(rounds: int | str, kernel: tuple[int, int]) -> None:
    tiling = next(node.tiling for node in from_network(with_tiles(Network(name="one", input=Shape((2, 8, 8)), layers=(
        Convolution(name="a", channels=4, kernel=kernel), Relu(name="relu"), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, None, rounds)).nodes)
    assert tiling is not None
    for phase, kind in (("fprop", "gather"), *SKIPPED):
        for run in range(1, 100):
            least, most = least_most(tiling, phase, kind, run)
            assert least <= expected_words(tiling, phase, kind, run) <= most


def test_gathers_that_cannot_be_predicted_send_everything_and_are_noted() -> None:
    """Without a ReLU right behind, where elements are not split, or sums are parts."""
    network = with_tiles(Network(name="two", input=Shape((2, 8, 8)), layers=(
        Convolution(name="a", channels=4, kernel=(3, 3)), Relu(name="relu"),
        Convolution(name="b", channels=4, kernel=(3, 3)), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, None, 1)
    graph = from_network(network)
    plan = Plan(sharding=Sharding(graph=graph, splits=(("mp", "ep"), ("dp", "ep"), ("dp", "dp")), batch=8,
                                  factors=(2, 2)),
                planner="data", model="exact", array="ring-4")
    # What b reads is behind a ReLU.
    assert [(transfer.exchange.layer, transfer.exchange.kind) for transfer in plan.transfers
            if transfer.exchange.coded] == [
                ("b", "scatter"), ("b", "gather")]
    notes = lowered(network, plan).notes
    assert notes == ("layer 'a': its gather sends everything, as its sums are parts, of dies that split its channels",
                     "layer 'b': its gather sends everything, as no ReLU follows its sums")
    apart = plan.resharded(splits=(("dp", "dp"), ("dp", "dp"), ("dp", "dp")))
    assert lowered(network, apart).notes[0] == (
        "layer 'a': its gather sends everything, as elements of its tiles are not split")


@pytest.mark.parametrize(("die", "channels", "why"), [
    ("ndp-demo-winograd", 8, "for which those of preset 'ndp-demo-winograd' have no codes; .* ndp-demo-predict"),
    (DEMO, 7, "layer 'a' cannot be predicted on dies that have 7 of its channels: .* takes multiples of 2")])
def test_dies_that_cannot_are_refused(die: str, channels: int, why: str) -> None:
    network = with_tiles(Network(name="one", input=Shape((2, 8, 8)), layers=(
        Convolution(name="a", channels=channels, kernel=(3, 3)), Relu(name="relu"), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, None, 1)
    plan = Plan(sharding=Sharding(graph=from_network(network), splits=(("ep",), ("dp",)), batch=8, factors=(2,)),
                planner="data", model="exact", array="ring-2")
    with pytest.raises(UserError, match=why):
        lowered(network, plan, preset(die))


def test_dies_without_codes_skip_no_zeros() -> None:
    """Refused as well where a gather sends everything, but what the layer reads is behind a ReLU."""
    network = with_tiles(Network(name="one", input=Shape((2, 8, 8)), layers=(
        Convolution(name="a", channels=8, kernel=(3, 3)), Relu(name="after"),
        Convolution(name="b", channels=8, kernel=(3, 3)), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, None, 1)
    graph = from_network(network)
    plan = Plan(sharding=Sharding(graph=graph, splits=(("dp",), ("ep",), ("dp",)), batch=8, factors=(2,)),
                planner="data", model="exact", array="ring-2")
    assert {transfer.exchange.kind for transfer in plan.transfers
            if transfer.exchange.coded and transfer.exchange.phase == "fprop"} == {"scatter"}
    with pytest.raises(UserError, match=r"layer 'b' predicts .* preset 'ndp-demo-winograd' have no codes"):
        lowered(network, plan, preset("ndp-demo-winograd"))


def test_networks_say_whether_they_predict() -> None:
    network = with_tiles(NETWORKS["digits-cnn"], "auto", None, 1)
    assert predicts(network) and not predicts(NETWORKS["digits-cnn"])
    assert with_tiles(network, "off", None) == NETWORKS["digits-cnn"]
    with pytest.raises(ValueError, match="no layer of network 'digits-mlp' has Winograd tiles whose gathers"):
        with_tiles(NETWORKS["digits-mlp"], None, None, 2)
    direct = Convolution(name="a", channels=4, kernel=(3, 3), predict=1)
    with pytest.raises(ValueError, match="predicts what its Winograd tiles need, but winograd is off"):
        Network(name="x", input=Shape((2, 8, 8)), layers=(direct, Flatten(name="f"), SoftmaxCrossEntropy(name="loss")))
