"""What moves is defined once: operations between dies realise the definitions that a plan lists, and send their words.

Words of tasks are counted here from the buffers and dies that tasks name, not by what counts them elsewhere."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.networks import CONCATENATED, DOUBLED, random_plan, trainable_network, winograd_network
from tests.support.partitions import random_lists

from plinth.array.array import full, ring
from plinth.driver.statistics import DieStatistics, TaskRecord
from plinth.errors import UserError
from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Join,
    MaxPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition import lines
from plinth.plan.plan import Plan
from plinth.sharding import ReductionDefinition as DefinedReduction
from plinth.step import between
from plinth.step.build import step_of
from plinth.step.step import Step
from plinth.step.tasks import Encode, LineTransform, Phase, Reduction, Task, TileCopy, TransformTiles
from plinth.train.layers import layer_report
from plinth.update.rule import UpdateRule
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset

#: One layer that a concatenation reads twice, beside another one; along each of three edges the same words move.
TWICE = Network(name="twice", input=Shape((6,)), layers=(
    Dense(name="fc1", outputs=8), Relu(name="relu"), Dense(name="fc2", outputs=4, inputs=("fc1",)),
    Concat(name="cat", inputs=("relu", "fc2", "relu")), Dense(name="fc3", outputs=4),
    SoftmaxCrossEntropy(name="loss")))
#: Convolutions of one map whose outputs are added, with a residual and a pool behind.
BLOCKS = Network(name="blocks", input=Shape((2, 8, 8)), layers=(
    Convolution(name="stem", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    Convolution(name="left", channels=4, kernel=(3, 3), padding=(1, 1), inputs=("relu1",)),
    Convolution(name="right", channels=4, kernel=(3, 3), padding=(1, 1), inputs=("relu1",)),
    Join(name="join", inputs=("left", "right")), Relu(name="relu2"),
    Convolution(name="last", channels=4, kernel=(3, 3), padding=(1, 1)), Add(name="add", inputs=("last", "relu2")),
    Relu(name="relu3"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flat"),
    Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")))
EMBEDDED = Network(name="embedded", input=Shape((5,)), layers=(
    Embedding(name="words", inputs=("input",), rows=37, width=6), Relu(name="relu"),
    Embedding(name="kinds", inputs=("input",), rows=11, width=6), Add(name="both", inputs=("relu", "kinds")),
    Dense(name="fc", outputs=4), SoftmaxCrossEntropy(name="loss")))


def sent(task: Task, die: int) -> int | Fraction | None:
    """Words that a task sends to other dies; None: data decide."""
    work: Any = task.work
    if isinstance(work, Reduction):
        # Round the ring once to sum, once to gather: of every word all members but one send a part.
        ways = {Phase.UPDATE: 2, Phase.SUM: 1, Phase.GATHER: 1}[work.phase]
        words = work.target.rows * work.target.columns
        return Fraction(ways * words * (len(work.ring) - 1), len(work.ring))
    if isinstance(work, Encode):
        return 0 if work.die in (None, die) else None
    if not isinstance(work, (TileCopy, TransformTiles, LineTransform)):
        return 0
    others = 0 if work.die in (None, die) else 1
    if isinstance(work, TransformTiles):
        each = work.tiles.rows * work.tiles.columns
        _, down, _, across = work.elements
        if work.members is not None:
            return each * sum(count for other, count in work.members.shares if other != die)
        return others * each * down * across
    others = others if work.members is None else sum(other != die for other, _ in work.members.shares)
    each = work.source.rows * work.source.columns
    return others * each * (work.planes if isinstance(work, TileCopy) else work.columns * work.sides[1])


def items(step: Step) -> Iterator[tuple[Any, int, Task]]:
    """The tasks of all operations on all dies."""
    for operation in step.operations:
        for die in range(step.dies):
            yield from ((operation, die, item) for item in operation.tasks(die) if isinstance(item, Task))


def check(plan: Plan, step: Step) -> None:
    """Definitions that operations realise are those of the plan, and so are the words that they send."""
    sent_words: dict[Any, int | Fraction] = defaultdict(int)
    coded, realised = set(), step.realised()
    for operation, die, task in items(step):
        words = sent(task, die)
        if words == 0:
            continue
        assert isinstance(operation, (between.Exchange, between.Reduce)), task.name
        assert realised[task.engine, task.name.split("[")[0]] is operation.planned
        if words is None:
            coded.add(operation.planned)
        else:
            sent_words[operation.planned] += words
    assert coded == {transfer.exchange for transfer in plan.transfers if transfer.exchange.coded}
    expected: dict[Any, int] = {
        transfer.exchange: transfer.words for transfer in plan.transfers if not transfer.exchange.coded}
    expected |= {reduction: reduction.words for reduction in plan.reductions if reduction.words}
    assert {planned: words for planned, words in sent_words.items() if planned not in coded} == expected


def case(make: Callable[[np.random.Generator], Network], seed: int, dies: int, target: str, lists: bool = False
         ) -> tuple[Plan, Step]:
    """A random plan of a network, and its step."""
    for number in range(seed, seed + 10_000, 100):
        generator = np.random.default_rng([number, dies])
        try:
            plan = random_plan(make(generator), dies, int(generator.integers(dies, 4 * dies + 3)), generator)
            if lists:
                plan = plan.resharded(array=full(dies), lists=random_lists(
                    random.Random(seed), plan.graph, plan.splits, plan.batch, plan.factors))
            rule = UpdateRule() if seed % 2 else UpdateRule("momentum")
            return plan, step_of(replace(plan.sharding, rule=rule), preset(target))
        except UserError:
            continue
    raise AssertionError("no such case")


@pytest.mark.parametrize(("seed", "dies"), [(seed, dies) for dies in (2, 3, 4, 6, 8) for seed in range(4)])
@pytest.mark.parametrize("lists", [False, True])
def test_tasks_send_the_words_of_definitions(seed: int, dies: int, lists: bool) -> None:
    check(*case(trainable_network, seed, dies, ("ndp-tiny", "hypar-tiny")[seed % 2], lists))


@pytest.mark.parametrize(("seed", "dies"), [(seed, dies) for dies in (2, 3, 4, 8) for seed in range(6)])
def test_tasks_send_the_words_of_definitions_of_tiles(seed: int, dies: int) -> None:
    check(*case(winograd_network, seed, dies, "ndp-tiny-winograd"))


@pytest.mark.parametrize("network", [CONCATENATED, DOUBLED, TWICE, EMBEDDED], ids=lambda network: network.name)
@pytest.mark.parametrize(("seed", "dies"), [(0, 2), (1, 3), (2, 4), (3, 4)])
def test_tasks_send_the_words_of_definitions_of_what_is_joined(network: Network, seed: int, dies: int) -> None:
    check(*case(lambda _: network, seed, dies, "ndp-tiny"))


@pytest.mark.parametrize(("seed", "dies"), [(seed, dies) for dies in (2, 4, 8) for seed in range(3)])
@pytest.mark.parametrize("how", [(2, "winograd", 0), (4, "spatial", 0), (2, "winograd", 2)])
def test_tasks_send_the_words_of_definitions_of_blocks(how: tuple[int, str, int], seed: int, dies: int) -> None:
    """All layers split elements, or each what it likes."""
    plan, step = case(lambda _: with_tiles(BLOCKS, *how), seed, dies, "ndp-demo-predict")
    check(plan, step)
    plan = plan.resharded(splits=tuple(
        tuple("ep" if node.tiling else "dp" for _ in plan.factors) for node in plan.graph.nodes), batch=2 * dies)
    check(plan, step_of(plan.sharding, step.parameters))
    kinds = {(transfer.exchange.phase, transfer.exchange.kind) for transfer in plan.transfers}
    assert kinds >= {("fprop", "scatter"), ("fprop", "gather"), ("bprop", "scatter"), ("bprop", "gather")}
    assert (("bprop", "bias") in kinds) == (how[1] == "winograd")


def test_tasks_send_the_words_of_definitions_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of columns of tiles, as slow links have them."""
    monkeypatch.setattr(lines, "_link_cycles", lambda *_: 1e9)
    plan = random_plan(with_tiles(NETWORKS["digits-cnn"], 2, "winograd"), 4, 9, np.random.default_rng(0))
    plan = plan.resharded(splits=tuple((("ep", "ep") if node.tiling else ("dp", "dp")) for node in plan.graph.nodes))
    elements = {transfer.exchange.extra[0] for transfer in plan.transfers if transfer.exchange.kind == "scatter"}
    assert elements == {("elements", 4)}
    check(plan, step_of(plan.sharding, preset("ndp-demo-winograd")))


