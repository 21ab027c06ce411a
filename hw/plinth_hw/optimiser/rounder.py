"""Weights and states as they are stored: high halves alone, or with low halves.

::

    total --> saturate --> carry into the high half --> o

Narrow: rounded to nearest, ties to even, or by adding random bits below the high half. Wide: exact, but for numbers
near the upper end. One number a cycle, no stall.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.fixed import beyond
from plinth_hw.isa.formats import Fixed
from plinth_hw.lib.delay import delayed

#: What weights and states are computed in.
EXACT = Fixed(3, 28)
#: Bits of a half.
HALF = 16
_MOST = (1 << HALF - 1) - 1


class Rounder(wiring.Component):
    """``high``, ``low`` of ``total``.

    Parameters
    ----------
    bits : int
        Of the total.

    Members
    -------
    total : In
        Signed, in units of 2^-28; taken every cycle.
    wide, stochastic : In(1)
        There is a low half; what has none is rounded at random. Constant.
    noise : In(16)
        Random bits for the total of the cycle before.
    beyond : Out(1)
        The total of the cycle before is beyond the ends.
    high, low : Out(16), Out(16)
        Halves of the total of ``latency`` cycles before; the low one is 0 if it is not wide.
    value : Out(32)
        What they stand for.

    Attributes
    ----------
    latency : int
        3 cycles.
    """

    latency = 3

    def __init__(self, bits: int) -> None:
        super().__init__({"total": In(signed(bits)), "wide": In(1), "stochastic": In(1), "noise": In(HALF),
                          "beyond": Out(1), "high": Out(HALF), "low": Out(HALF), "value": Out(signed(EXACT.bits))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # A total above the ends sets a register, one below them clears the next. What is set begins so: a flip-flop of
        # an FPGA is set to what it begins with.
        sign, over, places = self.total[-1], beyond(self.total, EXACT), EXACT.bits - 1
        inside = Signal(places, init=-1, reset_less=True)
        below, negative = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [inside.eq(Mux(over & ~sign, inside.init, self.total[:places])), negative.eq(sign),
                     below.eq(over & sign), self.beyond.eq(over)]
        # Random bits; or a half, less its last place where ties go down: below an even number.
        random, up = self.stochastic & ~self.wide, self.wide | inside[HALF]
        digits = []
        for place, wanted in ((slice(0, HALF - 1), ~up), (slice(HALF - 1, HALF), up)):
            some, always = Signal(), Signal()
            m.d.comb += [some.eq(random | wanted), always.eq(~random & wanted)]
            digits.append(Digits((inside[place], self.noise[place], some, always),
                                 lambda kept, noise, some, always: kept,
                                 lambda kept, noise, some, always: some & (noise | always)))
        rounded = table_sum(m, platform, "rounded", [*digits, Digits((Const(0, 1),), lambda none: none)])
        carry, most = Signal(reset_less=True), Signal(reset_less=True)
        upper, rest = Signal(HALF - 1, reset_less=True), Signal(HALF, reset_less=True)
        whole = Cat(upper, delayed(m, "negative", negative, 1))
        m.d.sync += [carry.eq(Mux(below, 0, rounded[HALF])), most.eq(Cat(inside[HALF:], ~negative).all()),
                     upper.eq(Mux(below, 0, inside[HALF:])), rest.eq(Mux(below | ~self.wide, 0, inside[:HALF]))]
        high = Signal(HALF, name="high_half", reset_less=True)
        low = Signal(HALF, name="low_half", init=_MOST, reset_less=True)
        floor = Signal(HALF, reset_less=True)
        m.d.sync += [high.eq(whole + (carry & ~most)), floor.eq(whole),
                     low.eq(Mux(carry & most & self.wide, _MOST, rest))]
        m.d.comb += [self.high.eq(high), self.low.eq(low), self.value.eq(Cat(low, Mux(self.wide, floor, high)))]
        return m
