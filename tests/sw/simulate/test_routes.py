"""Words on links: equal to walking every pair over the routes that the dies are given."""

import numpy as np
import pytest

from plinth.array.array import ARRAYS, Array
from plinth.array.routes import routes
from plinth.partition.axes import Region, plane
from plinth.partition.exchanges import ExchangeDefinition, words
from plinth.partition.groups import RING, process_groups
from plinth.simulate.routes import LinkRoutes, groups_of

#: A line of four dies, joined one by one.
LINE = Array(name="line", topology="links", dies=4, preset="ndp-demo",
             wiring=((0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)))


def walked(array: Array, moved: np.ndarray) -> np.ndarray:
    """Words on each directed link, pair by pair."""
    table = routes(array.directed(), array.dies + array.switches)
    number = {(node, port): place for place, (node, port, _, _) in enumerate(array.directed())}
    loads = np.zeros(len(number))
    for sender, receiver in zip(*np.nonzero(moved), strict=True):
        node = int(sender)
        while node != receiver:
            link = number[node, table[node][receiver]]
            loads[link] += moved[sender, receiver]
            node = array.directed()[link][2]
    return loads


def total(routes: LinkRoutes, groups) -> np.ndarray:
    loads = np.zeros(len(routes.directed))
    for group in groups:
        loads[group.links] += group.words
    return loads


@pytest.mark.parametrize("array", [ARRAYS[name] for name in (
    "ring-2", "ring-8", "torus-2x4", "torus-16", "full-8", "hypar-16")] + [LINE], ids=lambda array: array.name)
def test_links_carry_what_walking_every_pair_gives(array: Array) -> None:
    rng = np.random.default_rng(1)
    moved = rng.integers(0, 9, (array.dies, array.dies)) * (rng.random((array.dies, array.dies)) < 0.5)
    np.fill_diagonal(moved, 0)
    routes = LinkRoutes(array)
    groups = routes.loads(moved, groups_of(moved))
    assert np.array_equal(total(routes, groups), walked(array, moved))
    assert sum(group.sent.sum() for group in groups) == sum(group.received.sum() for group in groups) == moved.sum()


def test_groups_are_dies_that_have_to_do_with_each_other() -> None:
    moved = np.zeros((6, 6), dtype=np.int64)
    moved[0, 2] = moved[2, 4] = moved[5, 3] = 1
    assert groups_of(moved).tolist() == [0, -1, 0, 3, 0, 3]


@pytest.mark.parametrize("batch", [16, 13])
def test_an_exchange_is_the_plans(batch: int) -> None:
    array = ARRAYS["hypar-16"]
    source, target = Region.of(samples=(0, 2), channels=(1, 3)), Region.of(samples=(0, 1, 2, 3))
    moved = words(ExchangeDefinition("x", "fprop", "copy", None, source, target, 24, 1), batch, array.factors)
    routes = LinkRoutes(array)
    groups = routes.exchange(source, target, plane(batch, 24))
    assert np.array_equal(total(routes, groups), walked(array, moved))
    assert len(groups) > 1 and sum(len(group.dies) for group in groups) == 16


@pytest.mark.parametrize("over", [(0,), (3,), (1, 2), (0, 1, 2, 3), ()])
def test_rings_send_to_the_next_member(over) -> None:
    array = ARRAYS["torus-16"]
    routes = LinkRoutes(array)
    groups = routes.ring(process_groups(RING, over, routes.array.factors))
    size = 1 << len(over)
    moved = np.zeros((16, 16))
    for group in groups:
        for member, successor in zip(group.dies, np.roll(group.dies, -1), strict=True):
            moved[member, successor] += 2 * (size - 1) / size
    assert np.allclose(total(routes, groups), walked(array, moved))
    assert len(groups) == (16 // size if over else 0)


def test_an_h_tree_is_full_on_every_level_when_partners_exchange() -> None:
    """HyPar's tree: whatever the level, the links that partners use take equally long for equal words a half."""
    array = ARRAYS["hypar-16"]
    routes = LinkRoutes(array)
    for level in range(4):
        groups = routes.partners(level)
        assert len(groups) == 8 and all(
            group.latency == 2 * (4 - level) * routes.array.link_latency for group in groups)
        seconds = total(routes, groups) / routes.rates
        used = seconds[seconds > 0]
        assert used == pytest.approx(float(1 / array.rate))


def test_a_thousand_dies_are_no_matter() -> None:
    routes = LinkRoutes(ARRAYS["hypar-1024"])
    groups = routes.ring(process_groups(RING, tuple(range(10)), routes.array.factors))
    assert len(groups) == 1 and len(groups[0].links) == 2 * 2046
    # Of 1,024 hops between neighbours a half is over 2 links, a quarter over 4 ..., and the last over 20; one of 2 is
    # spared.
    links = sum(2 * (level + 1) * (512 >> level) for level in range(10)) + 20 - 2
    assert groups[0].latency == links * routes.array.link_latency
