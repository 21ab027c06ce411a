"""Partitions of regular patterns, by their structure, without a partitioner.

Rows with the same columns are a class. In regular patterns (RadiX-Net, bands, complete blocks) classes whose columns
overlap form rings: each column is read by neighbours along one ring. A ring of one class is a complete block. So

    rings          walk along the largest overlaps; if a column's readers are no arc of a ring, the pattern is irregular
    layouts        the sequence of all rings is cut in arcs by the parts' shares, from several first classes; where
                   whole rings fill a part, rings are dealt out one by one
    names          an arc's readers of a column do not depend on which part the arc is. So its part is the one that
                   owns most of what the arc reads, by a linear assignment of all arcs, which is exact
    programme      each layer takes a layout of its own, or keeps the owners of the layer before, where rows and columns
                   are the same numbers. The cheapest chains of layouts are kept, a few at a time

What a layout costs depends on the layer before only up to names. So the programme is exact for arcs within its layouts
and its width; rings that are dealt out depend on the names before, and it is not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, caps, place_inputs, readers, row_weights
from plinth.partition.hypergraph.volume import column_cost

#: First classes that arcs are tried from, chains of layouts that are kept, and those of them that were cut from the
#: rings of one layer.
MOST_FIRSTS, WIDTH, ALIKE = 4, 6, 2
#: Parts from which an assignment takes so long that the chains are fewer.
MANY_PARTS, NARROW = 192, 2
#: Rings up to which they are dealt out one by one: an assignment takes the cube of their number.
MOST_RINGS = 1024


@dataclass(frozen=True, eq=False)
class Rings:
    """The rings of a pattern.

    Parameters
    ----------
    classes : array of int
        The class of each row.
    order : array of int
        Classes, ring after ring, along each of them.
    starts : array of int
        Classes of ring r are ``order[starts[r]:starts[r + 1]]``.
    """

    classes: Integers
    order: Integers
    starts: Integers

    def rotated(self, by: int) -> "Rings":
        """The same rings, each from a class that is so many further along."""
        lengths = np.diff(self.starts)
        ring = np.repeat(np.arange(len(lengths)), lengths)
        along = (np.arange(len(self.order)) - self.starts[ring] + by) % lengths[ring]
        return Rings(self.classes, self.order[self.starts[ring] + along], self.starts)


@dataclass(frozen=True, eq=False)
class RingLayout:
    """Rows in units that are yet to get their parts.

    Parameters
    ----------
    units : array of int
        The unit of each row.
    slots : int
        Units that each part gets.
    column, reader : array of int
        Pairs of a column and a unit that reads it.
    allowed : array of bool, units x parts, or None
        Parts that a unit is not too heavy for; None: all.
    """

    units: Integers
    slots: int
    column: Integers
    reader: Integers
    allowed: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class _Chain:
    """Owners of a layer's rows and of all layers before it, the words of one direction that they cost, and the number
    of the layer whose rings the layout was cut from."""

    cost: int
    owners: Integers
    origin: int
    before: "_Chain | None"


def find_rings(pattern: Pattern) -> Rings | None:
    """The rings of a pattern; None if it is irregular: some column's readers are no arc of one ring."""
    classes = identical_rows(pattern)
    first = np.unique(classes, return_index=True)[1]
    reads = csr_array(pattern[first])
    count = len(first)
    reads = csr_array((np.ones(reads.nnz, dtype=np.int64), reads.indices, reads.indptr), shape=reads.shape)
    overlap = csr_array(reads @ reads.T).tocoo()
    apart = overlap.row != overlap.col
    one, other, shared = overlap.row[apart], overlap.col[apart], overlap.data[apart]
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, one, shared)
    near = (shared == most[one]) | (shared == most[other])
    one, other = one[near], other[near]
    if (np.bincount(one, minlength=count) > 2).any():
        return None
    rings = _walks(count, one, other)
    order = np.array([member for ring in rings for member in ring])
    starts = np.cumsum([0, *map(len, rings)])
    found = Rings(classes, order, starts)
    return found if _arcs_only(found, reads) else None


