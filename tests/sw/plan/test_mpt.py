"""Arrays of clusters, and the planner that chooses groups, clusters and transforms by communication."""

import json
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
import pytest
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth import cli
from plinth.array.array import ARRAYS, Array, clusters, data_parallel_workers, ring, sized
from plinth.array.file import array_from_data, array_to_data
from plinth.errors import UserError
from plinth.lower.training import check_array, lower_training
from plinth.network.layers import Convolution, Flatten, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.axes import Region, plane
from plinth.partition.exchanges import ExchangeFlow
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.groups import RING, process_groups
from plinth.plan.plan_file import load_plan, save_plan
from plinth.plan.planners import mpt as planner
from plinth.plan.planners.joint import joint, vectors
from plinth.plan.planners.mpt import arrangements, communication, factorings, in_groups, mpt
from plinth.plan.planning import SPLITTERS, arranged, check_prediction, plan_network, task
from plinth.predict.links import Links
from plinth.predict.time import StepTime
from plinth.simulate import step
from plinth.simulate.routes import LinkRoutes
from plinth.update.rule import UpdateRule


@pytest.mark.parametrize(("groups", "of", "ports", "links"), [
    # A group's chain and its two ends at the host, and of each cluster's grid all rows and columns.
    (16, 16, 8, 16 * 17 + 16 * 48), (4, 2, 4, 4 * 3 + 2 * 4), (2, 3, 3, 2 * 4 + 3), (1, 4, 2, 5), (4, 1, 4, 4),
    (6, 2, 5, 6 * 3 + 2 * (2 * 3 + 3)), (5, 2, 6, 5 * 3 + 2 * 10),
    # 4 x 5 with 2 in the last row; 8 x 16, which no router has the ports for.
    (17, 4, 9, 17 * 5 + 4 * (3 * 10 + 1 + 2 * 6 + 3 * 3)), (128, 2, 24, 128 * 3 + 2 * (8 * 120 + 16 * 28))])
def test_links_of_clusters(groups: int, of: int, ports: int, links: int) -> None:
    array = clusters(groups, of)
    assert (array.dies, array.ports, len(array.links)) == (groups * of, ports, links)
    hops = array.all_routes.hops
    for die in range(array.dies):
        group, cluster = divmod(die, of)
        assert cluster == of - 1 or hops[die, die + 1] == 1
        for other in range(groups):
            # In a flattened butterfly a row and a column lead to every die.
            assert hops[die, other * of + cluster] <= 2 or of == 1
        if of > 1:
            # Rings close, and are joined, through the host.
            assert hops[group * of + of - 1, group * of] <= 2
            assert hops[group * of + of - 1, (group + 1) % groups * of] <= 2
    assert {float(link.rate) for link in array.links} <= {15.0, 2.5}
    assert array.factors[:array.group_levels] == clusters(groups, 1).factors


def test_arrays_of_clusters_come_back_from_files_and_by_name() -> None:
    array = ARRAYS["mpt-256"]
    assert array_from_data(array_to_data(array), "x") == array
    assert sized("mpt-16x16") == replace(array, name="mpt-16x16")


@pytest.mark.parametrize(("settings", "why"), [
    ({"dimensions": (4, 3)}, "an array of clusters of 4 x 3 has 12 dies, not 8"),
    ({"dimensions": ()}, "topology 'clusters' needs dimensions"),
    ({"dimensions": (4, 2), "narrow_rate": Fraction(17)}, "narrow_rate is 17 words a cycle"),
    ({"topology": "ring", "narrow_rate": Fraction(1)}, "topology 'ring' has no narrow_rate"),
    ({"topology": "ring", "ring_links": 2}, "topology 'ring' has no ring_links"),
    ({"dimensions": (4, 2), "ring_links": 0}, "ring_links must be an integer from 1 to 16, not 0")])
def test_what_cannot_be(settings, why) -> None:
    with pytest.raises(ValueError, match=why):
        Array(**({"name": "x", "topology": "clusters", "dies": 8, "preset": "ndp-paper"} | settings))


@pytest.mark.parametrize("groups", [17, 19, 29, 34])
def test_routes_of_a_grid_with_a_short_row_form_no_circle(groups: int) -> None:
    assert clusters(groups, 1).circle() == ""


