"""Outputs of the router: rate, credits, the bubble rule, and packets of a class that are never mixed."""

from collections import deque
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.flit import taken_layout
from plinth_hw.comm.router_output import (
    EJECT_FLITS,
    TILE_FLITS,
    Ejection,
    LinkOutput,
    PacketMerge,
    PacketQueue,
    TokenBucket,
)
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters, preset

PARAMETERS = preset("ndp-tiny", ports=4, chunk_words=8, flit_words=2, engines=frozenset({Engine.COLLECTIVE}))
#: The same with tiles of its own in a queue before each link.
AHEAD = replace(PARAMETERS, chunk_words=16, transforms=((2, 3),),
                engines=frozenset({Engine.COLLECTIVE, Engine.TRANSFER}))
CLASSES, LOCAL = PARAMETERS.classes, PARAMETERS.ports
TRANSFER = PARAMETERS.transfer_class
LONGEST = PARAMETERS.packet_flits


@pytest.mark.parametrize("rate", [Fraction(15, 16), Fraction(1, 7), Fraction(2, 3), Fraction(1), Fraction(5, 2)])
def test_rate(rate: Fraction) -> None:
    """As many flits as tokens have come, never two more at once; a pause saves up less than two; nothing at first."""
    dut = TokenBucket()
    sent: list[int] = []

    async def bench(ctx: Any) -> None:
        # From reset on: no tokens have come.
        ctx.set(dut.numerator, rate.numerator)
        ctx.set(dut.denominator, rate.denominator)
        for cycle in range(400):
            sends = ctx.get(dut.allowed) and not 200 <= cycle < 300
            ctx.set(dut.sends, sends)
            sent.append(sends)
            await ctx.tick()

    simulate(dut, bench)
    most = min(rate, Fraction(1))
    for begin in range(0, 400, 13):
        for end in range(begin + 1, 401, 29):
            assert sum(sent[begin:end]) <= most * (end - begin) + 2
    assert sum(sent[:200]) >= most * 200 - 2 and sum(sent[300:]) >= most * 100 - 2


