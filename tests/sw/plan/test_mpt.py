"""Arrays of clusters, and the planner that chooses groups, clusters and transforms by communication."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from plinth.model.array import ARRAYS, Array, clusters, data_parallel_workers, ring, sized
from plinth.model.array_file import array_from_data, array_to_data
from plinth.model.winograd import with_tiles
from plinth.model.zoo import NETWORKS
from plinth.partition.axes import Region, plane
from plinth.partition.graph import from_network
from plinth.partition.groups import RING, process_groups
from plinth.plan.cost.links import Links
from plinth.plan.cost.time import StepTime
from plinth.plan.planners.mpt import arrangements, communication, mpt
from plinth.plan.planning import arranged, plan_network
from plinth.simulate import step
from plinth.simulate.ways import Ways


@pytest.mark.parametrize(("groups", "of", "ports", "links"), [
    # A group's chain and its two ends at the host, and of each cluster's grid all rows and columns.
    (16, 16, 8, 16 * 17 + 16 * 48), (4, 2, 4, 4 * 3 + 2 * 4), (2, 3, 3, 2 * 4 + 3), (1, 4, 2, 5), (4, 1, 4, 4),
    (6, 2, 5, 6 * 3 + 2 * (2 * 3 + 3)), (5, 2, 6, 5 * 3 + 2 * 10)])
def test_links_of_clusters(groups: int, of: int, ports: int, links: int) -> None:
    array = clusters(groups, of)
    assert (array.dies, array.ports, len(array.links)) == (groups * of, ports, links)
    hops = array.ways.hops
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
    with pytest.raises(ValueError, match="a die in a cluster of 128 needs 24 ports"):
        clusters(128, 2)


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
    words, slower = ((ways := Ways(one)).ring(groups)[0].words / ways.rates[ways.ring(groups)[0].links]
                     for one in (array, replace(array, ring_links=1)))
    assert max(words) == pytest.approx(max(slower) / 2)


def test_large_arrays_of_several_rates_are_walked_pair_by_pair() -> None:
    """As the simulator loads their links."""
    array = clusters(16, 8)
    links, ways = Links(array), Ways(array)
    for one, two in ((Region.of(samples=tuple(range(7))), Region.of(samples=(4, 5, 6), channels=(0, 1, 2, 3))),
                     (Region.of(samples=(4, 5, 6)), Region.of(samples=(0, 1, 2)))):
        there, _ = links.exchanges(one, two, 256, 32, 3)
        groups = ways.exchange(one, two, plane(256, 32))
        loads = np.zeros(len(ways.rates))
        for group in groups:
            loads[group.links] += group.words
        latency = max(group.hops for group in groups) * array.link_latency
        assert there == pytest.approx(3 * (loads / ways.rates).max() + latency)


def test_levels_that_split_elements_anywhere_cut_samples_last() -> None:
    """So layers of any groups and clusters pass maps on without moving them."""
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    for one, two in ((("ep", "dp", "dp"), ("dp", "dp", "dp")), (("dp", "ep", "dp"), ("dp", "ep", "ep")),
                     (("ep", "ep", "ep"), ("dp", "dp", "ep"))):
        given = iter((one, two))
        splits = tuple(next(given) if node.tiling else ("dp",) * 3 for node in graph.nodes)
        plan = replace(plan_network(network, ring(8, preset="ndp-demo-winograd"), planner="data", batch=16).plan,
                       splits=splits, predicted_seconds=None)
        assert not [one for one in plan.transfers if one.exchange.kind in ("copy", "reduce")]


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


def test_transforms_follow_the_arrangement() -> None:
    """MPT: one group takes F(4x4,3x3), several F(2x2,3x3)."""
    found = {}
    for name in ("mpt-early", "mpt-late-1", "mpt-late-2"):
        network = arranged(with_tiles(NETWORKS[name], "auto", "winograd"), ARRAYS["mpt-256"], "mpt", 256)
        (one,) = plan_network(network, ARRAYS["mpt-256"], planner="mpt", batch=256).plan.arrangements.values()
        found[name] = one.outputs, one.groups, one.clusters
    assert found == {"mpt-early": (4, 1, 256), "mpt-late-1": (2, 16, 16), "mpt-late-2": (2, 16, 16)}
    plain = NETWORKS["lenet-c"]
    assert arranged(plain, ARRAYS["mpt-256"], "mpt", 256) == arranged(plain, ARRAYS["mpt-256"], "data", 256) == plain


def test_joint_takes_elements_too() -> None:
    """A late layer on four dies: no other split is as short, and nobody's plan is shorter than joint's."""
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    array = ring(4, preset="ndp-demo-winograd")
    found = {planner: plan_network(network, array, planner=planner, batch=16).outcome.predicted_seconds
             for planner in ("data", "mpt", "joint")}
    assert found["joint"] <= min(found.values())


def test_a_step_of_clusters_is_simulated() -> None:
    array = replace(clusters(4, 2), preset="ndp-demo-winograd", link_rate=Fraction(2), narrow_rate=Fraction(1, 2))
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    plan = step.planned(network, array, planner="mpt", model="exact", batch=32)
    found = step.simulated(plan, array)
    assert found.result.seconds > 0
    assert found.result.link_words[:found.work.links].sum() >= plan.words
