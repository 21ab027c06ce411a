"""Sums of words that are functions of a few words, with the ECP5's carry chain and without."""

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith import carry
from plinth_hw.arith.carry import (
    Digits,
    carry_table,
    chosen_sum,
    counted_down,
    loaded_sum,
    stepped_sum,
    table_sum,
)

#: Words of each kind, by the number of words that they are functions of; the last ones are of one bit.
DIGITS = [
    (4, 0, lambda a, b, c, d: a | b | c | d, lambda a, b, c, d: a & 0),
    (2, 1, lambda a, b, c: a ^ ((a ^ b) & c), lambda a, b, c: a & 0),
    (1, 2, lambda a, b, c: a & b, lambda a, b, c: b & ~c),
    (4, 0, lambda a, b, c, d: a | b, lambda a, b, c, d: c ^ d),
    (2, 0, lambda a, b: a, lambda a, b: b),
    (1, 0, lambda a: a, lambda a: a & 0),
    (4, 0, lambda a, b, c, d: a, lambda a, b, c, d: b & (c | d)),
]


class Unit(wiring.Component):
    """A sum of words of each kind, ``width`` places each, a choice before a sum, or one after it, or a count.

    Bits of words come from anywhere in ``a``, single bits from ``b``.
    """

    latency = 1

    def __init__(self, width: int, form: str) -> None:
        self.width = width
        self.form = form
        super().__init__({"a": In(32), "b": In(4), "o": Out(32)})

    def elaborate(self, platform) -> Module:
        m = Module()
        words = [Cat(self.a, self.a)[first:first + self.width] for first in range(0, 32, 5)]
        if self.form == "digits":
            total = table_sum(m, platform, "total", [
                Digits((*words[kind:][:many], *self.b[1:1 + single]), first, second)
                for kind, (many, single, first, second) in enumerate(DIGITS[:4])] + [
                Digits((*words[:many], *self.b[1:1 + single]), first, second)
                for many, single, first, second in DIGITS[4:]],
                self.b[0])
        elif self.form == "chosen":
            total = chosen_sum(m, platform, "total", self.b[0], words[0], words[1], words[2][1:], self.b[1])
        elif self.form == "counted":
            total = counted_down(m, platform, "total", self.b[0], words[0][1:], words[1], gone=1)
        elif self.form == "stepped":
            total = stepped_sum(m, platform, "total", words[0], self.b[0], self.b[1])
        else:
            total = loaded_sum(m, platform, "total", self.b[0], words[0][1:], words[1], words[2])
        m.d.sync += self.o.eq(total)
        return m

    def expected(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The outputs for inputs, as 64 bits."""
        mask = np.uint64((1 << self.width) - 1)
        twice = a | a << np.uint64(32)
        words = [twice >> np.uint64(first) & mask for first in range(0, 32, 5)]
        bits = [(b >> np.uint64(at) & np.uint64(1)) * mask for at in range(4)]
        if self.form == "chosen":
            return np.where(bits[0], words[0], words[1]) + (words[2] >> np.uint64(1)) + (bits[1] & np.uint64(1)) & mask
        if self.form == "counted":
            return np.where(bits[0], (words[0] >> np.uint64(1)) - np.uint64(3), words[1] - np.uint64(1)) & mask
        if self.form == "stepped":
            return words[0] + (bits[0] & np.uint64(1)) - (bits[1] & np.uint64(1)) & mask
        if self.form == "loaded":
            return np.where(bits[0], words[0] >> np.uint64(1), words[1] + words[2]) & mask
        total = bits[0] & np.uint64(1)
        for kind, (many, single, first, second) in enumerate(DIGITS):
            inputs = [*words[kind if kind < 4 else 0:][:many], *bits[1:1 + single]]
            total += (first(*inputs) + second(*inputs)) << np.uint64(self.width * kind)
        return total & np.uint64((1 << min(32, self.width * len(DIGITS))) - 1)


@pytest.mark.parametrize(("width", "form"), [
    (4, "digits"), (1, "digits"), (13, "chosen"), (16, "loaded"), (9, "counted"), (8, "stepped")])
@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["generic", "ecp5"])
def test_sums(platform, width, form) -> None:
    unit = Unit(width, form)
    rng = np.random.default_rng(width)
    a, b = rng.integers(0, 1 << 32, 20_000, dtype=np.uint64), rng.integers(0, 16, 20_000, dtype=np.uint64)
    np.testing.assert_array_equal(Batch(unit, platform, MODELS if platform else None)(a, b), unit.expected(a, b))


def test_digits_that_no_table_holds_are_refused() -> None:
    with refused(ValueError, match="A carry chain has no table for a place with carries"):
        carry_table(Digits(tuple(Signal(4)), lambda a, b, c, d: a, lambda a, b, c, d: b | c | d))


class Bit:
    """A bit of a simulator of four states: 0, 1, or None, which is unknown."""

    def __init__(self, value: int | None) -> None:
        self.value = value

    def __and__(self, other: "Bit | int") -> "Bit":
        values = {self.value, other.value if isinstance(other, Bit) else other}
        return Bit(0 if 0 in values else None if None in values else 1)

    def __invert__(self) -> "Bit":
        return Bit(None if self.value is None else 1 - self.value)

    def __or__(self, other: "Bit") -> "Bit":
        return ~(~self & ~other)

    def __xor__(self, other: "Bit") -> "Bit":
        return Bit(None if None in (self.value, other.value) else self.value ^ other.value)


def test_nothing_unknown_is_kept_of_what_is_not_chosen(monkeypatch) -> None:
    digits = []
    monkeypatch.setattr(carry, "table_sum", lambda m, platform, name, places, carry=None: digits.extend(places))
    select, word = Signal(), Signal(1)
    chosen_sum(Module(), None, "total", select, word, word, word)
    loaded_sum(Module(), None, "total", select, word, word, word)
    chosen, loaded = digits
    for value in (0, 1):
        known, unknown, yes, no = Bit(value), Bit(None), Bit(1), Bit(0)
        assert chosen.first(unknown, yes, known, unknown).value == value
        assert chosen.first(unknown, no, unknown, known).value == value
        assert loaded.first(unknown, yes, known, unknown).value == value
        assert loaded.second(unknown, yes, known, unknown).value == 0
