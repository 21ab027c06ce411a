"""Tables of the vector engine's function unit, and the integers of its fixed-point evaluation.

A function value is computed in three steps, all on integers: *reduce* the argument to a segment
number, an offset ``d`` in that segment and a binary exponent; *interpolate*

    w = c1 + floor(c2 * (d >> QUADRATIC_DROP) / 2**QUADRATIC_SHIFT)
    Y = c0 + floor(w * d / 2**OFFSET_BITS)

with the segment's coefficients, Y having ``VALUE_BITS`` fraction bits; and *round* Y, scaled by the
exponent, to FP32. Hardware and golden model read the coefficients from here. They come from decimal
arithmetic with correct rounding, so that every machine makes the same tables.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from typing import NamedTuple

from plinth_hw.isa.tasks import VectorFunction

#: log2 of the segments of a table.
SEGMENT_BITS = 7
#: Bits of the offset within a segment.
OFFSET_BITS = 21
#: Fraction bits of the reduced argument and of the interpolated value.
VALUE_BITS = SEGMENT_BITS + OFFSET_BITS
#: Low bits of the offset that the quadratic term leaves out.
QUADRATIC_DROP = 5
#: Right shift after the quadratic term's product.
QUADRATIC_SHIFT = OFFSET_BITS - QUADRATIC_DROP
#: Storage of the coefficients: c0 and c2 are unsigned, c1 is signed.
C0_BITS, C1_BITS, C2_BITS = 30, 24, 17
#: Fraction bits of log2(e), and log2(e) with them.
LOG2E_BITS = 34
LOG2E = 24_785_312_075


class Coefficients(NamedTuple):
    """One segment's quadratic, in units of 2**-VALUE_BITS, for an offset from 0 to 1."""

    c0: int
    c1: int
    c2: int


def _power_of_two(x: Decimal) -> Decimal:
    return (x * Decimal(2).ln()).exp()


def _twice_reciprocal(x: Decimal) -> Decimal:
    return 2 / (1 + x)


#: What each table holds, for arguments from 0 to 1: 2**x, and 2 / (1 + x).
TABLES: dict[VectorFunction, Callable[[Decimal], Decimal]] = {
    VectorFunction.EXPONENTIAL: _power_of_two,
    VectorFunction.RECIPROCAL: _twice_reciprocal,
}


@cache
def coefficients(function: VectorFunction) -> tuple[Coefficients, ...]:
    """The table of ``function``: a quadratic through the Chebyshev nodes of each segment.

    c0 carries three quarters of a unit against the mean of the two roundings down.
    """
    value = TABLES[function]
    segments = 1 << SEGMENT_BITS
    table = []
    with localcontext(Context(prec=40, rounding=ROUND_HALF_EVEN)):
        half = Decimal(1) / 2
        swing = Decimal(3).sqrt() / 4
        nodes = (half - swing, half, half + swing)
        for segment in range(segments):
            y0, y1, y2 = (value((segment + node) / segments) for node in nodes)
            quadratic = (y2 - 2 * y1 + y0) / (2 * swing * swing)
            slope = (y2 - y0) / (2 * swing) - quadratic  # at offset 0
            start = y1 - slope * half - quadratic * half * half
            unit = Decimal(1 << VALUE_BITS)
            table.append(Coefficients(int((start * unit + Decimal("0.75")).to_integral_value()),
                                      int((slope * unit).to_integral_value()),
                                      int((quadratic * unit).to_integral_value())))
    for entry in table:
        assert 0 <= entry.c0 < 1 << C0_BITS, entry
        assert -1 << (C1_BITS - 1) <= entry.c1 < 1 << (C1_BITS - 1), entry
        assert 0 <= entry.c2 < 1 << C2_BITS, entry
    return tuple(table)
