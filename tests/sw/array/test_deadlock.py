"""Which routes form a circle, against a search that tries all ways."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth.array.array import ARRAYS, Array, clusters, sized
from plinth.array.deadlock import find_circle
from plinth.array.file import array_to_yaml, load_array
from plinth.array.routes import AllRoutes, Link
from plinth.errors import UserError

#: A ring whose ports do not pair: packets turn at every die.
TURNING = "version: 1\nname: own\ntopology: links\ndies: 5\npreset: ndp-demo\nlinks: " + str(
    [[die, 0, (die + 1) % 5, 2] for die in range(5)])


def everyone(dies: int) -> list[tuple[int, int]]:
    """All pairs."""
    return list(product(range(dies), repeat=2))


@pytest.mark.parametrize("name", [*(name for name in ARRAYS if ARRAYS[name].dies <= 16), "ring-3", "ring-12",
                                  "torus-3x4", "full-16", "mpt-4x1", "mpt-1x8"])
def test_named_arrays_form_none(name: str) -> None:
    array = ARRAYS.get(name) or sized(name)
    assert array is not None
    assert find_circle(array.all_routes.links, array.all_routes.following, everyone(array.dies)) is None


def test_the_host_closes_a_circle_only_if_groups_send_to_each_other() -> None:
    """Tiles go within clusters and chunks along a group: neither turns at the host."""
    array = clusters(4, 4)
    dies = [[4 * group + cluster for cluster in range(4)] for group in range(4)]
    tiles = [pair for cluster in range(4) for pair in product([row[cluster] for row in dies], repeat=2)]
    chunks = [(row[place], row[(place + 1) % 4]) for row in dies for place in range(4)]
    routes = array.all_routes
    assert find_circle(routes.links, routes.following, everyone(16)) is not None
    assert find_circle(routes.links, routes.following, tiles) is None
    assert find_circle(routes.links, routes.following, chunks) is None


def trees(random: Random, links: list[Link], dies: int) -> NDArray[np.int64]:
    """Routes along a tree of links to each die, grown at random."""
    routes = np.full((dies, dies), -1)
    for to in range(dies):
        reached = {to}
        while len(reached) < dies:
            over = random.choice([over for over, (source, _, target, _) in enumerate(links)
                                  if target in reached and source not in reached])
            routes[links[over][0], to] = over
            reached.add(links[over][0])
    return routes


def waits(links: list[Link], routes: AllRoutes, pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Which link's packets wait for which link, one route after the other."""
    edges: set[tuple[int, int]] = set()
    for at, to in pairs:
        before = None
        while at != to:
            over = int(routes.following[at, to])
            if before is not None:
                edges.add((before, over))
            before, at = over, links[over][2]
    return edges


def turns_in_a_circle(links: list[Link], edges: set[tuple[int, int]]) -> bool:
    """Whether some wait that is not straight on is for a link that waits, at last, for the first one: by the closure of
    all waits."""
    reach = np.eye(len(links), dtype=np.bool_)
    for link, waited_link in edges:
        reach[link, waited_link] = True
    for over in range(len(links)):
        reach |= np.outer(reach[:, over], reach[over])
    return any(reach[waited_link, link] and links[link][3] ^ 1 != links[waited_link][1] for link, waited_link in edges)


def test_against_the_closure_of_all_waits() -> None:
    random, met = Random(7), 0
    for _ in range(120):
        dies, wires = random.randint(3, 7), list[Link]()
        free = {die: random.sample(range(16), 16) for die in range(dies)}
        for die, neighbour in [*((die, random.randrange(die)) for die in range(1, dies)),
                               *(random.sample(range(dies), 2) for _ in range(random.randint(1, 5)))]:
            wires.append((die, free[die].pop(), neighbour, free[neighbour].pop()))
        links = [*wires, *((target, target_port, source, port) for source, port, target, target_port in wires)]
        routes = AllRoutes.along(links, trees(random, links, dies))
        pairs = random.sample(everyone(dies), random.randint(dies, dies * dies))
        edges = waits(links, routes, pairs)
        circle = find_circle(links, routes.following, pairs)
        assert (circle is not None) == turns_in_a_circle(links, edges)
        if circle is not None:
            met += 1
            assert all(pair in edges for pair in zip(circle, (*circle[1:], circle[0]), strict=True))
    assert 10 < met < 110


def test_a_route_that_never_ends_is_a_circle() -> None:
    links = [(0, 0, 1, 1), (1, 1, 0, 0), (1, 0, 2, 1), (2, 1, 1, 0)]
    following = np.array([[-1, 0, 0], [1, -1, 1], [3, 3, -1]])
    assert find_circle(links, following, [(0, 2)]) == [0, 1]
    assert find_circle(links, following, [(0, 1), (2, 0)]) is None


def read(tmp_path: Path, text: str) -> Array:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return load_array(str(path))


