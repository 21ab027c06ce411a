"""Weights and states as they are stored: high halves alone, or with low halves.

::

    total --> saturate --> carry into the high half --> o

Narrow: rounded to nearest, ties to even, or by adding random bits below the high half. Wide: exact, but for numbers
near the upper end. One number a cycle, no stall.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.fixed import beyond, saturated
from plinth_hw.isa.formats import Fixed

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
        inside = Signal(EXACT.bits, reset_less=True)
        m.d.sync += [inside.eq(saturated(self.total, EXACT)), self.beyond.eq(beyond(self.total, EXACT))]
        # A half, less its last place where ties go down: below an even number.
        up = self.wide | inside[HALF]
        added = Mux(self.stochastic & ~self.wide, self.noise, Cat((~up).replicate(HALF - 1), up))
        carry, kept = Signal(reset_less=True), Signal(EXACT.bits, reset_less=True)
        m.d.sync += [carry.eq((inside[:HALF] + added)[HALF]), kept.eq(inside)]
        whole, rest, full = kept[HALF:], kept[:HALF], Signal()
        high = Signal(HALF, name="high_half", reset_less=True)
        low = Signal(HALF, name="low_half", reset_less=True)
        kept_high = Signal(HALF, reset_less=True)
        m.d.comb += full.eq(carry & (whole == _MOST))
        m.d.sync += [high.eq(whole + (carry & ~full)), kept_high.eq(whole),
                     low.eq(Mux(self.wide, Mux(full, _MOST, rest), 0))]
        m.d.comb += [self.high.eq(high), self.low.eq(low),
                     self.value.eq(Cat(low, Mux(self.wide, kept_high, high)))]
        return m
