"""MPT's choice (section IV.C): for each Winograd layer the groups and clusters in which a step communicates shortest.

A layer of (g groups, c clusters) splits the elements of its tiles over g dies and its samples over c times as many
dies as there are clusters; whatever is no Winograd layer splits its samples over all. g is any number that divides the
array's groups, 1, 2, 3 and 6 on a ring of 6, and any of the array's levels may be those that split elements. Levels
that split elements of one layer hold those of another, so that between layers nothing moves: no layer has 2 groups
beside one of 3. So the levels come to split elements in some order, a *chain* of sets of levels, and each layer takes
the set of it of which it communicates shortest; all chains are looked at, but for those that are certain to be longer.
Communication is what the links take for the tiles of fprop and bprop, of predicted gathers and skipped scatters for the
words that are expected, and for the ring of the gradient, each at once and one after the other, with nothing beside it.

Of layers that may choose their transform (``winograd: auto``) those of one group get F(4x4,3x3), if they have it, and
others F(2x2,3x3), as the paper has it: whichever communicates less.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from plinth.array.array import Array
from plinth.network.layers import AUTO, Convolution
from plinth.network.network import Network
from plinth.partition.cuts import Factors
from plinth.partition.graph import DP, EP, PlanGraph, from_network
from plinth.partition.regions import Splits, has_elements
from plinth.predict.time import StepTime, Vector
from plinth_hw.isa.winograd import OUTPUTS

Floats = npt.NDArray[np.float64]


def in_groups(array: Array, levels: int) -> Vector:
    """Splits of a Winograd layer: so many of the last levels of the array's groups split elements."""
    most = array.group_levels
    return tuple(EP if most - levels <= level < most else DP for level in range(array.levels))


def _vector(split: Iterable[int], levels: int) -> Vector:
    """Splits of a layer whose elements some levels split."""
    return tuple(EP if level in split else DP for level in range(levels))


@lru_cache
def _subsets(levels: int) -> tuple[tuple[int, ...], ...]:
    """All sets of levels, small ones first, of equal size those of the last levels."""
    return tuple(tuple(reversed(split)) for count in range(levels + 1)
                 for split in combinations(range(levels - 1, -1, -1), count))


@lru_cache
def _factorings(groups: Factors, levels: int) -> tuple[Vector, ...]:
    by_size: dict[int, Vector] = {}
    for split in _subsets(len(groups)):
        by_size.setdefault(prod(groups[level] for level in split), _vector(split, levels))
    return tuple(by_size[number] for number in sorted(by_size))


def factorings(array: Array) -> tuple[Vector, ...]:
    """Splits of a Winograd layer in every number of groups that the array has, ascending: of levels that give as many
    the last ones."""
    return _factorings(array.factors[:array.group_levels], array.levels)


def grouped(graph: PlanGraph, array: Array, levels: int) -> Splits:
    """All Winograd layers in so many groups, whatever else there is over all dies."""
    return tuple(in_groups(array, levels if node.tiling else 0) for node in graph.nodes)


def arrangements(time: StepTime, number: int) -> Iterator[Vector]:
    """Splits of a node in every number of groups, ascending; of levels that give as many the last ones."""
    node = time.graph.nodes[number]
    for vector in factorings(time.array) if node.tiling is not None else ((DP,) * time.levels,):
        if has_elements(node, vector, time.factors):
            yield vector


def communication(time: StepTime, number: int, vector: Vector) -> float:
    """Cycles of a step that a node's tiles and its gradient take on the links."""
    return time.own(number, vector, (DP,) * time.levels) + time.ring(number, vector)


def _splits(time: StepTime, number: int) -> Iterator[tuple[tuple[int, ...], Vector]]:
    """All splits of a node that dies can do, with the levels that split its elements, as :func:`_subsets` has them."""
    node = time.graph.nodes[number]
    for split in _subsets(time.array.group_levels if node.tiling is not None else 0):
        vector = _vector(split, time.levels)
        if time.able(number, vector):
            yield split, vector