def test_a_file_whose_routes_form_a_circle_is_refused_with_the_circle(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read(tmp_path, TURNING)
    assert str(refused.value).count("\n") == 0
    assert ("own.yaml: routes form a circle, in which packets wait for each other for ever: die 1 by port 0, "
            "die 2 by port 0, die 3 by port 0, die 4 by port 0, die 0 by port 0, back to die 1; give routes"
            ) in str(refused.value)


def test_routes_of_a_file_are_those_of_the_array(tmp_path: Path) -> None:
    """The same links, and nobody goes over the one between dies 4 and 0."""
    rows = [[None if die == other else 0 if other > die else 2 for other in range(5)] for die in range(5)]
    text = f"{TURNING}\nroutes: {rows}".replace("None", "null")
    array = read(tmp_path, text)
    assert array.route_table == rows and array.all_routes.hops[0].tolist() == [0, 1, 2, 3, 4]
    assert read(tmp_path, array_to_yaml(array)) == array
    for first, wrong, message in (
            (1, "[null, 0, 0, 0, 1]", "from die 0 to die 4 is by port 1, which has no link"),
            (1, "[null, 0, 0, 0, true]", "from die 0 to die 4 is by port true; a port is an integer from 0 to 15"),
            (1, "[null, 0, 0, 0, 1.5]", "from die 0 to die 4 is by port 1.5; a port is an integer from 0 to 15"),
            (1, "[null, 0, 0, 0, null]", "from die 0 to die 4 must be a port"),
            (1, "[0, 0, 0, 0, 0]", "from die 0 to die 0 must be null"),
            (1, "[null, 0, 0, 0]", "routes must be 5 rows of 5 ports"),
            # 0 sends to 4 by way of 1, and 1 by way of 0.
            (2, "[null, 0, 0, 0, 0], [2, null, 0, 0, 2]", "die 0 by port 0, die 1 by port 2, back to die 0")):
        broken_text = text.replace(str(rows[:first])[1:-1].replace("None", "null"), wrong)
        assert broken_text != text
        with pytest.raises(UserError, match=r"own\.yaml: ") as refused:
            read(tmp_path, broken_text)
        assert message in str(refused.value)
    with pytest.raises(ValueError, match="route from die 0 to die 4 never ends"):
        _ = replace(array, routes=((None, 0, 0, 0, 0), (2, None, 0, 0, 2), *array.routes[2:])).all_routes


def test_links_of_a_file_may_have_latencies_of_their_own(tmp_path: Path) -> None:
    """Chunks go once around a ring but for its shortest hop; a tile's route takes what its links take."""
    text = ("version: 1\nname: own\ntopology: links\ndies: 4\npreset: ndp-demo\nlink_rate: 1\nlink_latency: 3\n"
            "links: [[0, 0, 1, 1, null, 200], [1, 0, 2, 1], [2, 0, 3, 1, 1/4], [3, 0, 0, 1, 1/2, 40]]")
    array = read(tmp_path, text)
    assert [(link.rate, link.latency) for link in array.links] == [
        (1, 200), (1, 3), (Fraction(1, 4), 3), (Fraction(1, 2), 40)]
    assert read(tmp_path, array_to_yaml(array)) == array
    assert {link[:4]: link[4] for link in array.timed()}[1, 1, 0, 0] == 200
    assert array.route_latencies[0].tolist() == [0, 200, 203, 40]
    assert array.ring_latency(np.arange(4)) == 200 + 3 + 40
    for wrong, message in (("0", "latency of link 0 must be an integer from 1 to 1048576 cycles, not 0"),
                           ("2.5", "latency of link 0 must be an integer"), ("200, 1", "a link must be")):
        with pytest.raises(UserError, match=message):
            read(tmp_path, text.replace("200", wrong))


def test_links_of_a_file_may_have_rates_of_their_own(tmp_path: Path) -> None:
    text = ("version: 1\nname: own\ntopology: links\ndies: 3\npreset: ndp-demo\nlink_rate: 1\n"
            "links: [[0, 0, 1, 1], [1, 0, 2, 1, 1/4], [2, 0, 0, 1, 0.5]]")
    array = read(tmp_path, text)
    assert [link.rate for link in array.links] == [1, Fraction(1, 4), Fraction(1, 2)]
    assert array.port_rates[2, 1] == Fraction(1, 4) and array.die_parameters().port_rates
    assert read(tmp_path, array_to_yaml(array)) == array
    assert not read(tmp_path, text.replace(", 1/4", "").replace("0.5", "1")).die_parameters().port_rates
    for wrong, message in (("1/0", "rate of link \\[1, 0, 2, 1\\] must be a number"), ("3", "carry at most 2"),
                           ("1/2, 1, 1", "a link must be")):
        with pytest.raises(UserError, match=message):
            read(tmp_path, text.replace("1/4", wrong))
