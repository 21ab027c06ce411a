"""A Plan's step as tasks and flows: words, operations and order are the Plan's; times agree with closed forms."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support.networks import CONCATENATED, DOUBLED
from tests.support.partitions import random_lists
from tests.support.plan_graphs import random_chain, random_graph, random_splits

from plinth.array.array import ARRAYS, AT_LINKS, Array, ring, sized
from plinth.errors import UserError
from plinth.network.layers import Dense, Embedding, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planners.mpt import grouped
from plinth.plan.planners.simple import data, model
from plinth.plan.planning import SPLITTERS, given_plan
from plinth.predict.exact import ExactWords
from plinth.predict.published import PublishedWords
from plinth.predict.time import StepTime
from plinth.sharding import Sharding
from plinth.simulate.costs import COSTS, PAPER_HERTZ, PAPER_PES, HyParAccelerator
from plinth.simulate.routes import LinkRoutes
from plinth.simulate.rows import layer_rows
from plinth.simulate.step import planned, simulated, step_on
from plinth.simulate.workload import workload
from plinth_sim.array.machine import EngineTask, Flow

HYPAR = ARRAYS["hypar-16"]


def plan_of(graph, splits, batch: int, array: Array) -> Plan:
    return Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch, factors=array.factors), planner="test",
                model="exact", array=array.name)


def data_plan(name: str, array: Array, batch: int = 256) -> Plan:
    graph = from_network(NETWORKS[name])
    return plan_of(graph, data(graph, array.levels), batch, array)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dies", [3, 4, 5, 6, 8, 12])
def test_links_between_neighbours_carry_the_plans_words(seed: int, dies: int) -> None:
    """Fully connected, every word crosses one link: those that the Plan counts, whatever divides and what does not; cut
    by list as well."""
    rng, array = random.Random(seed), Array(name="full", topology="full", dies=dies, preset="ndp-demo")
    graph = random_chain(rng, 4, (3, 8, 12)) if seed % 2 else random_graph(rng, 2, (5, 8))
    splits = random_splits(rng, graph, array.levels, ("dp", "mp", "op"))
    plan = plan_of(graph, splits, rng.choice((16, 13)), array).resharded(array=array)
    if seed > 2:
        plan = plan.resharded(lists=random_lists(rng, graph, splits, plan.batch, array.factors))
    simulation = simulated(plan, array, cost="paper")
    assert sum(row.injected_words for row in layer_rows(simulation)) == plan.words
    assert simulation.result.link_words.sum() == pytest.approx(plan.words, rel=1e-9)


@pytest.mark.parametrize("name", ["ring-3", "ring-5", "torus-2x3", "ring-12", "torus-3x4"])
@pytest.mark.parametrize("planner", ["data", "hypar"])
def test_arrays_of_any_number_of_dies_are_simulated(name: str, planner: str) -> None:
    """All of the work, no faster than the PEs, and about in the predicted time."""
    array = sized(name)
    assert array is not None
    (plan, _), dies = planned(NETWORKS["digits-cnn"], array, planner=planner, model="exact", batch=64), array.dies
    assert plan.factors == array.factors and plan.dies == dies
    simulation, parameters = simulated(plan, array), array.die_parameters()
    macs = sum(node.macs * (2 + bool(plan.graph.inputs[number])) for number, node in enumerate(plan.graph.nodes))
    assert simulation.result.counts.multiplies >= 64 * macs
    seconds = 64 * macs / (dies * parameters.rows * parameters.columns) / float(array.clock_mhz * 1_000_000)
    assert simulation.result.seconds > seconds
    predicted = StepTime(plan.graph, 64, array).seconds(plan.splits)
    assert simulation.result.seconds == pytest.approx(predicted, rel=0.15)


def _one_way() -> tuple[tuple[int | None, ...], ...]:
    """Routes of torus-2x4 that take the column first, then go one way round the row; those that follow from its links
    take the row first, the shorter way."""
    return tuple(tuple(2 if there // 4 != die // 4 else None if there == die else 0 for there in range(8))
                 for die in range(8))


@pytest.mark.parametrize("split", [data, model])
@pytest.mark.parametrize("array", [
    HYPAR, sized("mpt-4x4"), replace(ARRAYS["torus-2x4"], preset="ndp-tiny-routes", tile_routes=_one_way())],
    ids=lambda array: array.name)
def test_both_models_send_the_same_words_over_the_same_links(array: Array, split) -> None:
    """Switches pass on what dies send, and tiles go by their own routes, chunks by those of the array. Each link has
    its share of all words; how many flits they take, models differ in."""
    graph = from_network(NETWORKS["digits-mlp"])
    plan = given_plan(graph, array, split(graph, array.levels), 64)
    step = step_on(plan, array)
    fine, coarse = simulated(plan, array, step=step), simulated(plan, array, step=step, most_tasks=0)
    assert not fine.work.grouped and coarse.work.grouped
    words = fine.result.link_words[:len(array.directed())]
    assert words / words.sum() == pytest.approx(coarse.result.link_words / coarse.result.link_words.sum(), rel=0.01)
    assert 0.6 < coarse.cycles / fine.cycles < 1.0


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("planner", ["data", "model", "hypar"])
def test_multiply_adds_are_those_of_the_layers(cost: str, planner: str) -> None:
    """Batch and channels that do not divide: all dies together still do each product once."""
    plan, _ = planned(NETWORKS["lenet-c"], ARRAYS["torus-2x4"], planner=planner, model="exact", batch=50)
    simulation = simulated(plan, ARRAYS["torus-2x4"], cost=cost)
    macs = sum(node.macs * (2 + bool(plan.graph.inputs[number])) for number, node in enumerate(plan.graph.nodes))
    biases = 3 * sum(node.weights + node.bias for node in plan.graph.nodes) if cost == "die" else 0
    assert 50 * macs <= simulation.result.counts.multiplies <= 50 * macs + biases


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("splits", [("dp", "dp"), ("mp", "op"), ("op", "dp")])
def test_an_embedding_moves_rows_and_adds_their_errors(cost: str, splits: tuple[str, str]) -> None:
    graph = from_network(Network(name="words", input=Shape((7,)), layers=(
        Embedding(name="table", rows=50, width=12), Dense(name="fc", outputs=5), SoftmaxCrossEntropy(name="loss"))))
    array = ARRAYS["full-4"]
    plan = plan_of(graph, (splits, ("dp", "dp"), ("dp", "dp")), 32, array)
    simulation = simulated(plan, array, cost=cost)
    assert simulation.result.link_words.sum() * (cost == "paper") == pytest.approx(plan.words * (cost == "paper"))
    moved = {activity.name: activity for activity in simulation.work.activities if activity.name.startswith("table")}
    gathers, adds = ([moved[f"table.{direction}@{die}"] for die in range(4)] for direction in ("gather", "scatter"))
    assert {task.engine for task in gathers + adds} == {"transfer"}
    # Dies that differ in mp levels each work on all of the batch.
    assert sum(task.adds for task in adds) == 32 * 7 * 12 * (1 + ("mp" in splits))
    def words(activity: EngineTask | Flow) -> float:
        return activity.words if isinstance(activity, EngineTask) else float(activity.die_words.sum())

    assert all(words(add) > words(gather) >= 2 * 32 * 7 * 12 / 4 for gather, add in zip(gathers, adds, strict=True))
    assert ("table.zero[0]@0 store" in moved) == (cost == "die")


@pytest.mark.parametrize("planner", SPLITTERS)
@pytest.mark.parametrize("network", [DOUBLED, CONCATENATED], ids=lambda network: network.name)
def test_layers_that_read_a_layer_twice(network: Network, planner: str) -> None:
    """Whoever plans them: words of plans, of the exact model, and on links."""
    array = ARRAYS["full-4"]
    plan, _ = planned(network, array, planner=planner, model="exact", batch=8)
    assert simulated(plan, array, cost="paper").result.link_words.sum() == pytest.approx(plan.words)
    assert ExactWords(plan.graph, 8).total_bytes(plan.splits) == 4 * plan.words


def test_data_parallelism_on_the_papers_machine_takes_its_closed_form() -> None:
    """Compute of three products (two of the first layer), then the rings, without overlap: each link of the tree
    carries 2 (N - 1) / N of the gradient, and those of the dies are the slowest."""
    plan = data_plan("vgg-a", HYPAR)
    simulation = simulated(plan, HYPAR, cost="paper", overlap=False)
    graph = plan.graph
    macs = sum(node.macs * (2 + bool(graph.inputs[number])) for number, node in enumerate(graph.nodes))
    compute = 256 / 16 * macs / (PAPER_PES * PAPER_HERTZ)
    words = sum(node.weights + node.bias for node in graph.nodes)
    rings = 2 * 15 / 16 * words / 50e6
    assert simulation.result.seconds == pytest.approx(compute + rings, rel=1e-4)
    overlapped = simulated(plan, HYPAR, cost="paper").result.seconds
    assert max(compute, rings) <= overlapped < compute + rings


def test_published_words_take_what_the_formula_says_on_an_h_tree() -> None:
    """All levels of the tree carry the same in total, so a step takes its bytes over that, and its compute;
    split by channels, three input channels do not divide."""
    graph = from_network(NETWORKS["vgg-b"])
    for splits in (data(graph, 4), model(graph, 4)):
        simulation = simulated(plan_of(graph, splits, 256, HYPAR), HYPAR, cost="paper", overlap=False, form="published")
        moved = PublishedWords(graph, 256).total_bytes(splits)
        compute = 256 / 16 * 3 * sum(node.macs for node in graph.nodes) / (PAPER_PES * PAPER_HERTZ)
        assert simulation.result.seconds == pytest.approx(compute + moved / 3.2e9, rel=0.01)


def test_two_slow_halves_of_a_tree_meet_at_the_root() -> None:
    """A tree whose links do not double is slower: partners of the two halves all meet at one link."""
    plan = data_plan("sfc", HYPAR)
    wide = simulated(plan, HYPAR, cost="paper", overlap=False, form="published").result.seconds
    thin = replace(HYPAR, link_rate=Fraction(1, 10))
    assert simulated(plan, thin, cost="paper", overlap=False, form="published").result.seconds > 1.8 * wide


@pytest.mark.parametrize(("name", "array", "planner"), [
    ("digits-mlp", "ring-2", "data"), ("digits-mlp", "ring-4", "model"), ("digits-mlp", "torus-2x4", "data"),
    ("digits-cnn", "ring-4", "hypar"), ("digits-cnn", "torus-2x4", "model"), ("lenet-c", "full-4", "data"),
    ("vgg-a", "hypar-16", "hypar"), ("resnet-34", "hypar-16", "data"),
])
def test_equal_dies_take_about_what_planners_predict(name: str, array: str, planner: str) -> None:
    plan, _ = planned(NETWORKS[name], ARRAYS[array], planner=planner, model="exact", batch=128)
    predicted = StepTime(plan.graph, 128, ARRAYS[array]).seconds(plan.splits)
    assert simulated(plan, ARRAYS[array]).result.seconds == pytest.approx(predicted, rel=0.22)


@pytest.mark.parametrize("preset", ["ndp-demo-mixed", "hypar-demo-mixed"])
@pytest.mark.parametrize("name", ["digits-mlp", "digits-cnn"])
def test_narrow_operands_are_copies_that_products_wait_for(name: str, preset: str) -> None:
    array = replace(ARRAYS["ring-4"], preset=preset)
    plan = data_plan(name, array, 128)
    simulation = simulated(plan, array)
    spans = {activity.name: (start, end) for activity, start, end in
             zip(simulation.work.activities, simulation.result.starts, simulation.result.ends, strict=True)}
    for node in plan.graph.nodes[:-1]:
        copies = [end for name, (_, end) in spans.items() if name.startswith(f"{node.name}.narrow") and "@3" in name]
        products = [start for name, (start, _) in spans.items()
                    if name.startswith(f"{node.name}.fprop") and name.endswith("@3")]
        assert copies and max(copies) < min(products)
    wide = simulated(plan, replace(array, preset=preset.rpartition("-")[0]))
    assert not any(".narrow" in activity.name for activity in wide.work.activities)
    predicted = StepTime(plan.graph, 128, array).seconds(plan.splits)
    assert simulation.result.seconds == pytest.approx(predicted, rel=0.12)
    assert simulation.result.seconds > 1.1 * wide.result.seconds


@pytest.mark.parametrize("rounds", [1, 2])
def test_codes_take_in_groups_what_they_take_task_by_task(rounds: int) -> None:
    """Gathers and scatters alike: engines that code, and words that codes are made of."""
    array = ring(4, preset="ndp-demo-predict")
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], 2, "winograd", rounds))
    plan = given_plan(graph, array, grouped(graph, array, 2), 32)
    assert {(transfer.exchange.phase, transfer.exchange.kind) for transfer in plan.transfers
            if transfer.exchange.coded} >= {("fprop", "gather"), ("bprop", "scatter"), ("fprop", "scatter")}
    tasks = simulated(plan, array).result
    groups = simulated(plan, array, most_tasks=0).result
    assert groups.seconds != tasks.seconds
    assert groups.seconds == pytest.approx(tasks.seconds, rel=0.05)
    assert groups.counts.dram_words == pytest.approx(tasks.counts.dram_words, rel=0.05)
    assert groups.counts.link_words == pytest.approx(tasks.counts.link_words, rel=0.01)


def test_codes_at_links_are_simulated_in_groups_where_words_go_in_codes() -> None:
    """They are a model of exchanges; of a step without codes dies do what those of any array do."""
    array = replace(ring(4, preset="ndp-demo-predict"), codes=AT_LINKS)
    plans = [given_plan(graph, array, grouped(graph, array, 2), 32) for graph in (
        from_network(with_tiles(NETWORKS["digits-cnn"], 2, "winograd", rounds)) for rounds in (0, 1))]
    plain, coded = (simulated(plan, array) for plan in plans)
    assert plain.work.grouped == ""
    assert plain.result.seconds == simulated(plans[0], replace(array, codes=None)).result.seconds
    assert coded.work.grouped == ("codes at the links of array ring-4 leave out a share of the words of whole "
                                  "exchanges, not of tasks")


def test_a_straggler_holds_up_all() -> None:
    plan = data_plan("lenet-c", ARRAYS["ring-4"], 64)
    even = simulated(plan, ARRAYS["ring-4"], cost="paper")
    slow = simulated(plan, ARRAYS["ring-4"], cost="paper", slow={2: 3.0})
    assert 2 * even.result.seconds < slow.result.seconds < 3.01 * even.result.seconds
    assert slow.result.engines[2, "matrix"].busy == pytest.approx(3 * even.result.engines[2, "matrix"].busy)
    assert slow.result.engines[0, "matrix"].busy == pytest.approx(even.result.engines[0, "matrix"].busy)
    # An array of unequal dies says the same.
    unequal = replace(ARRAYS["ring-4"], speeds=(Fraction(1), Fraction(1), Fraction(1, 3), Fraction(1)))
    assert simulated(plan, unequal, cost="paper").result.seconds == pytest.approx(slow.result.seconds)


def test_larger_parts_take_longer() -> None:
    """Seven samples on four dies: three have two, one has one."""
    plan = data_plan("digits-mlp", ARRAYS["ring-4"], 7)
    busy = [simulated(plan, ARRAYS["ring-4"], cost="paper").result.engines[die, "matrix"].busy for die in range(4)]
    assert busy[:3] == [busy[0]] * 3 and busy[3] == pytest.approx(busy[0] / 2, rel=0.01)


def test_reductions_overlap_the_backward_pass_of_earlier_layers() -> None:
    plan = data_plan("vgg-a", HYPAR)
    simulation = simulated(plan, HYPAR, cost="paper")
    spans = {activity.name: (start, end) for activity, start, end in
             zip(simulation.work.activities, simulation.result.starts, simulation.result.ends, strict=True)}
    start, _ = spans["fc1.all_reduce"]
    assert spans["fc1.update_grad@0"][1] <= start
    assert spans["conv5_2.update_grad@0"][0] < spans["fc1.all_reduce"][1]


def test_flows_wait_for_all_senders_and_readers_for_flows() -> None:
    plan, _ = planned(NETWORKS["lenet-c"], ARRAYS["ring-4"], planner="model", model="exact", batch=32)
    work = workload(step_on(plan, ARRAYS["ring-4"]), ARRAYS["ring-4"], HyParAccelerator(ARRAYS["ring-4"]))
    names = [activity.name for activity in work.activities]
    flow = next(activity for activity in work.activities if activity.name == "conv1.reduce")
    parts = [f"conv1.fprop[{start}]@{die}" for start in range(0, 32, 4) for die in range(4)]
    assert isinstance(flow, Flow) and {wait.counter for wait in flow.waits} & {*parts} == {*parts} & {*names}
    reader = next(activity for activity in work.activities
                  if isinstance(activity, EngineTask) and activity.name.startswith("conv2.fprop"))
    assert any(wait.counter in names and wait.counter.startswith("conv1") for wait in reader.waits)


def test_the_same_plan_gives_the_same_step() -> None:
    plan, _ = planned(NETWORKS["digits-cnn"], ARRAYS["torus-2x4"], planner="hypar", model="exact", batch=100)
    first, second = (simulated(plan, ARRAYS["torus-2x4"], slow={1: 1.1}) for _ in range(2))
    assert first.result.dones.tobytes() == second.result.dones.tobytes()


def test_a_die_of_the_paper_offers_84_gops() -> None:
    assert 2 * PAPER_PES * PAPER_HERTZ == 84e9
    assert HyParAccelerator(HYPAR).memory * 4 == 320e9


def test_dies_without_samples_do_nothing() -> None:
    plan = data_plan("digits-mlp", ARRAYS["torus-2x4"], 5)
    simulation = simulated(plan, ARRAYS["torus-2x4"])
    assert sum((die, "matrix") in simulation.result.engines for die in range(8)) == 5


def test_more_dies_than_samples_and_channels() -> None:
    plan, _ = planned(NETWORKS["digits-cnn"], ARRAYS["hypar-1024"], planner="hypar", model="exact", batch=300)
    simulation = simulated(plan, ARRAYS["hypar-1024"], cost="paper")
    assert simulation.result.seconds > 0 and np.isfinite(simulation.result.dones).all()


def test_a_plan_for_other_dies_is_refused() -> None:
    plan = data_plan("digits-mlp", HYPAR)
    with pytest.raises(UserError, match=r"plan is for 16 dies, but array 'torus-2x4' has 8"):
        simulated(plan, ARRAYS["torus-2x4"])


def test_a_slow_die_must_exist() -> None:
    with pytest.raises(UserError, match="die 4 cannot be slow: array 'ring-4' has dies 0 to 3"):
        simulated(data_plan("digits-mlp", ARRAYS["ring-4"]), ARRAYS["ring-4"], slow={4: 2.0})


def test_routes_can_be_shared() -> None:
    routes = LinkRoutes(ARRAYS["ring-4"])
    plan = data_plan("digits-mlp", ARRAYS["ring-4"])
    assert simulated(plan, ARRAYS["ring-4"], routes=routes).result.seconds == simulated(plan, ARRAYS["ring-4"]
                                                                                   ).result.seconds