def _walks(count: int, one: Integers, other: Integers) -> list[list[int]]:
    """Classes of each ring in the order of a walk along it, from an end if it has any."""
    near: list[list[int]] = [[] for _ in range(count)]
    for member, neighbour in zip(one.tolist(), other.tolist(), strict=True):
        near[member].append(neighbour)
    _, ring_of = connected_components(csr_array((np.ones(len(one)), (one, other)), shape=(count, count)), False)
    ends = np.array([len(neighbours) == 2 for neighbours in near])
    first = np.lexsort((np.arange(count), ends, ring_of))
    rings = []
    for start in first[np.unique(ring_of[first], return_index=True)[1]].tolist():
        ring, last = [start], -1
        while following := [member for member in near[ring[-1]] if member not in (last, start)]:
            last = ring[-1]
            ring.append(following[0])
        rings.append(ring)
    return sorted(rings, key=min)


def _arcs_only(rings: Rings, reads: Pattern) -> bool:
    """Whether each column's readers are neighbours along one ring; ``reads``: classes x columns."""
    count, columns = reads.shape
    lengths = np.diff(rings.starts)
    ring_of, successor = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    ring_of[rings.order] = np.repeat(np.arange(len(lengths)), lengths)
    successor[rings.order] = rings.rotated(1).order
    reader, column = np.repeat(np.arange(count), np.diff(reads.indptr)), reads.indices.astype(np.int64)
    pairs = np.sort(column * count + reader)
    after = column * count + successor[reader]
    place = np.minimum(np.searchsorted(pairs, after), len(pairs) - 1)
    breaks = np.bincount(column[pairs[place] != after], minlength=columns)
    least, largest = np.full(columns, count), np.full(columns, -1)
    np.minimum.at(least, column, ring_of[reader])
    np.maximum.at(largest, column, ring_of[reader])
    return bool((breaks <= 1).all() and ((least == largest) | (largest < 0)).all())


def layouts(pattern: Pattern, rings: Rings, targets: Reals, limits: Reals) -> Iterator[RingLayout]:
    """Layouts of a layer.

    Parameters
    ----------
    pattern, rings
        The layer and its rings.
    targets, limits : array of float
        Share of each part, and most that it may weigh.
    """
    weights, parts = row_weights(pattern), len(targets)
    of_class = np.bincount(rings.classes, weights=weights)
    lengths = np.diff(rings.starts)
    of_ring = np.add.reduceat(of_class[rings.order], rings.starts[:-1])
    even = np.allclose(targets, targets[0])
    slots, left = divmod(len(lengths), parts)
    if slots and not left and even and len(lengths) <= MOST_RINGS and np.all(of_ring == of_ring[0]):
        ring_of = np.empty(len(rings.order), dtype=np.int64)
        ring_of[rings.order] = np.repeat(np.arange(len(lengths)), lengths)
        yield _layout(pattern, ring_of[rings.classes], len(lengths), slots, None)
        return
    # Arcs differ by their first class as long as an arc has several classes, and a ring several arcs.
    arc = round(len(rings.order) / parts)
    firsts = min(max(arc, 1), int(lengths.max())) if lengths.max() > 1 else 1
    seen: set[bytes] = set()
    for first in np.unique(np.linspace(0, firsts, min(firsts, MOST_FIRSTS), endpoint=False).astype(int)):
        units = _cut(rings.rotated(int(first)), weights, targets, limits)
        if units.tobytes() not in seen:
            seen.add(units.tobytes())
            loads = np.bincount(units, weights=weights, minlength=parts)
            allowed = None if even else loads[:, None] <= limits
            yield _layout(pattern, units, parts, 1, allowed)


def _cut(rings: Rings, weights: Integers, targets: Reals, limits: Reals) -> Integers:
    """The arc of each row: between classes where balance allows it, else within them."""
    of_class = np.bincount(rings.classes, weights=weights)
    arcs = np.empty(len(rings.order), dtype=np.int64)
    arcs[rings.order] = _shared_out(of_class[rings.order], targets)
    units: Integers = arcs[rings.classes]
    if (np.bincount(units, weights=weights, minlength=len(targets)) <= limits).all():
        return units
    place = np.empty(len(rings.order), dtype=np.int64)
    place[rings.order] = np.arange(len(rings.order))
    rows = np.argsort(place[rings.classes], kind="stable")
    units = np.empty(len(weights), dtype=np.int64)
    units[rows] = _shared_out(weights[rows], targets)
    if weights.min() == weights.max() and (np.bincount(units, minlength=len(targets)) * weights[0] > limits).any():
        # Whole rows round a share up beyond the limit: others have room.
        count = np.floor(limits / weights[0]).astype(np.int64)
        for _ in range(int(count.sum()) - len(rows)):
            count[np.argmax(count / targets)] -= 1
        units[rows] = np.repeat(np.arange(len(targets)), count)
    return units


