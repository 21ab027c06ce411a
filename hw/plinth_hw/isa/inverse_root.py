"""Table of the optimiser's inverse square root.

An argument ``a``, from 1 to 2^32 - 1, is *normalised* to ``m = a 2^z`` from 2^30 to 2^32 - 1 with z even, and
``R = 2^16 / sqrt(m / 2^30)`` is taken from a chain of lines between :data:`SEGMENTS` + 1 knots of 18 fraction bits::

    R(m) = floor((knot[s] + floor((knot[s + 1] - knot[s]) d / 2^10) + 2) / 4)
    s = floor(m / 2^24) - 64,  d = floor(m / 2^14) mod 2^10

R has 16 bits, is from 2^15 on, and falls where m rises; it is off by less than 2^-14 of its value
(tests/sim/golden/test_optimiser.py).
"""

from functools import cache
from math import isqrt

#: Lines of the chain, bits of a place on a line, fraction bits of knots and of R.
SEGMENTS, OFFSET_BITS, KNOT_FRACTION_BITS, FRACTION_BITS = 192, 10, 18, 16
#: Bits of an argument, and of its part below the number of a line.
ARGUMENT_BITS, LINE_BITS = 32, 24
#: The first line's number in a normalised argument.
FIRST = 64


@cache
def knots() -> tuple[int, ...]:
    """Knots: the whole numbers nearest to ``2^18 / sqrt(1 + s / 64)``, but for the first: the largest that gives an R
    of 16 bits."""
    def nearest(place: int) -> int:
        # isqrt(4 x) is floor(2 sqrt(x)), so this rounds sqrt(2^36 64 / place), which is never half-way.
        return (isqrt(4 * (FIRST << 2 * KNOT_FRACTION_BITS) // place) + 1) // 2

    largest = (1 << KNOT_FRACTION_BITS) - 3
    return tuple(min(largest, nearest(place)) for place in range(FIRST, FIRST + SEGMENTS + 1))
