"""The step graph: what dies do, whatever consumes it; and that a kind of layer is added in one place."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.support.networks import random_data, random_plan, trainable_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.array.array import ARRAYS
from plinth.buffers import Buffer
from plinth.lower.training import lower_training
from plinth.machine.die import machine
from plinth.network.layers import Convolution, Dense, Flatten, Layer, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import DP, PlanGraph, from_network
from plinth.plan.planners.simple import data, one_weird_trick
from plinth.predict.tasks import matrix_cost, product_of
from plinth.predict.time import StepTime
from plinth.sharding import Sharding
from plinth.simulate.step import simulated
from plinth.step.accesses import Accesses
from plinth.step.between import Exchange
from plinth.step.build import step_of
from plinth.step.layers.epilogue import ElementwiseLayer
from plinth.step.layers.kinds import EPILOGUES
from plinth.step.layers.pool import Pool
from plinth.step.operations import Chain
from plinth.step.step import Step
from plinth.step.tasks import Arrivals, Members, Multiplication, Optimisation, Reduction, Signal, Task, TileCopy
from plinth.step.vector import VectorProgram
from plinth.step.weights import WeightPiece, WeightSlice
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.vector_body import VectorOp
from plinth_sim.golden import reference_layers

CASES = [(seed, dies) for seed in range(12) for dies in (1, 2, 4, 8)]


def random_step(seed: int, dies: int) -> Step:
    generator = np.random.default_rng([seed, dies])
    network = trainable_network(generator)
    batch = int(generator.integers(dies, 4 * dies + 3))
    plan = random_plan(network, dies, batch, generator)
    return step_of(replace(plan.sharding, batch=batch), preset(("ndp-tiny", "hypar-tiny")[seed % 2]))


@pytest.mark.parametrize(("seed", "dies"), CASES)
def test_what_is_sent_is_awaited_and_lies_where_it_has_room(seed: int, dies: int) -> None:
    step = random_step(seed, dies)
    room = {place.name: place.words for place in step.places}
    sent: dict[tuple[int, int], int] = {}
    expected: dict[tuple[int, int], int] = {}

    def check(buffer: Buffer) -> None:
        assert buffer.rows == 0 or 0 <= buffer.address <= buffer.address + buffer.words <= max(1, room[buffer.place])

    for die in range(dies):
        for item in step.tasks(die):
            if isinstance(item, Arrivals):
                expected[die, item.exchange] = expected.get((die, item.exchange), 0) + item.count
                continue
            for buffer in (*item.reads, *item.writes):
                check(buffer)
            if isinstance(item.work, (TileCopy, Signal)) and item.work.die is not None:
                key = item.work.die, item.work.exchange
                sent[key] = sent.get(key, 0) + 1
                if isinstance(item.work, TileCopy):
                    check(item.work.target)
    assert sent == expected


@pytest.mark.parametrize(("seed", "dies"), CASES)
def test_tiles_carry_the_plans_words(seed: int, dies: int) -> None:
    generator = np.random.default_rng([seed, dies])
    network = trainable_network(generator)
    plan = random_plan(network, dies, int(generator.integers(dies, 4 * dies + 3)), generator)
    step = step_of(plan.sharding, preset("ndp-tiny"))
    words = sum(item.work.source.rows * item.work.source.columns for die in range(dies) for item in step.tasks(die)
                if isinstance(item, Task) and isinstance(item.work, TileCopy) and item.work.die is not None)
    assert words == sum(transfer.words for transfer in plan.transfers)


@pytest.mark.parametrize("most", [1, 3, 32])
@pytest.mark.parametrize(("seed", "dies"), CASES[::5])
def test_groups_stand_for_their_tasks(seed: int, dies: int, most: int) -> None:
    """As many as there are, over the same words; a pool's strips may differ in their tasks."""
    step = random_step(seed, dies)
    for operation in step.operations:
        if isinstance(operation, Exchange):
            continue
        pooled = isinstance(operation, Chain) and any(isinstance(member, Pool) for member in operation.members)
        for die in range(dies):
            fine, coarse = ([item for item in operation.tasks(die, some) if isinstance(item, Task)]
                            for some in (None, most))
            if not pooled:
                assert sum(task.count for task in coarse) == len(fine)
                assert len(coarse) <= len(fine)
            for written in (False, True):
                places: list[dict[str, tuple[int, int]]] = []
                for tasks in (fine, coarse):
                    spans: dict[str, tuple[int, int]] = {}
                    for buffer in (buffer for task in tasks for buffer in (task.writes if written else task.reads)
                                   if buffer.rows and buffer.columns):
                        low, high = spans.get(buffer.place, (buffer.address, buffer.address + buffer.words))
                        spans[buffer.place] = min(low, buffer.address), max(high, buffer.address + buffer.words)
                    places.append(spans)
                for place, (low, high) in places[0].items():
                    if not written and any(buffer.place == place for task in fine for buffer in task.writes):
                        # Strips add to what earlier ones of their group have left.
                        continue
                    assert places[1][place][0] <= low and high <= places[1][place][1]
            shares = [sum(task.share.samples for task in tasks if task.share) for tasks in (fine, coarse)]
            assert shares[0] == shares[1]


