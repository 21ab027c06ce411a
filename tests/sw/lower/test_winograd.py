"""Winograd layers in training steps: random networks under random splits, elements among them, against the float64
reference, which for kernels knows no tiles; RTL against golden; words against the plan."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.dies import MIXED_TILES, PREDICTING
from tests.support.networks import NARROW_DIGITS, random_data, random_plan, winograd_network
from tests.support.sessions import MEMORY_WORDS, session

from plinth.errors import UserError
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.layers import Convolution, Dense, Flatten, Layer, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.winograd import tiled, with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition import exchanges, lines
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.sharding import Sharding
from plinth.step import line_operations, tile_operations, tile_strips
from plinth.step.build import step_of
from plinth.step.line_operations import LineGather
from plinth.step.tasks import LineTransform, TileCopy
from plinth.step.tensors import Tiles
from plinth.step.tile_operations import Gather
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import TaskHeader
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters, preset

TINY = "ndp-tiny-winograd"


def lowered(network: Network, plan: Plan, rule: UpdateRule | None = None, die: DieParameters | None = None
            ) -> TrainingProgram:
    return lower_training(network, plan, die or preset(TINY), rule=rule or UpdateRule(), steps=1,
                          memory_words=MEMORY_WORDS)


def on_rtl(network: Network, plan: Plan, data: Dataset) -> Session:
    """On dies that predict, too."""
    return session(network, plan, data, lowered(network, plan, die=PREDICTING), rtl=True)


def case(seed: int, dies: int) -> tuple[Network, Plan, Dataset]:
    """A network with a Winograd layer, and any split of it."""
    for number in range(seed, seed + 10_000, 1000):
        generator = np.random.default_rng([number, dies])
        network = winograd_network(generator)
        batch = int(generator.integers(max(1, dies // 2), 3 * dies + 3))
        if not tiled(network):
            continue
        try:
            plan = random_plan(network, dies, batch, generator)
        except UserError as error:
            assert "groups of dies, but a tile has" in str(error)
            continue
        return network, plan, random_data(network, batch, generator)
    raise AssertionError("no such case")


@pytest.mark.parametrize(("seed", "dies"), [
    *((seed, dies) for dies, count in ((1, 12), (2, 10), (4, 16), (8, 16), (3, 6), (6, 6), (12, 4))
      for seed in range(count))])
def test_a_step_is_that_of_the_network_under_any_plan(seed: int, dies: int) -> None:
    network, plan, data = case(seed, dies)
    run = session(network, plan, data, lowered(network, plan))
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 3e-5


@pytest.mark.xdist_group("tiny-predict-dies")
@pytest.mark.parametrize(("seed", "dies"), [
    (0, 2), (1, 4), (2, 8),
    *(pytest.param(seed, dies, marks=pytest.mark.slow) for seed, dies in (
        (3, 1), (4, 2), (5, 4), (6, 4), (7, 8), (8, 8), (9, 3), (10, 6)))])
def test_rtl_equals_golden_and_links_carry_the_planned_words(seed: int, dies: int) -> None:
    network, plan, data = case(100 + seed, dies)
    run = on_rtl(network, plan, data)
    next(iter(run.epoch(0)))
    assert run.equal
    assert sum(run.driver.injected_words(die) for die in range(dies)) == plan.words


def arranged(dies: int, vectors: tuple[tuple[str, ...], ...], batch: int = 16,
             network: Network = NETWORKS["digits-cnn"]) -> tuple[Network, Plan]:
    """The network with tiles trained, each of its convolutions in an arrangement of its own."""
    network = with_tiles(network, 2, "winograd")
    graph = from_network(network)
    tile_vectors = iter(vectors)
    splits = tuple(next(tile_vectors) if node.tiling else ("dp",) * len(vectors[0]) for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch, factors=(2,) * len(vectors[0])),
                         planner="data", model="exact", array=f"ring-{dies}")


@pytest.mark.xdist_group("tiny-predict-dies")
def test_layers_of_a_step_have_groups_and_clusters_of_their_own() -> None:
    """(4 groups, 2 clusters) beside (1, 8), then (8, 1) beside (2, 4), on the same eight dies; weights stay where they
    are."""
    for vectors in ((("dp", "ep", "ep"), ("dp",) * 3), (("ep",) * 3, ("dp", "dp", "ep"))):
        network, plan = arranged(8, vectors, network=NARROW_DIGITS)
        run = on_rtl(network, plan, random_data(network, 16, np.random.default_rng(3)))
        next(iter(run.epoch(0)))
        assert run.equal and run.checks is not None and run.checks.failure is None
        assert sum(run.driver.injected_words(die) for die in range(8)) == plan.words


@pytest.mark.xdist_group("tiny-predict-dies")
def test_one_step_has_layers_of_one_group_of_four_and_of_eight() -> None:
    """(1 group, 8 clusters), (4, 2) and (8, 1) of one array, whose routes stay as they are."""
    layers: list[Layer] = []
    for name in "abc":
        layers += [Convolution(name=name, channels=3, kernel=(3, 3), padding=(1, 1)), Relu(name=f"relu-{name}")]
    network, plan = arranged(8, (("dp",) * 3, ("ep", "ep", "dp"), ("ep",) * 3), 8, Network(
        name="three", input=Shape((2, 4, 4)), layers=(
            *layers, Flatten(name="flatten"), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss"))))
    assert {name: arrangement.arranged for name, arrangement in plan.arrangements.items()} == {
        "a": "1x8", "b": "4x2", "c": "8x1"}
    run = on_rtl(network, plan, random_data(network, 8, np.random.default_rng(3)))
    next(iter(run.epoch(0)))
    assert run.equal and run.checks is not None and run.checks.failure is None
    assert sum(run.driver.injected_words(die) for die in range(8)) == plan.words


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-predict-dies")
def test_sixteen_dies_have_an_element_each() -> None:
    """In two steps, of samples of their own: the second has what the first has trained."""
    network, plan = arranged(16, (("ep",) * 4, ("ep", "ep", "dp", "dp")), network=NARROW_DIGITS)
    run = on_rtl(network, plan, random_data(network, 32, np.random.default_rng(4)))
    steps = sum(1 for _ in run.epoch(0))
    assert steps == run.compared_steps == 2
    assert run.equal and run.checks is not None and run.checks.failure is None
    assert sum(run.driver.injected_words(die) for die in range(16)) == 2 * plan.words


def test_a_layer_without_splits_of_elements_sends_nothing() -> None:
    network, plan = arranged(4, (("dp", "dp"), ("dp", "dp")))
    program = lowered(network, plan)
    names = [task.name for task in program.step[0].tasks if task.engine is Engine.TRANSFER]
    assert any(name.startswith("conv1.scatter.own") for name in names)
    assert not any("[" in name for name in names if name.startswith("conv"))
    assert not [transfer for transfer in plan.transfers if transfer.exchange.layer.startswith("conv")]


@pytest.mark.xdist_group("tiny-predict-dies")
@pytest.mark.parametrize(("levels", "batch", "outputs"), [
    (0, 1, 2), (1, 1, 2), pytest.param(1, 10, 4, marks=pytest.mark.slow)])
def test_strips_of_tiles_change_no_bit(levels: int, batch: int, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of an image's tiles, or images; products of a strip wait for its own tiles alone. Of two dies one may have
    no image."""
    network = with_tiles(Network(name="two", input=Shape((2, 8, 8)), layers=(
        Convolution(name="a", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        Convolution(name="b", channels=5, kernel=(3, 3), padding=(1, 1)), Flatten(name="flatten"),
        Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss"))), outputs, "winograd")
    graph, dies = from_network(network), 1 << levels
    plan = Plan(sharding=Sharding(graph=graph, splits=(("dp",) * levels,) * len(graph.nodes), batch=batch),
                planner="data", model="exact", array=f"ring-{dies}")
    data, tensors = random_data(network, batch, np.random.default_rng(6)), []
    monkeypatch.setattr(tile_strips, "TASK_PERIOD", 0)
    for cycles in (1, 1 << 40):
        monkeypatch.setattr(tile_strips, "LEAST_CYCLES", cycles)
        tile_strips.tile_strips.cache_clear()
        program = lowered(network, plan, die=PREDICTING)
        waits = {task.name: layout.unpack(TaskHeader, task.words) for task in program.step[0].tasks}
        transfers = [task.name for task in program.step[0].tasks if task.engine is Engine.TRANSFER]
        assert ("b.fprop[0].1" in waits) == (cycles == 1)
        if cycles == 1:
            header = waits["b.fprop[0].0"]
            value = max(value for counter, value in zip(header.wait_counter, header.wait_value, strict=True)
                        if counter == Engine.TRANSFER.value)
            assert transfers.index("b.scatter.own.0.0") < value <= transfers.index("b.scatter.own.1.0")
            # What waits in a die's few places keeps those behind it back.
            places = {name: place for place, name in enumerate(waits)}
            assert places["b.fprop[0].0"] < places["b.untile.0.0"] < places["b.fprop[0].1"]
        run = session(network, plan, data, program, rtl=cycles == 1 and batch >= dies)
        next(iter(run.epoch(0)))
        assert run.equal and run.checks is not None and run.checks.failure is None
        tensors.append([run.driver.read(die, layer.buffers[die]) for layer in (
            *program.weights.values(), *program.gradients.values()) for die in range(dies)])
    tile_strips.tile_strips.cache_clear()
    for left, right in zip(*tensors, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("dies", "batch", "outputs", "rtl"), [
    (8, 8, 2, False), (4, 12, 4, False), *(pytest.param(8, batch, 2, True, marks=[
        pytest.mark.slow, pytest.mark.xdist_group("tiny-mixed-winograd-dies")]) for batch in (8, 24))])
def test_maps_made_while_the_rest_is_sent_change_no_bit(dies: int, batch: int, outputs: int, rtl: bool,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some lines of an image's tiles, or some images, once these have come; those of errors are added in their
    order."""
    network = with_tiles(Network(name="two", input=Shape((2, 12, 12)), layers=(
        Convolution(name="a", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        Convolution(name="b", channels=4, kernel=(3, 3), padding=(1, 1)), Flatten(name="flatten"),
        Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss"))), outputs, "winograd")
    graph, levels = from_network(network), dies.bit_length() - 1
    splits = tuple(("ep" if node.tiling else "dp",) * levels for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="data", model="exact",
                array=f"ring-{dies}")
    data, tensors = random_data(network, batch, np.random.default_rng(6)), []
    monkeypatch.setattr(tile_strips, "PASS_CYCLES", 0)
    monkeypatch.setattr(tile_strips, "STRIP_ARRIVAL_CYCLES", 0)
    for most in (4, 1):
        monkeypatch.setattr(tile_strips, "MOST_GATHERED", most)
        tile_strips.gather_strips.cache_clear()
        program = lowered(network, plan, die=MIXED_TILES if rtl else preset(TINY, transfer_words=4))
        names = [task.name for task in program.step[0].tasks if task.engine is Engine.TRANSFER]
        for gather, untile in (("b.gather[0..]", "b.untile"), ("b.error_gather[0..]", "b.error_untile")):
            assert (f"{gather}.1" in names) == (most > 1)
            if most > 1:
                assert names.index(f"{gather}.1") < names.index(f"{untile}.0.0") < names.index(f"{untile}.1.0")
        run = session(network, plan, data, program, rtl=rtl and most > 1)
        next(iter(run.epoch(0)))
        assert run.equal and run.checks is not None and run.checks.failure is None
        if rtl and most > 1:
            assert sum(run.driver.injected_words(die) for die in range(dies)) == plan.words
        tensors.append([run.driver.read(die, layer.buffers[die]) for layer in (
            *program.weights.values(), *program.gradients.values()) for die in range(dies)])
    tile_strips.gather_strips.cache_clear()
    for left, right in zip(*tensors, strict=True):
        np.testing.assert_array_equal(left, right)


def test_gathers_go_whole_where_counters_would_not_do() -> None:
    """Each strip of a gather has a counter of its own."""
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    splits = tuple(("ep" if node.tiling else "dp",) * 3 for node in graph.nodes)
    die = preset(TINY, transfer_words=4)
    step = step_of(Sharding(graph=graph, splits=splits, batch=64, factors=(2,) * 3), die)
    whole = step_of(Sharding(graph=graph, splits=splits, batch=64, factors=(2,) * 3), preset(TINY))
    assert step.exchanges > whole.exchanges
    for name in ("conv1.gather", "conv2.gather", "conv2.error_gather"):
        parts = [gather.portion for gather in step.operations if isinstance(gather, Gather) and gather.name == name]
        assert len(parts) > 1 and sum(parts) == pytest.approx(1)
    few = step_of(Sharding(graph=graph, splits=splits, batch=64, factors=(2,) * 3), replace(die, counters=16))
    assert len(Engine) + few.exchanges <= 16 and few.exchanges == whole.exchanges


@pytest.mark.parametrize(("outputs", "dies", "spreads"), [(2, 8, True), (4, 4, True), (4, 8, False)])
def test_one_task_sends_to_a_cluster_where_a_word_can_say_whom(outputs: int, dies: int, spreads: bool) -> None:
    """16 elements on 8 dies are 2 each; 36 on 4 are 9; 36 on 8, halved three times, are 5, 4, 5, 4, .., which do not
    fall."""
    network = with_tiles(NETWORKS["digits-cnn"], outputs, "winograd")
    graph, levels = from_network(network), dies.bit_length() - 1
    splits = tuple(("ep",) * levels if node.tiling else ("dp",) * levels for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=8, factors=(2,) * levels), planner="data",
                model="exact", array=f"ring-{dies}")
    program = lowered(network, plan)
    names = [task.name for task in program.step[0].tasks if task.name.startswith("conv1.scatter")]
    assert all(("..]" in name) == spreads for name in names) and names
    run = session(network, plan, random_data(network, 8, np.random.default_rng(8)), program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None


@pytest.mark.parametrize(("dies", "levels"), [(4, 1), (4, 2), (8, 2), (8, 3)])
@pytest.mark.parametrize("even", [True, False])
def test_products_go_back_some_elements_at_a_time_both_ways_round(dies: int, levels: int, even: bool,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Each die sends as many as make a task to all dies of its cluster in one, where all have as many samples; else to
    all others before the next ones, its own last; where all are of a cluster neighbours go through the others in
    opposite orders. Every tile is waited for."""
    for module in (tile_operations, line_operations):
        monkeypatch.setattr(module, "GATHERED_WORDS", 1)
    _, plan = arranged(dies, (("ep",) * levels + ("dp",) * (dies.bit_length() - 1 - levels),) * 2,
                       2 * dies + (not even))
    step = step_of(plan.sharding, preset(TINY))
    gather = next(operation for operation in step.operations if isinstance(operation, Gather))
    assert isinstance(gather.source, Tiles) and gather.cluster is not None
    assert isinstance(gather, LineGather) == (levels < 3)
    members, orders, ways, lines = 1 << levels, set(), set(), False
    for die in range(dies):
        tasks = list(gather.sends(die))
        works = [task.work for task in tasks]
        for task, work in zip(tasks, works, strict=True):
            if isinstance(work, LineTransform) and work.members is None:
                sides = zip((task.reads, task.writes), (work.source, work.target), work.sides, work.planes, strict=True)
                for regions, buffer, side, plane in sides:
                    words = (work.columns * side - 1) * plane + buffer.words
                    here = regions is task.reads or work.die is None
                    assert [(region.address, region.words) for region in regions] == [(buffer.address, words)] * here
                    lines = True
        number, arrivals, peers = gather.cluster.number(die), gather.arrivals(die), gather.peers(die)
        # A task an element; of whole columns, which become lines, one of these.
        side = 4 if isinstance(gather, LineGather) else 1
        counts = [gather.source.at(other).count // side for other in peers]
        assert arrivals is not None
        ways.add(gather.members(die) is not None)
        if gather.members(die) is not None:
            assert len(works) == counts[0] and arrivals.count == sum(counts)
            assert all(isinstance(work, (TileCopy, LineTransform)) and work.members is not None
                       and work.members.shares == [(other, 1) for other in sorted(peers)] for work in works)
            continue
        to = [die if work.die is None else work.die for work in works if isinstance(work, (TileCopy, LineTransform))]
        assert to == to[:members] * counts[0] and to[members - 1] == die
        orders.add((number % 2, *((gather.cluster.number(other) - number) % members for other in to[:members - 1])))
        assert arrivals.count == sum(counts[1:])
    assert lines == (levels < 3 and not even)
    # Of an odd number of samples a cluster may have as many on each die.
    assert (True in ways) if even else (False in ways)
    around = tuple(range(1, members))
    assert orders <= {(0, *around), (1, *(around[::-1] if members == dies else around))}


@pytest.mark.parametrize(("factors", "vector", "outputs", "weights", "sent"), [
    ((2, 2), ("ep", "ep"), 2, "winograd", (8, 8)), ((2, 2), ("dp", "ep"), 4, "spatial", (24, 24)),
    ((3,), ("ep",), 4, "winograd", (24, 24)), ((2, 2), ("op", "ep"), 2, "spatial", (8, 8)),
    # Four groups have 9 of 36 elements each, no whole columns.
    ((2, 2), ("ep", "ep"), 4, "spatial", (36, 36))])
def test_lines_change_no_bit(factors: tuple[int, ...], vector: tuple[str, ...], outputs: int, weights: str,
                             sent: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of dies with whole columns the words of products are as many as outputs have lines, of maps that are multiples of
    these tiles also those of scatters over slow links; weights and gradients are those of whole tiles."""
    network = with_tiles(NETWORKS["digits-cnn"], outputs, weights)
    graph, dies, tensors, words = from_network(network), int(np.prod(factors)), [], []
    splits = tuple(vector if node.tiling else ("dp",) * len(factors) for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=2 * dies + 1, factors=factors), planner="data",
                model="exact", array=f"ring-{dies}")
    data = random_data(network, plan.batch, np.random.default_rng(9))
    for which in ("scatters too", "gathers", "nothing"):
        with monkeypatch.context() as patch:
            if which == "scatters too":
                patch.setattr(lines, "_link_cycles", lambda *_: 1e9)
            elif which == "nothing":
                patch.setattr(exchanges, "tile_words", lambda node, *_: (node.tiling.positions, node.tiling.elements))
            plan = replace(plan)
            words.append({(transfer.exchange.layer, transfer.exchange.phase, transfer.exchange.kind): transfer.words
                          for transfer in plan.transfers})
            program = lowered(network, plan)
        run = session(network, plan, data, program)
        next(iter(run.epoch(0)))
        assert run.checks is not None and run.checks.failure is None
        tensors.append([run.driver.read(die, layer.buffers[die]) for layer in (
            *program.weights.values(), *program.gradients.values()) for die in range(dies)])
    elements = next(node.tiling for node in graph.nodes if node.tiling).elements
    scattered, gathered, whole = words
    for (name, phase, kind), count in whole.items():
        tiles = kind == "scatter" or (phase, kind) == ("fprop", "gather")
        for some, few in zip((scattered, gathered), (sent[0] if tiles else elements, sent[1] if (
                phase, kind) == ("fprop", "gather") else elements), strict=True):
            assert some[name, phase, kind] * elements == count * few, (name, phase, kind)
    for run_tensors in tensors[1:]:
        for mine, other in zip(tensors[0], run_tensors, strict=True):
            np.testing.assert_array_equal(mine, other)


@pytest.mark.xdist_group("tiny-predict-dies")
def test_scatters_of_lines_on_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column each, and two; as slow links have them."""
    monkeypatch.setattr(lines, "_link_cycles", lambda *_: 1e9)
    network, plan = arranged(4, (("ep", "ep"), ("dp", "ep")), 8)
    assert sum(transfer.exchange.positions > 16 for transfer in plan.transfers
               if transfer.exchange.kind == "scatter") == 2
    run = on_rtl(network, plan, random_data(network, 8, np.random.default_rng(10)))
    next(iter(run.epoch(0)))
    assert run.equal and run.checks is not None and run.checks.failure is None
    assert sum(run.driver.injected_words(die) for die in range(4)) == plan.words


def test_more_groups_than_elements_are_refused() -> None:
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    splits = tuple(("ep",) * 5 if node.tiling else ("dp",) * 5 for node in graph.nodes)
    with pytest.raises(UserError, match="'conv1' splits its tiles over 32 groups of dies, but a tile has 16 elements"):
        Plan(sharding=Sharding(graph=graph, splits=splits, batch=32), planner="data", model="exact", array="x")


@pytest.mark.parametrize(("name", "why"), [
    ("ndp-tiny", r"needs Winograd transform F\(2,3\), which dies of preset 'ndp-tiny' have not"),
    ("ndp-demo-mixed", "choose a preset that has it, such as ndp-demo-mixed-winograd"),
    ("hypar-tiny", "choose a preset that has it")])
def test_dies_that_cannot_are_refused(name: str, why: str) -> None:
    network = with_tiles(NETWORKS["digits-cnn"], 2, None)
    plan = random_plan(network, 1, 4, np.random.default_rng(0))
    with pytest.raises(UserError, match=why):
        lower_training(network, plan, preset(name), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


def test_updates_with_a_state_train_tiles_too() -> None:
    network, plan = arranged(4, (("dp", "ep"), ("ep", "ep")), batch=8)
    rule = UpdateRule("momentum", rate=0.05, momentum=0.9)
    plan = plan.resharded(rule=rule)
    run = session(network, plan, random_data(network, 8, np.random.default_rng(5)), lowered(network, plan, rule),
                  rule=rule)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None


def rated(rule: UpdateRule, digits: Network = NETWORKS["digits-cnn"]) -> tuple[Network, Plan]:
    """The digits' network with tiles of 36 trained, their elements over two of four dies, and a second layer that is
    wide enough for messages by element."""
    network = with_tiles(replace(digits, layers=tuple(
        replace(layer, channels=64) if layer.name == "conv2" else layer for layer in digits.layers)), 4, "winograd")
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    return network, Plan(sharding=Sharding(graph=graph, splits=splits, batch=8, factors=(2, 2), rule=rule),
                         planner="data", model="exact", array="ring-4")


@pytest.mark.parametrize("rule", [
    UpdateRule(rate=0.1), UpdateRule("momentum", rate=0.05), UpdateRule("adagrad", rate=0.01)])
def test_elements_have_rates_of_their_own(rule: UpdateRule) -> None:
    """Of tiles of 36; the float64 reference takes them, but not for Adagrad, whose steps do not depend on it. Elements
    of the second layer are messages of their own, with their rates; the first layer's are too short."""
    network, plan = rated(rule)
    program = lowered(network, plan, rule)
    names = [task.name for task in program.step[0].tasks]
    for layer, multiplied in (("conv1", rule.kind != "adagrad"), ("conv2", rule.kind == "momentum")):
        assert any(name.startswith(f"{layer}.rates") for name in names) == multiplied
    assert sum(name.startswith("conv2.all_reduce[") for name in names) == (19 if rule.kind == "sgd" else 0)
    run = session(network, plan, random_data(network, 8, np.random.default_rng(7)), program, rule=rule)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    if rule.kind == "sgd":
        wrong = replace(run.checks, rates=(), largest=dict(run.checks.largest), failure=None)
        again = session(network, plan, run.dataset, program, rule=rule)
        again.checks = wrong
        next(iter(again.epoch(0)))
        assert wrong.failure is not None and "update" in wrong.failure


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-predict-dies")
def test_messages_by_element_on_rtl() -> None:
    """Rings carry the words of one message a layer."""
    network, plan = rated(UpdateRule(rate=0.1), NARROW_DIGITS)
    run = on_rtl(network, plan, random_data(network, 8, np.random.default_rng(7)))
    next(iter(run.epoch(0)))
    assert run.equal and run.checks is not None and run.checks.failure is None
    assert sum(run.driver.injected_words(die) for die in range(4)) == plan.words


def test_kernels_train_as_without_tiles() -> None:
    """One step by tiles and one directly from the same kernels give the same kernels but for rounding."""
    parameters = []
    for winograd in ("off", 4):
        network = with_tiles(NETWORKS["digits-cnn"], winograd, "spatial")
        plan = random_plan(network, 1, 8, np.random.default_rng(0)).resharded(splits=((),) * 5)
        run = session(network, plan, random_data(network, 8, np.random.default_rng(6)), lowered(network, plan))
        run.load_parameters(initial_parameters(NETWORKS["digits-cnn"], 0))
        next(iter(run.epoch(0)))
        parameters.append(run.parameters(run.driver))
    assert isinstance(NETWORKS["digits-cnn"].layers[0], Convolution)
    for name, direct in parameters[0].items():
        assert np.abs(direct - parameters[1][name]).max() < 1e-5 * np.abs(direct).max()
