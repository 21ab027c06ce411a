"""CRC: the hardware against division bit by bit, and, by another way, what the polynomial tells apart."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.crc import CRC24, CRC24_BITS, CRC24_SURE_BITS, check_of, crc

POLYNOMIAL = (1 << 24) | (1 << 8) | (1 << 5) | (1 << 4) | (1 << 2) | 1


class Unit(wiring.Component):
    """The check of a word and its difference from another one; ``latency`` is that of both."""

    def __init__(self, bits: int) -> None:
        super().__init__({"i": In(bits), "check": In(CRC24_BITS), "o": Out(CRC24_BITS), "wrong": Out(CRC24_BITS),
                          "word": Out(bits), "came": Out(bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self.latency, word, check = crc(m, self.i)
        latency, came, wrong = crc(m, self.i, self.check)
        assert latency - self.latency in (0, 1)
        m.d.sync += [self.o.eq(check[::-1]), self.wrong.eq(wrong[::-1]), self.word.eq(word), self.came.eq(came)]
        return m


@pytest.mark.parametrize("bits", [1, 24, 30, 108, 139, 150])
def test_hardware_gives_the_same(bits: int) -> None:
    """A word a cycle: what a shift register that takes a bit a cycle ends with."""
    rng, dut = np.random.default_rng(1), Unit(bits)
    words = [0, (1 << bits) - 1, *(int.from_bytes(rng.bytes(19), "little") >> 152 - bits for _ in range(40))]
    checks = [check_of(word, bits) ^ (word * 0x9E3779 & 0xFFFFFF if word % 2 else 0) for word in words]

    async def bench(ctx: Any) -> None:
        computed, came = {}, {}
        for number in range(len(words) + 4):
            place = min(number, len(words) - 1)
            ctx.set(dut.i, words[place])
            # Bits of a check follow a word highest first.
            ctx.set(dut.check, int(f"{checks[place]:024b}"[::-1], 2))
            await ctx.tick()
            computed[ctx.get(dut.word)], came[ctx.get(dut.came)] = ctx.get(dut.o), ctx.get(dut.wrong)
        for word, check in zip(words, checks, strict=True):
            assert computed[word] == check_of(word, bits)
            assert came[word] == check_of(word, bits) ^ check

    simulate(dut, bench)


@pytest.mark.parametrize(("bits", "latency"), [(65, 0), (66, 1), (317, 1), (318, 2), (667, 2)])
def test_latency(bits: int, latency: int) -> None:
    dut = Unit(bits)

    async def bench(ctx: Any) -> None:
        assert dut.latency == latency

    simulate(dut, bench)


def syndromes(bits: int) -> NDArray[np.int64]:
    """What x^0, x^1, ... leave, divided by the polynomial."""
    left, rest = [], 1
    for _ in range(bits):
        left.append(rest)
        rest <<= 1
        if rest >> 24:
            rest ^= POLYNOMIAL
    return np.array(left)


def test_check_is_that_of_the_polynomial() -> None:
    assert sum(1 << degree for degree in CRC24) == POLYNOMIAL
    bits, left = 40, syndromes(64)
    zero = check_of(0, bits)
    assert [check_of(1 << bit, bits) ^ zero for bit in range(bits)] == left[:23:-1].tolist()


def test_five_wrong_bits_show_in_words_up_to_a_length() -> None:
    """No multiple of the polynomial has 1 to 5 ones: an odd number, since it has a factor x + 1, so that each bit
    leaves an odd number of ones; two, since all bits leave different ones; four, since all pairs do."""
    left = syndromes(CRC24_SURE_BITS)
    assert all(value.bit_count() % 2 for value in left.tolist())
    assert len(np.unique(left)) == len(left)
    first, second = np.triu_indices(len(left), 1)
    assert len(np.unique(left[first] ^ left[second])) == len(first)
    # One bit more, and four of them are not seen.
    left = syndromes(CRC24_SURE_BITS + 1)
    first, second = np.triu_indices(len(left), 1)
    assert len(np.unique(left[first] ^ left[second])) < len(first)


def test_all_bursts_of_24_bits_show() -> None:
    """Any 24 bits in a row leave what is linearly independent."""
    left = syndromes(CRC24_SURE_BITS).tolist()
    for first in range(len(left) - 23):
        basis: dict[int, int] = {}
        for value in left[first:first + 24]:
            while value and value.bit_length() in basis:
                value ^= basis[value.bit_length()]
            assert value
            basis[value.bit_length()] = value


def test_wires_that_are_all_the_same_are_no_word() -> None:
    for bits in (100, 139, 589):
        assert check_of(0, bits) != 0 and check_of((1 << bits) - 1, bits) != (1 << CRC24_BITS) - 1