def test_what_is_read_twice_moves_along_two_edges_and_is_counted_for_each() -> None:
    """By name alone the words of both would stand at each of them."""
    plan = random_plan(TWICE, 4, 8, np.random.default_rng(0)).resharded(
        array=ring(4), splits=(("op", "op"), ("op", "op"), ("dp", "dp"), ("dp", "dp"), ("dp", "dp")))
    step = step_of(plan.sharding, preset("ndp-tiny"))
    check(plan, step)
    records: list[list[TaskRecord]] = [[] for _ in range(4)]
    for _, die, task in items(step):
        words = sent(task, die)
        assert words is not None
        records[die].append(TaskRecord(task.name, task.engine, 0, 3, 0, words, 0))  # type: ignore[arg-type]
    layers = layer_report(plan, step.realised(), [DieStatistics({}, (), 0, die_records) for die_records in records])
    for layer in layers:
        for entry in (*layer["transfers"], *([layer["reduction"]] if layer["reduction"] else [])):
            assert entry["injected_words"] == entry["predicted_injected_words"], layer
    copies = [entry for entry in layers[0]["transfers"] if entry["kind"] == "copy" and entry["consumer"] == "cat"]
    assert [entry["injected_words"] for entry in copies] == [8 * 8 * 3 // 4] * 2
    names = {task.name.split("[")[0] for _, _, task in items(step) if task.engine is Engine.TRANSFER}
    assert names >= {"fc1.copy.cat", "fc1.copy.cat#1", "fc1.reduce.cat", "fc1.reduce.cat#1"}
    nothing = layer_report(plan, None, ())
    assert {entry["injected_words"] for layer in nothing for entry in layer["transfers"]} == {None}


def test_definitions_have_names_of_their_own() -> None:
    """Also where layers are called so that two would be called alike."""
    network = Network(name="alike", input=Shape((6,)), layers=(
        Dense(name="x", outputs=4), Dense(name="c.copy.d", outputs=4, inputs=("x",)),
        Dense(name="x.copy.c", outputs=4, inputs=("x",)), Dense(name="d", outputs=4, inputs=("x.copy.c",)),
        Add(name="sum", inputs=("c.copy.d", "d")), SoftmaxCrossEntropy(name="loss")))
    plan = random_plan(network, 2, 8, np.random.default_rng(0)).resharded(splits=(("op",),) * 4 + (("dp",),) * 2)
    step = step_of(plan.sharding, preset("ndp-tiny"))
    exchanges = [operation for operation in step.operations if isinstance(operation, between.Exchange)]
    assert len({exchange.name for exchange in exchanges}) == len({exchange.planned for exchange in exchanges}) == len(
        exchanges)
    assert any("#" in exchange.name for exchange in exchanges)
    check(plan, step)


def test_a_definition_says_nothing_of_what_lies_where_it_is_needed() -> None:
    plan = random_plan(BLOCKS, 4, 8, np.random.default_rng(0))
    plan = plan.resharded(splits=(("dp", "dp"),) * len(plan.splits))
    assert plan.sharding.exchanges == ()
    assert {type(definition) for definition in step_of(plan.sharding, preset("ndp-tiny")).realised().values()} == {
        DefinedReduction}
