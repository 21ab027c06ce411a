"""Ten million packets over wires on which everything goes wrong, with dies that are reset on the way."""

import pytest
from tests.support.compiled import compare
from tests.support.graphs import random_program
from tests.support.link_traffic import KINDS, Traffic

from plinth_hw.isa.parameters import preset

pytestmark = pytest.mark.long

#: Packets of each kind of fault: ten million of all.
PACKETS = -(-10_000_000 // len(KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_ten_million_packets(kind: str) -> None:
    """Nothing is lost, changed, repeated or out of order, and nothing hangs."""
    outcome = Traffic(1).campaign(PACKETS, KINDS[kind], 0.0 if kind == "none" else 0.2, seed=3)
    print(f"{kind}: {outcome}")
    assert outcome.packets >= PACKETS and len(outcome.errors) == outcome.resets


@pytest.mark.parametrize("phits", [2, 4])
def test_frames_in_pieces(phits: int) -> None:
    outcome = Traffic(2, phits).campaign(100_000, KINDS["all"], 0.2, seed=4)
    assert outcome.packets >= 100_000 and len(outcome.errors) == outcome.resets


@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_of_whole_dies(kind: str) -> None:
    """Their memory is that of perfect wires."""
    die = preset("ndp-tiny-links")
    for seed in range(3):
        program, buffers = random_program(die, 3, seed, 40, 1 << 18)
        compare(program, buffers, seed, memory_words=1 << 18, faults=KINDS[kind])
