"""Which interleave shapes products have on the systolic array."""

from fractions import Fraction
from math import ceil

from plinth_hw.isa.parameters import DieParameters


def interleave_m_log2(parameters: DieParameters, m: int, n: int) -> int:
    """Interleave shape of a GEMM: that with the fewest tiles; of equal ones the squarest, which loads least."""
    depth = parameters.interleave.bit_length() - 1

    def tiles(log2: int) -> tuple[int, int]:
        tile_m, tile_n = parameters.rows << log2, parameters.columns << (depth - log2)
        return ceil(m / tile_m) * ceil(n / tile_n), tile_m + tile_n

    return min(range(depth + 1), key=tiles)


def tile_shape(parameters: DieParameters, m: int, n: int) -> tuple[Fraction, int]:
    """Of a convolution: cycles of a k step over all tiles of an m x n result, and the interleave shape with the fewest.

    A tile takes as many cycles as it has slots, or as the beats of its operands take to load.
    """
    lanes = parameters.beat_words * parameters.packing
    depth = parameters.interleave.bit_length() - 1

    def cycles(log2: int) -> tuple[Fraction, int]:
        tile_m, tile_n = parameters.rows << log2, parameters.columns << (depth - log2)
        step = max(Fraction(parameters.interleave), Fraction(tile_m + tile_n, lanes))
        return ceil(m / tile_m) * ceil(n / tile_n) * step, tile_m + tile_n

    best = min(range(depth + 1), key=cycles)
    return cycles(best)[0], best
