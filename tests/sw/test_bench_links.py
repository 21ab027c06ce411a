"""Rows about links: what they take for granted of the link layer."""

from fractions import Fraction

import pytest

from plinth.array.array import clusters
from plinth.bench import links
from plinth.bench.links import FRAME_BITS
from plinth_hw.comm.link import phit_bits
from plinth_hw.isa.parameters import preset


def test_wires_of_a_link() -> None:
    """A phit, and ``start``."""
    die = preset("ndp-demo-links")
    assert phit_bits(die, die.link_phits) + 1 == FRAME_BITS


@pytest.mark.parametrize(("over", "rate", "hops"), [((0, 1, 2, 3), 15, (20, 20)), ((2, 3), 15, (5, 5)),
                                                    ((0, 1), Fraction(5, 2), (4, 6))])
def test_rings_of_clusters_that_are_simulated(over: tuple[int, ...], rate: Fraction, hops: tuple[int, int]) -> None:
    simulated = links._simulated(clusters(4, 4), over, Fraction(rate))
    assert 0.95 < simulated["efficiency"] < 1
    assert (simulated["hops_along_links"], simulated["hops_by_numbers"]) == hops
    assert (simulated["cycles_along_links"] < simulated["cycles_by_numbers"]) == (hops[0] < hops[1])
