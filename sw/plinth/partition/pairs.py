"""Pairs of dies that send each other something, of arrays whose matrix of all pairs is too large to be made often.

Dies that have the same of a region are a group. Ranges of an axis are sorted, so that those of the receivers that meet
a sender's range stand beside each other: candidates are found by bisection along the axis that leaves the fewest, and
the other axes drop those that have nothing in common.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.partition.axes import KEPT_DIES, Region, Sizes, aligned, pattern
from plinth.partition.cuts import Factors, Integers

#: Share of all pairs of dies, one in so many, up to which a matrix of them all takes longer.
DENSE = 8


class Pairs(NamedTuple):
    """Senders, receivers, and elements (of a map: samples times channels) that go from each to each."""

    at: Integers
    to: Integers
    words: NDArray[Any]

    @property
    def back(self) -> "Pairs":
        """As many elements the other way."""
        return Pairs(self.to, self.at, self.words)

    @classmethod
    def of(cls, words: NDArray[Any]) -> "Pairs":
        """Those of a matrix ``[sender, receiver]``."""
        at, to = np.nonzero(words)
        return cls(at, to, words[at, to])


class _Groups(NamedTuple):
    """Dies that have the same ranges: bounds ``[group, axis, 2]``, members one group behind the other, and where those
    of each begin."""

    bounds: Integers
    members: Integers
    starts: Integers
    counts: Integers


@lru_cache(maxsize=512)
def _groups(region: Region, sizes: Sizes, factors: Factors) -> _Groups:
    """The groups of a region, and of each the ranges of all axes."""
    columns = [bound for axis, size in sizes for bound in region.bounds(axis, size, factors)]
    bounds, numbers, counts = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True, return_counts=True)
    return _Groups(bounds.reshape(len(bounds), len(sizes), 2), np.argsort(numbers.reshape(-1), kind="stable"),
                   np.cumsum(counts) - counts, counts)


def _expanded(firsts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Of ranges that begin at ``firsts`` and are ``counts`` long: the number of each one's range, and itself."""
    ends = np.cumsum(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - (ends - counts - firsts)[which]


def _candidates(left: _Groups, right: _Groups, most: int) -> tuple[Integers, Integers] | None:
    """Pairs of groups that meet along one axis, that of the fewest such pairs; None if these are more than ``most``."""
    found = None
    for axis in range(left.bounds.shape[1]):
        order = np.argsort(right.bounds[:, axis, 0], kind="stable")
        low, high = right.bounds[order, axis].T
        first = np.searchsorted(np.maximum.accumulate(high), left.bounds[:, axis, 0], side="right")
        counts = np.maximum(0, np.searchsorted(low, left.bounds[:, axis, 1], side="left") - first)
        if found is None or counts.sum() < found[1].sum():
            found = first, counts, order
    if found is None or found[1].sum() > most:
        return None
    senders, places = _expanded(found[0], found[1])
    return senders, found[2][places]


def pairs(source: Region, target: Region, sizes: Sizes, factors: Factors) -> Pairs:
    """Dies that have something of ``source`` that others need of ``target``: what
    :func:`~plinth.partition.axes.pattern` has in a matrix."""
    dies = prod(factors)
    if dies <= KEPT_DIES or not all(aligned(source, target, axis) for axis, _ in sizes):
        return Pairs.of(pattern(source, target, sizes, factors))
    left, right = _groups(source, sizes, factors), _groups(target, sizes, factors)
    met = _candidates(left, right, dies * dies // DENSE)
    if met is None:
        return Pairs.of(pattern(source, target, sizes, factors))
    sender, receiver = met
    words = np.ones(len(sender), dtype=np.int64)
    for axis in range(len(sizes)):
        mine, theirs = left.bounds[sender, axis], right.bounds[receiver, axis]
        words *= np.maximum(0, np.minimum(mine[:, 1], theirs[:, 1]) - np.maximum(mine[:, 0], theirs[:, 0]))
    some = words > 0
    sender, receiver, words = sender[some], receiver[some], words[some]
    # Each member of one group with each of the other.
    which, place = _expanded(np.zeros_like(sender), left.counts[sender] * right.counts[receiver])
    first, second = np.divmod(place, right.counts[receiver][which])
    at = left.members[left.starts[sender][which] + first]
    to = right.members[right.starts[receiver][which] + second]
    apart = at != to
    return Pairs(at[apart], to[apart], words[which[apart]])
