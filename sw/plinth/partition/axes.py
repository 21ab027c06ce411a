"""Regions: products of named axes, of which every die has a part of each.

A region cuts each of its axes (:mod:`plinth.partition.cuts`) and says so what each *seat* of the array has; its owners
say which die has which seat. With n_a elements of axis a, of which die d has the set P_a(d),

    die d has               the product over a of P_a(d)
    s sends t (pattern)     prod over a of |P_a(s) meets Q_a(t)|, of what s has in P and t needs in Q
    die d keeps (overlap)   prod over a of |P_a(d) meets Q_a(d)|

Where both sides number positions alike these are ranges; else parts are compared index by index, once a pair of parts.
What dies own are partitions; what they need may be covers, whose parts overlap and leave gaps: the same formulas hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from plinth.partition.cuts import (
    Cover,
    Cuts,
    Factors,
    Integers,
    Levels,
    Listed,
    bounds,
    levels_of,
    order_of,
    parts,
    pieces,
    places,
    shared,
)
from plinth.partition.groups import OWNERS, Owners, ProcessGroups, process_groups, seats

#: Arrays of up to so many dies keep who sends how much to whom from call to call.
KEPT_DIES = 64
#: Names of axes: of maps, of weights, of Winograd tiles and weights that are theirs.
SAMPLES, CHANNELS, ELEMENTS = "samples", "channels", "elements"
#: Axis that no tensor has: dies that have the same, told apart, so that each keeps to its own.
COPIES = "copies"
#: Elements of each axis of a tensor.
Sizes = tuple[tuple[str, int], ...]
_INDICES: dict[str, Listed] = {}


def plane(batch: int, channels: int) -> Sizes:
    """Sizes of a map, a position of it."""
    return (SAMPLES, batch), (CHANNELS, channels)


@dataclass(frozen=True, slots=True)
class Region:
    """A product of named axes, each cut; one that is not named is whole on every die."""

    axes: tuple[tuple[str, Cuts], ...]
    #: Which die has which seat.
    owners: Owners = None
    #: Whether it is cut at levels only, and each die has the seat of its number.
    by_digits: bool = field(init=False, compare=False, repr=False)
    #: Axes whose positions are not indices: the list whose order they have.
    orders: dict[str, Listed] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_digits = self.owners is None and all(levels_of(cuts) is cuts for _, cuts in self.axes)
        object.__setattr__(self, "by_digits", by_digits)
        orders = ((axis, order_of(cuts)) for axis, cuts in self.axes)
        object.__setattr__(self, "orders", _INDICES if by_digits else {axis: order for axis, order in orders if order})
        object.__setattr__(self, "_hash", hash((self.axes, self.owners)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of strings are other ones in another process.
        return type(self), (self.axes, self.owners)

    @classmethod
    def of(cls, owners: Owners = None, **axes: Cuts) -> "Region":
        """The region with these cuts of its axes."""
        return cls(tuple(axes.items()), owners)

    def cuts(self, axis: str) -> Cuts:
        """How an axis is cut."""
        for name, cuts in self.axes:
            if name == axis:
                return cuts
        return ()

    @property
    def covers(self) -> bool:
        """Whether parts of an axis overlap or leave gaps."""
        return any(isinstance(order, Cover) for order in self.orders.values())

    def held(self, sizes: Sizes, factors: Factors) -> int:
        """Elements that all dies have together, copies counted."""
        if not self.covers:
            return prod([size for _, size in sizes]) * prod(factors) // self.parts(factors)
        return int(np.prod([self.lengths(axis, size, factors) for axis, size in sizes], axis=0).sum())

    def parts(self, factors: Factors) -> int:
        """The number of parts into which the axes are cut together."""
        return prod([parts(cuts, factors) for _, cuts in self.axes])

    def bounds(self, axis: str, size: int, factors: Factors) -> tuple[Integers, Integers]:
        """First and one past the last position of every die's range of an axis."""
        low, high = bounds(size, self.cuts(axis), factors)
        return (low, high) if self.owners is None else (low[seats(self.owners)], high[seats(self.owners)])

    def lengths(self, axis: str, size: int, factors: Factors) -> Integers:
        """Elements of an axis that every die has."""
        low, high = self.bounds(axis, size, factors)
        return high - low

    def indices(self, axis: str, size: int, factors: Factors) -> list[Integers]:
        """For every die the indices of an axis that it has, in its order."""
        order = self.orders.get(axis)
        ranges = zip(*(bound.tolist() for bound in self.bounds(axis, size, factors)), strict=True)
        return [np.arange(low, high) if order is None else order.order[low:high] for low, high in ranges]

    def numbers(self, axis: str, factors: Factors) -> Integers:
        """For every die the number of its part of an axis."""
        numbers = places(levels_of(self.cuts(axis)), factors)
        return numbers if self.owners is None else numbers[seats(self.owners)]

    def groups(self, factors: Factors) -> ProcessGroups:
        """Dies that own the same part."""
        cut = {level for _, cuts in self.axes for level in levels_of(cuts)}
        rest = tuple(level for level in range(len(factors)) if level not in cut)
        return process_groups(OWNERS, rest, factors, self.owners)


