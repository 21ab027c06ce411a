"""Sums of digits that are functions of a few bits, with the ECP5's carry chain and without."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith.carry import Place, carry_table, table_sum

#: Digits of each kind of place, by the number of bits that they are functions of.
DIGITS = [
    (4, lambda a, b, c, d: a | b | c | d, lambda a, b, c, d: a & 0),
    (3, lambda a, b, c: a ^ ((a ^ b) & c), lambda a, b, c: a & 0),
    (3, lambda a, b, c: a & b, lambda a, b, c: b & (c ^ 1)),
    (4, lambda a, b, c, d: a | b, lambda a, b, c, d: c ^ d),
    (2, lambda a, b: a, lambda a, b: b),
    (1, lambda a: a, lambda a: a & 0),
    (4, lambda a, b, c, d: a, lambda a, b, c, d: b & (c | d)),
]


class Unit(wiring.Component):
    """A sum of two digits of each kind, seven places a turn; operand bits come from ``a``, the carry from ``b``."""

    latency = 1

    def __init__(self, places: int) -> None:
        self.places = places
        super().__init__({"a": In(32), "b": In(1), "o": Out(places)})

    def digits(self) -> list:
        """Bits that a place takes, the first one, and its digits."""
        return [(count, 3 * at % 29, one, other)
                for at, (count, one, other) in zip(range(self.places), DIGITS * self.places, strict=False)]

    def elaborate(self, platform) -> Module:
        m = Module()
        places = [Place(tuple(self.a[first:first + count]), one, other) for count, first, one, other in self.digits()]
        m.d.sync += self.o.eq(table_sum(m, platform, "total", places, self.b))
        return m


@pytest.mark.parametrize("places", [14, 9])
@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["generic", "ecp5"])
def test_sums(platform, places) -> None:
    unit = Unit(places)
    rng = np.random.default_rng(places)
    a, b = rng.integers(0, 1 << 32, 20_000, dtype=np.uint64), rng.integers(0, 2, 20_000, dtype=np.uint64)
    expected = b.copy()
    for at, (count, first, one, other) in enumerate(unit.digits()):
        bits = [a >> np.uint64(first + bit) & np.uint64(1) for bit in range(count)]
        for digit in (one, other):
            expected += digit(*bits) << np.uint64(at)
    np.testing.assert_array_equal(Batch(unit, platform, MODELS if platform else None)(a, b),
                                  expected & np.uint64((1 << places) - 1))


def test_digits_that_no_table_holds_are_refused() -> None:
    inputs = tuple(Signal(4))
    with refused(ValueError, match="A carry chain has no table for a place with carries"):
        carry_table(Place(inputs, lambda a, b, c, d: a, lambda a, b, c, d: b | c | d))
