"""Golden model of MPT's quantiser of four regions (:mod:`plinth_hw.isa.codes`), and of the bound that MPT prints.

Scales are exponents: D = 2^s. NaN has the code of an overflow, and so is none at the destination.
"""

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.codes import REGION_BITS, REGIONS, SCALES
from plinth_sim.golden.codes import Words

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
    sizes = np.abs(words.view(np.float32).astype(np.float64)) * 2.0**-scale
    within = sizes < 15 * n - 8
    # Leading one at log2 n + r: below 2^7, exact in these numbers to well below a step.
    places = np.floor(np.where(within, sizes, 0) + n).astype(np.int64)
    region = np.frexp((places // n).astype(np.float64))[1] - 1
    code = np.where(within, region * n + (places >> region) - n, REGIONS * n - 1)
    return (code + (words >> np.uint32(31)).astype(np.int64) * REGIONS * n).astype(np.uint8)


def steps(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Truncated values of codes, and how much larger magnitudes can be: infinitely, of an overflow."""
    n = _steps(bits, scale)
    code = (codes & REGIONS * n - 1).astype(np.int64)
    region, step = code // n, code % n
    sizes = np.ldexp(((step + n << region) - n).astype(np.float32), scale)
    gaps = np.where(code == REGIONS * n - 1, np.float32(np.inf), np.ldexp(np.float32(1), region + scale))
    return np.where(codes >> bits - 1 & 1, -sizes, sizes), gaps.astype(np.float32)


def ends(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Least and largest that words of codes can be."""
    values, gaps = steps(codes, bits, scale)
    negative = codes >> bits - 1 & 1 == 1
    return np.where(negative, values - gaps, values), np.where(negative, values, values + gaps)


def printed_ends(codes: Codes, bits: int, scale: int) -> tuple[Array, Array]:
    """Of the rule that MPT prints, as if all errors were positive: false of negative words, whose magnitudes are
    truncated."""
    values, gaps = steps(codes, bits, scale)
    return values, values + gaps


def string_bits(count: int, bits: int) -> int:
    """Of codes of a run, in whole words."""
    return -(-count * bits // 32) * 32