def aligned(left: Region, right: Region, axis: str) -> bool:
    """Whether positions of an axis are the same indices in both, and each index has one position."""
    order = left.orders.get(axis)
    return order == right.orders.get(axis) and not isinstance(order, Cover)


def _meeting(axis: str, size: int, left: Region, right: Region, factors: Factors) -> Integers:
    """Elements of an axis that die s (row) has of the left and die t (column) of the right."""
    if not aligned(left, right, axis):
        numbers = left.numbers(axis, factors)[:, None], right.numbers(axis, factors)
        return shared(size, left.cuts(axis), right.cuts(axis), factors)[numbers]
    low, high = left.bounds(axis, size, factors)
    other_low, other_high = right.bounds(axis, size, factors)
    return np.maximum(np.minimum(high[:, None], other_high) - np.maximum(low[:, None], other_low), 0)


def sent(axis: str, size: int, left: Region, right: Region, factors: Factors, die: int) -> Integers:
    """Elements of an axis that a die has of one region, and each die of another."""
    if not aligned(left, right, axis):
        row = left.numbers(axis, factors)[die], right.numbers(axis, factors)
        return shared(size, left.cuts(axis), right.cuts(axis), factors)[row]
    low, high = left.bounds(axis, size, factors)
    other_low, other_high = right.bounds(axis, size, factors)
    return np.maximum(np.minimum(high[die], other_high) - np.maximum(low[die], other_low), 0)


def runs(axis: str, size: int, left: Region, right: Region, factors: Factors, die: int, other: int) -> int:
    """Count the runs of neighbouring indices of an axis that a die has of one region and another die of a second."""
    ranges = (int(bound[place]) for region, place in ((left, die), (right, other))
              for bound in region.bounds(axis, size, factors))
    first, end, start, stop = ranges
    return len(pieces(left.orders.get(axis), first, end, right.orders.get(axis), start, stop))


@lru_cache(maxsize=512)
def _pattern(source: Region, target: Region, sizes: Sizes, factors: Factors) -> Integers:
    words = np.ones((prod(factors), prod(factors)), dtype=np.int64)
    for axis, size in sizes:
        words *= _meeting(axis, size, source, target, factors)
    np.fill_diagonal(words, 0)
    words.flags.writeable = False
    return words


def pattern(source: Region, target: Region, sizes: Sizes, factors: Factors) -> Integers:
    """Elements (of a map: samples times channels) that die s (row) sends to die t (column)."""
    kept = _pattern if prod(factors) <= KEPT_DIES else _pattern.__wrapped__
    return kept(source, target, sizes, factors)


