"""Routes of named arrays and of link lists."""

import pytest

from plinth.array.array import ARRAYS, ring
from plinth.array.routes import routes


def test_a_ring_takes_the_shorter_way_round() -> None:
    assert routes(ring(8).directed(), 8)[0] == [None, 0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", ["ring-1", "ring-2", "ring-4", "torus-2x4", "torus-4x4", "full-4", "full-8"])
def test_every_step_leads_nearer(name: str) -> None:
    """Following the table reaches the destination, on a torus first along the row."""
    array = ARRAYS[name]
    links = {(die, port): other for die, port, other, _ in array.directed()}
    table = routes(array.directed(), array.dies)
    for start in range(array.dies):
        for end in range(array.dies):
            die, ports = start, []
            while die != end:
                port = table[die][end]
                assert port is not None
                ports.append(port)
                die = links[die, port]
                assert len(ports) < array.dies
            assert [port // 2 for port in ports] == sorted(port // 2 for port in ports) or name.startswith("full")
            assert not name.startswith("full") or len(ports) == (start != end)


def test_a_die_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ValueError, match="no links lead from die 1 to die 0"):
        routes([(0, 0, 1, 1)], 2)
