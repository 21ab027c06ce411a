"""Number formats that every engine takes as a parameter.

A format says how many bits a number has and what they mean; arithmetic blocks are made from
formats, never from bit widths. Plain data: no RTL, so that software and golden models use them too.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.layout import Struct, pack, unpack, unsigned

#: log2 of the products that a sum of fixed-point products has room for.
SUM_GUARD_BITS = 16


@dataclass(frozen=True)
class Float:
    """IEEE-754 binary format with one sign bit, subnormals, infinities and NaN.

    Parameters
    ----------
    exponent_bits : int
        Width of the biased exponent, at least 2.
    fraction_bits : int
        Width of the stored fraction, at least 1.

    Raises
    ------
    TypeError
        If a width is not an integer.
    ValueError
        If a width is too small to form an IEEE-754 format.
    """

    exponent_bits: int
    fraction_bits: int

    def __post_init__(self) -> None:
        for name, value, least in (("Exponent width", self.exponent_bits, 2),
                                   ("Fraction width", self.fraction_bits, 1)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value!r}")

    @property
    def bits(self) -> int:
        """Storage width in bits."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """Exponent bias."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def exponent_maximum(self) -> int:
        """Biased exponent of infinities and NaN (all ones)."""
        return (1 << self.exponent_bits) - 1

    @property
    def quiet_nan(self) -> int:
        """The one NaN that every unit produces: sign 0, top fraction bit set."""
        return (self.exponent_maximum << self.fraction_bits) | (1 << (self.fraction_bits - 1))

    @property
    def infinity(self) -> int:
        """Bit pattern of positive infinity."""
        return self.exponent_maximum << self.fraction_bits

    def __str__(self) -> str:
        return f"float{self.bits}e{self.exponent_bits}m{self.fraction_bits}"


@dataclass(frozen=True)
class Fixed:
    """Two's-complement fixed point: one sign bit, ``integer_bits`` and ``fraction_bits``.

    Raises
    ------
    TypeError
        If a width is not an integer.
    ValueError
        If a width is negative or the format has no value bit.
    """

    integer_bits: int
    fraction_bits: int

    def __post_init__(self) -> None:
        for name, value in (("Integer width", self.integer_bits),
                            ("Fraction width", self.fraction_bits)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < 0:
                raise ValueError(f"{name} must not be negative, not {value!r}")
        if self.integer_bits + self.fraction_bits < 1:
            raise ValueError("A fixed-point format needs at least one value bit")

    @property
    def bits(self) -> int:
        """Storage width in bits."""
        return 1 + self.integer_bits + self.fraction_bits

    @property
    def least(self) -> int:
        """The least number, in units of 2^-``fraction_bits``."""
        return -1 << (self.integer_bits + self.fraction_bits)

    @property
    def most(self) -> int:
        """The largest number, in units of 2^-``fraction_bits``."""
        return ~self.least

    @property
    def sums(self) -> "Fixed":
        """Format of sums of products of two numbers: exact, with room for 2^``SUM_GUARD_BITS`` of the largest."""
        return Fixed(2 * self.integer_bits + 1 + SUM_GUARD_BITS, 2 * self.fraction_bits)

    @property
    def most_products(self) -> int:
        """Products of two numbers, as large as they come, that a sum in :attr:`sums` can hold."""
        return self.sums.most // self.least**2

    def encode(self, values: NDArray[np.float32]) -> NDArray[np.int64]:
        """Numbers nearest to ``values`` of any shape, ties to even, as integers in units of 2^-``fraction_bits``.

        What is beyond the format becomes its least or largest number, NaN becomes 0. Formats have 53 bits at most.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            units = np.rint(np.asarray(values, dtype=np.float64) * 2.0 ** self.fraction_bits)
            return np.clip(np.nan_to_num(units, nan=0.0), self.least, self.most).astype(np.int64)

    def decode(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """FP32 values nearest to numbers in units of 2^-``fraction_bits``, ties to even."""
        return (numbers.astype(np.float64) * 2.0 ** -self.fraction_bits).astype(np.float32)

    def __str__(self) -> str:
        return f"q{self.integer_bits}.{self.fraction_bits}"


class Factor(Struct):
    """What fixed-point numbers are multiplied by: ``mantissa / 2^shift``, or less than zero as much."""

    #: Its digits, a whole number.
    mantissa: unsigned(16)
    #: They are divided by 2^shift; the product is rounded once, to nearest, ties to even.
    shift: unsigned(5)
    #: Below zero.
    negative: unsigned(1)
    reserved: unsigned(10)


#: What a number can be.
Format = Float | Fixed


def word_type(fmt: Format) -> np.dtype[np.unsignedinteger]:
    """What words of a memory format are as bit patterns."""
    return np.dtype(f"<u{fmt.bits // 8}")


def as_words(values: NDArray[Any], word: np.dtype[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """What a memory of words takes of an array, flat: numbers as wide as a word, or wider, as the words of their bits,
    low one first; narrower ones a word each."""
    flat = np.asarray(values).reshape(-1)
    return flat.view(word) if flat.itemsize >= word.itemsize else flat.astype(word)


def number_word(fmt: Format, value: float) -> int:
    """A number of a memory format as tasks hold it: its bits, in the low half of the word if they are 16."""
    if isinstance(fmt, Float):
        return int(np.float32(value).view(np.uint32))
    return int(fmt.encode(np.array([value], dtype=np.float32))[0]) & (1 << fmt.bits) - 1


def factor_word(fmt: Format, value: float) -> int:
    """A factor, such as a learning rate, as tasks hold it for numbers of a format: FP32 bits, or a :class:`Factor`.

    Raises
    ------
    ValueError
        If a fixed-point number's factor is not finite, or its size 65,536 or more.
    """
    if isinstance(fmt, Float):
        return number_word(fmt, value)
    most = (1 << Factor.FIELDS["mantissa"].shape.bits) - 1
    if not abs(value) < most + 1:
        raise ValueError(f"A factor of fixed-point numbers must be above -65536 and below 65536, not {value}")
    exact, shift = abs(Fraction(value)), (1 << Factor.FIELDS["shift"].shape.bits) - 1
    while round(exact * (1 << shift)) > most and shift:
        shift -= 1
    (word,) = pack(Factor, {"mantissa": min(round(exact * (1 << shift)), most), "shift": shift, "negative": value < 0})
    return word


def factor_value(fmt: Format, word: int) -> Fraction:
    """The factor that a word of a task holds, see :func:`factor_word`; FP32's must be finite."""
    if isinstance(fmt, Float):
        return Fraction(float(np.uint32(word).view(np.float32)))
    factor = unpack(Factor, [word])
    return Fraction(-factor.mantissa if factor.negative else factor.mantissa, 1 << factor.shift)


def identifiers(*formats: Format) -> str:
    """Formats in the name of a module."""
    return "_".join(str(fmt).replace(".", "_") for fmt in formats)


#: IEEE-754 binary32.
FP32 = Float(8, 23)
#: IEEE-754 binary16.
FP16 = Float(5, 10)
#: 16-bit fixed point from -8 to 8 (Deep3, section 6).
Q3_12 = Fixed(3, 12)