@lru_cache(maxsize=1 << 16)
def common(axis: str, size: int, left: Region, right: Region, factors: Factors) -> Integers:
    """Elements of an axis that each die has of both regions."""
    if not aligned(left, right, axis):
        numbers = left.numbers(axis, factors), right.numbers(axis, factors)
        return shared(size, left.cuts(axis), right.cuts(axis), factors)[numbers]
    low, high = left.bounds(axis, size, factors)
    other_low, other_high = right.bounds(axis, size, factors)
    return np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)


@lru_cache(maxsize=1 << 14)
def alike(left: Region, right: Region, sizes: Sizes, factors: Factors) -> bool:
    """Whether each die has the same of both regions, in the same order."""
    for axis, size in sizes:
        if aligned(left, right, axis):
            same = all(map(np.array_equal, left.bounds(axis, size, factors), right.bounds(axis, size, factors)))
        else:
            both = common(axis, size, left, right, factors)
            same = all(bool((both == region.lengths(axis, size, factors)).all()) for region in (left, right)) and all(
                map(np.array_equal, left.indices(axis, size, factors), right.indices(axis, size, factors)))
        if not same:
            return False
    return True


@lru_cache(maxsize=1 << 16)
def _equalities(pairs: tuple[tuple[int, int], ...]) -> Levels:
    """Levels whose digits follow from others' where the digits of each pair of levels are equal."""
    parent: dict[int, int] = {}

    def root(level: int) -> int:
        while parent.get(level, level) != level:
            level = parent[level]
        return level

    dependent = []
    for left, right in pairs:
        left, right = root(left), root(right)
        if left != right:
            parent[left] = right
            dependent.append(left)
    return tuple(dependent)


def _nested(left: Cuts, right: Cuts) -> bool:
    """Whether a range of one is always a part of that of the other."""
    shorter = min(len(left), len(right))
    return left[:shorter] == right[:shorter]


@lru_cache(maxsize=1 << 18)
def overlap(owned: Region, need: Region, sizes: Sizes, factors: Factors) -> int:
    """Elements (of a map: samples times channels) that dies need and own, over all dies.

    Where sizes divide and the i-th cuts of owner and need are in as many parts, each die has either none or all
    elements / parts, of the deeper region each; it has some if its digits fulfil the equalities that the i-th cuts of
    owner and need imply. Parts that are nested fill the axis, divided or not. Anything else is summed over the dies.
    """
    if owned.by_digits and need.by_digits:
        dies, elements, count, whole = prod(factors), 1, 1, 0
        owned_cuts, need_cuts = [owned.cuts(axis) for axis, _ in sizes], [need.cuts(axis) for axis, _ in sizes]
        for (_, size), left, right in zip(sizes, owned_cuts, need_cuts, strict=True):
            deeper = parts(max(left, right, key=len), factors)
            elements, count, whole = elements * size, count * deeper, whole + (size % deeper == 0)
        if all(map(_nested, owned_cuts, need_cuts)) and (whole >= len(sizes) - 1 or _apart(owned_cuts, need_cuts)):
            return elements * dies // count
        pairs = tuple(pair for left, right in zip(owned_cuts, need_cuts, strict=True)
                      for pair in zip(left, right, strict=False))
        if whole == len(sizes) and all(factors[left] == factors[right] for left, right in pairs):  # type: ignore[index]
            return elements // count * (dies // parts(_equalities(pairs), factors))  # type: ignore[arg-type]
    per_die = np.ones(prod(factors), dtype=np.int64)
    for axis, size in sizes:
        per_die = per_die * common(axis, size, owned, need, factors)
    return int(per_die.sum())


def _apart(owned_cuts: Sequence[Cuts], need_cuts: Sequence[Cuts]) -> bool:
    """Whether no level cuts two axes."""
    levels = [{*left, *right} for left, right in zip(owned_cuts, need_cuts, strict=True)]
    return sum(map(len, levels)) == len(set().union(*levels))
