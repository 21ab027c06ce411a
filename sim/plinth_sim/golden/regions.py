"""Golden model of MPT's quantiser of four regions (:mod:`plinth_hw.isa.codes`), and of the bound that MPT prints.

Scales are exponents: D = 2^s.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.codes import NAN, REGION_BITS, REGIONS, SCALES, region_words
from plinth_sim.golden.codes import Fields, Mask, Words, read_named, skipped, unpacked

Codes = NDArray[np.uint8]
Array = NDArray[np.float32]


def _steps(bits: int, scale: int) -> int:
    """n.

    Raises
    ------
    ValueError
        If there are no codes of so many bits, or a scale is none.
    """
    if bits not in REGION_BITS:
        raise ValueError(f"codes of regions have {REGION_BITS.start} to {REGION_BITS.stop - 1} bits, not {bits}")
    if scale not in SCALES:
        raise ValueError(f"log2 of a scale must be from {SCALES.start} to {SCALES.stop - 1}, not {scale}")
    return 1 << bits - 3


def quantised(words: Words, bits: int, scale: int) -> Codes:
    """Codes of words, of ``bits`` bits."""
    n = _steps(bits, scale)
    with np.errstate(invalid="ignore"):
        sizes = np.abs(words.view(np.float32).astype(np.float64)) * 2.0**-scale
    within = sizes < 15 * n - 8
    # Leading one at log2 n + r: below 2^7, exact in these numbers to well below a step.
    places = np.floor(np.where(within, sizes, 0) + n).astype(np.int64)
    region = np.frexp((places // n).astype(np.float64))[1] - 1
    negative = (words >> np.uint32(31)).astype(np.int64)
    code = np.minimum(np.where(within, region * n + (places >> region) - n, REGIONS * n - 1),
                      REGIONS * n - 1 - negative) + negative * REGIONS * n
    return np.where(np.isnan(sizes), 2 * REGIONS * n - 1, code).astype(np.uint8)


def steps(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Truncated values of codes, and how much larger magnitudes can be: infinitely, of what is beyond all regions."""
    n = _steps(bits, scale)
    code = (codes & REGIONS * n - 1).astype(np.int64)
    region, step = code // n, code % n
    sizes = np.ldexp(((step + n << region) - n).astype(np.float32), scale)
    negative = codes >> bits - 1 & 1
    gaps = np.where(code >= REGIONS * n - 1 - negative, np.float32(np.inf), np.ldexp(np.float32(1), region + scale))
    values = np.where(negative, -sizes, sizes)
    values[codes == 2 * REGIONS * n - 1] = np.uint32(NAN).view(np.float32)
    return values, gaps.astype(np.float32)


def filled(codes: Codes, bits: int, scale: int) -> Words:
    """Fills of codes."""
    return steps(codes, bits, scale)[0].view(np.uint32)


def fill_ends(fills: Words, bits: int, scale: int) -> tuple[Array, Array]:
    """Least and largest that words can be of which there are fills: FP32, sums rounded to nearest; NaN if a fill is."""
    gaps, values = steps(quantised(fills, bits, scale), bits, scale)[1], fills.view(np.float32)
    negative = fills >> np.uint32(31) == 1
    with np.errstate(invalid="ignore"):
        far = values + np.where(negative, -gaps, gaps)
    return np.where(negative, far, values), np.where(negative, values, far)


def ends(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Least and largest that words of codes can be."""
    return fill_ends(filled(codes, bits, scale), bits, scale)


def printed_ends(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Of the rule that MPT prints, as if all errors were positive: false of negative words, whose magnitudes are
    truncated."""
    values, gaps = steps(codes, bits, scale)
    return values, values + gaps


def string_bits(count: int, bits: int) -> int:
    """Of codes of a run, in whole words."""
    return 32 * region_words(count, bits)


@dataclass(frozen=True)
class Regions:
    """Codes of regions, of so many bits, at a scale; or the next part, of whole words."""

    bits: int
    scale: int
    follows: bool = False

    def check(self) -> None:
        """That there are such.

        Raises
        ------
        ValueError
            If there are not.
        """
        _steps(self.bits, self.scale)

    def string(self, run: Words, mask: Mask | None = None) -> Words:
        """The string of a run, or of the words of it that the mask names."""
        if self.follows:
            assert mask is not None
            return skipped(run, mask, sent=False)
        codes = quantised(run, self.bits, self.scale)
        return Fields(codes.astype(np.uint64), np.full(codes.shape, self.bits)).coded().words

    def run(self, string: Words, count: int, fills: Words | None = None, mask: Mask | None = None) -> Words:
        """Fills, or words where the mask names them, of a string.

        Raises
        ------
        ValueError
            If it is not just as long as they take.
        """
        if self.follows:
            assert fills is not None and mask is not None
            return np.where(mask, read_named(string, mask), fills)
        if len(string) != region_words(count, self.bits):
            raise ValueError(f"a string of {len(string)} words is not of {count} codes of {self.bits} bits")
        shown = unpacked(string, count * self.bits).reshape(count, self.bits)
        return filled(shown @ (1 << np.arange(self.bits)).astype(np.uint8), self.bits, self.scale)
