"""Process groups: dies that belong together, as values.

Groups of a kind are a partition of the array's dies. Of a layer (:class:`plinth.partition.regions.Layout`) there are

    ring     dies that have the same slice of the weights: they sum its gradient
    sum      dies whose partial sums make one output
    error    dies whose partial sums make one error of an input
    cluster  dies that work on the same samples
    tiles    dies that split the elements of the same Winograd tiles
    owners   dies that own the same part of a region
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from plinth.partition.cuts import Factors, Integers, Levels, parts

RING, SUM, ERROR, CLUSTER, TILES, OWNERS = "ring", "sum", "error", "cluster", "tiles", "owners"
#: For each seat of an array the die that has it; None: the die of its number.
Owners = tuple[int, ...] | None


@dataclass(frozen=True)
class ProcessGroups:
    """Groups of dies, each its members in their order.

    Raises
    ------
    ValueError
        If they are no partition of the dies.
    """

    kind: str
    members: tuple[tuple[int, ...], ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        wrong = no_partition(self.members, sum(map(len, self.members)))
        if wrong:
            raise ValueError(f"groups {self.kind!r} must be a partition of the dies: {wrong}")
        object.__setattr__(self, "_hash", hash((self.kind, self.members)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of strings are other ones in another process.
        return type(self), (self.kind, self.members)

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return sum(map(len, self.members))

    @property
    def size(self) -> int:
        """Members of the largest group."""
        return max(map(len, self.members))

    @cached_property
    def _places(self) -> tuple[tuple[int, int], ...]:
        """For every die the number of its group, and its own in it."""
        places = {die: (group, place) for group, members in enumerate(self.members)
                  for place, die in enumerate(members)}
        return tuple(places[die] for die in range(len(places)))

    def of(self, die: int) -> tuple[int, ...]:
        """The group of a die."""
        return self.members[self._places[die][0]]

    def group(self, die: int) -> int:
        """The number of a die's group."""
        return self._places[die][0]

    def number(self, die: int) -> int:
        """A die's number in its group."""
        return self._places[die][1]


def no_partition(groups: object, dies: int) -> str:
    """Why groups are no partition of so many dies; empty if they are one."""
    seen: set[int] = set()
    for group in groups if isinstance(groups, (list, tuple)) else ():
        for die in group if isinstance(group, (list, tuple)) else (group,):
            if isinstance(die, bool) or not isinstance(die, int) or not 0 <= die < dies:
                return f"{str(die)[:40]!r} is no die" if isinstance(die, str) else f"{str(die)[:40]} is no die"
            if die in seen:
                return f"die {die} is in two"
            seen.add(die)
    return next((f"die {die} is in none" for die in range(dies) if die not in seen), "")


@lru_cache(maxsize=1 << 10)
def process_groups(kind: str, over: Levels, factors: Factors, owners: Owners = None) -> ProcessGroups:
    """Groups of the dies whose seats differ in some levels only, in the order of their seats."""
    order = sorted(over)
    others = [level for level in range(len(factors)) if level not in order]
    seats = np.arange(prod(factors), dtype=np.int64).reshape(factors)
    members = seats.transpose(others + order).reshape(-1, parts(over, factors))
    groups = (members if owners is None else np.array(owners)[members]).tolist()
    return ProcessGroups(kind, tuple(sorted(map(tuple, groups))))


@lru_cache(maxsize=256)
def seats(owners: tuple[int, ...]) -> Integers:
    """The seat of every die."""
    return np.argsort(np.array(owners, dtype=np.int64))