@pytest.mark.parametrize("name", ["mpt-2x2", "mpt-17x4", "mpt-128x2", "mpt-1024x1", "mpt-1x1024"])
def test_any_groups_and_clusters_are_planned_and_simulated(capsys, name: str) -> None:
    """Small ones task by task, large ones in groups."""
    array = sized(name)
    assert array is not None
    arguments = ("lenet-c" if array.dies > 1000 else "digits-cnn", "--winograd", "2", "--weights", "winograd",
                 "--array", name, "--planner", "mpt", "--batch", str(array.dies), "--json")
    cli.main(["plan", *arguments])
    planned = json.loads(capsys.readouterr().out)
    cli.main(["simulate", *arguments])
    simulated = json.loads(capsys.readouterr().out)
    assert planned["dies"] == simulated["dies"] == array.dies == prod(array.dimensions)
    assert simulated["injected_words"] == planned["predicted_injected_words"] > 0 and simulated["seconds"] > 0
    assert simulated["simulated"] == ("in groups of tasks" if array.dies > 1000 else "task by task")
    assert {arrangement["groups"] * arrangement["clusters"] for arrangement in simulated["winograd"].values()} == {
        array.dies}


def test_dies_of_more_ports_than_a_router_has_are_not_lowered() -> None:
    check_array(clusters(64, 1))
    with pytest.raises(UserError, match=r"^dies of array 'mpt-128x1' have 24 ports, and a router at most 16: it can be "
                                        "planned for and simulated, not lowered; choose fewer groups$"):
        check_array(clusters(128, 1))
    assert clusters(128, 1).die_parameters().ports == 16


def test_data_parallel_workers_have_all_of_their_io_in_one_ring() -> None:
    """Section VII.B: four rings of 30 GB/s each, where MPT has two and as much again in narrow links."""
    array, mpt_array = ARRAYS["mpt-256-data"], ARRAYS["mpt-256"]
    assert array == data_parallel_workers(256) == array_from_data(array_to_data(array), "x")
    assert (array.dies, array.ports, array.group_levels) == (256, 2, 0)
    # Words of four bytes at 1 GHz, from a worker to the next.
    assert {4 * link.rate for link in array.links} == {4 * 30}
    narrow = sum(rate for (die, port), rate in mpt_array.port_rates.items() if die == 0 and port > 1)
    assert 4 * (mpt_array.port_rates[0, 0] + narrow) == 4 * 30 and mpt_array.port_rates[0, 0] == narrow
    # A word of each worker's ring takes half of the time.
    groups = process_groups(RING, tuple(range(8)), (2,) * 8)
    words, slower = ((routes := LinkRoutes(ring_array)).ring(groups)[0].words
                     / routes.rates[routes.ring(groups)[0].links]
                     for ring_array in (array, replace(array, ring_links=1)))
    assert max(words) == pytest.approx(max(slower) / 2)


def test_large_arrays_of_several_rates_are_walked_pair_by_pair() -> None:
    """As the simulator loads their links."""
    array = clusters(16, 8)
    links, routes = Links(array), LinkRoutes(array)
    for source, target in ((Region.of(samples=tuple(range(7))), Region.of(samples=(4, 5, 6), channels=(0, 1, 2, 3))),
                           (Region.of(samples=(4, 5, 6)), Region.of(samples=(0, 1, 2)))):
        there, _ = links.exchanges(ExchangeFlow(source, target, plane(256, 32), 3))
        groups = routes.exchange(source, target, plane(256, 32))
        loads = np.zeros(len(routes.rates))
        for group in groups:
            loads[group.links] += group.words
        latency = max(group.latency for group in groups)
        assert there == pytest.approx(3 * (loads / routes.rates).max() + latency)


def test_levels_that_split_elements_anywhere_cut_samples_last() -> None:
    """So layers of any groups and clusters pass maps on without moving them."""
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    for first, second in ((("ep", "dp", "dp"), ("dp", "dp", "dp")), (("dp", "ep", "dp"), ("dp", "ep", "ep")),
                          (("ep", "ep", "ep"), ("dp", "dp", "ep"))):
        tile_vectors = iter((first, second))
        splits = tuple(next(tile_vectors) if node.tiling else ("dp",) * 3 for node in graph.nodes)
        plan = plan_network(network, ring(8, preset="ndp-demo-winograd"), planner="data", batch=16).plan.resharded(
            splits=splits)
        assert not [transfer for transfer in plan.transfers if transfer.exchange.kind in ("copy", "reduce")]


