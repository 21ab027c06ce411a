"""Planner `hypergraph`: which way partitions which chain of sparse layers."""

import numpy as np
import pytest

import plinth
from plinth.array.array import ARRAYS, ring
from plinth.network.layers import Dense, Layer, MeanSquaredError, Sigmoid, Sparse
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.graph import OP, from_network
from plinth.plan.planners import hypergraph
from plinth.plan.planning import plan_network


def sparse(name: str, source: RadixNet | IrregularNet, layer: int) -> list[Layer]:
    pattern = SparsePattern.of(source.rows(layer, np.arange(source.widths[layer + 1])))
    return [Sparse(name=name, pattern=pattern), Sigmoid(name=f"{name}-out")]


def network(*layers: Layer) -> Network:
    return Network(name="chains", input=Shape((64,)), layers=(*layers, MeanSquaredError(name="loss")))


RADIX = RadixNet(neurons=64, layers=2, seed=1, weights="uniform")
IRREGULAR = IrregularNet(widths=(64, 48, 40), density=0.2, seed=2)


def test_a_layer_between_ends_a_chain() -> None:
    definition = network(*sparse("a", RADIX, 0), *sparse("b", RADIX, 1), Dense(name="c", outputs=64),
                         *sparse("d", IRREGULAR, 0))
    graph = from_network(definition)
    assert [[graph.nodes[number].name for number in chain] for chain in hypergraph.chains(graph)] == [["a", "b"], ["d"]]
    plan = plinth.plan(definition, "ring-2", planner="hypergraph", batch=8).plan
    splits = {node.name: vector for node, vector in zip(plan.sharding.graph.nodes, plan.splits, strict=True)}
    assert [name for name, vector in splits.items() if vector == (OP,)] == ["a", "b", "d"]


@pytest.mark.parametrize("source, ways", [(RADIX, ["structured"]), (IRREGULAR, ["structured", "greedy"])])
def test_large_chains_are_partitioned_by_structure_or_grown(
        source: RadixNet | IrregularNet, ways: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = from_network(network(*sparse("a", source, 0), *sparse("b", source, 1)))
    asked: list[str] = []
    right = hypergraph.partition
    monkeypatch.setattr(hypergraph, "partition", lambda patterns, parts, how, **options: (
        asked.append(how), right(patterns, parts, how, **options))[1])
    hypergraph.hypergraph(graph, 1, 2)
    assert asked == ["best"]
    monkeypatch.setattr(hypergraph, "SEARCHED", 100)
    asked.clear()
    _, lists = hypergraph.hypergraph(graph, 1, 2)
    assert asked == ways
    for node, owned in zip(graph.nodes, lists, strict=False):
        if node.pattern is not None:
            assert owned is not None and owned.outputs is not None
            rows = [row for part in owned.outputs for first, end in part for row in range(first, end)]
            assert sorted(rows) == list(range(node.output_channels))


@pytest.mark.parametrize("planner", ["hypergraph", "random-rows", "data", "model", "joint"])
def test_dies_that_are_no_power_of_two(planner: str) -> None:
    """Words are counted with the parts that there are, those of plans that it is compared with too."""
    definition = network(*sparse("a", RADIX, 0), *sparse("b", RADIX, 1))
    plan = plinth.plan(definition, "ring-3", planner=planner, batch=9)
    assert plan.plan.sharding.factors == (3,) and plan.simulate().seconds > 0


def test_what_a_partition_says_is_told() -> None:
    """64 rows of equal weight are not shared out evenly among three dies."""
    planning = plan_network(network(*sparse("a", RADIX, 0)), ARRAYS["ring-4"], planner="hypergraph")
    assert planning.notes == ()
    planning = plan_network(network(*sparse("a", RADIX, 0)), ring(3), planner="hypergraph")
    assert len(planning.notes) == 1 and planning.notes[0].startswith("layer 1: its rows allow an imbalance of 1.031 at")
