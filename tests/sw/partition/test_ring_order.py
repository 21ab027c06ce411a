"""Orders of rings: along an array's links."""

from itertools import combinations

import numpy as np
import pytest

from plinth.array.array import ARRAYS, Array, clusters, full, ring, sized, torus
from plinth.partition.groups import RING, ProcessGroups, process_groups
from plinth.partition.ring_order import along_links, ring_hops

#: A cube of dies, and one without a cycle of neighbours: five dies hang from three (ports 0 to 4).
CUBE = Array(name="cube", topology="links", dies=8, preset="ndp-demo", wiring=tuple(
    (die, bit, die ^ 1 << bit, bit) for die in range(8) for bit in range(3) if not die >> bit & 1))
STAR = Array(name="star", topology="links", dies=8, preset="ndp-demo", wiring=tuple(
    (hub, 1 + number, 3 + number, hub) for hub in range(3) for number in range(5)))


def hops(array: Array, members: tuple[int, ...]) -> int:
    """Counted link by link, by the routes that dies have."""
    table, found = array.route_table, 0
    for die, other in zip(members, (*members[1:], members[0]), strict=True):
        while die != other:
            port = table[die][other]
            assert port is not None
            die, found = array.peers[die][port][0], found + 1
    return found


def everything(array: Array) -> ProcessGroups:
    return process_groups(RING, tuple(range(array.levels)), array.factors)


@pytest.mark.parametrize("sides", [(2, 2), (2, 4), (2, 8), (8, 2), (4, 4), (3, 3), (3, 5), (5, 3), (3, 4), (4, 3),
                                   (7, 3), (5, 5), (9, 7), (6, 6), (1, 6)], ids=lambda sides: "x".join(map(str, sides)))
def test_all_dies_of_a_torus_are_a_cycle_of_neighbours(sides: tuple[int, int]) -> None:
    array = torus(*sides)
    members, = along_links(array, everything(array)).members
    assert hops(array, members) == len(members) == array.dies
    assert sorted(members) == list(range(array.dies)) and members[0] == 0


@pytest.mark.parametrize("array", [torus(4, 4), torus(3, 4), torus(6, 2), torus(2, 8), ring(8), ring(12), CUBE, STAR,
                                   clusters(2, 4), full(8), ARRAYS["hypar-16"]], ids=lambda array: array.name)
def test_no_ring_is_longer_than_by_numbers(array: Array) -> None:
    for count in range(1, array.levels + 1):
        for over in combinations(range(array.levels), count):
            groups = process_groups(RING, over, array.factors)
            found = along_links(array, groups)
            assert [sorted(one) for one in found.members] == [sorted(one) for one in groups.members]
            assert [one[0] for one in found.members] == [one[0] for one in groups.members]
            if array.switches:
                assert found == groups
                continue
            for one, other in zip(found.members, groups.members, strict=True):
                assert hops(array, one) <= hops(array, other)
                assert one == other or hops(array, one) < hops(array, other)
                assert hops(array, one) == ring_hops(array.ways.hops[:array.dies].astype(np.int64), one)


def test_rings_of_rings_stay_as_they_are() -> None:
    """Numbers go round, so that the bits of their sums are what they were."""
    for dies in (2, 3, 4, 6, 8, 12, 16):
        for array in (ring(dies), full(dies)) if dies <= 8 else (ring(dies),):
            for count in range(1, array.levels + 1):
                for over in combinations(range(array.levels), count):
                    groups = process_groups(RING, over, array.factors)
                    assert along_links(array, groups) == groups


def test_cycles_that_are_searched() -> None:
    members, = along_links(CUBE, everything(CUBE)).members
    assert hops(CUBE, members) == 8 and all((one ^ other).bit_count() == 1 for one, other in zip(
        members, (*members[1:], members[0]), strict=True))
    # Five of eight dies have no links with each other: two hops at least between any two of them.
    members, = along_links(STAR, everything(STAR)).members
    assert hops(STAR, members) == 10 < hops(STAR, tuple(range(8)))


def test_other_seats_are_other_members_in_the_same_order() -> None:
    """Where dies have other dies' seats, a ring that is no longer by seats goes by seats."""
    owners = (3, 1, 0, 2)
    groups = process_groups(RING, (0, 1), (2, 2), owners)
    assert along_links(full(4), groups).members == ((3, 1, 0, 2),)
    assert along_links(None, groups) == groups
    found, = along_links(ring(4), groups).members
    assert found[0] == 3 and hops(ring(4), found) == 4 < hops(ring(4), owners)


def test_large_tori() -> None:
    array = sized("torus-16x16")
    assert array is not None
    members, = along_links(array, everything(array)).members
    assert hops(array, members) == 256