def test_tasks_wait_for_what_they_touch() -> None:
    accesses: Accesses[int] = Accesses()
    place = Buffer("place", 0, 8, 4, 4)
    accesses.touch([], [place.lines(0, 4)], 1)
    accesses.touch([], [place.lines(4, 4)], 2)
    assert accesses.needed([place.lines(2, 4)], []) == [1, 2]
    accesses.touch([place.lines(2, 4)], [], 3)
    # Reads do not wait for reads; writes wait for both, and then stand for what they cover.
    assert accesses.needed([place.lines(5, 1)], []) == [2]
    assert sorted(accesses.needed([], [place])) == [1, 2, 3]
    accesses.touch([], [place], 4)
    assert accesses.needed([place], []) == [4] and accesses.needed([Buffer("other", 0, 8, 4, 4)], []) == []
    accesses.arrive([place.lines(0, 1)], 5)
    assert accesses.needed([place.lines(0, 1)], []) == [4, 5]


def test_equal_dies_are_one_class() -> None:
    graph = from_network(NETWORKS["lenet-c"])
    assert [list(dies) for dies in step_of(Sharding(graph=graph, splits=data(graph, 3), batch=64),
                                           preset("ndp-demo")).classes()] == [list(range(8))]
    # 50 samples on 8 dies: two have 7.
    assert sorted(map(len, step_of(Sharding(graph=graph, splits=data(graph, 3), batch=50),
                                            preset("ndp-demo")).classes())) == [2, 6]


@dataclass(frozen=True, kw_only=True)
class Halved(Tanh):
    """``x / 2 where x > 0, else x``: a toy."""

    kind = "halved"


class HalvedLayer(ElementwiseLayer):
    regions = 3

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        program.run(VectorOp.RELU, "positive", source)
        program.run(VectorOp.SCALE, "positive", "positive", immediate=-0.5)
        program.run(VectorOp.ADD, target, source, "positive")

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        program.run(VectorOp.RELU_MASK, "positive", error, kept)
        program.run(VectorOp.SCALE, "positive", "positive", immediate=-0.5)
        program.run(VectorOp.ADD, error, error, "positive")


def _toy(layer: type[Layer]) -> Network:
    return Network(name="toy", input=Shape((2, 6, 6)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1)), layer(name="one"),
        Flatten(name="flat"), Dense(name="fc", outputs=12), layer(name="two"),
        Dense(name="out", outputs=5), SoftmaxCrossEntropy(name="loss")))


