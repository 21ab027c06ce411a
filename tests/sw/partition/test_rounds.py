"""Which rings go at once, against ways that are walked link by link."""

from itertools import combinations

import pytest

from plinth.array.array import ARRAYS, Array, full, ring, torus
from plinth.array.routes import routes
from plinth.partition.groups import RING, process_groups
from plinth.partition.rounds import ring_links, rounds


def walked(array: Array, members: tuple[int, ...]) -> list[tuple[int, int]]:
    """Dies and ports by which the members send to the next."""
    table, links = routes(array.directed(), array.dies), array.directed()
    behind = {(die, port): other for die, port, other, _ in links}
    walk = []
    for die, to in zip(members, (*members[1:], members[0]), strict=True):
        while die != to:
            port = table[die][to]
            assert port is not None
            walk.append((die, port))
            die = behind[die, port]
    return walk


@pytest.mark.parametrize("array", [ring(4), ring(6), ring(8), ring(12), torus(2, 4), torus(3, 4), torus(4, 4), full(8)],
                         ids=lambda array: array.name)
def test_rings_of_a_round_share_no_link_and_those_of_two_do(array: Array) -> None:
    factors, met = array.factors, 0
    for count in range(1, len(factors) + 1):
        for over in combinations(range(len(factors)), count):
            rings = process_groups(RING, over, factors)
            links = [walked(array, members) for members in rings.members]
            assert all(len(set(walk)) == len(walk) for walk in links)
            assert [len(walk) for walk in ring_links(array, rings)] == [len(walk) for walk in links]
            ring_rounds = rounds(array, rings)
            assert sorted(number for some in ring_rounds for number in some) == list(range(len(rings.members)))
            for some in ring_rounds:
                assert all(set(links[first]).isdisjoint(links[second]) for first, second in combinations(some, 2))
            for place, some in enumerate(ring_rounds):
                for ring_index in some:
                    assert all(any(set(links[ring_index]) & set(links[earlier]) for earlier in before)
                               for before in ring_rounds[:place])
            met += len(ring_rounds) > 1
    assert (met == 0) == (array.topology == "full")


def test_rounds_of_known_arrays() -> None:
    def of(array: Array, *over: int) -> tuple[tuple[int, ...], ...]:
        return rounds(array, process_groups(RING, over, array.factors))

    # 0 and 2, and 1 and 3: both go by the link from 1 to 2.
    assert of(ring(4), 0) == ((0,), (1,))
    assert of(ring(4), 1) == ((0, 1),) and of(ring(4), 0, 1) == ((0,),)
    # Four rings of opposite dies of a ring of eight, each with links all round.
    assert of(ring(8), 0) == ((0,), (1,), (2,), (3,))
    assert of(torus(2, 4), 0, 1) == ((0,), (1,)) and of(torus(2, 4), 0) == ((0, 1, 2, 3),)
    assert of(ring(4)) == ((0, 1, 2, 3),)
    # Switches are simulated only.
    assert of(ARRAYS["hypar-16"], 0) == (tuple(range(8)),)
