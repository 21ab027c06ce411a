"""Lookup of routes: one packet at a time, of all inputs in turn, three cycles each, or four where an input is busy."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.flit import PacketKind
from plinth_hw.comm.route_lookup import RouteLookup
from plinth_hw.isa.parameters import preset

PARAMETERS = preset("ndp-tiny", ports=3, die_bits=4)
CLASSES, INPUTS = PARAMETERS.classes, PARAMETERS.ports + 1


@pytest.mark.parametrize(("seed", "load", "busy"), [(1, 0.05, 0.0), (2, 0.9, 0.0), (3, 0.05, 1.0), (4, 0.9, 0.7)])
def test_random_packets(seed: int, load: float, busy: float) -> None:
    """Each packet gets the port of its destination, or, an error, the one that it names; the table changes as well. An
    input is busy, with flits of other packets, with a probability ``busy``, unless it is blocked."""
    rng = np.random.default_rng(seed)
    dut = RouteLookup(PARAMETERS, INPUTS)
    waits: list[int] = []

    async def bench(ctx: Any) -> None:
        table = [0] * (1 << PARAMETERS.die_bits)
        waiting: dict[tuple[int, int], dict[str, Any]] = {}
        read: dict[str, Any] | None = None
        for cycle in range(1500):
            write = rng.random() < 0.05 and not waiting
            destination, port = int(rng.integers(len(table))), int(rng.integers(PARAMETERS.ports))
            ctx.set(dut.route_write, {"valid": write, "destination": destination, "port": port})
            for index in range(INPUTS):
                for number in range(CLASSES):
                    if not write and (index, number) not in waiting and rng.random() < load / 4:
                        error = (index, number) == (INPUTS - 1, 0) and rng.random() < 0.3
                        waiting[index, number] = {
                            "destination": int(rng.integers(len(table))), "since": cycle,
                            "message": int(rng.integers(PARAMETERS.ports)),
                            "kind": PacketKind.ERROR if error else PacketKind.STORE, "known": False}
                    head = waiting.get((index, number))
                    ctx.set(getattr(dut, f"head_{index}")[number],
                            {"onward": head is not None, "own": 0, "same": 0, "tail": 1})
            # What was asked for in the cycle before is there.
            for index in range(INPUTS):
                fields = read if read is not None and read["index"] == index else None
                ctx.set(getattr(dut, f"read_{index}"), {} if fields is None else {
                    name: fields[name] for name in ("destination", "message", "kind")})
            blocks = ctx.get(dut.blocks)
            idle = sum(1 << index for index in range(INPUTS) if blocks >> index & 1 or rng.random() >= busy)
            ctx.set(dut.idle, idle)
            sent = [0] * INPUTS
            for (index, number), head in list(waiting.items()):
                known = getattr(dut, f"known_{index}")
                if ctx.get(known) >> number & 1:
                    expected = 1 << head["message"] if head["kind"] is PacketKind.ERROR else table[head["destination"]]
                    assert ctx.get(getattr(dut, f"route_{index}")[number]) == expected
                    if rng.random() < 0.5:
                        sent[index] |= 1 << number
                        waits.append(cycle - head["since"])
            for index in range(INPUTS):
                ctx.set(dut.sent[index], sent[index])
            reads, of = ctx.get(dut.reads), ctx.get(dut.reads_class)
            assert reads & ~idle == 0
            if reads:
                index, number = reads.bit_length() - 1, of.bit_length() - 1
                assert (reads, of) == (1 << index, 1 << number) and (index, number) in waiting
                read = {**waiting[index, number], "index": index}
            elif read is not None and read.get("held"):
                read = None
            elif read is not None:
                read = {**read, "held": True}
            await ctx.tick()
            if write:
                table[destination] = 1 << port
            for index, number in list(waiting):
                if sent[index] >> number & 1:
                    del waiting[index, number]

    simulate(dut, bench)
    assert len(waits) > 50
    assert min(waits) >= 3
    if load < 0.1:  # seldom does one wait for another
        assert min(waits) == 3 if not busy else 4 in waits
    # One at a time, in turn: nobody waits for more than all others, twice the random pause before it is sent.
    assert max(waits) <= (4 if busy else 3) * INPUTS * CLASSES + 15