class Packets:
    """Random packets of every class at every source; a source asks for one of its classes, as the switch does."""

    def __init__(self, sources: int, classes: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.left = [[0] * classes for _ in range(sources)]
        self.begun = [[False] * classes for _ in range(sources)]

    def head(self, source: int, number: int) -> tuple[bool, bool]:
        """Whether the flit that waits begins its packet, and ends it."""
        if not self.left[source][number]:
            self.left[source][number] = 1 if number == 0 else int(self.rng.integers(1, LONGEST + 1))
            self.begun[source][number] = False
        return not self.begun[source][number], self.left[source][number] == 1

    def sent(self, source: int, number: int) -> None:
        self.left[source][number] -= 1
        self.begun[source][number] = True


@pytest.mark.parametrize(("port", "returned", "parameters"), [
    (0, 1.0, PARAMETERS), (1, 0.3, PARAMETERS), (1, 1.0, AHEAD)])
def test_link(port: int, returned: float, parameters: DieParameters) -> None:
    rng = np.random.default_rng(port)
    dut = LinkOutput(parameters, port)
    tiles = len(dut.sources) - 1 if parameters is AHEAD else None
    packets = Packets(len(dut.sources), CLASSES, rng)
    flits = entered = stalled = passed = turned = 0

    async def bench(ctx: Any) -> None:
        nonlocal flits, entered, stalled, passed, turned
        ctx.set(dut.rate, {"numerator": 1, "denominator": 1})
        await ctx.tick()
        room = [parameters.link_buffer_flits] * CLASSES
        owed: list[int] = []
        holder: list[int | None] = [None] * CLASSES
        due: deque[dict[str, Any] | None] = deque([None, None])
        for cycle in range(1500):
            credit = 0
            for number in rng.permutation(owed)[:1].tolist() if rng.random() < returned else []:
                credit |= 1 << number
                owed.remove(number)
            ctx.set(dut.link.credit, credit)
            paused = rng.random() < 0.1
            ctx.set(dut.paused, paused)
            asking: dict[int, int] = {}
            tails = 0
            for source in range(len(dut.sources)):
                number = int(rng.integers(CLASSES)) if source != tiles else TRANSFER
                first, tail = packets.head(source, number)
                may = ctx.get(dut.may[number]) >> source & 1
                # The rule: two longest packets for one that enters the ring, one for one that goes straight on.
                straight = dut.sources[source] == port ^ 1
                need = 1 if not first else (parameters.packet_flits if number else 1) * (1 if straight else 2)
                allowed = not paused and room[number] >= need and (holder[number] in (None, source))
                assert may == allowed
                stalled += not may
                if may and rng.random() < 0.8:
                    asking[source] = number
                ctx.set(dut.chosen[source], 1 << number)
                tails |= tail << source
            ctx.set(dut.tails, tails)
            for number in range(CLASSES):
                ctx.set(dut.asks[number], sum(1 << source for source, of in asking.items() if of == number))
            grant = ctx.get(dut.grant)
            assert bool(grant) == bool(asking) and grant & (grant - 1) == 0
            seen = due.popleft()
            assert ctx.get(dut.link.valid) == (seen is not None)
            if seen is not None:
                flit = ctx.get(dut.link.flit)
                assert (flit.message, flit.traffic_class, flit.tail) == (seen["message"], seen["class"], seen["tail"])
            # What was granted in the cycle before is at its source's buffer.
            if due[0] is not None:
                ctx.set(getattr(dut, f"read_{due[0]['source']}").message, due[0]["message"])
            if grant:
                source = grant.bit_length() - 1
                number = asking[source]
                assert number == 0 or 0 not in asking.values(), "class 0 goes first"
                in_turn = passed >= parameters.packet_flits
                alone = list(asking.values()).count(TRANSFER) == 1
                assert source != tiles or in_turn or alone, "others' tiles go first"
                passed = 0 if source == tiles else passed + (number == TRANSFER)
                turned += source == tiles and not alone
                first, tail = packets.head(source, number)
                entered += first
                packets.sent(source, number)
                room[number] -= 1
                owed.append(number)
                holder[number] = None if tail else source
                due.append({"message": cycle & 0xFF, "class": number, "tail": tail, "source": source})
                flits += 1
            else:
                due.append(None)
            await ctx.tick()
            for number in range(CLASSES):
                room[number] += credit >> number & 1

    simulate(dut, bench)
    assert flits > 300 and entered > 50 and stalled > 100 and (turned > 0) == (tiles is not None)


@pytest.mark.parametrize(("dut", "sources", "depth", "ready"), [
    *((Ejection(PARAMETERS, TRANSFER), PARAMETERS.ports, EJECT_FLITS, ready) for ready in (1.0, 0.3)),
    (PacketQueue(PARAMETERS, taken_layout(PARAMETERS, TRANSFER), 1, TILE_FLITS), 1, TILE_FLITS, 0.3)])
def test_queue(dut: PacketQueue, sources: int, depth: int, ready: float) -> None:
    """What is taken fits the queue, and comes out in order, packet by packet."""
    rng = np.random.default_rng(3)
    granted: list[tuple[int, bool]] = []
    got: list[tuple[int, bool]] = []

    async def bench(ctx: Any) -> None:
        holder: int | None = None
        read: tuple[int, int] | None = None
        taken = 0
        left = [0] * sources
        for cycle in range(800):
            left = [count or int(rng.integers(1, 5)) for count in left]
            space = depth - (taken - len(got))
            may = ctx.get(dut.may)
            assert may == sum(1 << source for source in range(sources)
                              if space and holder in (None, source))
            asks = may & int(rng.integers(1 << sources))
            ctx.set(dut.asks, asks)
            ctx.set(dut.tails, sum((count == 1) << source for source, count in enumerate(left)))
            if read is not None:
                ctx.set(getattr(dut, f"read_{read[0]}").message, read[1])
            accepts = rng.random() < ready
            ctx.set(dut.o.ready, accepts)
            grant, read = ctx.get(dut.grant), None
            assert bool(grant) == bool(asks)
            leaves = accepts and ctx.get(dut.o.valid)
            flit = ctx.get(dut.o.payload)
            if grant:
                source = grant.bit_length() - 1
                left[source] -= 1
                holder = source if left[source] else None
                read, taken = (source, cycle & 0xFF), taken + 1
                granted.append((cycle & 0xFF, not left[source]))
            await ctx.tick()
            if leaves:
                got.append((flit.message, bool(flit.tail)))

    simulate(dut, bench)
    assert len(got) > 100 and got == granted[:len(got)]


@pytest.mark.parametrize("ready", [1.0, 0.4])
def test_merge(ready: float) -> None:
    """Packets of three streams come out whole, each stream's in order; what is offered stays."""
    rng = np.random.default_rng(5)
    layout, sources, each = taken_layout(PARAMETERS, TRANSFER), 3, 60
    dut = PacketMerge(layout, sources)
    tails = rng.random((sources, each)) < 0.4
    tails[:, -1] = True
    got: list[tuple[int, int]] = []

    async def bench(ctx: Any) -> None:
        streams = [getattr(dut, f"i_{source}") for source in range(sources)]
        sent, offers, before = [0] * sources, [False] * sources, None
        while len(got) < sources * each:
            offers = [sent[source] < each and (offers[source] or rng.random() < 0.8) for source in range(sources)]
            for source, stream in enumerate(streams):
                ctx.set(stream.valid, offers[source])
                if offers[source]:
                    ctx.set(stream.payload, {"message": sent[source], "group": source,
                                             "tail": int(tails[source, sent[source]])})
            accepts = rng.random() < ready
            ctx.set(dut.o.ready, accepts)
            valid, flit = ctx.get(dut.o.valid), ctx.get(dut.o.payload)
            seen = (flit.group, flit.message) if valid else None
            assert before is None or seen == before, "what was offered stays"
            before = None if accepts else seen
            for source, stream in enumerate(streams):
                if offers[source] and ctx.get(stream.ready):
                    sent[source], offers[source] = sent[source] + 1, False
                    assert accepts and seen == (source, sent[source] - 1)
            if valid and accepts:
                got.append((flit.group, flit.message))
            await ctx.tick()

    simulate(dut, bench)
    inside: int | None = None
    for source, number in got:
        assert inside in (None, source), "packets are mixed"
        inside = None if tails[source, number] else source
    assert all([number for source, number in got if source == stream] == list(range(each)) for stream in range(sources))
