"""How an axis is cut over the dies of an array, and which dies belong together.

The dies form a grid of *levels*: level h (from 0, the highest) has ``factors[h]`` places, and a die's number is written
with one digit a level, the highest first: of 12 dies with factors (3, 2, 2), die 7 has the digits 1, 1, 1. A cut at a
level gives each digit a part of what the cuts before it left; parts are ranges in order, the first ones one larger
where the length does not divide.

*Groups* are dies that differ in some levels only: the members of a ring, of a cluster, the owners of one part.
"""

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
#: Parts that each level cuts in, the highest level first; their product is the number of dies.
Factors = tuple[int, ...]
#: Levels, from 0, at which a range is cut, in this order; or in which dies of a group differ.
Levels = tuple[int, ...]


def halves(levels: int) -> Factors:
    """Factors of an array of 2^levels dies."""
    return (2,) * levels


def parts(cuts: Levels, factors: Factors) -> int:
    """In how many parts some levels cut."""
    return prod(factors[level] for level in cuts)


@lru_cache(maxsize=1 << 10)
def digits(level: int, factors: Factors) -> Integers:
    """Digit of every die at a level."""
    found = np.arange(prod(factors), dtype=np.int64) // prod(factors[level + 1:]) % factors[level]
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1 << 10)
def places(over: Levels, factors: Factors) -> Integers:
    """Number of every die among those that differ in some levels, its digits read in their order."""
    found = np.zeros(prod(factors), dtype=np.int64)
    for level in over:
        found = found * factors[level] + digits(level, factors)
    found.flags.writeable = False
    return found


def groups(over: Levels, factors: Factors) -> Integers:
    """Groups of dies that differ in some levels only, [groups, members], ascending."""
    order = sorted(over)
    others = [level for level in range(len(factors)) if level not in order]
    dies = np.arange(prod(factors), dtype=np.int64).reshape(factors)
    return dies.transpose(others + order).reshape(-1, parts(over, factors))


@lru_cache(maxsize=4096)
def bounds(size: int, cuts: Levels, factors: Factors) -> tuple[Integers, Integers]:
    """First and one past the last element of every die's range."""
    if cuts:
        *before, level = cuts
        low, high = bounds(size, tuple(before), factors)
        digit = digits(level, factors)
        each, larger = np.divmod(high - low, factors[level])
        low = low + digit * each + np.minimum(digit, larger)
        high = low + each + (digit < larger)
    else:
        dies = prod(factors)
        low, high = np.zeros(dies, dtype=np.int64), np.full(dies, size, dtype=np.int64)
    low.flags.writeable = high.flags.writeable = False
    return low, high
