"""Figures of scaling of `plinth reproduce sparse-dnn`: what ranks have, what they are simulated to take, the table."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from plinth.array.array import Array
from plinth.machine.host import nanoseconds
from plinth.machine.sparse_products import HostBlockCost, SparseProduct, sparse_work
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import RadixNet, trained_network
from plinth.partition.graph import from_network
from plinth.partition.hypergraph.partition import partition
from plinth.plan.plan import Plan
from plinth.plan.planners.hypergraph import given_owners
from plinth.reproduce.sparse_dnn import figures, pictures, ranks
from plinth.reproduce.sparse_dnn.cases import SPARSE_DNN
from plinth.reproduce.sparse_dnn.partitions import patterns
from plinth.reproduce.sparse_dnn.parts import LayerParts, layer_parts, layer_pattern, network_parts
from plinth.reproduce.sparse_dnn.scaling import ScalingPoint, simulated_point
from plinth.sharding import Sharding
from plinth.simulate.step import simulated

NETWORK = RadixNet(neurons=256, layers=4, seed=0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "cache"))


def by_hand(pattern: csr_array, columns: np.ndarray, rows: np.ndarray, parts: int) -> tuple[list[int], ...]:
    """Words sent and taken, and messages of either kind, by the sets of the algorithm; different columns of each."""
    sets: dict[tuple[int, int], set[int]] = {}
    needs: list[set[int]] = [set() for _ in range(parts)]
    for row, reader in enumerate(rows):
        for column in pattern.indices[pattern.indptr[row]:pattern.indptr[row + 1]]:
            needs[reader].add(int(column))
            if columns[column] != reader:
                sets.setdefault((int(columns[column]), int(reader)), set()).add(int(column))
    sent, received, peers = ([0] * parts for _ in range(3))
    for (owner, reader), words in sets.items():
        sent[owner] += len(words)
        received[reader] += len(words)
        peers[owner] += 1
        peers[reader] += 1
    return sent, received, peers, [len(some) for some in needs]


@pytest.mark.parametrize("how", ["structured", "random"])
def test_parts_are_what_the_sets_and_the_covers_say(how: str) -> None:
    found, parts = partition(patterns(NETWORK), 4, how), 4
    for number, layer in enumerate(network_parts(NETWORK, found)):
        pattern, columns, rows = NETWORK.rows(number, np.arange(256)), found.columns(number), found.layers[number]
        sent, received, peers, needed = by_hand(pattern, columns, rows, parts)
        assert (layer.sent.tolist(), layer.received.tolist(), layer.peers.tolist()) == (sent, received, peers)
        assert layer.columns.tolist() == needed and layer.rows.tolist() == np.bincount(rows).tolist()
        for part in range(parts):
            local = csr_array(pattern[np.flatnonzero(rows == part)])
            local = csr_array(local[:, np.unique(local.indices)])
            if how == "structured":
                assert layer.shapes[part] == HostBlockCost(16).best(local).shapes()
            assert sum(count * high * wide for count, high, wide in layer.shapes[part]) == local.nnz


def hosts(size: int, latency: int = 500) -> Array:
    return replace(ranks.host(), name=f"hosts-{size}", dies=size, link_latency=latency)


def test_one_rank_does_its_kernels_one_after_the_other() -> None:
    layers = list(network_parts(NETWORK, partition(patterns(NETWORK), 1, "random")))
    point, array = simulated_point(layers, hosts(1), 8), hosts(1)
    assert array.host is not None
    products = sum(1e-9 * nanoseconds(array.host, sparse_work(SparseProduct(
        direction, layer.shapes[0], 256 * 32, 256, 256, 8), array.host.cache_words))
        for number, layer in enumerate(layers) for direction in ("fprop", "bprop", "update")
        if number or direction != "bprop")
    assert products < point.compute and point.messages == 0
    assert point.step == pytest.approx(point.compute + point.updates)
    assert point.communication == pytest.approx(0, abs=1e-12)
    assert 0 < point.spff < point.step / 2


def test_exchanges_wait_for_the_slowest_and_cost_their_latency() -> None:
    """Six exchanges of four layers: each latency once."""
    layers = list(network_parts(NETWORK, partition(patterns(NETWORK), 4, "random")))
    near, far = (simulated_point(layers, hosts(4, latency), 8) for latency in (500, 5_500))
    assert far.step - near.step == pytest.approx(6 * 2 * 5e-6) and far.spff - near.spff == pytest.approx(3 * 2 * 5e-6)
    assert near.communication > near.messages > 0
    slow = replace(hosts(4), link_rate=Fraction(1, 1000))
    assert simulated_point(layers, slow, 8).step > 2 * near.step
    # A rank that has all rows of a layer but one keeps the others waiting.
    uneven = [layers[0], replace_rows(layers[1]), *layers[2:]]
    assert simulated_point(uneven, hosts(4), 8).step > near.step


def replace_rows(layer: LayerParts) -> LayerParts:
    """Rank 0 has twenty times its blocks and rows."""
    shapes = tuple((20 * count, high, wide) for count, high, wide in layer.shapes[0])
    return replace(layer, shapes=(shapes, *layer.shapes[1:]), rows=np.array([20 * layer.rows[0], *layer.rows[1:]]))


@pytest.mark.parametrize(("how", "size"), [("structured", 2), ("random", 4)])
def test_the_step_of_the_simulator_takes_about_as_long(how: str, size: int) -> None:
    """The same step as `plinth simulate` has it, kernels by the same rates; words on links are the same."""
    found = partition(patterns(NETWORK), size, how)
    point, array = simulated_point(list(network_parts(NETWORK, found)), hosts(size), 16), hosts(size)
    graph = from_network(layered(trained_network(256, 4, seed=0)))
    splits, lists = given_owners(graph, array.levels, size, found.layers)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=16, factors=array.factors, lists=lists,
                                  array=array), planner="given", model="exact", array=array.name)
    assert point.step == pytest.approx(simulated(plan, array).result.seconds, rel=0.25)


def test_points_are_made_once(monkeypatch) -> None:
    first = ranks.simulated(256, 4, 2, "random", 8, 0)
    monkeypatch.setattr(ranks, "simulated_point", lambda *arguments: pytest.fail("it was kept"))
    assert ranks.simulated(256, 4, 2, "random", 8, 0) == first
    printed: list[Any] = []

    def output(*arguments: object) -> str:
        printed.append(arguments)
        return '{"spff": 1.0, "step": 3.0}'

    monkeypatch.setattr(ranks, "printed", output)
    for _ in range(2):
        assert ranks.measured(256, 4, 2, "random", 8, 0) == ScalingPoint(1.0, 3.0)
    assert [(size, program[0]) for size, program, _ in printed] == [(2, "-c")]
    assert "print_seconds(*(256, 4, 'random', 8, 0))" in printed[0][1][1]


def test_the_table_says_what_is_measured_and_what_simulated(monkeypatch, tmp_path) -> None:
    def point(by: float):
        return lambda neurons, layers, size, how, samples, seed: ScalingPoint(
            by * (1 + (how == "random" and size > 1)) / size, 3 * by * (1 + (how == "random" and size > 1)) / size,
            by / size, 0.0, 0.0)

    monkeypatch.setattr(figures, "simulated", point(0.9))
    monkeypatch.setattr(figures, "measured", point(1.0))
    (table,) = SPARSE_DNN.computed(["scaling"])
    rows = {(row.series, row.what): row for row in table.rows}
    assert rows["scaling1", "N = 1,024, P = 2, measured"].ours == pytest.approx(1500)
    assert "H -10 % and -10 %, R -10 % and -10 %" in rows["scaling1", "N = 1,024, P = 2, measured"].notes[0]
    simulated_row = rows["scaling64", "N = 16,384, P = 512, simulated"]
    assert simulated_row.further["gain"] == 2 and simulated_row.further["speedup"] == pytest.approx(512)
    assert ("scaling1", "N = 1,024, P = 4, measured") not in rows
    assert rows["fig4", "N = 4,096, most"].ours == 2
    assert rows["fig5", "of what is gained by communication, N = 16,384, least"].ours == pytest.approx(100)
    (path,) = pictures.draw(tmp_path, [table])
    assert path.name == "times.png" and path.read_bytes().startswith(b"\x89PNG")


def test_a_layer_of_one_rank_sends_nothing() -> None:
    owners = np.zeros(256, np.int64)
    layer = layer_parts(layer_pattern(NETWORK.rows(0, np.arange(256))), owners, owners, 1)
    assert (layer.sent.tolist(), layer.received.tolist(), layer.peers.tolist()) == ([0], [0], [0])
    assert layer.columns.tolist() == [256] and layer.shapes == (((16, 16, 32),),)
