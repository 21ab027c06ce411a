"""The strips in which a die does a Winograd layer: while products of one go on, the next one's tiles are made, and
maps of the one before.

    transfer    scatter 0, scatter 1, ..             gather 0,     ..    gather n
    matrix                 products 0, products 1,  ..   products n

What is chosen, of all ways to cut images, or lines of a single image's tiles, in up to three strips, is the one that
ends first by the few numbers below; planners and simulator predict the tasks that come of it as all others.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from plinth.mapping.tiles import interleave_m_log2
from plinth_hw.isa.parameters import DieParameters

#: Cycles that an element's product of all tiles takes at least; fewer are not cut. Cycles of a task beside its product.
LEAST_CYCLES, TASK_CYCLES = 8192, 64
#: Pieces that are put together as strips, at most.
MOST_PIECES = 24


class TileStrip(NamedTuple):
    """Tiles of some images: of all lines, or of some of a single image."""

    image: int
    images: int
    line: int
    lines: int

    def rows(self, tiles: tuple[int, int]) -> tuple[int, int]:
        """The first tile among those of all images, and how many, given an image's down and across."""
        down, across = tiles
        return (self.image * down + self.line) * across, self.images * self.lines * across


def _product(parameters: DieParameters, rows: int, inputs: int, outputs: int) -> float:
    """Cycles of an element's product: a tile takes as many as it has slots, or as its operands have beats."""
    log2, depth = interleave_m_log2(parameters, rows, outputs), parameters.interleave
    tile_m, tile_n = parameters.rows << log2, parameters.columns * depth >> log2
    return ceil(rows / tile_m) * ceil(outputs / tile_n) * inputs * max(
        depth, (tile_m + tile_n) / parameters.beat_words)


def _place(parameters: DieParameters, channels: int) -> float:
    """Cycles of a place of a tile: as the stages take it, or as memory reads it and writes it."""
    return max(-(-channels // parameters.within.flit_words), 2 * channels / float(parameters.memory_words_per_cycle))


@lru_cache(maxsize=1 << 12)
def tile_strips(parameters: DieParameters, images: int, tiles: tuple[int, int], elements: int, inputs: int,
                outputs: int) -> tuple[TileStrip, ...]:
    """The strips of a die's tiles; none: they are not cut.

    Parameters
    ----------
    tiles : pair of int
        Of an image, down and across.
    elements : int
        Of a tile.
    inputs, outputs : int
        Rows and columns of an element's weights.
    """
    lines, across = tiles
    pieces, each = (images, lines * across) if images > 1 else (lines, across)
    if not parameters.systolic or _product(parameters, pieces * each, inputs, outputs) < LEAST_CYCLES:
        return ()
    made, mapped = (elements * _place(parameters, channels) for channels in (inputs, outputs))

    def end(bounds: Sequence[int]) -> float:
        """Cycles until the last map is there."""
        rows = [(two - one) * each for one, two in pairwise(bounds)]
        scattered, multiplied, products = 0.0, 0.0, []
        for count in rows:
            scattered += count * made
            multiplied = max(multiplied, scattered) + elements * (
                _product(parameters, count, inputs, outputs) + TASK_CYCLES)
            products.append(multiplied)
        for count, ready in zip(rows, products, strict=True):
            scattered = max(scattered, ready) + count * mapped
        return scattered

    places = range(0, pieces, -(-pieces // MOST_PIECES))[1:]
    whole = (0, pieces)
    ways = [whole, *((0, one, pieces) for one in places),
            *((0, one, two, pieces) for one in places for two in places if one < two)]
    best = min(ways, key=end)
    if best == whole:
        return ()
    return tuple(TileStrip(start, stop - start, 0, lines) if images > 1 else TileStrip(0, images, start, stop - start)
                 for start, stop in pairwise(best))
