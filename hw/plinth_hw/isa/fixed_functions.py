"""Tables of the function unit of fixed-point dies, Q3.12, and the integers of its evaluation.

An argument ``x``, a whole number of 2^-12, is *reduced* to ``n`` and a place ``t`` of 18 bits on a curve, which is a
chain of lines between :data:`SEGMENTS` + 1 knots of 18 fraction bits::

    Y(t) = knot[s] + floor((knot[s + 1] - knot[s]) * d / 2^10)          s = floor(t / 2^10), d = t mod 2^10

    TANH         n = 6                          t = min(|x|, 2^15 - 1) * 2^3       Y = tanh(t / 2^15)
    SIGMOID      n = 6                          t as of TANH                       Y = sigmoid(t / 2^15)
    EXPONENTIAL  n = 6 - floor(T / 2^18)        t = T mod 2^18                     Y = 2^(t / 2^18)
    RECIPROCAL   n = floor(log2 |x|) - 5        t = (|x| 2^(5 - n) - 1) 2^18       Y = 2 / (1 + t / 2^18)

    T = floor(x * LOG2E / 2^10)
    y = floor(Y / 2^n + 1 / 2)
    TANH, RECIPROCAL: y with the sign of x;    SIGMOID: 2^12 - y if x < 0

What is beyond the format becomes its least or largest number; 1 / 0 is the largest. As chains of lines have no gaps,
results rise where the function does. Against the exact function they are one unit in the last place off at most
(docs/vector.md). Knots come from decimal arithmetic with correct rounding, so every machine makes the same tables.
"""

import itertools
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache

from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.vector_body import VectorFunction

FORMAT = Q3_12
#: log2 of the lines of a curve, and bits of a place on a line.
SEGMENT_BITS, OFFSET_BITS = 8, 10
SEGMENTS = 1 << SEGMENT_BITS
#: Fraction bits of knots, and of the place on a curve of EXPONENTIAL and RECIPROCAL.
VALUE_BITS = SEGMENT_BITS + OFFSET_BITS
#: log2(e) with 16 fraction bits.
LOG2E = 94_548
#: Right shift of the value of TANH and SIGMOID.
PLAIN_SHIFT = VALUE_BITS - FORMAT.fraction_bits
#: Storage of a line: its first knot, unsigned, and from there to the next one, signed.
KNOT_BITS, RISE_BITS = 20, 15


def _sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


#: Curves over the range of places; in the order in which they lie in memory.
CURVES: dict[VectorFunction, Callable[[Decimal], Decimal]] = {
    VectorFunction.EXPONENTIAL: lambda x: (x * Decimal(2).ln()).exp(),
    VectorFunction.RECIPROCAL: lambda x: 2 / (1 + x),
    VectorFunction.TANH: lambda x: 2 * _sigmoid(16 * x) - 1,
    VectorFunction.SIGMOID: lambda x: _sigmoid(8 * x),
}


@cache
def lines(function: VectorFunction) -> tuple[tuple[int, int], ...]:
    """First knot and rise of each line of a function's curve."""
    with localcontext(Context(prec=40, rounding=ROUND_HALF_EVEN)):
        knots = [int((CURVES[function](Decimal(number) / SEGMENTS) * (1 << VALUE_BITS)).to_integral_value())
                 for number in range(SEGMENTS + 1)]
    segments = tuple((knot, after - knot) for knot, after in itertools.pairwise(knots))
    assert all(0 <= knot < 1 << KNOT_BITS and -1 << RISE_BITS - 1 <= rise < 1 << RISE_BITS - 1
               for knot, rise in segments)
    return segments
