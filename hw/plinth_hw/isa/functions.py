"""Tables of the vector engine's function unit, and the integers of its fixed-point evaluation.

A function value is computed in three steps, all on integers: *reduce* the argument to a segment
number, an offset ``d`` in that segment and a binary exponent; *interpolate*

    w = c1 + floor(c2 * (d >> QUADRATIC_DROP) / 2**QUADRATIC_SHIFT)
    Y = c0 + floor(w * d / 2**OFFSET_BITS)

with the segment's coefficients, Y having ``VALUE_BITS`` fraction bits; and *round* Y, scaled by the
exponent, to FP32. Hardware and golden model read the coefficients from here. They come from decimal
arithmetic with correct rounding, so that every machine makes the same tables.

EXPONENTIAL and RECIPROCAL cut their argument into equal segments; so does INVERSE_ROOT, with a table for even and one
for odd exponents. TANH cuts each binade of its argument, or each half of one, into as many as keep its error near one
unit in the last place: :data:`TANH_BLOCKS`. It bends the other way, so its w is ``c1 - 1 - floor(..)``.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from typing import NamedTuple

from plinth_hw.isa.vector_body import VectorFunction

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
C0_BITS, C1_BITS, C2_BITS = 30, 25, 17
#: Fraction bits of log2(e), and log2(e) with them.
LOG2E_BITS = 34
LOG2E = 24_785_312_075
#: log2 of the segments that the binade of arguments from 2**e on would have if all of it were like its lower half, and
#: like its upper half, by e.
TANH_SEGMENTS = {3: (3, None), 2: (5, 4), 1: (6, 5), 0: (6, 6), -1: (5, 5), -2: (5, 5), -3: (4, 4), -4: (4, 3),
                 -5: (3, 3), -6: (2, 2), -7: (2, 2), -8: (1, 1), -9: (0, 0), -10: (0, 0), -11: (0, 0), -12: (0, 0)}
#: Lowest e of them. Below it tanh(x) is x; above the last half binade it is 1.
TANH_LOWEST = min(TANH_SEGMENTS)
#: Binades up to this one give what is to be added to the argument, for the slope itself has no room.
TANH_DIFFERENCE = -3
#: Entries of the table without slope: Y = 2, and Y = 0.
TANH_TWO, TANH_ZERO = 254, 255


class Coefficients(NamedTuple):
    """One segment's quadratic, in units of 2**-VALUE_BITS, for an offset from 0 to 1."""

    c0: int
    c1: int
    c2: int


class Block(NamedTuple):
    """Segments of a binade of TANH's arguments, or of half of one."""

    #: log2 of the segments that the whole binade would have.
    bits: int
    #: To be combined by exclusive or with the segment's number in the binade: entry of the table.
    code: int


def _allocate() -> dict[tuple[int, int], Block]:
    """A block for each binade and half; large ones first, so that each is aligned to its size."""
    sizes: list[tuple[int, int, tuple[int, ...], int, int]] = []
    for exponent, (lower, upper) in TANH_SEGMENTS.items():
        if lower == upper:
            sizes.append((1 << lower, exponent, (0, 1), 0, lower))
        else:
            sizes.append((1 << lower - 1, exponent, (0,), 0, lower))
            if upper is not None:
                sizes.append((1 << upper - 1, exponent, (1,), 1 << upper - 1, upper))
    blocks, entry = {}, 0
    for size, exponent, halves, flip, bits in sorted(sizes, reverse=True):
        blocks.update({(exponent, half): Block(bits, entry ^ flip) for half in halves})
        entry += size
    assert entry <= min(TANH_TWO, TANH_ZERO), entry
    return blocks


#: By exponent and upper bit of the fraction.
TANH_BLOCKS = _allocate()


def _power_of_two(x: Decimal) -> Decimal:
    return (x * Decimal(2).ln()).exp()


def _twice_reciprocal(x: Decimal) -> Decimal:
    return 2 / (1 + x)


def _twice_inverse_root(x: Decimal) -> Decimal:
    return 2 / (1 + x).sqrt()


