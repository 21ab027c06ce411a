"""Interleave shapes of products on the systolic array, and the cycles that their tiles take.

Cycles of tiles alone are what cuts of products are chosen by; :mod:`plinth.machine.systolic_cycles` walks through all
that a task does.
"""

from fractions import Fraction
from math import ceil

from plinth_hw.isa.parameters import DieParameters

#: Cycles from a task to the next one of a single panel, as counted: what a task among many costs beside its tiles.
TASK_PERIOD = 64
#: Cycles, about, of a task in which the array does not multiply, besides its drain, if nothing hides them: what a
#: convolution is cut for. It holds a task's latency, which :data:`TASK_PERIOD` does not.
CUT_CYCLES = 150


def interleave_m_log2(parameters: DieParameters, m: int, n: int) -> int:
    """Choose the interleave shape of a GEMM, whose tiles have ``rows << m_log2`` rows: that with the fewest tiles; of
    equal ones the squarest, which loads least."""
    depth = parameters.interleave.bit_length() - 1

    def tiles(log2: int) -> tuple[int, int]:
        tile_m, tile_n = parameters.rows << log2, parameters.columns << (depth - log2)
        return ceil(m / tile_m) * ceil(n / tile_n), tile_m + tile_n

    return min(range(depth + 1), key=tiles)


def element_cycles(parameters: DieParameters, rows: int, inputs: int, outputs: int) -> float:
    """Cycles of the tiles of a product of rows x inputs by inputs x outputs: each takes as many a k step as it has
    slots, or as its operands have beats."""
    log2, depth = interleave_m_log2(parameters, rows, outputs), parameters.interleave
    tile_m, tile_n = parameters.rows << log2, parameters.columns * depth >> log2
    return ceil(rows / tile_m) * ceil(outputs / tile_n) * inputs * max(
        depth, (tile_m + tile_n) / parameters.beat_words)


def tile_shape(parameters: DieParameters, m: int, n: int) -> tuple[Fraction, int]:
    """Choose the interleave shape of a convolution with the fewest cycles: the cycles of a k step over all tiles of an
    m x n result, and the shape as of :func:`interleave_m_log2`.

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
