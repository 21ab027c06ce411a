"""Pipeline stages and micro-batches: who has what, in which order, what comes out, and what is refused."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import prod
from pathlib import Path

import jschon
import numpy as np
import pytest
from tests.support.commands import run
from tests.support.sessions import MEMORY_WORDS, RULE, session

from plinth.array.array import Array, ring
from plinth.bench import pipeline as pipeline_bench
from plinth.bench.holdouts import NETWORKS
from plinth.bench.steps import lowered_plan
from plinth.driver.program import NamedDescriptor
from plinth.errors import UserError
from plinth.files.reports import report_schema
from plinth.lower import training
from plinth.lower.builder import GraphBuilder
from plinth.lower.training import TrainingProgram, lower_training, trained_sharding
from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    MaxPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network, perceptron
from plinth.network.parameters import Parameters
from plinth.partition.graph import from_network
from plinth.partition.regions import Lists, Splits, weight_words
from plinth.partition.stages import stage_count, stage_of
from plinth.plan.plan import Plan
from plinth.plan.plan_file import load_plan, plan_schema, save_plan
from plinth.plan.planners import pipeline
from plinth.plan.planning import given_plan, memory_bytes, plan_network, predicted_seconds, task
from plinth.predict.time import StepTime
from plinth.simulate.step import simulated
from plinth.step.build import step_of
from plinth.train.data import Dataset
from plinth.update.rule import UpdateRule, rule_for
from plinth_hw.isa.parameters import preset

jschon.create_catalog("2020-12")

RESIDUAL = Network(name="residual", input=Shape((2, 6, 6)), layers=(
    Convolution(name="conv1", channels=6, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    Convolution(name="conv2", channels=6, kernel=(3, 3), padding=(1, 1)), Tanh(name="tanh"),
    Add(name="add", inputs=("relu1", "tanh")), Relu(name="relu2"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
    Flatten(name="flatten"), Dense(name="fc", outputs=5), SoftmaxCrossEntropy(name="loss")))
DEEP = perceptron("deep", (20, 24, 16, 12, 16, 10))
TINY = preset("ndp-tiny")


def _splits(network: Network, array: Array, stages: tuple[int, ...], inside: str = "dp") -> Splits:
    """Stages by node; the levels behind those of stages split as ``inside`` says, of the loss the batch."""
    graph, vectors = from_network(network), []
    for node, stage in zip(graph.nodes, stages, strict=True):
        depth = next(depth for depth in range(array.levels + 1) if prod(array.factors[:depth]) > max(stages))
        digits = np.unravel_index(stage, array.factors[:depth])
        rest = inside if node.weighted else "dp"
        vectors.append((*(f"pp{digit}" for digit in digits), *(rest,) * (array.levels - depth)))
    return tuple(vectors)


def _plan(network: Network, array: Array, stages: tuple[int, ...], micro_batches: int, batch: int = 16,
          inside: str = "dp") -> Plan:
    plan = given_plan(from_network(network), array, _splits(network, array, stages, inside), batch,
                      micro_batches=micro_batches)
    plan.sharding.check()
    return plan


def _data(network: Network, batch: int) -> Dataset:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((batch, network.input.elements)).astype(np.float32)
    return Dataset(x, generator.integers(network.output.elements, size=batch), x[:0], np.zeros(0, np.int64),
                   network.output.elements)


def _program(network: Network, plan: Plan) -> TrainingProgram:
    return lower_training(network, plan, TINY, rule=RULE, steps=1, memory_words=MEMORY_WORDS)


def _trained(network: Network, plan: Plan, *, steps: int = 2) -> Parameters:
    """Weights behind some steps, each checked against float64."""
    trained = session(network, plan, _data(network, plan.batch), _program(network, plan))
    for _ in range(steps):
        next(iter(trained.epoch(0)))
    return trained.program.parameters_of(trained.driver)


ALONE = {network.name: given_plan(from_network(network), ring(1, preset="ndp-tiny"),
                                  ((),) * len(from_network(network).nodes), 16) for network in (DEEP, RESIDUAL)}


@pytest.mark.parametrize(("network", "dies", "stages"), [
    (DEEP, 2, (0, 0, 1, 1, 1, 1)), (DEEP, 4, (0, 1, 2, 2, 3, 3)), (DEEP, 4, (0, 0, 0, 1, 1, 1)),
    (DEEP, 6, (0, 0, 1, 1, 2, 2)), (RESIDUAL, 2, (0, 0, 1, 1, 1)), (RESIDUAL, 4, (0, 1, 1, 1, 1))],
    ids=lambda value: getattr(value, "name", str(value)))
@pytest.mark.parametrize("micro_batches", [1, 2, 8])
def test_what_is_trained_is_what_one_die_trains(network: Network, dies: int, stages: tuple[int, ...], micro_batches: int
                                                ) -> None:
    """Of one micro-batch on stages of single dies bit by bit; of several column sums of other strips make the bias."""
    array = ring(dies, preset="ndp-tiny")
    plan = _plan(network, array, stages, micro_batches)
    found, alone = _trained(network, plan), _trained(network, ALONE[network.name])
    for name, values in found.items():
        if dies == max(stages) + 1 and micro_batches == 1:
            np.testing.assert_array_equal(values, alone[name])
        else:
            np.testing.assert_allclose(values, alone[name], rtol=0, atol=2e-6)


@pytest.mark.parametrize("inside", ["mp", "op"])
def test_layers_of_a_stage_are_split_over_its_dies(inside: str) -> None:
    plan = _plan(DEEP, ring(4, preset="ndp-tiny"), (0, 0, 0, 1, 1, 1), 4, inside=inside)
    for name, values in _trained(DEEP, plan).items():
        np.testing.assert_allclose(values, _trained(DEEP, ALONE["deep"])[name], rtol=0, atol=2e-6)


@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("network", "dies", "stages", "micro_batches", "words"), [
    # Two layers of the second stage read the first one's map.
    (DEEP, 2, (0, 0, 1, 1, 1, 1), 4, 2 * 16 * 16), (RESIDUAL, 2, (0, 1, 1, 1, 1), 2, 2 * 2 * 16 * 6 * 36),
    (DEEP, 4, (0, 0, 0, 1, 1, 1), 2, None)], ids=lambda value: getattr(value, "name", str(value)))
def test_the_rtl_does_as_the_golden_model(network: Network, dies: int, stages: tuple[int, ...], micro_batches: int,
                                          words: int | None) -> None:
    """Words that are planned are sent: maps of each micro-batch, their errors back, each ring's gradient once."""
    plan = _plan(network, ring(dies, preset="ndp-tiny"), stages, micro_batches)
    assert words in (None, plan.words)
    trained = session(network, plan, _data(network, plan.batch), _program(network, plan), rtl=True)
    next(iter(trained.epoch(0)))
    assert sum(statistics.injected_words for statistics in trained.driver.statistics()) == plan.words
    next(iter(trained.epoch(0)))
    assert trained.equal


