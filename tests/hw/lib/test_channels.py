"""Register slices of AXI channels: order, rate and latency of each, whoever waits, and what they do in reset."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import always, every, randomly, simulate

from plinth_hw.control.registers import SLICED_FIELDS, AXI4LiteSignature
from plinth_hw.lib.channels import slice_channels

PATTERNS = {"always": lambda seed: always(), "every3": lambda seed: every(3), "random": lambda seed: randomly(seed)}
COUNT = 60


class Sliced(wiring.Component):
    """A master's port, and a slave's."""

    master: In(AXI4LiteSignature())
    slave: Out(AXI4LiteSignature())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slice_channels(m, "axil", self.master, self.slave, SLICED_FIELDS)
        return m


def sides(dut: Sliced, channel: str) -> tuple[Any, Any]:
    """Where a channel is offered, and where it is taken."""
    return (dut.slave, dut.master) if channel in ("b", "r") else (dut.master, dut.slave)


@pytest.mark.parametrize(("give", "take"), [("always", "always"), ("always", "random"), ("random", "every3"),
                                            ("random", "random")])
def test_each_channel_by_itself(give: str, take: str) -> None:
    """All channels at once, each in its own order and at its own pace; at full rate a transfer a cycle."""
    dut, got, cycles = Sliced(), {}, {}
    rng = np.random.default_rng(1)
    sent = {channel: [[int(rng.integers(1 << len(getattr(dut.master, channel + field)))) for field in fields]
                      for _ in range(COUNT)] for channel, fields in SLICED_FIELDS.items()}

    def source(channel: str, seed: int) -> Any:
        end, fields = sides(dut, channel)[0], SLICED_FIELDS[channel]
        offered, ready = getattr(end, f"{channel}valid"), getattr(end, f"{channel}ready")

        async def bench(ctx: Any) -> None:
            gate = iter(PATTERNS[give](seed))
            for values in sent[channel]:
                while not next(gate):
                    await ctx.tick()
                for field, value in zip(fields, values, strict=True):
                    ctx.set(getattr(end, channel + field), value)
                ctx.set(offered, 1)
                await ctx.tick().until(ready)
                ctx.set(offered, 0)

        return bench

    def sink(channel: str, seed: int) -> Any:
        end, fields = sides(dut, channel)[1], SLICED_FIELDS[channel]
        ready, valid = getattr(end, f"{channel}ready"), getattr(end, f"{channel}valid")

        async def bench(ctx: Any) -> None:
            gate, cycle = iter(PATTERNS[take](seed)), 0
            got[channel], cycles[channel] = [], []
            while len(got[channel]) < COUNT:
                taking = next(gate)
                ctx.set(ready, taking)
                _, _, offered, *values = await ctx.tick().sample(valid, *(getattr(end, channel + field)
                                                                          for field in fields))
                if offered and taking:
                    got[channel].append(list(values))
                    cycles[channel].append(cycle)
                cycle += 1

        return bench

    simulate(dut, *(bench for number, channel in enumerate(SLICED_FIELDS)
                    for bench in (source(channel, number), sink(channel, 10 + number))), limit_cycles=1000)
    assert got == sent
    if (give, take) == ("always", "always"):
        # READY comes a cycle after reset, and VALID behind the slice one later.
        assert all(came == list(range(2, COUNT + 2)) for came in cycles.values()), cycles


def test_nothing_is_taken_in_reset() -> None:
    """READY and VALID are 0 in the first cycle, and READY is 1 from the next one on."""
    dut = Sliced()

    async def bench(ctx: Any) -> None:
        for channel in SLICED_FIELDS:
            ctx.set(getattr(sides(dut, channel)[0], f"{channel}valid"), 1)
        names = [(side, f"{channel}{what}") for channel in SLICED_FIELDS
                 for side, what in zip(sides(dut, channel), ("ready", "valid"), strict=True)]
        _, _, *first = await ctx.tick().sample(*(getattr(side, name) for side, name in names))
        _, _, *second = await ctx.tick().sample(*(getattr(side, name) for side, name in names))
        _, _, *third = await ctx.tick().sample(*(getattr(side, name) for side, name in names))
        assert first == [0, 0] * 5 and second == [1, 0] * 5 and third == [1, 1] * 5

    simulate(dut, bench, limit_cycles=20)
