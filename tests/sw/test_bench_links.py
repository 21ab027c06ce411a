"""Rows about links: what they take for granted of the link layer."""

from plinth.bench.links import FRAME_BITS
from plinth_hw.comm.link import phit_bits
from plinth_hw.isa.parameters import preset


def test_wires_of_a_link() -> None:
    """A phit, and ``start``."""
    die = preset("ndp-demo-links")
    assert phit_bits(die, die.link_phits) + 1 == FRAME_BITS
