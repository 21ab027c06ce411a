"""Row about partitions of pruned layers, which have no structure: all layers annealed together, over phase by phase."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from plinth.bench.row import BenchRow
from plinth.partition.hypergraph.partition_file import patterns_digest
from plinth.partition.hypergraph.volume import traffic
from plinth.reproduce.sparse_dnn.partitions import kept_patterns

#: Numbers of processors, and the excess over a share that is allowed.
PROCESSORS, IMBALANCE = (8, 32), 0.03


@dataclass(frozen=True)
class PrunedNet:
    """Layers of which the largest weights are kept.

    A weight is the product of a normal number, a scale of its row and a scale of its column. Scales are lognormal: some
    neurons keep many connections and others few, as in trained networks.

    Parameters
    ----------
    widths : tuple of int
        Neurons of the input, then of each layer.
    share : float
        Share of the weights that is kept of each layer.
    rows, columns : float
        Standard deviation of the logarithm of scales; 0: connections are anywhere with equal chances.
    seed : int
    """

    widths: tuple[int, ...]
    share: float
    rows: float
    columns: float
    seed: int

    def patterns(self) -> list[csr_array]:
        """The layers, outputs x inputs."""
        rng = np.random.default_rng(self.seed)
        layers = []
        for inputs, outputs in pairwise(self.widths):
            weights = np.abs(rng.normal(size=(outputs, inputs)))
            weights *= rng.lognormal(0, self.rows, (outputs, 1)) * rng.lognormal(0, self.columns, (1, inputs))
            layers.append(csr_array((weights >= np.quantile(weights, 1 - self.share)).astype(np.float32)))
        return layers


#: The networks, by name.
NETWORKS = {
    "8 layers of 256, 10 %": PrunedNet((256,) * 9, 0.10, 0.3, 0.6, 0),
    "6 layers of 512, 8 %": PrunedNet((512,) * 7, 0.08, 0.3, 0.6, 1),
    "784 to 128, 10 %": PrunedNet((784, 512, 384, 256, 128), 0.10, 0.3, 0.6, 2),
    "8 layers of 384, 9 %": PrunedNet((384,) * 9, 0.09, 0.3, 0.6, 3),
    "8 layers of 256, 10 %, no scales": PrunedNet((256,) * 9, 0.10, 0.0, 0.0, 4),
}


def pruned() -> list[BenchRow]:
    """Words of all layers annealed together over those of phases, of every network and number of processors.

    Raises
    ------
    UserError
        If Mt-KaHyPar is not installed.
    """
    cells: dict[str, dict[str, Any]] = {}
    for name, network in NETWORKS.items():
        patterns = network.patterns()
        digest = patterns_digest(patterns)
        for parts in PROCESSORS:
            phases = kept_patterns("pruned", digest, network.patterns, parts, "partitioner", IMBALANCE)
            best = kept_patterns("pruned", digest, network.patterns, parts, "best", IMBALANCE,
                                 start=phases)
            chance = kept_patterns("pruned", digest, network.patterns, parts, "random", IMBALANCE)
            sent = {way: traffic(patterns, each.partition)
                    for way, each in (("phases", phases), ("annealed", best), ("random", chance))}
            cells[f"{name}, P = {parts}"] = {
                "ratio": sent["annealed"].words / sent["phases"].words,
                "words": {way: each.words for way, each in sent.items()}, "imbalance": sent["annealed"].balance(),
                "seconds": {"phases": phases.seconds, "annealing": best.seconds},
                "notes": [*phases.partition.notes, *best.partition.notes]}
    ratios = {name: cell["ratio"] for name, cell in cells.items()}
    least, most = min(ratios.values()), max(ratios.values())
    return [BenchRow("hypergraph_pruned_gmean", geometric_mean(ratios.values()),
                     "words annealed / words of phases, geometric mean",
                     f"{least:.3f} to {most:.3f}: without structure phases themselves need "
                     f"{_share(cells, min):.2f} to {_share(cells, max):.2f} of the words of rows at random", cells)]


def _share(cells: dict[str, dict[str, Any]], choose: Callable[[list[float]], float]) -> float:
    """Least or largest share of the words of rows at random that phases need."""
    return choose([cell["words"]["phases"] / cell["words"]["random"] for cell in cells.values()])


#: The row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"hypergraph_pruned_gmean": pruned}
