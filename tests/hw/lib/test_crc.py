"""CRC: against the published check of its polynomial, and what it must tell apart."""

from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.crc import CRC24_BITS, check_of, crc

BITS = 150


class Unit(wiring.Component):
    """The check of a word, a cycle later."""

    def __init__(self) -> None:
        super().__init__({"i": In(BITS), "o": Out(CRC24_BITS)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.sync += self.o.eq(crc(m, "check", self.i)[::-1])
        return m


def test_published_checks() -> None:
    """CRC-24/FLEXRAY-A and -B of "123456789", bytes from their highest bit on (catalogue of parametrised CRCs)."""
    text = int.from_bytes(b"123456789", "big")
    word = int(f"{text:072b}"[::-1], 2)
    assert (check_of(word, 72, 0xFEDCBA), check_of(word, 72, 0xABCDEF)) == (0x7979BD, 0x1F23B8)


def test_hardware_gives_the_same() -> None:
    rng, dut = np.random.default_rng(1), Unit()

    async def bench(ctx: Any) -> None:
        for word in (0, (1 << BITS) - 1, *(int.from_bytes(rng.bytes(19), "little") >> 2 for _ in range(50))):
            ctx.set(dut.i, word)
            await ctx.tick()
            assert ctx.get(dut.o) == check_of(word, BITS)

    simulate(dut, bench)


def test_few_wrong_bits_and_bursts_show() -> None:
    """Of a word with its check: up to five bits, and all patterns within 24 bits, drawn at random; two bits: all."""
    rng, whole = np.random.default_rng(2), BITS + CRC24_BITS
    zero = check_of(0, BITS)
    effects = [check_of(1 << bit, BITS) ^ zero for bit in range(BITS)] + [1 << bit for bit in range(CRC24_BITS)]
    assert len(set(effects)) == whole and 0 not in effects
    for _ in range(4000):
        wrong = 0
        for bit in rng.choice(whole, rng.integers(3, 6), replace=False).tolist():
            wrong ^= effects[bit]
        assert wrong
    # In the order in which they go: the check's highest bit follows the word.
    order = [*range(BITS), *range(whole - 1, BITS - 1, -1)]
    for _ in range(4000):
        first, pattern, wrong = int(rng.integers(whole - 23)), int(rng.integers(1, 1 << 24)), 0
        for bit in range(24):
            if pattern >> bit & 1:
                wrong ^= effects[order[first + bit]]
        assert wrong
