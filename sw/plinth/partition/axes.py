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
        found = ((axis, order_of(cuts)) for axis, cuts in self.axes)
        object.__setattr__(self, "orders", _INDICES if by_digits else {axis: one for axis, one in found if one})
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
        return any(isinstance(one, Cover) for one in self.orders.values())

    def held(self, sizes: Sizes, factors: Factors) -> int:
        """Elements that all dies have together, copies counted."""
        if not self.covers:
            return prod([size for _, size in sizes]) * prod(factors) // self.parts(factors)
        return int(np.prod([self.lengths(axis, size, factors) for axis, size in sizes], axis=0).sum())

    def parts(self, factors: Factors) -> int:
        """In how many parts it cuts."""
        return prod([parts(cuts, factors) for _, cuts in self.axes])

    def bounds(self, axis: str, size: int, factors: Factors) -> tuple[Integers, Integers]:
        """First and one past the last position of every die's range of an axis."""
        low, high = bounds(size, self.cuts(axis), factors)
        return (low, high) if self.owners is None else (low[seats(self.owners)], high[seats(self.owners)])

    def lengths(self, axis: str, size: int, factors: Factors) -> Integers:
        """Elements of an axis that every die has."""
        low, high = self.bounds(axis, size, factors)
        return high - low

    def numbers(self, axis: str, factors: Factors) -> Integers:
        """For every die the number of its part of an axis."""
        found = places(levels_of(self.cuts(axis)), factors)
        return found if self.owners is None else found[seats(self.owners)]

    def groups(self, factors: Factors) -> ProcessGroups:
        """Dies that own the same part."""
        cut = {level for _, cuts in self.axes for level in levels_of(cuts)}
        rest = tuple(level for level in range(len(factors)) if level not in cut)
        return process_groups(OWNERS, rest, factors, self.owners)


def _aligned(one: Region, two: Region, axis: str) -> bool:
    """Whether positions of an axis are the same indices in both, and each index has one position."""
    order = one.orders.get(axis)
    return order == two.orders.get(axis) and not isinstance(order, Cover)


def _meeting(axis: str, size: int, one: Region, two: Region, factors: Factors) -> Integers:
    """Elements of an axis that die s (row) has of the one and die t (column) of the other."""
    if not _aligned(one, two, axis):
        numbers = one.numbers(axis, factors)[:, None], two.numbers(axis, factors)
        return shared(size, one.cuts(axis), two.cuts(axis), factors)[numbers]
    low, high = one.bounds(axis, size, factors)
    other_low, other_high = two.bounds(axis, size, factors)
    return np.maximum(np.minimum(high[:, None], other_high) - np.maximum(low[:, None], other_low), 0)


def sent(axis: str, size: int, one: Region, two: Region, factors: Factors, die: int) -> Integers:
    """Elements of an axis that a die has of one region, and each die of another."""
    if not _aligned(one, two, axis):
        row = one.numbers(axis, factors)[die], two.numbers(axis, factors)
        return shared(size, one.cuts(axis), two.cuts(axis), factors)[row]
    low, high = one.bounds(axis, size, factors)
    other_low, other_high = two.bounds(axis, size, factors)
    return np.maximum(np.minimum(high[die], other_high) - np.maximum(low[die], other_low), 0)


def runs(axis: str, size: int, one: Region, two: Region, factors: Factors, die: int, other: int) -> int:
    """In how many runs the elements lie that a die has of one region and another of a second."""
    ranges = (int(bound[place]) for region, place in ((one, die), (two, other))
              for bound in region.bounds(axis, size, factors))
    first, end, start, stop = ranges
    return len(pieces(one.orders.get(axis), first, end, two.orders.get(axis), start, stop))


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
def common(axis: str, size: int, one: Region, two: Region, factors: Factors) -> Integers:
    """Elements of an axis that each die has of both regions."""
    if not _aligned(one, two, axis):
        numbers = one.numbers(axis, factors), two.numbers(axis, factors)
        return shared(size, one.cuts(axis), two.cuts(axis), factors)[numbers]
    low, high = one.bounds(axis, size, factors)
    other_low, other_high = two.bounds(axis, size, factors)
    return np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)


@lru_cache(maxsize=1 << 14)
def alike(one: Region, two: Region, sizes: Sizes, factors: Factors) -> bool:
    """Whether each die has the same of both regions."""
    for axis, size in sizes:
        if _aligned(one, two, axis):
            same = all(map(np.array_equal, one.bounds(axis, size, factors), two.bounds(axis, size, factors)))
        else:
            both = common(axis, size, one, two, factors)
            same = all(bool((both == region.lengths(axis, size, factors)).all()) for region in (one, two))
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

    found = []
    for one, two in pairs:
        one, two = root(one), root(two)
        if one != two:
            parent[one] = two
            found.append(one)
    return tuple(found)


def _nested(one: Cuts, two: Cuts) -> bool:
    """Whether a range of the one is always a part of that of the other."""
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter]


@lru_cache(maxsize=1 << 18)
def overlap(owned: Region, need: Region, sizes: Sizes, factors: Factors) -> int:
    """Elements (of a map: samples times channels) that dies need and own, over all dies.

    Where sizes divide and the i-th cuts of owner and need are in as many parts, each die has either none or all
    elements / parts, of the deeper region each; it has some if its digits fulfil the equalities that the i-th cuts of
    owner and need imply. Parts that are nested fill the axis, divided or not. Anything else is summed over the dies.
    """
    if owned.by_digits and need.by_digits:
        dies, elements, count, whole = prod(factors), 1, 1, 0
        ones, others = [owned.cuts(axis) for axis, _ in sizes], [need.cuts(axis) for axis, _ in sizes]
        for (_, size), one, two in zip(sizes, ones, others, strict=True):
            deeper = parts(max(one, two, key=len), factors)
            elements, count, whole = elements * size, count * deeper, whole + (size % deeper == 0)
        if all(map(_nested, ones, others)) and (whole >= len(sizes) - 1 or _apart(ones, others)):
            return elements * dies // count
        pairs = tuple(pair for one, two in zip(ones, others, strict=True) for pair in zip(one, two, strict=False))
        if whole == len(sizes) and all(factors[one] == factors[two] for one, two in pairs):  # type: ignore[index]
            return elements // count * (dies // parts(_equalities(pairs), factors))  # type: ignore[arg-type]
    found = np.ones(prod(factors), dtype=np.int64)
    for axis, size in sizes:
        found = found * common(axis, size, owned, need, factors)
    return int(found.sum())


def _apart(ones: Sequence[Cuts], others: Sequence[Cuts]) -> bool:
    """Whether no level cuts two axes."""
    levels = [{*one, *two} for one, two in zip(ones, others, strict=True)]
    return sum(map(len, levels)) == len(set().union(*levels))