@pytest.mark.parametrize("rule", [UpdateRule("momentum", 0.05), UpdateRule("adagrad", 0.05)],
                         ids=lambda rule: rule.title)
@pytest.mark.parametrize("dies", [2, 4])
def test_what_is_kept_beside_weights_is_of_their_stage(rule: UpdateRule, dies: int) -> None:
    stages = (0, 0, 0, 1, 1, 1)
    plan = _plan(DEEP, ring(dies, preset="ndp-tiny"), stages, 4)
    program = lower_training(DEEP, plan, TINY, rule=rule, steps=1, memory_words=MEMORY_WORDS)
    trained = session(DEEP, plan, _data(DEEP, 16), program, rule=rule)
    for _ in range(3):
        next(iter(trained.epoch(0)))


def test_dies_have_the_weights_of_their_stage_alone() -> None:
    array = ring(4, preset="ndp-tiny")
    plan = _plan(DEEP, array, (0, 0, 0, 1, 1, 1), 2)
    for number, (node, here) in enumerate(zip(plan.graph.nodes, plan.layouts, strict=True)):
        if node.weighted:
            words = sum(weight_words(node, here, array.factors))
            whole = node.weights + node.bias
            assert words.tolist() == ([whole, whole, 0, 0] if number < 3 else [0, 0, whole, whole])
    tasks = [Counter(_layer(task) for task in graph.tasks) for graph in _program(DEEP, plan).step]
    assert set(tasks[0]) == set(tasks[1]) == {"fc1", "fc2", "fc3"}
    assert {"fc4", "fc5", "loss"} <= set(tasks[2]) == set(tasks[3])


