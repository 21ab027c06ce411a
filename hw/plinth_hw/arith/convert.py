"""Conversion between floating-point formats: one number a cycle, no stall.

::

    widen   a -> normalise a subnormal -> pack -> o                              2 cycles, exact
    narrow  a -> exponent, shift amount -> shift, sticky -> round, pack -> o     3 cycles, to nearest even

Infinities stay, NaN becomes the result's quiet NaN, numbers too large for the result become infinities,
too small ones subnormals or zeros of their sign.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.common import leading_groups, shift_right_sticky, special_or
from plinth_hw.isa.formats import Float


class FloatConverter(wiring.Component):
    """``o = a`` in another format.

    Parameters
    ----------
    a_format : Float
        Format of the operand.
    result_format : Float
        Format of the result: exponent and fraction both at least as wide as the operand's, or both at most
        as wide.

    Members
    -------
    a : In
        Operand, taken every cycle.
    o : Out
        Result of the operand of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 2 to widen, 3 to narrow.
    widens : bool
        Whether the result's format holds every operand.

    Raises
    ------
    TypeError
        If a format is not a :class:`Float`.
    ValueError
        If one format has the wider exponent and the other the wider fraction.
    """

    def __init__(self, a_format: Float, result_format: Float):
        for name, fmt in (("Operand", a_format), ("Result", result_format)):
            if not isinstance(fmt, Float):
                raise TypeError(f"{name} format must be a Float, not {fmt!r}")
        exponent_change = result_format.exponent_bits - a_format.exponent_bits
        fraction_change = result_format.fraction_bits - a_format.fraction_bits
        if exponent_change * fraction_change < 0:
            raise ValueError(f"Result format must be wider or narrower than {a_format} in exponent and "
                             f"fraction alike, not {result_format}")
        self._a_format = a_format
        self._result_format = result_format
        self._widens = exponent_change >= 0 and fraction_change >= 0
        super().__init__({"a": In(a_format.bits), "o": Out(result_format.bits)})

    @property
    def a_format(self) -> Float:
        """Format of the operand."""
        return self._a_format

    @property
    def result_format(self) -> Float:
        """Format of the result."""
        return self._result_format

    @property
    def widens(self) -> bool:
        """Whether the result's format holds every operand."""
        return self._widens

    @property
    def latency(self) -> int:
        """Cycles from operand to result."""
        return 2 if self._widens else 3

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        a, width = self._a_format, self._a_format.fraction_bits
        fraction, exponent = self.a[:width], self.a[width:-1]
        normal, special, nonzero = Signal(name="normal"), Signal(name="special"), Signal(name="nonzero")
        m.d.comb += [normal.eq(exponent.any()), special.eq(exponent.all()), nonzero.eq(fraction.any())]
        sign_1, nan_1, infinite_1 = (Signal(name=f"{name}_1", reset_less=True)
                                     for name in ("sign", "nan", "infinite"))
        m.d.sync += [sign_1.eq(self.a[-1]), nan_1.eq(special & nonzero), infinite_1.eq(special)]
        significand = Cat(fraction, normal)
        rebias = self._result_format.bias - a.bias
        if self._widens:
            self._widen(m, significand, (exponent | ~normal) + (rebias - 1), normal | nonzero,
                        (sign_1, nan_1, infinite_1))
        else:
            self._narrow(m, significand, (exponent | ~normal) + (rebias - 1), (sign_1, nan_1, infinite_1))
        return m

    def _widen(self, m: Module, significand: Any, exponent: Any, nonzero: Any, classes: Any) -> None:
        """``exponent`` is one less than the result's for a leading bit in place; never negative."""
        result, significand_bits = self._result_format, len(significand)
        start = Signal(result.exponent_bits)
        m.d.comb += start.eq(exponent)
        limit = None
        if result.bias - self._a_format.bias < significand_bits - 1:
            # Some subnormals stay subnormal: the exponent, as far as it can limit the shift.
            limit_bits = (significand_bits - 1).bit_length()
            limit = start[:limit_bits] | start[limit_bits:].any().replicate(limit_bits)
        zeros = leading_groups(m, "zeros", [~bit for bit in reversed(significand)], limit)
        significand_1 = Signal(significand_bits, reset_less=True)
        exponent_1 = Signal(result.exponent_bits, reset_less=True)
        m.d.sync += [significand_1.eq(significand << zeros), exponent_1.eq(Mux(nonzero, start - zeros, 0))]
        sign, nan, infinite = classes
        magnitude = Signal(result.bits - 1)
        padding = result.fraction_bits + 1 - significand_bits
        m.d.comb += magnitude.eq(Cat(Const(0, padding), significand_1[:-1], exponent_1 + significand_1[-1]))
        m.d.sync += self.o.eq(special_or(result, nan, infinite, sign, magnitude))

    def _narrow(self, m: Module, significand: Any, exponent: Any, classes: Any) -> None:
        """``exponent`` is one less than the result's, negative below its range."""
        result = self._result_format
        #: Leading bit, fraction and guard bit.
        kept = result.fraction_bits + 2
        most = (1 << kept.bit_length()) - 1
        q = Signal(exponent.shape())
        m.d.comb += q.eq(exponent)
        significand_1 = Signal(len(significand), reset_less=True)
        amount_1 = Signal(kept.bit_length(), reset_less=True)
        exponent_1 = Signal(result.exponent_bits, reset_less=True)
        overflow_1 = Signal(reset_less=True)
        m.d.sync += [
            significand_1.eq(significand),
            amount_1.eq(Mux(q >= 0, 0, Mux(q < -most, most, -q))),
            exponent_1.eq(Mux(q >= 0, q, 0)),
            overflow_1.eq(q >= result.exponent_maximum - 1),
        ]
        padding = max(0, kept - len(significand))
        below = len(significand) + padding - kept
        padded = Cat(Const(0, padding), significand_1)
        shifted, lost = shift_right_sticky(m, "shift", padded[below:], amount_1, kept)
        sign_2, nan_2, infinite_2 = (Signal(name=f"{name}_2", reset_less=True)
                                     for name in ("sign", "nan", "infinite"))
        significand_2 = Signal(kept, reset_less=True)
        sticky_2 = Signal(reset_less=True)
        exponent_2 = Signal(result.exponent_bits, reset_less=True)
        sign_1, nan_1, infinite_1 = classes
        m.d.sync += [
            sign_2.eq(sign_1), nan_2.eq(nan_1), infinite_2.eq(infinite_1 | overflow_1),
            significand_2.eq(shifted), sticky_2.eq(lost | padded[:below].any()),
            exponent_2.eq(exponent_1),
        ]
        carry, magnitude = Signal(name="carry"), Signal(result.bits - 1, name="magnitude")
        m.d.comb += [
            carry.eq(significand_2[0] & (significand_2[1] | sticky_2)),
            magnitude.eq(Cat(significand_2[1:-1], exponent_2)
                         + Cat(carry, Const(0, result.fraction_bits - 1), significand_2[-1])),
        ]
        m.d.sync += self.o.eq(special_or(result, nan_2, infinite_2, sign_2, magnitude))
