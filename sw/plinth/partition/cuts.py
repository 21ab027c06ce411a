"""How an axis is cut over the dies of an array.

The dies form a grid of *levels*: level h (from 0, the highest) has ``factors[h]`` places, and a die's number is written
with one digit a level, the highest first: of 12 dies with factors (3, 2, 2), die 7 has the digits 1, 1, 1. A cut at a
level gives each digit a part of what the cuts before it left; parts are ranges in order, the first ones one larger
where the length does not divide. A cut by list (:class:`Listed`) tells the parts of the whole axis one by one: of any
lengths, also none, and of any indices, each in one part; further levels cut inside them. A level may also leave all to
one of its digits, and nothing to others (:class:`Whole`). Who *owns* an axis cuts it in such a partition; who *needs*
some of it may have a cover (:class:`Cover`), whose parts overlap, and leave gaps.

What a die has is always a range of *positions*: those of the axis itself, or, where parts are index sets, of the axis
in the order of the list. Numbers of dies are those of seats here: which die takes which seat, a region says
(:mod:`plinth.partition.regions`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
#: Parts that each level cuts in, the highest level first; their product is the number of dies.
Factors = tuple[int, ...]
#: Levels, from 0, in some order.
Levels = tuple[int, ...]
#: Indices as ranges, each its first and one past its last; ascending, but in covers.
Indices = tuple[tuple[int, int], ...]
#: Ranges of a part up to which they are a tuple.
FEW_RANGES = 64


def halves(levels: int) -> Factors:
    """Factors of an array of 2^levels dies."""
    return (2,) * levels


def ranges_of(sizes: Iterable[int]) -> tuple[Indices, ...]:
    """Parts of so many elements each, one behind the other."""
    ranges: list[Indices] = []
    end = 0
    for size in sizes:
        ranges.append(((end, end + size),) if size else ())
        end += size
    return tuple(ranges)


def runs_of(indices: Sequence[int]) -> Indices:
    """Indices, ascending, as ranges; what stands in them twice stays so."""
    runs: list[tuple[int, int]] = []
    for index in sorted(indices):
        if runs and runs[-1][1] == index:
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
    return tuple(runs)


@dataclass(frozen=True)
class Runs(Sequence[tuple[int, int]]):
    """Many ranges, held in an array: 8 bytes a range, where a tuple of tuples takes 120. Equal ones compare, hash and
    digest equal, but never equal :data:`Indices`.

    Parameters
    ----------
    ranges : array of int ``[ranges, 2]``
        Of each range its first index and one past its last.
    """

    ranges: NDArray[np.int32] = field(compare=False, repr=False)
    #: SHA-256 of the ranges, in hexadecimal digits.
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        ranges = np.array(self.ranges, np.int32).reshape(-1, 2)
        ranges.flags.writeable = False
        object.__setattr__(self, "ranges", ranges)
        object.__setattr__(self, "digest", hashlib.sha256(ranges.astype("<i4", copy=False).tobytes()).hexdigest())

    def __len__(self) -> int:
        return len(self.ranges)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return map(tuple, self.ranges.tolist())  # type: ignore[arg-type]

    @overload
    def __getitem__(self, number: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, number: slice) -> "Runs": ...

    def __getitem__(self, number: int | slice) -> "tuple[int, int] | Runs":
        if isinstance(number, slice):
            return Runs(self.ranges[number])
        first, end = self.ranges[number].tolist()
        return first, end


def compact(ranges: Indices | Integers) -> Indices | Runs:
    """Ranges as parts hold them: few in a tuple, more than :data:`FEW_RANGES` in an array."""
    if len(ranges) > FEW_RANGES:
        return Runs(np.asarray(ranges))
    return ranges if isinstance(ranges, tuple) else tuple((int(first), int(end)) for first, end in ranges)


def ranges_of_indices(indices: Integers) -> Indices | Runs:
    """Indices, in their order, as ranges."""
    ends = np.flatnonzero(np.diff(indices) != 1)
    firsts, lasts = np.concatenate([indices[:1], indices[ends + 1]]), np.concatenate([indices[ends], indices[-1:]])
    return compact(np.stack([firsts, lasts + 1], axis=1))


def elements(ranges: Indices | Runs) -> Integers:
    """The indices of ranges, in their order."""
    bounds_of = np.array(ranges.ranges if isinstance(ranges, Runs) else ranges, np.int64).reshape(-1, 2)
    counts = bounds_of[:, 1] - bounds_of[:, 0]
    before = np.cumsum(counts) - counts
    return np.repeat(bounds_of[:, 0] - before, counts) + np.arange(counts.sum())


@dataclass(frozen=True)
class Listed:
    """Parts of a whole axis, one for each combination of the digits at some levels, the first level's counting most."""

    levels: Levels
    parts: tuple[Indices | Runs, ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.levels, self.parts)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was found out about it.
        return type(self), (self.levels, self.parts)

    @cached_property
    def edges(self) -> Integers:
        """Position at which each part begins, and the end."""
        return np.concatenate([[0], np.cumsum([len(elements(part)) for part in self.parts], dtype=np.int64)])

    @cached_property
    def order(self) -> Integers:
        """Index of each position."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *map(elements, self.parts)])

    @cached_property
    def ordered(self) -> bool:
        """Whether positions are indices."""
        return bool((np.diff(self.order) == 1).all())


@dataclass(frozen=True)
class Cover(Listed):
    """Parts of an axis as dies need them: any index in any number of parts, or in none, each once in a part, in any
    order."""

    __hash__ = Listed.__hash__

    @cached_property
    def ordered(self) -> bool:
        """Positions are never indices: those of one index in two parts are two."""
        return False


@dataclass(frozen=True)
class Whole:
    """Dies of one digit at a level have all that the cuts before leave, those of other digits have nothing of it."""

    level: int
    digit: int


#: How an axis is cut: at levels in this order; a list may come first, or digits that have the whole.
Cuts = tuple[int | Whole | Listed, ...]


def levels_of(cuts: Cuts) -> Levels:
    """Levels at which an axis is cut."""
    if cuts and not isinstance(cuts[0], int):
        return tuple(level for cut in cuts for level in (
            cut.levels if isinstance(cut, Listed) else (cut.level if isinstance(cut, Whole) else cut,)))
    return cuts  # type: ignore[return-value]


def order_of(cuts: Cuts) -> Listed | None:
    """The list whose order positions have; None where they are indices."""
    first = cuts[0] if cuts else None
    return first if isinstance(first, Listed) and not first.ordered else None


def parts(cuts: Cuts, factors: Factors) -> int:
    """The number of parts into which an axis is cut."""
    return prod([factors[level] for level in levels_of(cuts)])


@lru_cache(maxsize=1 << 10)
def digits(level: int, factors: Factors) -> Integers:
    """Digit of every die at a level."""
    digit = np.arange(prod(factors), dtype=np.int64) // prod(factors[level + 1:]) % factors[level]
    digit.flags.writeable = False
    return digit


@lru_cache(maxsize=1 << 10)
def places(over: Levels, factors: Factors) -> Integers:
    """Number of every die among those that differ in some levels, its digits read in their order."""
    numbers = np.zeros(prod(factors), dtype=np.int64)
    for level in over:
        numbers = numbers * factors[level] + digits(level, factors)
    numbers.flags.writeable = False
    return numbers


@lru_cache(maxsize=4096)
def bounds(size: int, cuts: Cuts, factors: Factors) -> tuple[Integers, Integers]:
    """First and one past the last position of every die's range."""
    *before, last = cuts or (None,)
    if isinstance(last, Listed):
        number = places(last.levels, factors)
        low, high = last.edges[number], last.edges[number + 1]
    elif last is None:
        dies = prod(factors)
        low, high = np.zeros(dies, dtype=np.int64), np.full(dies, size, dtype=np.int64)
    elif isinstance(last, Whole):
        low, high = bounds(size, tuple(before), factors)
        high = np.where(digits(last.level, factors) == last.digit, high, low)
    else:
        low, high = bounds(size, tuple(before), factors)
        digit = digits(last, factors)
        each, larger = np.divmod(high - low, factors[last])
        low = low + digit * each + np.minimum(digit, larger)
        high = low + each + (digit < larger)
    low.flags.writeable = high.flags.writeable = False
    return low, high