def _layer(task: NamedDescriptor) -> str:
    return task.name.split(".")[0].split("[")[0]


def test_of_all_micro_batches_one_counter_counts() -> None:
    """Where a die gets a map from one other alone; with two senders tiles may come in any order."""
    array = ring(4, preset="ndp-tiny")

    def exchanges(inside: str) -> int:
        return step_of(_plan(DEEP, array, (0, 0, 0, 1, 1, 1), 8, inside=inside).sharding, TINY).exchanges

    assert exchanges("dp") == 2 < exchanges("mp")


def test_a_file_holds_stages_and_micro_batches(tmp_path: Path) -> None:
    plan = _plan(DEEP, ring(4, preset="ndp-tiny"), (0, 0, 0, 1, 1, 1), 4)
    plan = replace(plan, definition=DEEP, planner="pipeline")
    save_plan(tmp_path / "plan.yaml", plan)
    again = load_plan(tmp_path / "plan.yaml", None)
    assert again.sharding == plan.sharding and again.words == plan.words


@pytest.mark.parametrize(("wrong", "said"), [
    (("pp0", "pp0", "pp0", "pp2", "pp1", "pp1"), "'fc4' is of stage 'pp2' at level 1, where the array has 2 groups"),
    (("pp0", "pp1", "pp0", "pp1", "pp1", "pp1"), "'fc3' of stage 0 reads 'fc2' of stage 1; stages ascend"),
    (("pp0", "dp", "pp0", "pp1", "pp1", "pp1"), r"'fc2' has stages at levels \[\], but 'fc1' at \[1\]"),
    (("pp0",) * 6, "stage 1 has no layer"),
    (("pp0", "pp0", "pp0", "pp01", "pp1", "pp1"), "cannot be split as 'pp01'"),
    (("pp0", "pp0", "pp0", f"pp{'9' * 5000}", "pp1", "pp1"), "cannot be split as 'pp99999"),
    (("pp0", "pp0", "pp0", "pp1\n", "pp1", "pp1"), "cannot be split as")])
