"""Conversions of the vector engine's FP32 lanes to and from FP16, NARROW and WIDEN, by the multiplier and the adder
that they have.

WIDEN puts the 16 bits in their places of an FP32 number, which is 2^-112 of their value then, and multiplies it by
2^112. NARROW adds to x, from 2^e to 2^(e + 1) with e at least -14, the number 2^(e + 13) of its sign, which makes the
adder round to a multiple of 2^(e - 10), FP16's last place; the end of the sum's fraction is the result. Infinities and
NaN stay what they are.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from plinth_hw.arith.common import at_least
from plinth_hw.isa.formats import FP16, FP32

_FRACTION = FP32.fraction_bits
#: Places that the fractions differ by.
_FINER = FP32.fraction_bits - FP16.fraction_bits
_REBIAS = FP32.bias - FP16.bias
#: What WIDEN multiplies by.
WIDENING = (FP32.bias + _REBIAS) << _FRACTION


def placed(bits: Any) -> Any:
    """WIDEN: the number in the low half as x."""
    exponent = bits[FP16.fraction_bits:FP16.bits - 1]
    return Cat(Const(0, _FINER), bits[:FP16.bits - 1],
               exponent.all().replicate(FP32.exponent_bits - FP16.exponent_bits), bits[FP16.bits - 1])


def rounding(bits: Any) -> Any:
    """NARROW: what to add to an FP32 number."""
    # Above FP16's numbers it may be anything that leaves them above.
    exponent = bits[_FRACTION:31]
    least = _REBIAS + 1
    return Cat(Const(0, _FRACTION), Mux(at_least(exponent, least), exponent + _FINER,
                                        least + _FINER)[:FP32.exponent_bits], bits[31])


def rounded(m: Module, total: Any) -> Any:
    """NARROW: the result, in the low half, from the sum."""
    # As the leading bit of the multiple adds one to the exponent, and so does a carry into it, the exponent is that of
    # the smallest number with this ``e``, plus both.
    exponent = total[_FRACTION:31]
    above = Signal()
    field = Signal(FP16.exponent_bits)
    m.d.comb += [
        above.eq(at_least(exponent, _REBIAS + _FINER + FP16.exponent_maximum)),
        field.eq(exponent - (_REBIAS + _FINER + 1) + total[FP16.fraction_bits:FP16.fraction_bits + 2]),
    ]
    nan = total[_FRACTION - 1] & exponent.all()
    top = FP16.fraction_bits - 1
    return Cat(Mux(above, 0, total[:top]), Mux(above, nan, total[top]), Mux(above, FP16.exponent_maximum, field),
               total[31], Const(0, 16))