class _Chains:
    """The chain in which layers communicate shortest.

    Parameters
    ----------
    costs : ndarray of float, of layers and 2^levels
        What a layer communicates if the levels whose bits are set split its elements; infinite if they cannot.
    """

    def __init__(self, costs: Floats) -> None:
        self._costs, self._levels = costs, (costs.shape[1] - 1).bit_length()
        #: What a layer takes at least, once these levels split elements.
        self._least = costs.copy()
        for level in range(self._levels):
            halves = self._least.reshape(len(costs), -1, 2, 1 << level)
            np.minimum(halves[:, :, 0], halves[:, :, 1], out=halves[:, :, 0])
        #: Of each set, what layers took on ways to it.
        self._seen: dict[int, list[Floats]] = {}

    def best(self) -> tuple[int, ...]:
        """Sets of the chain, from none; of equal ones the first that is found, beginning with the last levels first."""
        sets = tuple((1 << count) - 1 << self._levels - count for count in range(self._levels + 1))
        self._best = float(self._costs[:, sets].min(axis=1).sum()), sets
        self._follow((0,), self._costs[:, 0])
        return self._best[1]

    def _follow(self, sets: tuple[int, ...], taken: Floats) -> None:
        """Look at chains that begin so, of which layers have ``taken`` the shortest."""
        if taken.sum() < self._best[0]:
            self._best = float(taken.sum()), sets
        seen = self._seen.setdefault(sets[-1], [])
        if any((other <= taken).all() for other in seen):
            return
        seen.append(taken)
        others = [sets[-1] | 1 << level for level in reversed(range(self._levels)) if not sets[-1] >> level & 1]
        least = [float(np.minimum(taken, self._least[:, other]).sum()) for other in others]
        for cycles, other in sorted(zip(least, others, strict=True), key=lambda ranked: ranked[0]):
            if cycles < self._best[0]:
                self._follow((*sets, other), np.minimum(taken, self._costs[:, other]))


def mpt(time: StepTime) -> Splits:
    """Splits of all nodes: of all chains that in which they communicate shortest, of equal ones the first."""
    levels, planned = time.array.group_levels, time.graph.planned
    vectors: dict[int, Vector] = {}
    costs = np.full((len(planned), 1 << levels), np.inf)
    for row, number in enumerate(planned):
        for split, vector in _splits(time, number):
            place = sum(1 << level for level in split)
            vectors[place] = vector
            costs[row, place] = communication(time, number, vector)
    sets = _Chains(costs).best()
    chosen = costs[:, sets].argmin(axis=1)
    return (*(vectors[sets[place]] for place in chosen.tolist()), (DP,) * time.levels)


def _graph(network: Network, layer: Convolution) -> tuple[PlanGraph, int]:
    """The graph with another layer in place of one of that name, and its number."""
    layers = tuple(layer if original.name == layer.name else original for original in network.layers)
    graph = from_network(replace(network, layers=layers))
    return graph, next(number for number, node in enumerate(graph.nodes) if node.name == layer.name)


def with_transforms(network: Network, time: StepTime) -> Network:
    """The network with the transform chosen of each layer that may choose it; ``time`` is of the network as it is."""
    known: dict[object, int] = {}
    layers = []
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        if isinstance(layer, Convolution) and layer.winograd == AUTO and layer.transform(shapes.inputs) is not None:
            key = (shapes.inputs, layer.channels, layer.kernel, layer.padding, layer.bias, layer.weights,
                   layer.predict, layer.shares)
            if key not in known:
                costs = []
                for outputs in OUTPUTS[layer.kernel]:
                    graph, number = _graph(network, replace(layer, winograd=outputs))
                    other = StepTime(graph, time.batch, time.array, time.machine, time.rule, time.links)
                    # The largest transform is that of one group, the smallest that of several.
                    costs += [(communication(other, number, vector), outputs) for _, vector in _splits(other, number)
                              if (EP in vector) == (outputs == 2) or len(OUTPUTS[layer.kernel]) == 1]
                known[key] = min(costs)[1]
            layer = replace(layer, winograd=known[key])
        layers.append(layer)
    return replace(network, layers=tuple(layers))
