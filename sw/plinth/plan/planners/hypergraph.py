"""Sparse layers partitioned by the hypergraph of their connections (:mod:`plinth.partition.hypergraph`): which die has
which rows of each."""

from collections.abc import Iterator, Sequence

import numpy as np

from plinth.errors import UserError
from plinth.partition.cuts import ranges_of_indices
from plinth.partition.graph import DP, MP, OP, PlanGraph
from plinth.partition.hypergraph.owners import Integers
from plinth.partition.hypergraph.partition import partition
from plinth.partition.hypergraph.sweeps import Progress
from plinth.partition.regions import Lists, Partition, Splits

#: Connections of a chain of layers up to which a partition is searched for, not made by structure alone.
SEARCHED = 1 << 18


def chains(graph: PlanGraph) -> Iterator[list[int]]:
    """Numbers of the sparse nodes that follow each other, each read by the next one alone."""
    chain: list[int] = []
    for number, node in enumerate(graph.nodes):
        if node.pattern is None:
            continue
        feeds = graph.feeds(number)
        if chain and (feeds[0] is None or graph.edges[feeds[0]].producer != chain[-1]
                      or len(graph.outputs[chain[-1]]) > 1):
            yield chain
            chain = []
        chain.append(number)
    if chain:
        yield chain


def hypergraph(graph: PlanGraph, levels: int, dies: int, how: str | None = None, seed: int = 0,
               progress: Progress | None = None, notes: list[str] | None = None) -> tuple[Splits, Partition]:
    """Splits and lists: sparse layers split their outputs by the rows that dies own, all else its batch; squares behind
    a sparse layer are compared where its outputs are.

    Parameters
    ----------
    how : str or None
        One of :data:`~plinth.partition.hypergraph.partition.WAYS`; None: by structure, if there is one and layers are
        large, else the best that is found.
    notes : list of str or None
        Takes what partitions have to say: layers whose rows allow no better balance, partitioners that are missing.

    Raises
    ------
    UserError
        If there is no sparse layer, or one has fewer rows than there are dies.
    """
    said: list[str] = [] if notes is None else notes
    return given_owners(graph, levels, dies, [
        owners for chain in chains(graph) for owners in _owners(graph, chain, dies, how, seed, progress, said)])


def given_owners(graph: PlanGraph, levels: int, dies: int, owners: Sequence[Integers]) -> tuple[Splits, Partition]:
    """Splits and lists of owners that are given: of each sparse layer, chain by chain, the die of each row.

    Raises
    ------
    UserError
        If there is no sparse layer.
    """
    splits: list[tuple[str, ...]] = [(DP,) * levels for _ in graph.nodes]
    lists: list[Lists | None] = [None] * len(graph.nodes)
    numbers = [number for chain in chains(graph) for number in chain]
    for number, layer in zip(numbers, owners, strict=True):
        splits[number] = (OP,) * levels
        lists[number] = Lists(outputs=tuple(ranges_of_indices(np.flatnonzero(layer == die))
                                            for die in range(dies))) if levels else None
    if not any(vector and vector[0] == OP for vector in splits) and levels:
        raise UserError(f"network {graph.name!r} has no sparse layer, which the planners hypergraph and random-rows "
                        "are for; choose another planner")
    last = graph.edges[graph.inputs[-1][0]].producer
    owned = lists[last]
    if owned is not None and graph.split_loss:
        splits[-1], lists[-1] = (MP,) * levels, Lists(inputs=owned.outputs)
    return tuple(splits), tuple(lists)


def _owners(graph: PlanGraph, chain: list[int], dies: int, how: str | None, seed: int, progress: Progress | None,
            notes: list[str]) -> tuple[Integers, ...]:
    nodes = [graph.nodes[number] for number in chain]
    patterns = [node.pattern for node in nodes if node.pattern is not None]

    def by(way: str) -> tuple[Integers, ...]:
        found = partition((pattern.matrix() for pattern in patterns), dies, way, seed=seed, progress=progress)
        notes.extend(found.notes)
        return found.layers

    for node in nodes:
        if node.output_channels < dies:
            raise UserError(f"layer {node.name!r} has {node.output_channels} rows, fewer than the {dies} dies among "
                            "which the planners hypergraph and random-rows share them out; choose an array of fewer "
                            "dies, or the planner data")
    if how is not None:
        return by(how)
    if sum(pattern.nonzeros for pattern in patterns) > SEARCHED:
        try:
            return by("structured")
        except UserError:
            # Patterns without structure.
            return by("greedy")
    return by("best")