def test_stages_that_cannot_be_are_refused(wrong: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        given_plan(from_network(DEEP), ring(2), tuple((split,) for split in wrong), 16)


def test_sparse_layers_are_of_no_stage() -> None:
    network = NETWORKS["radix-256"]
    with pytest.raises(UserError, match="network 'radix-256' has sparse layers, whose rows by list are of no"):
        plan_network(network, ring(2), planner="pipeline", batch=16)
    graph = from_network(network)
    half = len(graph.nodes) // 2
    with pytest.raises(UserError, match=r"sparse layer '.*' has its rows by list, and is of no pipeline stage"):
        given_plan(graph, ring(2), (*((("pp0",),) * half), *((("pp1",),) * (len(graph.nodes) - half))), 16)


@pytest.mark.parametrize("lists", [Lists(owners=(1, 0, 2, 3)), Lists(samples=(((0, 6),), ((6, 16),)))])
@pytest.mark.parametrize(("stages", "micro_batches"), [((0, 0, 0, 1, 1, 1), 1), (None, 2)])
def test_nothing_is_cut_by_list_beside_stages_or_micro_batches(lists: Lists, stages: tuple[int, ...] | None,
                                                               micro_batches: int) -> None:
    array = ring(4)
    splits = _splits(DEEP, array, stages) if stages else (("dp", "dp"),) * 6
    with pytest.raises(UserError, match="layer 'fc1' has parts by list, or other owners, which no plan with pipeline"):
        given_plan(from_network(DEEP), array, splits, 16, lists=(lists, *(None,) * 5), micro_batches=micro_batches)
    with pytest.raises(UserError, match="no plan with pipeline stages has parts by list"):
        plan_network(DEEP, array, planner="pipeline", batch=16, lists={"fc1": lists})


@pytest.mark.parametrize("wrong", [0, -4, 2.0, "4", True, 32])
def test_the_library_refuses_odd_numbers_of_micro_batches(wrong: object) -> None:
    with pytest.raises(UserError, match="a batch of 16 does not divide into"):
        plan_network(DEEP, ring(2), planner="pipeline", batch=16, micro_batches=wrong)  # type: ignore[arg-type]


def test_micro_batches_divide_the_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="a batch of 16 cannot go in 3 micro-batches"):
        _plan(DEEP, ring(2), (0, 0, 1, 1, 1, 1), 3)
    code, _, err = run(capsys, "plan", "digits-mlp", "--array", "ring-2", "--planner", "pipeline", "--batch", "64",
                       "--micro-batches", "7")
    assert code == 2 and "64 does not divide into 7 micro-batches" in err
    code, _, err = run(capsys, "plan", "digits-mlp", "--array", "ring-2", "--planner", "data", "--micro-batches", "2")
    assert code == 2 and "planner data plans for a whole batch, without --micro-batches" in err
    run(capsys, "plan", "digits-mlp", "--array", "ring-2", "--planner", "pipeline", "--batch", "64",
        "--micro-batches", "4", "--out", tmp_path / "plan.json")
    data = json.loads((tmp_path / "plan.json").read_text())
    assert data["micro_batches"] == 4
    _, out, _ = run(capsys, "plan", "digits-mlp", "--array", "ring-2", "--planner", "pipeline", "--batch", "64",
                    "--micro-batches", "4", "--json")
    assert jschon.JSONSchema(report_schema("plan")).evaluate(jschon.JSON(report := json.loads(out))).valid
    assert report["micro_batches"] == 4
    schema = jschon.JSONSchema(plan_schema())
    assert schema.evaluate(jschon.JSON(data)).valid
    for odd in ("pp01", "pp", "pp1x"):
        layers = [{**layer, "splits": [odd]} for layer in data["layers"]]
        assert not schema.evaluate(jschon.JSON({**data, "layers": layers})).valid
    for wrong in (3, 0, True, "4", 1 << 40):
        (tmp_path / "wrong.json").write_text(json.dumps({**data, "micro_batches": wrong}))
        code, _, err = run(capsys, "simulate", tmp_path / "wrong.json")
        assert code == 2 and "micro_batches must be a number that divides the batch of 64" in err
    stages = {**data, "layers": [{**layer, "splits": ["pp5"]} for layer in data["layers"]]}
    (tmp_path / "wrong.json").write_text(json.dumps(stages))
    code, _, err = run(capsys, "simulate", tmp_path / "wrong.json")
    assert code == 2 and "is of stage 'pp5' at level 1, where the array has 2 groups of dies" in err


def test_layers_whose_gradients_do_not_add_up_go_whole() -> None:
    network = Network(name="tiled", input=Shape((4, 8, 8)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1), winograd=2), Flatten(name="flatten"),
        Dense(name="fc", outputs=4), SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=r"layer 'conv' \(convolution, by tiles\) adds up no gradients"):
        step_of(_plan(network, ring(2, preset="ndp-demo-winograd"), (0, 1, 1), 2).sharding, preset("ndp-demo-winograd"))
    planned = plan_network(network, ring(2, preset="ndp-demo-winograd"), planner="pipeline", batch=16)
    assert planned.plan.sharding.micro_batches == 1


def test_the_longest_stage_is_as_short_as_it_can_be() -> None:
    generator = np.random.default_rng(5)
    for _ in range(200):
        costs = generator.integers(1, 50, size=int(generator.integers(2, 9))).astype(float).tolist()
        stages = int(generator.integers(1, len(costs) + 1))
        numbers = pipeline._cut(costs, stages)
        assert numbers == sorted(numbers) and set(numbers) == set(range(stages))

        def longest(ends: tuple[int, ...], costs: list[float] = costs) -> float:
            bounds = (0, *ends, len(costs))
            return max(sum(costs[low:high]) for low, high in pairwise(bounds))

        best = min(longest(ends) for ends in combinations(range(1, len(costs)), stages - 1))
        ends = tuple(numbers.index(stage) for stage in range(1, stages))
        assert longest(ends) == pytest.approx(best, rel=1e-12)


def test_long_networks_are_cut_at_once() -> None:
    """Into as many stages as there are layers, and fewer; no walk is longer than 640 nodes of several micro-batches."""
    costs = np.random.default_rng(6).integers(1, 9, size=4000).astype(float).tolist()
    for stages in (2, 1024, 4000):
        numbers = pipeline._cut(costs, stages)
        assert set(numbers) == set(range(stages))
    assert list(pipeline.micro_batches(1024, 4, 20)) == [1, 2, 4, 8, 16, 32]
    assert list(pipeline.micro_batches(1024, 4, 200)) == [1, 2]
    assert list(pipeline.micro_batches(1024, 4, 4000)) == list(pipeline.micro_batches(7, 4, 2)) == [1]


