"""Rows of tiles between dies: what links and memories allow."""

from plinth.array.array import ring
from plinth.bench import exchanges


def test_bounds_are_of_the_fullest_link_and_of_a_memory() -> None:
    """On a ring of four each link of one way carries words to the next die, over two hops those of two pairs; those
    halfway round all go one way."""
    array = ring(4, preset="ndp-demo-winograd")
    bounds = exchanges.bounds(array, 100, 5000)
    assert bounds == {"links": 300 / (2 * 15 / 16), "memory": 500.0}
    assert set(exchanges.BENCHES) == {"scatter_efficiency", "gather_efficiency"}