def _shared_out(weights: Integers, targets: Reals) -> Integers:
    """The part in whose stretch the middle of each member of a sequence lies."""
    ends = np.cumsum(weights)
    middle = (ends - weights / 2) / ends[-1]
    return np.searchsorted(np.cumsum(targets)[:-1], middle, side="right").astype(np.int64)


def _layout(pattern: Pattern, units: Integers, count: int, slots: int,
            allowed: npt.NDArray[np.bool_] | None) -> RingLayout:
    column, reader = np.nonzero(readers(pattern, units, count))
    return RingLayout(units, slots, column, reader, allowed)


def named(layout: RingLayout, columns: Integers, parts: int) -> tuple[int, Integers]:
    """The words of one direction of a layout with the best names, and the owner of each row.

    Parameters
    ----------
    layout : RingLayout
        Units of rows.
    columns : array of int
        Owner of each column.
    parts : int
        Parts.
    """
    units = parts * layout.slots
    owned = np.bincount(layout.reader * parts + columns[layout.column], minlength=units * parts).reshape(units, parts)
    if layout.allowed is not None:
        owned = np.where(layout.allowed, owned, -len(columns) * parts)
    unit, slot = linear_sum_assignment(np.repeat(owned, layout.slots, axis=1), maximize=True)
    names = slot // layout.slots
    return len(layout.column) - int(owned[unit, names].sum()), names[layout.units]


def _varied(chains: Iterable[_Chain], width: int) -> list[_Chain]:
    """The first chains, not more than :data:`ALIKE` of one origin: a layout that costs more now may cost nothing in the
    layers to come."""
    chosen: list[_Chain] = []
    for chain in chains:
        if len(chosen) < width and sum(other.origin == chain.origin for other in chosen) < ALIKE:
            chosen.append(chain)
    return chosen


def structured(patterns: Iterable[Pattern], targets: Reals, imbalance: float) -> tuple[Integers, ...] | None:
    """Owners of inputs and of each layer's rows, by the structure of regular patterns.

    Parameters
    ----------
    patterns : iterable of csr_array
        Layers in canonical form; they are looked at one at a time.
    targets : array of float
        Share of each part.
    imbalance : float
        Allowed excess over a share.

    Returns
    -------
    tuple of arrays of int, or None
        None if a layer is irregular, or its rows are so uneven that arcs cannot be balanced.
    """
    parts = len(targets)
    width = WIDTH if parts < MANY_PARTS else NARROW
    chains: list[_Chain] = []
    first: Pattern = None
    for layer, pattern in enumerate(patterns):
        rings = find_rings(pattern)
        if rings is None:
            return None
        weights = row_weights(pattern)
        limits, _ = caps(weights, targets, imbalance)
        following: list[_Chain] = []
        for layout in layouts(pattern, rings, targets, limits):
            if not chains:
                owners = layout.units // layout.slots
                following.append(_Chain(column_cost(pattern, None, owners, parts), owners, layer, None))
            else:
                costs = [(chain.cost + cost, owners, layer, chain) for chain in chains
                         for cost, owners in [named(layout, chain.owners, parts)]]
                following.append(_Chain(*min(costs, key=lambda cost: cost[0])))
        following += [_Chain(chain.cost + column_cost(pattern, chain.owners, chain.owners, parts), chain.owners,
                             chain.origin, chain)
                      for chain in chains if pattern.shape[0] == pattern.shape[1]]
        following = [chain for chain in following
                     if (np.bincount(chain.owners, weights=weights, minlength=parts) <= limits).all()]
        if not following:
            return None
        # No layer after this one tells two chains apart by more than its columns.
        following.sort(key=lambda chain: chain.cost)
        chains = _varied([chain for chain in following if chain.cost <= following[0].cost + pattern.shape[0]], width)
        first = pattern if first is None else first
    layers: list[Integers] = []
    chain: _Chain | None = chains[0]
    while chain is not None:
        layers.append(chain.owners)
        chain = chain.before
    return place_inputs(first, layers[-1], parts), *reversed(layers)