SLOW = ring(4, link_rate=Fraction(1, 8))


def test_joint_takes_stages_where_they_are_shorter() -> None:
    """A deep narrow network, whose gradients are long for slow links; on fast ones stages wait for each other."""
    network = perceptron("deep", (*(64,) * 9, 10))
    slow, whole = (plan_network(network, array, planner="joint", batch=64) for array in (SLOW, ring(4)))
    assert slow.plan.sharding.micro_batches > 1 and stage_count(slow.plan.splits[0], slow.plan.factors) > 1
    assert slow.outcome.step.cycles < 0.6 * slow.baselines["data"].step.cycles
    assert slow.outcome.injected_words == slow.plan.words
    pipelined = plan_network(network, ring(4), planner="pipeline", batch=64)
    assert whole.outcome.step.cycles <= pipelined.outcome.step.cycles


def test_nothing_that_was_tried_is_shorter() -> None:
    """Of all numbers of stages and micro-batches, without what is certain to be longer."""
    network = perceptron("deep", (*(64,) * 5, 10))
    planned = plan_network(network, SLOW, planner="pipeline", batch=32)
    problem = task(from_network(network), SLOW, "exact", 32)
    every = [StepTime(problem.graph, 32, SLOW, micro_batches=count).cycles(splits)
             for stages, _, splits in pipeline.stagings(problem.time)
             for count in pipeline.micro_batches(32, stages, 6)]
    assert len(every) == 5 + 6
    assert planned.outcome.step.cycles == pytest.approx(min(every))


def test_a_step_takes_no_less_than_its_longest_stage() -> None:
    problem = task(from_network(perceptron("deep", (*(64,) * 9, 10))), SLOW, "exact", 64)
    for stages, longest, splits in pipeline.stagings(problem.time):
        for count in (1, 2, 4):
            cycles = StepTime(problem.graph, 64, SLOW, micro_batches=count).cycles(splits)
            assert cycles > longest * (count + stages - 1) / count


def test_a_network_that_fits_no_die_gets_stages() -> None:
    """Splits of the batch leave all weights on a die, splits of channels all maps; stages have some of either."""
    network = perceptron("wide", (64, *(256,) * 7, 10))
    array = ring(4, memory_bytes=1_900_000)
    graph = from_network(network)
    problem = task(graph, array, "exact", 64)
    for kinds in product(("dp", "mp", "op"), repeat=2):
        splits = (*((kinds,) * (len(graph.nodes) - 1)), ("dp", "dp"))
        assert memory_bytes(problem, splits) > 1.3 * array.memory_bytes
    planned = plan_network(network, array, planner="joint", batch=64)
    assert planned.fits_memory and stage_count(planned.plan.splits[0], array.factors) == 4


@pytest.mark.parametrize(("network", "stages", "batch"), [
    (DEEP, (0, 0, 0, 1, 1, 1), 16), (RESIDUAL, (0, 1, 1, 1, 1), 16), (RESIDUAL, (0, 0, 0, 1, 1), 8),
    (perceptron("waist", (400, 100, 20, 20, 300, 10)), (0, 0, 1, 1, 1, 1), 32)],
    ids=lambda value: getattr(value, "name", str(value)))
