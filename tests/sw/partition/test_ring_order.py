"""Orders of rings: along an array's links."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from plinth.array.array import ARRAYS, Array, clusters, full, ring, sized, torus
from plinth.partition.groups import RING, ProcessGroups, process_groups
from plinth.partition.ring_order import along_links, ring_hops, ring_pace

#: A cube of dies, and one without a cycle of neighbours: five dies hang from three (ports 0 to 4).
CUBE = Array(name="cube", topology="links", dies=8, preset="ndp-demo", wiring=tuple(
    (die, bit, die ^ 1 << bit, bit) for die in range(8) for bit in range(3) if not die >> bit & 1))
STAR = Array(name="star", topology="links", dies=8, preset="ndp-demo", wiring=tuple(
    (hub, 1 + number, 3 + number, hub) for hub in range(3) for number in range(5)))


def links_between(array: Array, die: int, other: int) -> list[int]:
    """Numbers of the links on the way from a die to another, by the routes of dies and switches."""
    links = []
    while die != other:
        links.append(int(array.following[die, other]))
        die = array.all_routes.links[links[-1]][2]
    return links


def hops(array: Array, members: tuple[int, ...]) -> int:
    """Counted link by link."""
    return sum(len(links_between(array, die, other)) for die, other in zip(
        members, (*members[1:], members[0]), strict=True))


def shortest(array: Array, members: tuple[int, ...]) -> tuple[Fraction, int]:
    """Cycles of the busiest link for a word from each member to the next one, where links differ in rate, and links
    once round: the least of all orders."""
    between = {(die, other): links_between(array, die, other) for die in members for other in members}
    rates = [array.port_rates[node, port] for node, port, _, _ in array.directed()]

    def length(ring: tuple[int, ...]) -> tuple[Fraction, int]:
        used = [link for die, other in zip(ring, (*ring[1:], ring[0]), strict=True) for link in between[die, other]]
        pace = max(used.count(link) / rates[link] for link in set(used)) if array.has_rates else Fraction(0)
        return pace, len(used)

    return min(length((members[0], *others)) for others in permutations(members[1:]))


def length(array: Array, members: tuple[int, ...]) -> tuple[Fraction, int]:
    """What :func:`shortest` says, of one order."""
    pace = Fraction(ring_pace(array, members)).limit_denominator(1000) if array.has_rates else Fraction(0)
    return pace, hops(array, members)


def all_rings(array: Array) -> list[ProcessGroups]:
    """Rings over all sets of levels."""
    return [process_groups(RING, over, array.factors) for count in range(1, array.levels + 1)
            for over in combinations(range(array.levels), count)]


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
            ordered = along_links(array, groups)
            assert [sorted(members) for members in ordered.members] == [sorted(members) for members in groups.members]
            assert [members[0] for members in ordered.members] == [members[0] for members in groups.members]
            if array.topology == "h-tree":
                assert ordered == groups
                continue
            for members, numbered in zip(ordered.members, groups.members, strict=True):
                assert hops(array, members) <= hops(array, numbered)
                assert members == numbered or hops(array, members) < hops(array, numbered)
                assert hops(array, members) == ring_hops(array.all_routes.hops[:array.dies].astype(np.int64), members)


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
    assert hops(CUBE, members) == 8 and all((die ^ neighbour).bit_count() == 1 for die, neighbour in zip(
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
    members, = along_links(ring(4), groups).members
    assert members[0] == 3 and hops(ring(4), members) == 4 < hops(ring(4), owners)


def test_large_tori() -> None:
    array = sized("torus-16x16")
    assert array is not None
    members, = along_links(array, everything(array)).members
    assert hops(array, members) == 256


@pytest.mark.parametrize("narrow", [Fraction(5, 2), Fraction(15)], ids=lambda rate: f"narrow {rate}")
@pytest.mark.parametrize("sides", [(2, 2), (2, 3), (3, 2), (1, 6), (6, 1), (7, 1)],
                         ids=lambda sides: "x".join(map(str, sides)))
def test_no_order_on_clusters_is_better(sides: tuple[int, int], narrow: Fraction) -> None:
    """All orders tried."""
    array = replace(clusters(*sides), narrow_rate=narrow)
    for groups in all_rings(array):
        ordered = along_links(array, groups)
        if groups.size > 3:
            assert [length(array, members) for members in ordered.members] == [
                shortest(array, members) for members in groups.members]


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [Fraction(5, 2), Fraction(15)], ids=lambda rate: f"narrow {rate}")
@pytest.mark.parametrize("sides", [(2, 4), (4, 2), (8, 1), (1, 8)], ids=lambda sides: "x".join(map(str, sides)))
def test_no_order_on_eight_dies_of_clusters_is_better(sides: tuple[int, int], narrow: Fraction) -> None:
    test_no_order_on_clusters_is_better(sides, narrow)


@pytest.mark.parametrize("groups", [*range(4, 33), 37, 43, 64, 121])
def test_dies_of_a_cluster_are_a_cycle_of_neighbours(groups: int) -> None:
    """Of as many groups as one likes, also where the last row of their grid is short."""
    array = clusters(groups, 2)
    ordered = along_links(array, process_groups(RING, tuple(range(array.group_levels)), array.factors))
    for number, members in enumerate(ordered.members):
        assert sorted(members) == list(range(number, 2 * groups, 2)) and members[0] == number
        assert hops(array, members) == groups


@pytest.mark.parametrize("sides", [(2, 2), (2, 5), (3, 3), (4, 4), (5, 3), (7, 4), (17, 3)],
                         ids=lambda sides: "x".join(map(str, sides)))
def test_rings_of_several_groups_go_by_the_host_where_other_links_are_narrow(sides: tuple[int, int]) -> None:
    array = clusters(*sides)
    members, = along_links(array, everything(array)).members
    assert length(array, members) == (1 / array.rate, array.dies + sides[0])
    # Where all links are alike, it is a cycle of neighbours.
    alike = replace(array, narrow_rate=None)
    members, = along_links(alike, everything(alike)).members
    assert hops(alike, members) == array.dies
    assert sorted(members) == list(range(array.dies))


def test_large_arrays_of_clusters() -> None:
    array = clusters(32, 32)
    members, = along_links(array, everything(array)).members
    assert length(array, members) == (1 / array.rate, 1024 + 32)
    ordered = along_links(array, process_groups(RING, tuple(range(5)), array.factors))
    assert all(hops(array, members) == 32 for members in ordered.members[::8])
