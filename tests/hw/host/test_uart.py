"""The UART: bytes come over, whatever the rates; what is no byte is told or left alone."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from tests.support.amaranth_sim import randomly, send, simulate
from tests.support.refusal import refused

from plinth_hw.host.uart import Receiver, Transmitter, phase_step

RATES = [4, Fraction(25, 6), 6, Fraction(80, 3)]


class Loop(wiring.Component):
    """A transmitter and a receiver, of different rates."""

    def __init__(self, out: Fraction | int, into: Fraction | int) -> None:
        self._out, self._into = out, into
        super().__init__({"i": In(stream.Signature(8)), "byte": Out(8), "valid": Out(1), "broken": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.transmitter = transmitter = Transmitter(self._out)
        m.submodules.receiver = receiver = Receiver(self._into)
        connect(m, flipped(self.i), transmitter.i)
        m.d.comb += [receiver.rx.eq(transmitter.tx), self.byte.eq(receiver.byte), self.valid.eq(receiver.valid),
                     self.broken.eq(receiver.broken)]
        return m


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("percent", [-1, 0, 1])
def test_bytes_come_over(rate: Fraction, percent: int) -> None:
    """Back to back, and with pauses, from a sender that is faster or slower."""
    off = 1 + Fraction(percent, 100) * (2 if rate >= 6 else 1)
    dut = Loop(rate * off, rate) if rate * off >= 4 else Loop(rate, rate / off)
    wanted = [0x00, 0xFF, 0x55, 0xAA, 0x80, 0x01, *np.random.default_rng(3).bytes(4 if rate > 8 else 30)]

    async def sender(ctx: Any) -> None:
        await send(ctx, dut.i, wanted)
        await send(ctx, dut.i, wanted, randomly(5, 0.03))

    async def receiver(ctx: Any) -> None:
        received: list[int] = []
        while len(received) < 2 * len(wanted):
            _, _, valid, broken, byte = await ctx.tick().sample(dut.valid, dut.broken, dut.byte)
            assert not broken
            if valid:
                received.append(byte)
        assert received == wanted * 2

    simulate(dut, sender, receiver)


@pytest.mark.parametrize("rate", RATES)
def test_a_bit_takes_what_it_is_to_take(rate: Fraction) -> None:
    """Ten bits a byte without gaps: bytes follow each other at the line's rate, within a thousandth."""
    dut = Transmitter(rate)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.i.payload, 0x55)
        ctx.set(dut.i.valid, 1)
        starts: list[int] = []
        for cycle in range(int(100 * rate)):
            _, _, ready = await ctx.tick().sample(dut.i.ready)
            if ready:
                starts.append(cycle)
        took = (starts[-1] - starts[0]) / (len(starts) - 1)
        assert abs(took / (10 * rate) - 1) < 0.001 + 1 / (10 * rate * (len(starts) - 1))

    simulate(dut, bench)


async def _levels(ctx: Any, dut: Receiver, levels: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
    """Put levels on the line, each for so many cycles; what the receiver says."""
    events = []
    for level, cycles in levels:
        ctx.set(dut.rx, level)
        for _ in range(cycles):
            _, _, valid, broken, byte = await ctx.tick().sample(dut.valid, dut.broken, dut.byte)
            if valid or broken:
                events.append(("byte", byte) if valid else ("broken", 0))
    return events


def _byte(value: int, rate: int) -> list[tuple[int, int]]:
    return [(0, rate), *((value >> bit & 1, rate) for bit in range(8)), (1, rate)]


def test_a_short_low_is_no_start() -> None:
    """Of less than half a bit, a cycle, and single cycles amid bits."""
    dut, rate = Receiver(10), 10

    async def bench(ctx: Any) -> None:
        spikes = [(level, cycles) for width in (1, 2, 4) for level, cycles in ((0, width), (1, 40))]
        noisy = [piece for place in range(1, 9) for number, (level, _) in enumerate(_byte(0x6C, rate))
                 for piece in ([(level, place), (1 - level, 1), (level, 9 - place)] if number else [(level, rate)])]
        assert await _levels(ctx, dut, [(1, 20), *spikes, *noisy, (1, 20)]) == [("byte", 0x6C)] * 8

    simulate(dut, bench)


def test_a_break_is_told_once_and_left() -> None:
    dut, rate = Receiver(10), 10

    async def bench(ctx: Any) -> None:
        events = await _levels(ctx, dut, [(1, 20), *_byte(0x12, rate), (0, 1000), (1, 15), *_byte(0x34, rate), (1, 20)])
        assert events == [("byte", 0x12), ("broken", 0), ("byte", 0x34)]

    simulate(dut, bench)


def test_impossible_rates() -> None:
    with refused(ValueError, match="Cycles of a bit must be at least 4, not 3"):
        Receiver(3)
    with refused(TypeError, match="Cycles of a bit must be an integer or a fraction, not 8.0"):
        Transmitter(8.0)  # type: ignore[arg-type]
    assert phase_step(4) == (2, 1)
    assert phase_step(8) == (3, 1)
