"""Codes of tile elements on links: what a gather sends before it knows which neurons live, and what a scatter skips.

What a source has of one tile element is a *run*: FP32 words of consecutive tiles and channels. Of a run a string of
bits is made, bit k of it in bit k mod 32 of word k // 32; a field of several bits lies with its least significant bit
first.

**Block code.** A level l is an exponent, 2^l its quantum. A run is cut into blocks of :data:`BLOCK` words, the last one
filled up with +0. e of a word is floor(log2) of its magnitude as its exponent field has it, -127 if that is 0. *First*
part of the string, to level l, a block:

    header                  h = 0: all words are +0; 31: escape; else E = l - FLOOR - 1 + h, the largest e, raised to
                            l - FLOOR if it is below; escape where it is above l + ABOVE, as of infinities and NaN
    escape                  the words as they are
    E >= l                  signs, 16 bits, bit i of word i; planes E, E - 1, .. l of 16 bits: plane p holds bit 2^p of
                            each magnitude, so that magnitudes are truncated to multiples of 2^l
    E < l                   nothing

The destination keeps each element as a *fill*, an FP32 word that lies within what is known of it and says, with l, what
that is (f its value, e its exponent as above):

    f = +0, -0              exactly that
    e >= l                  from f to f + 2^l, away from zero
    f = +-1.5 2^(l - 1)     from 0 to 2^l, with that sign
    else, f = 2^e           from -2^(e + 1) to 2^(e + 1), e the block's E: nothing was sent

Of an escape fills are +-1.5 2^(l - 1) of words with e < l other than zeros, else the words as they are. A *next* part
goes from level l to a lower one l', 2 to 17 below, or to the exact word; of words that a mask names, in the order of
the run, according to the fill at l:

    fill                    to l'                                     exact
    +0, -0                  nothing                                   nothing
    e >= l                  bits 2^(l-1) .. 2^l' of the magnitude     bits below 2^l of the magnitude
    +-1.5 2^(l - 1)         bits 2^(l-1) .. 2^l'                      tail, from l - 1
    2^e, e >= l'            sign, bits 2^e .. 2^l'                    sign, tail, from e
    2^e, e < l'             nothing                                   sign, tail, from e

A fill of which nothing comes stays; what comes makes one of level l' as above. Bits that a significand of 24 bits does
not have are not sent; what is sent of a word with e >= l is or-ed to its fill, so that words of an escape stay exact.
A tail from an exponent t: z = t - (the word's e) zeros and a one, or, where z >= :data:`UNARY`, UNARY zeros and the
exponent field of 8 bits; then the fraction's 23 bits. Several bits of a magnitude are one field, in units of 2^l', or,
to the exact word, of the fraction's last bit.

**Mask.** A bit a word of a run, bit i mod 32 of word i // 32.

**Skip code.** For each 32 words of a run a word of its mask, where that is sent, then those words that the mask names,
as they are. The others are +0 to the destination. A mask is given, or that of the words other than +0 (-0 is one),
which must be sent; bits behind the run's last word are 0. Found masks may go alone, without words: who has them needs
none sent when words come back by them.

**Regions**, MPT's own quantiser (section V.A, Figure 10), of b bits, n = 2^(b - 3) steps a region and sign: with the
scale D = 2^s region r = 0 .. 3 has steps of 2^r D and begins at n (2^r - 1) D; magnitudes are truncated. Step j of
region r has the code n r + j, and the sign in bit b - 1. The paper names no code for what is beyond 15 n D, nor for
NaN: here the last steps are given up for them, so that 4 n - 1 is that of words of (15 n - 8) D or more, 4 n - 2 with
the sign that of words of -(15 n - 16) D or less, and 4 n - 1 with the sign that of NaN. The string of a first part has
the codes one behind the other, b bits each; that of a next part the words that a mask names, as they are. The fill of
a code is the least magnitude that has it, with its sign, or :data:`NAN`; a fill f, which may be any word, says

    beyond              from f to infinity, with that sign
    in region r         from f to f + 2^r D, away from zero
    NaN                 nothing

D is a power of two, so that a code is a shift and a sum of a significand's first bits; another D were a multiplier
more.

Source: MPT section V; blocks, planes and fills are this project's.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import log2

from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.winograd import FROM_ELEMENTS, MATRICES, Matrix

#: Words of a block, which are also the bits of a plane.
BLOCK = 16
HEADER_BITS = 5
ZERO, ESCAPE = 0, (1 << HEADER_BITS) - 1
#: How far E can be below and above the level.
FLOOR = 12
ABOVE = ESCAPE - 2 - FLOOR
#: Zeros of a tail behind which the exponent field follows.
UNARY = 12
#: How far a next level may be below the one before: so far that a fill at the one before, read as one at the next, is
#: between ends no wider than its own.
STEPS = range(2, ABOVE + 1)
#: Levels: 2^(l - FLOOR) is a normal number, 2^(l + ABOVE) a finite one.
LEVELS = range(-126 + FLOOR, 127 - ABOVE + 1)
FRACTION_BITS, EXPONENT_BITS, BIAS = 23, 8, 127
#: Bits of a code of regions, and regions.
REGION_BITS, REGIONS = range(4, 7), 4
#: The fill of a NaN's code.
NAN = 0x7FC00000
#: What log2 of a scale of regions may be: 15 n 2^s is a finite number, and 2^s a normal one.
SCALES = range(-126, 120)


def power(exponent: int) -> int:
    """2^exponent as an FP32 word; a normal number."""
    return (exponent + BIAS) << FRACTION_BITS


def small(level: int) -> int:
    """Fill of a sent word whose magnitude is below the quantum: 1.5 2^(level - 1)."""
    return power(level - 1) | 1 << (FRACTION_BITS - 1)


def checked_level(level: int, lower: int | None = None) -> None:
    """That a level is one, and what follows it.

    Raises
    ------
    ValueError
        If a level is not in :data:`LEVELS`, or ``lower`` not so far below as :data:`STEPS` says.
    """
    for checked in (level, level if lower is None else lower):
        if checked not in LEVELS:
            raise ValueError(f"a level must be from {LEVELS.start} to {LEVELS.stop - 1}, not {checked}")
    if lower is not None and level - lower not in STEPS:
        raise ValueError(f"a level behind {level} must be from {level - STEPS[-1]} to {level - STEPS[0]}, not {lower}")


def most_words(run: int, lower: bool, exact: bool) -> int:
    """Words of the longest string of a run's first part, or of a next one to a lower level or to exact words."""
    if exact:
        bits = run * (1 + UNARY + EXPONENT_BITS + FRACTION_BITS)
    else:
        bits = run * (1 + STEPS[-1]) if lower else -(-run // BLOCK) * (HEADER_BITS + BLOCK * WORD_BITS)
    return -(-bits // WORD_BITS)


def least_words(run: int) -> int:
    """Words of the shortest string of a run's first part: all are +0. A next part may have none."""
    blocks = -(-run // BLOCK)
    return -(-blocks * HEADER_BITS // WORD_BITS)


def region_words(run: int, bits: int) -> int:
    """Words of a run's codes of regions."""
    return -(-run * bits // WORD_BITS)


def shifts(down: Matrix | None, across: Matrix) -> tuple[tuple[int, ...], ...]:
    """By how much the level of each element is below its layer's: elements with larger coefficients err less.

    Parameters
    ----------
    down, across : Matrix
        A^T each way, ``[m, T]``. Without ``down`` sources did that direction, and there is one row.

    Returns
    -------
    ``[T, T']``
        round(log2(c / least c)), c the mean of abs(A(u,i) A(v,j)) over the neurons that the element has a part in.
    """
    def means(matrix: Matrix) -> list[Fraction]:
        columns: list[Sequence[Fraction]] = [[abs(value) for value in column if value] for column
                                             in zip(*matrix, strict=True)]
        return [sum(column, Fraction(0)) / len(column) for column in columns]

    rows = [[first * second for second in means(across)] for first in (means(down) if down else [Fraction(1)])]
    least = min(min(row) for row in rows)
    return tuple(tuple(round(log2(value / least)) for value in row) for row in rows)


#: The most that a level of an element is below its layer's.
MOST_SHIFT = max(shift for matrix in (MATRICES[number] for number in FROM_ELEMENTS) for row in shifts(matrix, matrix)
                 for shift in row)
