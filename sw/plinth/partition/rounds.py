"""Which rings of a reduction may go at once.

Flits of a class wait in one queue behind a link, and a die of a ring takes what comes only as far as its own words
leave. So where two members send over one link, one that is ahead may hold up another's words, and those in turn what it
waits for: the rings stand still (docs/collective.md). Rings that would meet on a link therefore go one after the
other, or by different blocks of the dies.
"""

from functools import lru_cache

import numpy as np

from plinth.array.array import Array
from plinth.partition.groups import ProcessGroups


def ring_links(array: Array | None, rings: ProcessGroups) -> list[list[int]]:
    """The links over which the members of each ring send to the next one, for each of them all its ways together; none
    of rings of one die, of arrays with switches, and without an array."""
    links: list[list[int]] = [[] for _ in rings.members]
    if rings.size == 1 or array is None or array.switches:
        return links
    which = np.array([number for number, ring in enumerate(rings.members) for _ in ring])
    at = np.array([die for ring in rings.members for die in ring])
    to = np.array([die for ring in rings.members for die in (*ring[1:], ring[0])])
    for pairs, over in array.all_routes.walk(at, to):
        for number, link in zip(which[pairs].tolist(), over.tolist(), strict=True):
            links[number].append(link)
    return links


def meets_itself(array: Array | None, rings: ProcessGroups) -> tuple[int, ...] | None:
    """The members of a ring of which two send to the next one over the same link; None: there is none."""
    return next((members for members, links in zip(rings.members, ring_links(array, rings), strict=True)
                 if len(set(links)) < len(links)), None)


@lru_cache(maxsize=256)
def rounds(array: Array | None, rings: ProcessGroups) -> tuple[tuple[int, ...], ...]:
    """Numbers of the rings of each round, none of which send over the same link: each ring is of the first round in
    which it meets no other; where :func:`ring_links` are none, all of one."""
    ring_numbers: list[list[int]] = []
    used: list[set[int]] = []
    for number, links in enumerate(ring_links(array, rings)):
        place = next((place for place, taken in enumerate(used) if taken.isdisjoint(links)), len(used))
        if place == len(used):
            ring_numbers.append([])
            used.append(set())
        ring_numbers[place].append(number)
        used[place].update(links)
    return tuple(map(tuple, ring_numbers))