def test_the_planner_takes_the_shortest_communication() -> None:
    array = clusters(4, 4)
    for name in ("mpt-early", "mpt-late-1"):
        network = with_tiles(NETWORKS[name], 2, "winograd")
        time = StepTime(from_network(network), 64, array)
        splits = mpt(time)
        costs = {vector: communication(time, 0, vector) for vector in arrangements(time, 0)}
        assert list(costs) == [("dp",) * 4, ("dp", "ep", "dp", "dp"), ("ep", "ep", "dp", "dp")]
        assert costs[splits[0]] == min(costs.values())
    # Few weights for many positions: one group. Many weights for few: all of them.
    assert "ep" not in mpt(StepTime(from_network(with_tiles(NETWORKS["mpt-early"], 2, "winograd")), 64, array))[0]
    assert splits[0] == ("ep", "ep", "dp", "dp")


def in_parts(time: StepTime, vector: tuple[str, ...]) -> int:
    """Groups of a vector."""
    return prod(factor for factor, split in zip(time.factors, vector, strict=True) if split == "ep")


@pytest.mark.parametrize(("array", "numbers"), [
    (ring(6), [1, 2, 3, 6]), (ring(12), [1, 2, 3, 4, 6, 12]), (clusters(6, 2), [1, 2, 3, 6]),
    (clusters(12, 4), [1, 2, 3, 4, 6, 12]), (ring(30), [1, 2, 3, 5, 6, 10, 15, 30]), (ring(7), [1, 7]), (ring(1), [1])])