def test_memory_that_is_planned_is_what_places_take(network: Network, stages: tuple[int, ...], batch: int,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """On the fullest die; no two places of a die share a word."""
    ends: list[list[GraphBuilder]] = []
    assembled = training.assemble
    monkeypatch.setattr(training, "assemble", lambda setup, step, **rest: (
        ends.append(list(step)), assembled(setup, step, **rest))[1])
    plan = _plan(network, ring(2, preset="ndp-tiny"), stages, 4, batch=batch)
    step = step_of(trained_sharding(plan, TINY, RULE), TINY)
    (program,) = [lower_training(network, plan, TINY, rule=RULE, steps=1, memory_words=MEMORY_WORDS)]
    assert max(builder.end for builder in ends[0]) == step.memory_words()
    for die in range(2):
        spans = sorted((program.buffers[place.name].address, place.words) for place in step.places
                       if place.stage in (None, die) and not place.moves)
        assert all(first + words <= second for (first, words), (second, _) in pairwise(spans))


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_simulated_and_predicted_steps_agree(micro_batches: int) -> None:
    array = replace(SLOW, preset="ndp-demo")
    plan = _plan(perceptron("deep", (*(64,) * 9, 10)), array, (*(0,) * 3, *(1,) * 2, *(2,) * 2, *(3,) * 3),
                 micro_batches, batch=64)
    cycles = predicted_seconds(plan, array) * float(array.clock_mhz) * 1e6
    assert simulated(plan, array).cycles == pytest.approx(cycles, rel=0.05)


def test_stages_of_two_levels_are_numbered_highest_first() -> None:
    assert [stage_of(("pp1", f"pp{digit}"), (2, 3)) for digit in range(3)] == [3, 4, 5]
    assert stage_of(("dp", "mp"), (2, 2)) == 0 and stage_count(("pp0", "dp", "pp1"), (2, 3, 4)) == 8


def test_numpy_trains_as_dies_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evaluation runs forwards alone."""
    code, _, err = run(capsys, "plan", "digits-cnn", "--array", "ring-4", "--planner", "pipeline", "--batch", "32",
                       "--micro-batches", "4", "--out", tmp_path / "plan.yaml")
    assert (code, err) == (0, "")
    reports = {}
    for device in ("golden", "numpy"):
        code, _, err = run(capsys, "train", tmp_path / "plan.yaml", "--device", device, "--steps", "2", "--out",
                           tmp_path / device)
        assert code == 0, err
        reports[device] = json.loads((tmp_path / device / "report.json").read_text())
    golden, numpy_ = reports["golden"], reports["numpy"]
    assert golden["test_accuracy"] == pytest.approx(numpy_["test_accuracy"], abs=0.01)
    assert golden["losses"] == pytest.approx(numpy_["losses"], rel=1e-5)



def test_maps_of_16_bits_are_of_no_stage() -> None:
    mixed = preset("ndp-demo-mixed")
    plan = _plan(DEEP, ring(2, preset=mixed.name), (0, 0, 0, 1, 1, 1), 2)
    with pytest.raises(UserError, match="pipeline stages cannot be lowered with operands of 16 bits"):
        lower_training(DEEP, plan, mixed, rule=RULE, steps=1, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("name", ["hypar-tiny", "fpga-tiny"])
def test_other_machines_train_in_stages(name: str) -> None:
    die = preset(name)
    rule = rule_for(die)
    network = RESIDUAL if name == "hypar-tiny" else DEEP
    plan = _plan(network, ring(2, preset=name), (0, 0, *(1,) * (len(from_network(network).nodes) - 2)), 4)
    program = lower_training(network, plan, die, rule=rule, steps=1, memory_words=MEMORY_WORDS)
    trained = session(network, plan, _data(network, 16), program, rule=rule, left=0)
    for _ in range(2):
        next(iter(trained.epoch(0)))


WORDS = Network(name="words", input=Shape((4,)), layers=(
    Embedding(name="table", rows=30, width=6), Dense(name="fc1", outputs=12), Relu(name="relu"),
    Dense(name="fc2", outputs=5), SoftmaxCrossEntropy(name="loss")))
TILED = Network(name="tiled", input=Shape((3, 8, 8)), layers=(
    Convolution(name="conv1", channels=6, kernel=(3, 3), padding=(1, 1), winograd=2, weights="winograd"),
    Relu(name="relu1"), Convolution(name="conv2", channels=5, kernel=(3, 3), padding=(1, 1), winograd=2),
    Flatten(name="flatten"), Dense(name="fc", outputs=5), SoftmaxCrossEntropy(name="loss")))
SIDES = Network(name="sides", input=Shape((2, 6, 6)), layers=(
    Convolution(name="conv1", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    Convolution(name="conv2", channels=3, kernel=(3, 3), padding=(1, 1), inputs=("relu1",)),
    Convolution(name="conv3", channels=5, kernel=(1, 1), inputs=("relu1",)),
    Concat(name="concat", inputs=("conv2", "conv3")), Relu(name="relu2"), Flatten(name="flatten"),
    Dense(name="fc", outputs=5), SoftmaxCrossEntropy(name="loss")))


@pytest.mark.parametrize(("network", "splits", "micro_batches"), [
    # Stages on the second level; of the first one either kind of split.
    (DEEP, [(kind, f"pp{int(number > 2)}") for number, kind in enumerate(("dp", "mp", "op", "op", "dp", "dp"))], 4),
    (WORDS, [("pp0", "dp"), ("pp0", "op"), ("pp1", "mp"), ("pp1", "dp")], 1),
    (TILED, [("pp0", "ep"), ("pp1", "ep"), ("pp1", "dp"), ("pp1", "dp")], 1),
    (SIDES, [("pp0", "dp"), ("pp0", "mp"), ("pp1", "dp"), ("pp1", "dp"), ("pp1", "op"), ("pp1", "dp")], 4),
    # Without stages gradients of parts of the batch add up.
    (DEEP, [("dp", "op")] * 5 + [("dp", "dp")], 4), (RESIDUAL, [("dp", "mp")] * 4 + [("dp", "dp")], 2)],
    ids=lambda value: getattr(value, "name", None))
def test_every_kind_of_layer_trains_in_stages(network: Network, splits: Splits, micro_batches: int) -> None:
    """As on one die."""
    die = preset("ndp-tiny-winograd" if network is TILED else "ndp-tiny")
    generator, found = np.random.default_rng(3), []
    x = (generator.integers(30, size=(16, 4)) if network is WORDS else
         generator.standard_normal((16, network.input.elements)).astype(np.float32))
    data = Dataset(x, generator.integers(5, size=16), x[:0], np.zeros(0, np.int64), network.output.elements)
    alone = tuple(() for _ in splits)
    for array, vectors, count in ((ring(4, preset=die.name), tuple(splits), micro_batches),
                                  (ring(1, preset=die.name), alone, 1)):
        plan = given_plan(from_network(network), array, vectors, 16, micro_batches=count)
        program = lower_training(network, plan, die, rule=RULE, steps=1, memory_words=MEMORY_WORDS)
        trained = session(network, plan, data, program)
        for _ in range(2):
            next(iter(trained.epoch(0)))
        found.append(program.parameters_of(trained.driver))
    for name, values in found[0].items():
        np.testing.assert_allclose(values, found[1][name], rtol=0, atol=2e-6)


def test_a_run_goes_on_and_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "plan", "digits-mlp", "--array", "ring-2", "--planner", "pipeline", "--batch", "64", "--micro-batches",
        "4", "--out", tmp_path / "plan.yaml")
    weights = []
    for steps in ((4,), (2, 2)):
        file = tmp_path / f"{len(steps)}.npz"
        for number, step in enumerate(steps):
            code, _, err = run(capsys, "train", tmp_path / "plan.yaml", "--device", "numpy", "--steps", step, "--save",
                               file, "--out", tmp_path / "out", *(("--resume", file) if number else ()))
            assert code == 0, err
        weights.append(np.load(file))
    for name in weights[0].files:
        if weights[0][name].dtype.kind == "f":
            np.testing.assert_array_equal(weights[0][name], weights[1][name])
    code, out, err = run(capsys, "eval", tmp_path / "1.npz", "--json")
    assert code == 0, err
    assert json.loads(out)["test_accuracy"] > 0.1


def test_the_row_about_pipelines_compares_plans_of_one_step() -> None:
    """With stages and micro-batches, and without; both can be lowered, and the first is predicted to be shorter."""
    found = pipeline_bench.plans(pipeline_bench.NETWORK, pipeline_bench.ARRAY, pipeline_bench.BATCH)
    staged, whole = found["pipeline"], found["joint"]
    assert staged.sharding.micro_batches > 1 and whole.sharding.micro_batches == 1
    assert any(split.startswith("pp") for vector in staged.splits for split in vector)
    assert not any(split.startswith("pp") for vector in whole.splits for split in vector)
    seconds = [predicted_seconds(plan, pipeline_bench.ARRAY) for plan in (staged, whole)]
    assert seconds[0] * 1.1 < seconds[1]
    for plan in (staged, whole):
        assert lowered_plan(pipeline_bench.NETWORK, plan, pipeline_bench.ARRAY).step[0].tasks
