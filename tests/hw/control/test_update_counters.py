"""Update counters against a model: advances of this die and of others, the host's reads and writes, and polls, all at
once."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate
from tests.support.refusal import refused

from plinth_hw.control.update_counters import UpdateCounters

COUNTERS, CYCLES = 8, 3000


@pytest.mark.parametrize("seed", range(3))
def test_every_access_meets_its_counter(seed: int) -> None:
    """Of what is asked for in a cycle one is taken: an advance of this die, else of another, else the host, else a
    poll."""
    dut = UpdateCounters(COUNTERS)
    values, bases = [0] * COUNTERS, [0] * COUNTERS
    taken = dict.fromkeys(("local", "remote", "host", "poll"), 0)

    async def bench(ctx: Any) -> None:
        rng = np.random.default_rng(seed)

        def number() -> int:
            return int(rng.integers(COUNTERS))

        asked: dict[str, bool] = dict.fromkeys(("local", "remote", "host"), False)
        due: list[tuple[int, str, int]] = []
        for _ in range(COUNTERS):
            await ctx.tick()
        for cycle in range(CYCLES):
            for name, port in (("local", dut.local), ("remote", dut.remote)):
                if not asked[name] and rng.random() < 0.12:
                    ctx.set(port.payload, number())
                    asked[name] = True
                ctx.set(port.valid, asked[name])
            if not asked["host"] and rng.random() < 0.1:
                ctx.set(dut.host_index, number())
                ctx.set(dut.host_is_base, int(rng.integers(2)))
                ctx.set(dut.host_write, int(rng.integers(2)))
                ctx.set(dut.host_write_data, int(rng.choice([0, 1, 2**32 - 1, rng.integers(2**32)])))
                asked["host"] = True
            ctx.set(dut.host_valid, asked["host"])
            ctx.set(dut.poll_index, number())
            ctx.set(dut.poll_valid, polls := int(rng.integers(2)))

            for at, what, wanted in [entry for entry in due if entry[0] == cycle]:
                answer = ctx.get(dut.slack if what == "slack" else dut.poll_base)
                assert answer == wanted, (cycle, what, at)
            granted = [name for name, ready in (("local", dut.local.ready), ("remote", dut.remote.ready))
                       if asked[name] and ctx.get(ready)]
            assert len(granted) <= 1
            for name in granted:
                assert name == "local" or not asked["local"]
                index = ctx.get(getattr(dut, name).payload)
                values[index] = (values[index] + 1) % 2**32
                asked[name], taken[name] = False, taken[name] + 1
            if asked["host"] and ctx.get(dut.host_ready):
                index, of = ctx.get(dut.host_index), bases if ctx.get(dut.host_is_base) else values
                assert ctx.get(dut.host_read_data) == of[index]
                if ctx.get(dut.host_write):
                    of[index] = ctx.get(dut.host_write_data)
                asked["host"], taken["host"] = False, taken["host"] + 1
            if polls and ctx.get(dut.poll_ready):
                assert not granted and not asked["local"] and not asked["remote"]
                index = ctx.get(dut.poll_index)
                due += [(cycle + 1, "base", bases[index]), (cycle + 2, "slack", (values[index] - bases[index]) % 2**32)]
                taken["poll"] += 1
            await ctx.tick()

    simulate(dut, bench)
    assert all(count > 100 for count in taken.values()), taken


@pytest.mark.parametrize("counters", [0, 1, 3, 6])
def test_how_many_there_may_be(counters: int) -> None:
    with refused(ValueError, match=f"must be a power of two of at least 2, not {counters}"):
        UpdateCounters(counters)
