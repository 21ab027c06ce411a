"""Better than phase by phase: each layer with both neighbours in view, over and over.

A phase sees only the layer before; where it puts rows decides what the next layer costs. Here a layer is partitioned
between the owners of its columns and the owners of the next layer's rows, forward and back through the network:

    two-sided   by Mt-KaHyPar, where it is there, on the hypergraph of both layers, then by single moves and exchanges;
                a layer takes a new partition if that spares words, until a sweep spares none
    annealing   moves and exchanges by the Boltzmann law, at temperatures that fall from sweep to sweep

All differences are exact, all parts stay within their limits, and the best partition that was seen is returned: never
one of more words than the one to begin with. The number of sweeps is bounded, not the time, so that results depend on
the seed alone. Rows of the same columns and owner move together in all sweeps but the last ones.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.model import two_sided
from plinth.partition.hypergraph.moves import COLD, LayerMoves, Surroundings, anneal
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, caps, row_weights
from plinth.partition.hypergraph.partitioner import PartitionerError, solve
from plinth.partition.hypergraph.volume import column_cost

#: Sweeps that see both sides, at most; those of annealing; those of single rows.
TWO_SIDED, ANNEALED, SINGLE = 4, 60, 4
#: First and last temperature, in parts of the words that entering a part adds to a typical unit and part.
HOT, COOL = 0.05, 0.004

#: Called with what is done, how many steps of it are, and how many there are.
Progress = Callable[[str, int, int], None]


class Sweeps(NamedTuple):
    """The number of sweeps of each kind that a search does."""

    two_sided: int = TWO_SIDED
    annealed: int = ANNEALED
    single: int = SINGLE


STANDARD = Sweeps()


class _Network:
    """A network's layers and the owners of their rows, of which one layer's change at a time."""

    def __init__(self, patterns: Sequence[Pattern], layers: Sequence[Integers], targets: Reals, imbalance: float
                 ) -> None:
        self.patterns, self.layers, self.parts = patterns, list(layers), len(targets)
        self.classes = [identical_rows(pattern) for pattern in patterns]
        self.limits = [caps(row_weights(pattern), targets, imbalance)[0] for pattern in patterns]
        self.words = sum(column_cost(pattern, self.layers[layer - 1] if layer else None, self.layers[layer], self.parts)
                         for layer, pattern in enumerate(patterns))

    def around(self, layer: int) -> Surroundings:
        """A layer between its neighbours."""
        last = layer + 1 == len(self.patterns)
        return Surroundings(self.patterns[layer], self.layers[layer - 1] if layer else None,
                            None if last else self.patterns[layer + 1], None if last else self.layers[layer + 1],
                            self.limits[layer])

    def units(self, layer: int, single: bool) -> Integers:
        """The unit of each row: itself, or all rows of the same columns and owner."""
        if single:
            return np.arange(len(self.layers[layer]))
        return np.unique(self.classes[layer] * self.parts + self.layers[layer], return_inverse=True)[1]

    def moves(self, layer: int, single: bool) -> tuple[LayerMoves, Integers]:
        """Moves of a layer's units, and the unit of each row."""
        units = self.units(layer, single)
        first = np.unique(units, return_index=True)[1]
        return LayerMoves(self.around(layer), units, self.layers[layer][first]), units

    def take(self, layer: int, moves: LayerMoves, units: Integers) -> None:
        """Give a layer the owners that moves have led to, and count the words that they change."""
        self.layers[layer] = moves.parts[units]
        self.words += moves.change


def swept(patterns: Sequence[Pattern], layers: Sequence[Integers], targets: Reals, imbalance: float, seed: int, *,
          partitioner: bool, sweeps: Sweeps = STANDARD, progress: Progress | None = None) -> list[Integers]:
    """Owners of each layer's rows with as few words as are found, from given ones.

    Parameters
    ----------
    patterns : sequence of csr_array
        Layers in canonical form.
    layers : sequence of arrays of int
        Owners of each layer's rows to begin with.
    targets, imbalance
        Share of each part, and allowed excess over it.
    seed : int
        The same seed has the same result.
    partitioner : bool
        Whether Mt-KaHyPar partitions layers, too.
    sweeps : Sweeps
        How long to search.
    progress : callable
        Told of each sweep.
    """
    network, rng = _Network(patterns, layers, targets, imbalance), np.random.default_rng(seed)
    forward = range(len(patterns))
    words, best = network.words, list(network.layers)
    steps = sum(sweeps)

    def done(step: int) -> None:
        nonlocal words, best
        if network.words < words:
            words, best = network.words, list(network.layers)
        if progress is not None:
            progress("sweeps", step, steps)

    for sweep in range(sweeps.two_sided):
        before = network.words
        for layer in reversed(forward) if sweep % 2 == 0 else forward:
            if partitioner:
                _partition(network, layer, seed + sweep)
            _improve(network, layer, rng)
        done(sweep + 1)
        if network.words == before:
            break
    typical = [float(np.median(network.moves(layer, False)[0].entry)) for layer in forward]
    for sweep in range(sweeps.annealed):
        temperature = HOT * (COOL / HOT) ** (sweep / max(sweeps.annealed - 1, 1))
        for layer in forward if sweep % 2 == 0 else reversed(forward):
            moves, units = network.moves(layer, False)
            anneal(moves, temperature * typical[layer], rng)
            network.take(layer, moves, units)
        done(sweeps.two_sided + sweep + 1)
    network.layers, network.words = list(best), words
    for sweep in range(sweeps.single):
        before = network.words
        for layer in forward if sweep % 2 == 0 else reversed(forward):
            _improve(network, layer, rng, single=True)
        done(sweeps.two_sided + sweeps.annealed + sweep + 1)
        if network.words == before:
            break
    return best


def _improve(network: _Network, layer: int, rng: np.random.Generator, *, single: bool = False) -> None:
    """Moves and exchanges that spare words, or change nothing, in one layer."""
    moves, units = network.moves(layer, single)
    anneal(moves, COLD, rng)
    if moves.change <= 0:
        network.take(layer, moves, units)


def _partition(network: _Network, layer: int, seed: int) -> None:
    """One layer by Mt-KaHyPar, with its neighbours in view, if that spares words; if it fails, nothing changes."""
    around, width = network.around(layer), network.parts
    graph = two_sided(around.pattern, around.columns, around.following, around.following_rows, width)
    try:
        owners = solve(graph, network.limits[layer], seed)[:around.pattern.shape[0]]
    except PartitionerError:
        return
    loads = np.bincount(owners, weights=row_weights(around.pattern), minlength=width)
    if (loads > network.limits[layer]).any():
        return
    before = np.concatenate([network.layers[layer], graph.fixed[len(owners):]])
    spared = graph.cut(before) - graph.cut(np.concatenate([owners, graph.fixed[len(owners):]]))
    if spared > 0:
        network.layers[layer] = owners
        network.words -= spared // 2
