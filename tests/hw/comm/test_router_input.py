"""What an input of the router asks for: against a model, over random heads, routes and outputs."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.router_input import InputChoice
from plinth_hw.isa.parameters import preset

PARAMETERS = preset("ndp-tiny", ports=3)
CLASSES = PARAMETERS.classes


@pytest.mark.parametrize("index", [0, 2, 3])
def test_random_heads(index: int) -> None:
    """Class 0 first, others in turn; each asks for its own output, and only for one that would take it."""
    rng = np.random.default_rng(index)
    dut = InputChoice(PARAMETERS, index)
    links = [port for port in range(PARAMETERS.ports) if port != index]
    outputs = [f"link_{port}" for port in links] + ["eject"] * (index < PARAMETERS.ports)
    chosen_classes: list[int] = []

    async def bench(ctx: Any) -> None:
        turn = 1
        for _ in range(600):
            blocked, known = rng.random() < 0.1, int(rng.integers(1 << CLASSES))
            ctx.set(dut.blocked, blocked)
            ctx.set(dut.known, known)
            may = {output: int(rng.integers(1 << CLASSES)) for output in outputs}
            for output, value in may.items():
                ctx.set(getattr(dut, f"may_{output}"), value)
            wanted: dict[int, str] = {}
            tails = []
            for number in range(CLASSES):
                # Nothing of this die is for this die.
                present, own, same, tail = (bool(rng.random() < p) for p in (0.6, 0.3 * (index < 3), 0.5, 0.4))
                port = int(rng.integers(PARAMETERS.ports + 1))
                ctx.set(dut.heads[number], {"onward": present and not own, "own": present and own, "same": same,
                                            "tail": tail})
                ctx.set(dut.route[number], 1 << port if port < PARAMETERS.ports else 0)
                tails.append(tail)
                if not present or not (own or same or known >> number & 1):
                    continue
                output = "eject" if own else f"link_{port}" if port in links else "lost"
                if output == "lost" or may[output] >> number & 1:
                    wanted[number] = output
            # The lowest class above the one that was granted last, or the lowest.
            later = [number for number in sorted(wanted) if number and number > turn]
            first = 0 if 0 in wanted else later[0] if later else min(wanted, default=None)
            taken = None if blocked else first
            assert ctx.get(dut.chosen) == (0 if taken is None else 1 << taken)
            assert ctx.get(dut.idle) == (taken is None)
            for output in outputs:
                asks = taken is not None and wanted[taken] == output
                assert ctx.get(getattr(dut, f"asks_{output}")) == (1 << taken if asks else 0)
            assert ctx.get(dut.loses) == (taken is not None and wanted[taken] == "lost")
            assert ctx.get(dut.tail) == (taken is not None and tails[taken])
            if taken:
                turn = taken
                chosen_classes.append(first)
            await ctx.tick()

    simulate(dut, bench)
    assert set(chosen_classes) == set(range(1, CLASSES))
