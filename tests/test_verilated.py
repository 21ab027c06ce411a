"""Test benches see of a component under Verilator what they see in Amaranth's own simulator."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate
from tests.support.verilated import Verilated

PAIR = data.StructLayout({"low": 7, "high": signed(80)})
#: Cycles of a bench.
CYCLES = 20


class Steps(wiring.Component):
    """Ports of all kinds: one that follows an input at once, and sums that follow a cycle later."""

    pair: In(PAIR, init={"low": 3})
    step: In(signed(5))
    before: In(8)
    swapped: Out(PAIR)
    sum: Out(signed(9))
    after: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(signed(9), init=-7)
        m.d.comb += [self.swapped.low.eq(self.pair.high), self.swapped.high.eq(Cat(self.pair.low, self.sum)),
                     self.sum.eq(total), self.after.eq(self.before + 1)]
        m.d.sync += total.eq(total + self.step)
        return m


@cache
def built() -> Verilated:
    return Verilated(Steps())


def benches(dut: Any, seen: list[Any]) -> tuple[list[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Two that drive and look, in step, and one behind them that samples all along."""
    async def first(ctx: Any) -> None:
        for number in range(CYCLES):
            ctx.set(dut.step, number % 11 - 5)
            ctx.set(dut.pair.low, 5 * number)
            seen.append(("first", ctx.get(dut.sum), ctx.get(dut.swapped.high), ctx.get(dut.pair)))
            await ctx.tick()

    async def second(ctx: Any) -> None:
        ctx.set(dut.pair, {"low": 100, "high": -(1 << 75) + 9})
        seen.append(("second", ctx.get(dut.swapped), ctx.get(dut.before)))
        seen.append(await ctx.tick().sample(dut.swapped, dut.sum + dut.step).until(dut.sum < -12))
        seen.append(await ctx.tick().sample(dut.sum).repeat(3))
        ctx.set(Cat(dut.before[4:], dut.before[:4]), 0x5A)
        seen.append(("second", ctx.get(dut.after), ctx.get(dut.sum[0])))

    async def watch(ctx: Any) -> None:
        async for edge, reset, *sampled in ctx.tick().sample(dut.sum, dut.step, dut.swapped.low, dut.pair):
            seen.append(("watch", edge, reset, *sampled, ctx.get(dut.sum)))

    return [first, second], watch


def test_as_in_amaranths_simulator() -> None:
    """Each value, in the same order."""
    dut, wanted, seen = Steps(), [], []
    drive, watch = benches(dut, wanted)
    simulate(dut, *drive, background=[watch])
    drive, watch = benches(built().component, seen)
    built().simulate(*drive, background=[watch])
    assert seen == wanted
    assert len(wanted) == 2 * CYCLES + 4


def test_each_run_begins_anew() -> None:
    """With the initial values of registers and ports."""
    async def bench(ctx: Any) -> None:
        assert (ctx.get(dut.sum), ctx.get(dut.pair.low), ctx.get(dut.step)) == (-7, 3, 0)
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(4)
        assert ctx.get(dut.sum) == -3

    dut = built().component
    for _ in range(2):
        built().simulate(bench)


def test_copies_are_joined() -> None:
    """What goes through all of them at once, too; each has registers of its own."""
    copies = [built().copy() for _ in range(3)]
    first, second, third = copies

    async def bench(ctx: Any) -> None:
        ctx.set(first.before, 40)
        assert [ctx.get(copy.after) for copy in copies] == [41, 42, 43]
        ctx.set(second.step, 2)
        await ctx.tick().repeat(2)
        assert [ctx.get(copy.sum) for copy in copies] == [-7, -3, -7]

    way = wiring.Signature({"way": Out(8)})
    sides = [(side(way, one.after), side(way.flip(), other.before))
             for one, other in ((first, second), (second, third))]
    built().simulate(bench, copies=copies, links=sides)


def side(signature: Any, signal: Any) -> Any:
    """An interface of one signal."""
    interface = signature.create()
    interface.way = signal
    return interface


def test_what_a_bench_cannot_do() -> None:
    dut, other = built().component, Signal(name="other")

    async def unknown(ctx: Any) -> None:
        ctx.get(other)

    async def driven(ctx: Any) -> None:
        ctx.set(dut.sum, 1)

    async def unending(ctx: Any) -> None:
        while True:
            await ctx.tick()

    with pytest.raises(ValueError, match="other is not a port of what is simulated"):
        built().simulate(unknown)
    with pytest.raises(ValueError, match="sum is not an input"):
        built().simulate(driven)
    with pytest.raises(AssertionError, match="did not end within 50 cycles"):
        built().simulate(unending, limit_cycles=50)
    loop = built().copy()
    way = wiring.Signature({"way": Out(8)})
    with pytest.raises(ValueError, match="ports are joined to a loop that does not settle"):
        built().simulate(unending, copies=[loop], links=[(side(way, loop.after), side(way.flip(), loop.before))])
