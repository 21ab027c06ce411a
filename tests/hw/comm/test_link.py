"""Link layer: two ends over wires that flip and hold what is on them, and ends that begin anew.

``test_link_faults`` has more kinds of faults, and many more of them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.verilated import Verilated

from plinth_hw.comm.link import LinkLayer, phit_bits
from plinth_hw.comm.link_frame import WINDOW, FrameKind, frame_layout
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset
from plinth_hw.lib.crc import CRC24_SURE_BITS

TINY = preset("ndp-tiny", engines=frozenset())
NONE = (0, 0)
Noise = Callable[[int, tuple[int, int]], tuple[int, int]]


@cache
def built(parameters: DieParameters, phits: int) -> Verilated:
    """Built once for both ends of all tests."""
    return Verilated(LinkLayer(parameters, phits, round_trip=24))


@dataclass
class Wires:
    """One direction: ``latency`` cycles, and what ``noise`` makes of (phit, start) of a cycle."""

    #: Ports of the ends.
    source: Any
    target: Any
    latency: int
    noise: Noise
    cycle: int = 0
    way: deque[tuple[int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.way.extend([NONE] * self.latency)

    def step(self, ctx: Any) -> None:
        wires = self.source.wires_out
        self.way.append(self.noise(self.cycle, (ctx.get(wires.phit), ctx.get(wires.start))))
        phit, start = self.way.popleft()
        ctx.set(self.target.wires_in.phit, phit)
        ctx.set(self.target.wires_in.start, start)
        self.cycle += 1


@dataclass
class Traffic:
    """Flits from one end to the other, which gives their places back some time later."""

    #: Ports of the ends.
    source: Any
    target: Any
    rng: np.random.Generator
    parameters: DieParameters
    sent: list[tuple[int, int]] = field(default_factory=list)
    got: list[tuple[int, int]] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        classes = self.parameters.classes
        self.room, self.held = [self.parameters.link_buffer_flits] * classes, [0] * classes

    def flit(self, number: int) -> tuple[int, int]:
        """Payload and class of a flit."""
        payload = number * 0x9E3779B1 & 0xFFFFFFFF
        return payload, number % self.parameters.classes

    def offer(self, ctx: Any, count: int) -> None:
        """Before a cycle's end: offer the next flit."""
        payload, number = self.flit(len(self.sent))
        wants = len(self.sent) < count and self.room[number] > 0
        ctx.set(self.source.i.valid, wants)
        ctx.set(self.source.i.payload.data[0], payload)
        ctx.set(self.source.i.payload.traffic_class, number)
        if wants and ctx.get(self.source.i.ready):
            self.sent.append((payload, number))
            self.room[number] -= 1

    def take(self, ctx: Any) -> None:
        """Before a cycle's end: what has come, and places that are freed."""
        if ctx.get(self.target.o.valid):
            flit = self.target.o.flit
            number = ctx.get(flit.traffic_class)
            self.got.append((ctx.get(flit.data[0]), number))
            self.held[number] += 1
        freed = 0
        for number, held in enumerate(self.held):
            if held and self.rng.random() < 0.5:
                self.held[number] -= 1
                freed |= 1 << number
        ctx.set(self.target.freed, freed)
        credit = ctx.get(self.source.credit)
        for number in range(len(self.room)):
            self.room[number] += credit >> number & 1


def clean(_: int, phit: tuple[int, int]) -> tuple[int, int]:
    return phit


def flips(rate: float, bits: int, seed: int) -> Noise:
    """Each bit wrong with this probability."""
    rng = np.random.default_rng(seed)

    def noise(_: int, phit: tuple[int, int]) -> tuple[int, int]:
        wrong = rng.binomial(bits + 1, rate)
        for place in rng.choice(bits + 1, wrong, replace=False).tolist():
            phit = (phit[0] ^ 1 << place, phit[1]) if place < bits else (phit[0], phit[1] ^ 1)
        return phit

    return noise


def stuck(rate: float, seed: int) -> Noise:
    """For some cycles what was there before: frames are repeated and lost."""
    rng, left, kept = np.random.default_rng(seed), 0, NONE

    def noise(_: int, phit: tuple[int, int]) -> tuple[int, int]:
        nonlocal left, kept
        if not left and rng.random() < rate:
            left, kept = int(rng.integers(1, 60)), phit
        elif left:
            left -= 1
            return kept
        return phit

    return noise


