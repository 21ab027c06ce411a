"""What the owner of a reduced chunk makes of a sum: the update of its weights.

::

    FP32     sum * rate --> w - step                                    each rounded to nearest even
    fixed    sum * rate, rounded, saturated --> w - step, saturated     rate as a Factor

One word a cycle, no stall. Source: MPT section VI.C (update where the sum is complete).
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.fixed import FixedAdder, FixedScaler
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.isa.formats import Fixed, Format
from plinth_hw.lib.delay import delayed


class Update(wiring.Component):
    """``o = w - rate * sum``.

    Parameters
    ----------
    format : Format
        Of sums and weights.

    Members
    -------
    sum : In
        Taken every cycle.
    rate : In(32)
        With the sum, as of :func:`~plinth_hw.isa.formats.factor_word`.
    w : In
        Weight, ``weight_latency`` cycles after its sum.
    o : Out
        Updated weight, ``latency`` cycles after the sum.
    ends : Out(2)
        Of fixed point, with the weight: its product and its difference that were beyond the format, how many.

    Attributes
    ----------
    weight_latency, latency : int
        Cycles; FP32: those of the multiplier, and of multiplier and adder; fixed: 4 and 5.
    """

    def __init__(self, format: Format):
        self.format = format
        self._scaler: Any = (FixedScaler(format, tells=True) if isinstance(format, Fixed)
                             else FloatMultiplier(format, format))
        self._adder: Any = (FixedAdder(format, subtracts=True, tells=True) if isinstance(format, Fixed)
                             else FloatAdder(format))
        self.weight_latency = self._scaler.latency
        self.latency = self._scaler.latency + self._adder.latency
        super().__init__({"sum": In(format.bits), "rate": In(32), "w": In(format.bits), "o": Out(format.bits),
                          **({"ends": Out(2)} if isinstance(format, Fixed) else {})})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.scaler, m.submodules.adder = scaler, adder = self._scaler, self._adder
        m.d.comb += [scaler.a.eq(self.sum), adder.a.eq(self.w), self.o.eq(adder.o)]
        if isinstance(self.format, Fixed):
            over = delayed(m, "over", scaler.beyond, adder.latency)
            m.d.comb += [scaler.factor.eq(self.rate), adder.b.eq(scaler.o), self.ends.eq(over + adder.beyond)]
        else:
            m.d.comb += [scaler.b.eq(self.rate), adder.b.eq(scaler.o ^ 1 << self.format.bits - 1)]
        return m