def test_every_number_of_groups_is_looked_at(array: Array, numbers: list[int]) -> None:
    time = StepTime(from_network(with_tiles(NETWORKS["mpt-early"], 4, "winograd")), 60, array)
    vectors = list(arrangements(time, 0))
    assert [in_parts(time, vector) for vector in vectors] == numbers
    # Where the last levels give a number, they are taken.
    assert {in_groups(array, count) for count in range(array.group_levels + 1)} <= set(vectors)
    # A group needs an element: F(2,3) of a line has four.
    lines = Convolution(name="a", channels=4, kernel=(1, 3), winograd=2)
    time = StepTime(from_network(Network(name="lines", input=Shape((4, 8, 8)), layers=(
        lines, Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss")))), 60, array)
    assert [in_parts(time, vector) for vector in arrangements(time, 0)] == [number for number in numbers if number <= 4]


@pytest.mark.parametrize("array", [ring(8), ring(64), clusters(16, 16), clusters(1, 4)])
def test_groups_of_powers_of_two_are_the_last_levels(array: Array) -> None:
    assert factorings(array) == tuple(in_groups(array, count) for count in range(array.group_levels + 1))


@pytest.mark.parametrize(("dies", "outputs", "batch", "groups"), [(6, 2, 6, [1, 3]), (12, 4, 24, [1, 6])])
def test_groups_of_no_power_of_two_are_planned_read_and_lowered(tmp_path: Path, dies: int, outputs: int, batch: int,
                                                                groups: list[int]) -> None:
    """3 groups of 2 dies, and 6 of 2: none of them the last levels."""
    network = with_tiles(NETWORKS["digits-cnn"], outputs, "winograd")
    array = ring(dies, preset="ndp-demo-winograd", link_rate=Fraction(1, 4))
    save_plan(tmp_path / "plan.yaml", plan_network(network, array, planner="mpt", batch=batch).plan)
    plan = load_plan(tmp_path / "plan.yaml", network)
    check_prediction(plan, "plan.yaml")
    assert [arrangement.groups for arrangement in plan.arrangements.values()] == groups
    assert [arrangement.groups * arrangement.clusters for arrangement in plan.arrangements.values()] == [dies] * 2
    assert groups[1] not in {prod(plan.factors[-count:]) for count in range(1, plan.levels + 1)} - {dies}
    program = lower_training(network, plan, array.die_parameters(), rule=UpdateRule(), steps=1,
                             memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, batch, np.random.default_rng(dies)), program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None


@pytest.mark.parametrize(("costs", "chosen"), [
    # By itself the first layer would take 2 groups, the second 3, between which samples would move.
    (({1: 9, 2: 1, 3: 5, 6: 6}, {1: 9, 2: 8, 3: 2, 6: 3}), [2, 6]),
    (({1: 9, 2: 4, 3: 5, 6: 6}, {1: 9, 2: 8, 3: 2, 6: 7}), [3, 3]),
    (({1: 3, 2: 1, 3: 5, 6: 6}, {1: 9, 2: 9, 3: 1, 6: 9}), [1, 3])])
def test_groups_of_layers_hold_each_other(monkeypatch, costs: tuple[dict[int, int], ...], chosen: list[int]) -> None:
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], 2, "winograd"))
    time, tiled = StepTime(graph, 12, ring(6)), [number for number, node in enumerate(graph.nodes) if node.tiling]

    def cost(_: StepTime, number: int, vector: tuple[str, ...]) -> float:
        return costs[tiled.index(number)][in_parts(time, vector)] if number in tiled else 1.0

    monkeypatch.setattr(planner, "communication", cost)
    splits = mpt(time)
    assert [in_parts(time, splits[number]) for number in tiled] == chosen
    assert {splits[number] for number in range(len(splits)) if number not in tiled} == {("dp", "dp")}


def test_transforms_follow_the_arrangement() -> None:
    """MPT: one group takes F(4x4,3x3), several F(2x2,3x3)."""
    transforms = {}
    for name in ("mpt-early", "mpt-late-1", "mpt-late-2"):
        network = arranged(with_tiles(NETWORKS[name], "auto", "winograd"), ARRAYS["mpt-256"], "mpt", 256)
        (arrangement,) = plan_network(network, ARRAYS["mpt-256"], planner="mpt", batch=256).plan.arrangements.values()
        transforms[name] = arrangement.outputs, arrangement.groups, arrangement.clusters
    assert transforms == {"mpt-early": (4, 1, 256), "mpt-late-1": (2, 16, 16), "mpt-late-2": (2, 16, 16)}
    plain = NETWORKS["lenet-c"]
    assert arranged(plain, ARRAYS["mpt-256"], "mpt", 256) == arranged(plain, ARRAYS["mpt-256"], "data", 256) == plain


@pytest.mark.parametrize(("name", "dies", "batch"), [
    ("digits-cnn", 6, 6), ("mpt-late-1", 12, 12)])
def test_joint_takes_elements_where_they_are_shorter(name: str, dies: int, batch: int) -> None:
    """Some layer splits elements of tiles, and no plan without them that it finds is as short, nor anybody else's."""
    problem = task(from_network(with_tiles(NETWORKS[name], 2, "winograd")), ring(dies, preset="ndp-demo-winograd"),
                   "exact", batch)
    splits = SPLITTERS["joint"](problem)
    assert any("ep" in vector for vector in splits)
    seconds = problem.time.seconds(splits)
    others = {planner: SPLITTERS[planner](problem) for planner in SPLITTERS if planner not in ("exhaustive", "joint")}
    assert all(seconds < problem.time.seconds(other) for other in others.values())
    without = joint(problem.time, [split for split in SPLITS if split != "ep"],
                    [other for other in others.values() if not any("ep" in vector for vector in other)])
    assert not any("ep" in vector for vector in without)
    assert seconds < 0.99 * problem.time.seconds(without)


@pytest.mark.parametrize(("array", "outputs"), [(ring(6), 4), (ring(12), 2), (ring(180), 4), (clusters(16, 16), 2)])
def test_joint_looks_at_every_number_of_groups(array: Array, outputs: int) -> None:
    """With many levels, too, where it does not take any combination: 10 groups of 180 dies are levels 1 and 5."""
    time = StepTime(from_network(with_tiles(NETWORKS["mpt-late-1"], outputs, "winograd")), 256, array)
    assert set(arrangements(time, 0)) <= set(vectors(time, 0, SPLITS, []))
    assert not any("ep" in vector for vector in vectors(time, 0, ("dp", "mp", "op"), []))


def test_a_step_of_clusters_is_simulated() -> None:
    array = replace(clusters(4, 2), preset="ndp-demo-winograd", link_rate=Fraction(2), narrow_rate=Fraction(1, 2))
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    plan, _ = step.planned(network, array, planner="mpt", model="exact", batch=32)
    simulation = step.simulated(plan, array)
    assert simulation.result.seconds > 0
    assert simulation.result.link_words[:simulation.work.links].sum() >= plan.words