class Bench:
    """Two ends with traffic both ways, run from within a test bench, which is the wires.

    Attributes
    ----------
    counted : list of dict
        Of each end pulses of ``lost``, ``bad_frames`` and ``replays``.
    passed : int
        Cycles until all flits had come.
    """

    def __init__(self, noises: list[Noise], *, phits: int = 1, latency: int = 3, parameters: DieParameters = TINY):
        self.built, self.parameters = built(parameters, phits), parameters
        a, b = self.ends = [self.built.copy() for _ in range(2)]
        self.ways = [Wires(a, b, latency, noises[0]), Wires(b, a, latency, noises[1])]
        self.counted = [dict.fromkeys(("lost", "bad_frames", "replays"), 0) for _ in self.ends]
        self.cycles = self.passed = 0
        self.begin()

    def begin(self) -> None:
        """Routers are reset: new traffic, all places free."""
        (a, b), rng = self.ends, np.random.default_rng(7)
        self.flows = [Traffic(a, b, rng, self.parameters), Traffic(b, a, rng, self.parameters)]

    async def cycle(self, ctx: Any, count: int = 0) -> None:
        """One cycle; flits are offered up to this number."""
        for flow in self.flows:
            flow.take(ctx)
            flow.offer(ctx, count)
        for way in self.ways:
            way.step(ctx)
        for end, counted in zip(self.ends, self.counted, strict=True):
            for name in counted:
                counted[name] += ctx.get(getattr(end, name))
        await ctx.tick()
        self.cycles += 1

    async def pass_flits(self, ctx: Any, count: int) -> None:
        """Until so many have come at both ends, and all places are free again."""
        while any(len(flow.got) < count for flow in self.flows):
            await self.cycle(ctx, count)
        self.passed = self.cycles
        while any(set(flow.room) != {self.parameters.link_buffer_flits} for flow in self.flows):
            await self.cycle(ctx, count)
        for flow in self.flows:
            assert flow.got == flow.sent == [flow.flit(number) for number in range(count)]

    def run(self, count: int, limit: int) -> None:
        """Pass so many flits each way."""
        async def bench(ctx: Any) -> None:
            await self.pass_flits(ctx, count)

        self.simulate(bench, limit)

    def simulate(self, bench: Callable[[Any], Any], limit: int) -> None:
        """Run a test bench."""
        self.built.simulate(bench, copies=self.ends, limit_cycles=limit)

    async def until(self, ctx: Any, ups: list[int]) -> None:
        """Until the ends are up, or not."""
        while [ctx.get(end.up) for end in self.ends] != ups:
            await self.cycle(ctx)


@pytest.mark.parametrize("name", PRESETS)
def test_five_wrong_bits_of_a_frame_show(name: str) -> None:
    assert frame_layout(preset(name)).size <= CRC24_SURE_BITS


BITS = phit_bits(TINY, 1)


@pytest.mark.parametrize("phits", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_wires_without_errors_carry_a_flit_each_frame(phits: int) -> None:
    bench = Bench([clean, clean], phits=phits)
    bench.run(150, 4_000)
    assert bench.counted == [{"lost": 0, "bad_frames": 0, "replays": 0}] * 2
    # Coming up takes the time that frames of before may be on the wires, and a few frames.
    assert bench.passed <= phits * (150 + 24 + 24)


def test_frames_without_a_flit_carry_zeros() -> None:
    """Not what the memory of the window holds there: a flit of before or, since power-up, anything."""
    bench = Bench([clean, clean])
    layout, kinds, flits = frame_layout(TINY), set(), WINDOW + 9

    async def test(ctx: Any) -> None:
        def look() -> None:
            for end in bench.ends:
                if ctx.get(end.wires_out.start):
                    body = layout.from_bits(ctx.get(end.wires_out.phit)).body
                    if body.kind != FrameKind.FLIT:
                        kinds.add(body.kind)
                        assert body.flit.as_bits() == 0, body.kind

        for _ in range(80):
            await bench.cycle(ctx, flits)
            look()
        await bench.pass_flits(ctx, flits)
        for _ in range(80):
            await bench.cycle(ctx, flits)
            look()

    bench.simulate(test, 4_000)
    assert kinds == {FrameKind.HELLO, FrameKind.READY, FrameKind.IDLE}


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "kind"), [
    (flips(1e-3, BITS, 1), "bits"), (stuck(0.01, 6), "stuck"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_flits_come_once_and_in_order_over_bad_wires(noise: Noise, kind: str) -> None:
    """Both ways at once, so that what is said of the other direction is wrong, too; credits come back whole."""
    bench = Bench([noise, noise])
    bench.run(120, 20_000)
    assert [counted["lost"] for counted in bench.counted] == [0, 0]
    assert sum(counted["replays"] for counted in bench.counted) > 0


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 40, 90])
def test_an_end_that_begins_anew_takes_the_other_with_it(after: int) -> None:
    """Flits are lost only if some had gone over the link; then the other end says so, once."""
    bench = Bench([clean, clean])

    async def test(ctx: Any) -> None:
        await bench.until(ctx, [1, 1])
        for _ in range(after):
            await bench.cycle(ctx, 1000)
        for again in range(2):
            ctx.set(bench.ends[again].restart, 1)
            await bench.cycle(ctx)
            ctx.set(bench.ends[again].restart, 0)
            await bench.until(ctx, [0, 0])
            await bench.until(ctx, [1, 1])
        bench.begin()
        await bench.pass_flits(ctx, 30)

    bench.simulate(test, 4_000)
    # The second restart, of the end that had lost flits, finds nothing on the link.
    assert [counted["lost"] for counted in bench.counted] == [0, int(after > 0)]
