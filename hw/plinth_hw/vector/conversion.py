"""Conversions of the vector engine's lanes, NARROW and WIDEN, by the multiplier and the adder that they have.

Both are an operation each. WIDEN to FP32 puts the 16 bits in their places of an FP32 number and multiplies it by, or
adds to it, a constant. NARROW adds to x a number that makes the adder round to the narrow number's last place; the end
of the sum's fraction is the result.

=================  =================================================  ================================================
narrow format      WIDEN                                              NARROW
=================  =================================================  ================================================
FP16               the bits, as those of an FP32 number, are 2^-112   x from 2^e to 2^(e + 1), e at least -14, is
                   of its value: times 2^112                          rounded to a multiple of 2^(e - 10) when
                                                                      2^(e + 13) of its sign is added
Q i.f              n = x 2^f in the fraction of 1.5 * 2^(23 - f):     1.5 * 2^(23 - f) is added, so that the last place
                   less that number                                   is 2^-f; a sum of another exponent or sign, or
                                                                      of more bits than the format has, saturates
=================  =================================================  ================================================
"""

from abc import ABC, abstractmethod
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from plinth_hw.arith.common import at_least
from plinth_hw.isa.formats import FP16, FP32, Fixed, Format

_FRACTION = FP32.fraction_bits


class Conversion(ABC):
    """What a lane does to convert between FP32 and a format of 16 bits."""

    #: WIDEN multiplies x by ``constant``, or else adds it.
    multiplies: bool
    constant: int

    @abstractmethod
    def placed(self, bits: Any) -> Any:
        """WIDEN: the number in the low half as x."""

    @abstractmethod
    def rounding(self, bits: Any) -> Any:
        """NARROW: what to add to an FP32 number."""

    @abstractmethod
    def rounded(self, m: Module, total: Any) -> Any:
        """NARROW: the result, in the low half, from the sum."""


class HalfConversion(Conversion):
    """FP16; infinities and NaN stay what they are."""

    #: Places that the fractions differ by.
    _FINER = FP32.fraction_bits - FP16.fraction_bits
    _REBIAS = FP32.bias - FP16.bias
    multiplies = True
    constant = (FP32.bias + _REBIAS) << _FRACTION

    def placed(self, bits: Any) -> Any:
        exponent = bits[FP16.fraction_bits:FP16.bits - 1]
        return Cat(Const(0, self._FINER), bits[:FP16.bits - 1],
                   exponent.all().replicate(FP32.exponent_bits - FP16.exponent_bits), bits[FP16.bits - 1])

    def rounding(self, bits: Any) -> Any:
        # Above FP16's numbers it may be anything that leaves them above.
        exponent = bits[_FRACTION:31]
        least = self._REBIAS + 1
        return Cat(Const(0, _FRACTION), Mux(at_least(exponent, least), exponent + self._FINER,
                                            least + self._FINER)[:FP32.exponent_bits], bits[31])

    def rounded(self, m: Module, total: Any) -> Any:
        # As the leading bit of the multiple adds one to the exponent, and so does a carry into it, the exponent is that
        # of the smallest number with this ``e``, plus both.
        exponent = total[_FRACTION:31]
        above = Signal()
        field = Signal(FP16.exponent_bits)
        m.d.comb += [
            above.eq(at_least(exponent, self._REBIAS + self._FINER + FP16.exponent_maximum)),
            field.eq(exponent - (self._REBIAS + self._FINER + 1) + total[FP16.fraction_bits:FP16.fraction_bits + 2]),
        ]
        nan = total[_FRACTION - 1] & exponent.all()
        top = FP16.fraction_bits - 1
        return Cat(Mux(above, 0, total[:top]), Mux(above, nan, total[top]), Mux(above, FP16.exponent_maximum, field),
                   total[31], Const(0, 16))


class FixedConversion(Conversion):
    """Fixed point of 16 bits; saturates, NaN becomes 0."""

    multiplies = False

    def __init__(self, fmt: Fixed):
        self._bits = fmt.bits
        self._exponent = FP32.bias + _FRACTION - fmt.fraction_bits
        #: 1.5 times 2 to that power.
        self._anchor = self._exponent << _FRACTION | 1 << _FRACTION - 1
        self.constant = 1 << 31 | self._anchor

    def placed(self, bits: Any) -> Any:
        # n + 2^22 in the fraction.
        sign = bits[self._bits - 1]
        return Cat(bits[:self._bits], sign.replicate(_FRACTION - 1 - self._bits), ~sign,
                   Const(self._exponent, FP32.exponent_bits), Const(0, 1))

    def rounding(self, bits: Any) -> Any:
        return Const(self._anchor, 32)

    def rounded(self, m: Module, total: Any) -> Any:
        exponent, fraction = total[_FRACTION:31], total[:_FRACTION]
        number = Cat(fraction[:-1], ~fraction[-1])
        nan, low, high = Signal(name="nan"), Signal(name="low"), Signal(name="high")
        fits = number[self._bits - 1:].all() | ~number[self._bits - 1:].any()
        m.d.comb += [
            nan.eq(exponent.all() & fraction.any()),
            low.eq(total[31] | (exponent < self._exponent) | ((exponent == self._exponent) & ~fits & number[-1])),
            high.eq(~low & ((exponent > self._exponent) | ~fits)),
        ]
        saturated = Cat(high.replicate(self._bits - 1), low)
        return Cat(Mux(nan, 0, Mux(low | high, saturated, number[:self._bits])), Const(0, 32 - self._bits))


def conversion(narrow: Format) -> Conversion:
    """That of a die's ``narrow_format``.

    Raises
    ------
    ValueError
        If it is neither FP16 nor fixed point of 16 bits.
    """
    if narrow == FP16:
        return HalfConversion()
    if isinstance(narrow, Fixed) and narrow.bits == 16:
        return FixedConversion(narrow)
    raise ValueError(f"Narrow format must be {FP16} or fixed-point of 16 bits, not {narrow}")