#: What the tables with equal segments hold, for arguments from 0 to 1: 2**x; 2 / (1 + x); 2 / sqrt(1 + x), then
#: 2 / sqrt(2 (1 + x)).
EQUAL: dict[VectorFunction, tuple[Callable[[Decimal], Decimal], ...]] = {
    VectorFunction.EXPONENTIAL: (_power_of_two,),
    VectorFunction.RECIPROCAL: (_twice_reciprocal,),
    VectorFunction.INVERSE_ROOT: (_twice_inverse_root, lambda x: _twice_inverse_root(1 + 2 * x)),
}


#: Entries of each function's table, in the order in which they lie in memory.
TABLES: dict[VectorFunction, int] = {
    VectorFunction.EXPONENTIAL: 1 << SEGMENT_BITS,
    VectorFunction.RECIPROCAL: 1 << SEGMENT_BITS,
    VectorFunction.TANH: 2 << SEGMENT_BITS,
    VectorFunction.INVERSE_ROOT: 2 << SEGMENT_BITS,
}
#: Bits of an entry's number among all.
ENTRY_BITS = (sum(TABLES.values()) - 1).bit_length()


def first_entry(function: VectorFunction) -> int:
    """Number of a function's first entry among all."""
    before = list(TABLES)[:list(TABLES).index(function)]
    return sum(TABLES[other] for other in before)


def _quadratic(value: Callable[[Decimal], Decimal], start: Decimal, width: Decimal, lift: str) -> Coefficients:
    """Through the Chebyshev nodes of a segment; ``lift`` stands against the mean of the roundings down."""
    half = Decimal(1) / 2
    swing = Decimal(3).sqrt() / 4
    y0, y1, y2 = (value(start + node * width) for node in (half - swing, half, half + swing))
    quadratic = (y2 - 2 * y1 + y0) / (2 * swing * swing)
    slope = (y2 - y0) / (2 * swing) - quadratic  # at offset 0
    constant = y1 - slope * half - quadratic * half * half
    unit = Decimal(1 << VALUE_BITS)
    return Coefficients(int((constant * unit + Decimal(lift)).to_integral_value()),
                        int((slope * unit).to_integral_value()),
                        int((quadratic * unit).to_integral_value()))


def _tanh_table() -> list[Coefficients]:
    """4 tanh(x) / 2**(e + 1) below 1, 2 tanh(x) from there on; less twice the fraction where that is added."""
    table = [Coefficients(0, 1, 0)] * TABLES[VectorFunction.TANH]
    table[TANH_TWO] = Coefficients(2 << VALUE_BITS, 1, 0)
    for (exponent, half), (bits, code) in TANH_BLOCKS.items():
        scale = Decimal(2) ** exponent

        def value(fraction: Decimal, scale: Decimal = scale, exponent: int = exponent) -> Decimal:
            power = (2 * scale * (1 + fraction)).exp()
            result = 2 * (power - 1) / (power + 1) / min(scale, Decimal(1))
            return result - 2 * fraction if exponent <= TANH_DIFFERENCE else result

        count = 1 << bits
        for segment in range(half * count >> 1, (half + 1) * count + 1 >> 1):
            c0, c1, c2 = _quadratic(value, Decimal(segment) / count, Decimal(1) / count, "0.25")
            table[code ^ segment] = Coefficients(c0, c1 + 1, max(-c2, 0))
    return table


@cache
def coefficients(function: VectorFunction) -> tuple[Coefficients, ...]:
    """The table of ``function``."""
    with localcontext(Context(prec=40, rounding=ROUND_HALF_EVEN)):
        if function is VectorFunction.TANH:
            table = _tanh_table()
        else:
            segments = 1 << SEGMENT_BITS
            table = [_quadratic(curve, Decimal(segment) / segments, Decimal(1) / segments, "0.75")
                     for curve in EQUAL[function] for segment in range(segments)]
    for entry in table:
        assert 0 <= entry.c0 < 1 << C0_BITS, entry
        assert -1 << (C1_BITS - 1) <= entry.c1 < 1 << (C1_BITS - 1), entry
        assert 0 <= entry.c2 < 1 << C2_BITS, entry
    return tuple(table)