# Of few cuts: of a sparse layer each takes as much as all that follows from it.
@lru_cache(maxsize=1 << 5)
def _labels(size: int, cuts: Cuts, factors: Factors) -> Integers:
    """For every index the number of the part that it is in."""
    levels = levels_of(cuts)
    low, high = bounds(size, cuts, factors)
    first = np.unique(places(levels, factors), return_index=True)[1]
    labels = np.repeat(np.arange(len(first)), (high - low)[first])
    order = order_of(cuts)
    if order is not None:
        labels[order.order] = labels.copy()
    return labels


@lru_cache(maxsize=1 << 5)
def _needed(size: int, cuts: Cuts, factors: Factors) -> Integers:
    """Of each part (row) for every index whether the part has it."""
    low, high = bounds(size, cuts, factors)
    first = np.unique(places(levels_of(cuts), factors), return_index=True)[1]
    needed = np.zeros((len(first), size), dtype=np.int64)
    order = order_of(cuts)
    for part, die in enumerate(first):
        needed[part, selected(order, int(low[die]), int(high[die] - low[die]))] = 1
    return needed


@lru_cache(maxsize=256)
def shared(size: int, left: Cuts, right: Cuts, factors: Factors) -> Integers:
    """Elements that each part of a cut (row) and each of another (column) have in common, whatever their orders."""
    if isinstance(order_of(left), Cover) or isinstance(order_of(right), Cover):
        return _needed(size, left, factors) @ _needed(size, right, factors).T
    rows, columns = parts(left, factors), parts(right, factors)
    both = _labels(size, left, factors) * columns + _labels(size, right, factors)
    return np.bincount(both, minlength=rows * columns).reshape(rows, columns)


def selected(listed: Listed | None, first: int, count: int) -> Integers | slice:
    """The indices at some positions, as numpy takes them."""
    return slice(first, first + count) if listed is None else listed.order[first:first + count]


@lru_cache(maxsize=1 << 12)
def pieces(left: Listed | None, first: int, end: int, right: Listed | None, other: int, other_end: int
           ) -> tuple[tuple[int, int, int], ...]:
    """What two ranges of positions have in common, in pieces that lie one element behind the other in both: first
    place in the left range, in the right, elements."""
    if left == right and not isinstance(left, Cover):
        low, high = max(first, other), min(end, other_end)
        return ((low - first, low - other, high - low),) if low < high else ()
    mine, theirs = (np.arange(low, high) if listed is None else listed.order[low:high]
                    for listed, low, high in ((left, first, end), (right, other, other_end)))
    _, here, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    if not len(here):
        return ()
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(here) != 1) | (np.diff(there) != 1)]))
    counts = np.diff(np.concatenate([starts, [len(here)]]))
    return tuple((int(here[start]), int(there[start]), int(count))
                 for start, count in zip(starts, counts, strict=True))