@pytest.mark.parametrize("dies", [1, 4])
def test_a_kind_of_layer_is_added_to_the_step_and_the_golden_model_only(dies: int,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is lowered, predicted and simulated, and its gradients are right."""
    monkeypatch.setitem(EPILOGUES, "halved", HalvedLayer)

    def model(call):  # type: ignore[no-untyped-def]
        slope = np.where(call.x > 0, 0.5, 1.0)
        return reference_layers.Output(call.x * slope, lambda: call.inputs[0].scale,
                                       lambda error: ([error * slope], None))

    monkeypatch.setitem(reference_layers.KINDS, "halved", model)
    network, generator = _toy(Halved), np.random.default_rng(dies)
    plan = random_plan(network, dies, 16, generator)
    program = lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    training = session(network, plan, random_data(network, 16, generator), program)
    next(iter(training.epoch(0)))
    assert training.gradient_error < 1e-5
    array = ARRAYS[f"ring-{dies}"]
    assert StepTime(plan.graph, 16, array).cycles(plan.splits) > 0
    names = [activity.name for activity in simulated(plan, array).work.activities]
    # The first activation behind a sum goes with it; both ways are vector tasks.
    assert any(name.startswith("conv.output") for name in names) and any("conv.backward" in name for name in names)


@pytest.mark.parametrize("name", ["ndp-demo", "hypar-demo", "ndp-paper", "hypar-paper", "hypar-demo-mixed"])
@pytest.mark.parametrize("network", ["vgg-a", "alexnet", "lenet-c", "digits-cnn", "sfc"])
def test_no_product_is_faster_than_its_pes_or_its_memory(network: str, name: str) -> None:
    graph: PlanGraph = from_network(NETWORKS[network])
    die = machine(preset(name))
    pes = die.parameters.rows * die.parameters.columns
    for splits in (data(graph, 2), one_weird_trick(graph, 2)):
        step = step_of(Sharding(graph=graph, splits=splits, batch=256), die.parameters)
        for task in step.tasks(0, 1):
            if isinstance(task, Task) and isinstance(task.work, Multiplication):
                cost, product = matrix_cost(die, task.work), product_of(task.work)
                least = product.samples * product.weights * (product.window.positions if product.window else 1)
                if task.work.direction != "bprop":
                    assert cost.macs >= least
                assert cost.interval >= cost.macs / pes and cost.latency >= cost.interval
                assert cost.interval >= cost.words / float(die.parameters.memory_words_per_cycle)


@pytest.mark.parametrize("name", ["ndp-tiny", "hypar-demo", "ndp-bench"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 3, 1), (64, 10, 1), (100, 33, 4), (33, 128, 3), (4, 12, 4),
                                   (0, 5, 2)])
def test_pieces_of_a_gradient_are_all_of_it(name: str, sizes: tuple[int, int, int]) -> None:
    parameters, (rows, columns, of) = preset(name), sizes
    whole = WeightSlice(1, 0, rows, 0, columns, bias=True)
    row = word = 0
    for number in range(of):
        piece = WeightPiece(number, of)
        first, count = piece.rows(parameters, rows)
        start, words = piece.words(parameters, whole)
        assert (first, start) == (row, word) or not words
        assert start % parameters.beat_words == 0
        row, word = row + count, word + words
    assert (row, word) == (rows, whole.words)


def test_a_gradient_goes_in_pieces_as_soon_as_each_is_computed() -> None:
    network = NETWORKS["digits-mlp"]
    graph = from_network(network)
    step = step_of(Sharding(graph=graph, splits=((DP, DP),) * len(graph.nodes), batch=128), preset("ndp-demo"))
    names = [item.name for item in step.tasks(0) if isinstance(item, Task)]
    behind = [name for name in names if name.startswith(("fc1.update", "fc1.all"))]
    assert behind == [f"fc1.{what}[{piece}]" for piece in range(4) for what in ("update_grad", "all_reduce")]
    messages = [item.work.message for item in step.tasks(0) if isinstance(item, Task)
                and isinstance(item.work, Reduction)]
    assert len(set(messages)) == len(messages) == 9 and {number % 2 for number in messages} == {0, 1}


def test_the_first_members_have_one_more() -> None:
    assert Members(3, 2, 4, 5, 3).shares == [(3, 6), (5, 6), (7, 6), (9, 5)]


@pytest.mark.parametrize("stochastic", [False, True])
def test_updates_read_and_write_all_that_they_change(stochastic: bool) -> None:
    """The state of a generator as well, by which each update waits for the one before."""
    network, rule = NETWORKS["digits-mlp"], UpdateRule(kind="momentum", stochastic=stochastic)
    graph = from_network(network)
    step = step_of(Sharding(graph=graph, splits=((DP,),) * len(graph.nodes), batch=8, rule=rule), preset("fpga-tiny"))
    updates = 0
    for task in step.tasks(0):
        if isinstance(task, Task) and isinstance(task.work, Optimisation):
            work = task.work
            assert (work.generator is not None) == stochastic
            changed = {work.weights, *work.kept.values(), *([work.generator] if stochastic else [])}
            assert set(task.writes) == changed and set(task.reads) == {work.gradients, *changed}
            updates += 1
    assert updates
