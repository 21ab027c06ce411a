"""Rings of bodies between fetch and engines: how deep they may be."""

import pytest
from tests.support.refusal import refused

from plinth_hw import emit
from plinth_hw.control.queues import BodyQueues


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_powers_of_two_are_depths(depth: int) -> None:
    assert "module queues" in emit.verilog(BodyQueues([3, 5], depth), "queues")


@pytest.mark.parametrize("depth", [0, 3, 6, -2])
def test_other_depths_are_refused(depth: int) -> None:
    with refused(ValueError, f"Queue depth must be a power of two, not {depth}"):
        BodyQueues([3, 5], depth)
