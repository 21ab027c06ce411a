"""Stream driver and monitor for Amaranth's own simulator, with idle and backpressure patterns.

Used from test benches: ``await send(ctx, stream, payloads, pattern)`` and
``await receive(ctx, stream, count, pattern)``. A pattern is an iterable of booleans, one a cycle: True
offers (or accepts) in that cycle.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, repeat
from typing import Any

import numpy as np
from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

Pattern = Iterable[bool]


def always() -> Iterator[bool]:
    """Offer or accept in every cycle."""
    return repeat(True)


def every(period: int) -> Iterator[bool]:
    """Once in ``period`` cycles."""
    return cycle([False] * (period - 1) + [True])


def randomly(seed: int, probability: float = 0.5) -> Iterator[bool]:
    """With the given probability, from a seeded generator."""
    rng = np.random.default_rng(seed)
    while True:
        # Some at once, which are those of as many calls.
        yield from (rng.random(256) < probability).tolist()


async def send(ctx: Any, stream: Any, payloads: Iterable[Any], pattern: Pattern | None = None) -> None:
    """Drive ``payloads`` into a stream that the test bench feeds; payload holds while stalled."""
    gate = iter(pattern if pattern is not None else always())
    # Looked up once: members of an interface take longer to find than a cycle of a small block to simulate.
    offered, valid, ready = stream.payload, stream.valid, stream.ready
    for payload in payloads:
        while not next(gate):
            await ctx.tick()
        ctx.set(offered, payload)
        ctx.set(valid, 1)
        await ctx.tick().until(ready)
        ctx.set(valid, 0)


async def receive(ctx: Any, stream: Any, count: int, pattern: Pattern | None = None,
                  convert: Callable[[Any], Any] = lambda payload: payload) -> list[Any]:
    """Take ``count`` payloads from a stream."""
    gate = iter(pattern if pattern is not None else always())
    taken: list[Any] = []
    offered, valid, ready = stream.payload, stream.valid, stream.ready
    while len(taken) < count:
        if not next(gate):
            await ctx.tick()
            continue
        ctx.set(ready, 1)
        (payload,) = await ctx.tick().sample(offered).until(valid)
        taken.append(convert(payload))
        ctx.set(ready, 0)
    return taken


def simulate(dut: Elaboratable, *benches: Callable[[Any], Any], limit_cycles: int = 1_000_000,
             background: Iterable[Callable[[Any], Any]] = ()) -> None:
    """Run test benches until all end; background ones do not hold the simulation open.

    Raises ``AssertionError`` when the benches have not ended after ``limit_cycles``.
    """
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)

    async def watchdog(ctx: Any) -> None:
        for _ in range(limit_cycles):  # not repeat(): that one complains when it is abandoned
            await ctx.tick()
        raise AssertionError(f"the test bench did not end within {limit_cycles} cycles")

    simulator.add_testbench(watchdog, background=True)
    simulator.run()
