"""Rows about partitions of sparse networks: what they send beside the paper's, and how long one takes."""

import time
from collections.abc import Callable, Mapping
from functools import cache
from statistics import fmean, geometric_mean, median
from typing import Any

from plinth.bench.row import BenchRow
from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.hypergraph import partitioner
from plinth.partition.hypergraph.owners import SparsePartition, place_inputs, shares
from plinth.partition.hypergraph.partition import IMBALANCE, partition
from plinth.partition.hypergraph.volume import traffic
from plinth.reproduce.paper import Table
from plinth.reproduce.sparse_dnn.cases import HOW, LAYERS, SEED, SPARSE_DNN
from plinth.reproduce.sparse_dnn.partitions import patterns

#: Tables whose cells rows are about: N = 1,024 and 4,096.
TABLES = ("n1024", "n4096")
#: What few processors get, and how many they are.
SMALL_NEURONS, SMALL_LAYERS, SMALL_PARTS = 1024, 18, (2, 4, 8)
#: What is partitioned for its time, and how many times.
NEURONS, PARTS, TIMES = 4096, 32, 3


@cache
def _tables() -> list[Table]:
    return SPARSE_DNN.computed(TABLES)


def _ratios(kind: str) -> dict[str, float]:
    """Our H/R over the paper's, average and maximum, of all cells."""
    return {f"{table.key}, {row.what}, {row.series}": row.ratio for table in _tables() for row in table.rows
            if row.series.startswith(f"ratio_{kind}_") and row.ratio is not None}


def _bounds() -> dict[str, float]:
    """The least that ratios of volumes can be over the paper's with even rows, of all cells."""
    return {f"{table.key}, {row.what}, {row.series}":
            float(row.further["least"] or 0) / float(row.further["r"] or 1) / float(row.paper or 1)
            for table in _tables() for row in table.rows if row.series.startswith("ratio_vol_")}


def _worst(name: str, ratios: Mapping[str, float], reason: Callable[[str], str], further: Mapping[str, Any]
           ) -> BenchRow:
    worst = max(ratios, key=ratios.__getitem__)
    return BenchRow(name, ratios[worst], "H/R here / H/R of the paper", f"{worst}: {reason(worst)}",
                    {**ratios, **further})


def hypergraph_volume() -> list[BenchRow]:
    """Words of partitions over those of rows at random, beside the paper's ratios: the worst cell, and the mean."""
    ratios, bounds = _ratios("vol"), _bounds()
    return [_worst("hypergraph_volume_ratio_worst", ratios,
                   lambda worst: f"with even rows any partition needs 32 P / N - 1 words a column: {bounds[worst]:.3f} "
                                 "is the least there is", {"least": bounds}),
            BenchRow("hypergraph_volume_ratio_gmean", geometric_mean(ratios.values()),
                     "H/R here / H/R of the paper, geometric mean",
                     "layers behind a permutation, and at many processors the least that even rows need; the paper's "
                     "networks or partitioner may be others, which these ratios do not tell apart", ratios)]


def hypergraph_messages() -> list[BenchRow]:
    """The messages of our partitions over the paper's, as ratios to random partitions, which nothing minimises."""
    return [_worst("hypergraph_messages_ratio_worst", _ratios("msg"),
                   lambda worst: "nothing minimises messages; with few processors nearly each sends to each of layers "
                                 "behind a permutation", {})]


def partition_seconds() -> list[BenchRow]:
    """Wall time of a partition by rings and blocks, patterns given, median of three; without the cache."""
    layers = list(patterns(RadixNet(neurons=NEURONS, layers=LAYERS, seed=SEED)))
    seconds = []
    for _ in range(TIMES):
        began = time.perf_counter()
        partition(layers, PARTS, HOW, seed=SEED)
        seconds.append(time.perf_counter() - began)
    theirs = SPARSE_DNN.draft("partitioning").paper("table3", f"N = {NEURONS:,}, P = {PARTS}")
    detail: dict[str, Any] = {"neurons": NEURONS, "parts": PARTS, "layers": LAYERS, "how": HOW, "seconds": seconds,
                              "paper_seconds": theirs}
    return [BenchRow("partition_seconds_4096", median(seconds), "seconds",
                     "words of the layouts that are tried for each layer: which parts read which columns", detail)]


def hypergraph_small() -> list[BenchRow]:
    """Words of the best partition over those of the paper's phases as they stand, of few processors: the mean.

    Raises
    ------
    UserError
        If Mt-KaHyPar is not installed.
    """
    partitioner.require()
    layers = list(patterns(RadixNet(neurons=SMALL_NEURONS, layers=SMALL_LAYERS, seed=SEED)))
    cells: dict[str, dict[str, float]] = {}
    for parts in SMALL_PARTS:
        stated = tuple(partitioner.stated_phases(layers, shares(parts, None), IMBALANCE, SEED))
        phases, best = (partition(layers, parts, how, seed=SEED) for how in ("partitioner", "best"))
        theirs = SparsePartition(parts, place_inputs(layers[0], stated[0], parts), stated)
        sent = {name: traffic(layers, each) for name, each in (
            ("stated", theirs), ("phases", phases), ("best", best))}
        cells[f"P = {parts}"] = {
            "ratio": sent["best"].words / sent["stated"].words,
            "over phases with weights": sent["best"].words / sent["phases"].words,
            "imbalance": sent["best"].balance(), "imbalance of stated": sent["stated"].balance()}
    return [BenchRow("hypergraph_small_p_ratio", fmean(cell["ratio"] for cell in cells.values()),
                     "words of the best / of the paper's phases by Mt-KaHyPar",
                     "layers behind permutations, of which many parts read each output; Mt-KaHyPar does worse with "
                     "fixed vertices of no weight than with some", cells)]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "hypergraph_volume_ratio_worst": hypergraph_volume, "hypergraph_volume_ratio_gmean": hypergraph_volume,
    "hypergraph_messages_ratio_worst": hypergraph_messages, "partition_seconds_4096": partition_seconds,
    "hypergraph_small_p_ratio": hypergraph_small,
}
