"""The strips in which a die does a Winograd layer: while products of one go on, the next one's tiles are made, and
maps of the one before.

    transfer    scatter 0, scatter 1, ..             gather 0,     ..    gather n
    matrix                 products 0, products 1,  ..   products n

What is chosen, of all ways to cut images, or lines of a single image's tiles, in up to three strips, is the one that
ends first by the few numbers below; planners and simulator predict the tasks that come of it as all others.

Where elements are split, the last ones of a gather go in up to five strips, if flits wait for the network behind the
transfer engine: links have these while it makes a strip's maps, so that what follows is sent before as far as it has
room to wait.

    transfer    gather 0, gather 1, .., maps 0, gather n, maps 1, ..   maps n
    links       gather 0, gather 1, ..          gather n
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from math import prod
from typing import NamedTuple

from plinth.machine.control import STRIP_ARRIVAL_CYCLES
from plinth.machine.links import buffered, waiting
from plinth.machine.tiles import TASK_PERIOD, element_cycles
from plinth.machine.transforms import PASS_CYCLES, place_cycles, place_flits
from plinth.partition.graph import Tiling
from plinth_hw.isa.parameters import DieParameters

#: Cycles that an element's product of all tiles takes at least; fewer are not cut.
LEAST_CYCLES = 8192
#: Pieces that are put together as strips, at most; strips of a gather.
MOST_PIECES, MOST_GATHERED = 24, 5


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


def _pieces(images: int, tiles: tuple[int, int]) -> tuple[int, int]:
    """Pieces that may be put together: images, or lines of a single one; and tiles of each."""
    lines, across = tiles
    return (images, lines * across) if images > 1 else (lines, across)


def _cut(bounds: Sequence[int], images: int, lines: int) -> tuple[TileStrip, ...]:
    """The strips between some pieces; none if it is one."""
    if len(bounds) < 3:
        return ()
    return tuple(TileStrip(start, stop - start, 0, lines) if images > 1 else TileStrip(0, images, start, stop - start)
                 for start, stop in pairwise(bounds))


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
    pieces, each = _pieces(images, tiles)
    if not parameters.systolic or element_cycles(parameters, pieces * each, inputs, outputs) < LEAST_CYCLES:
        return ()
    tiled, mapped = (elements * place_cycles(parameters, channels) for channels in (inputs, outputs))

    def end(bounds: Sequence[int]) -> float:
        """Cycles until the last map is there."""
        rows = [(high - low) * each for low, high in pairwise(bounds)]
        scattered, multiplied, products = 0.0, 0.0, []
        for count in rows:
            scattered += count * tiled
            multiplied = max(multiplied, scattered) + elements * (
                element_cycles(parameters, count, inputs, outputs) + TASK_PERIOD)
            products.append(multiplied)
        for count, ready in zip(rows, products, strict=True):
            scattered = max(scattered, ready) + count * mapped
        return scattered

    places = range(0, pieces, -(-pieces // MOST_PIECES))[1:]
    whole = (0, pieces)
    ways = [whole, *((0, cut, pieces) for cut in places),
            *((0, first, second, pieces) for first in places for second in places if first < second)]
    return _cut(min(ways, key=end), images, tiles[0])


class GatherStrips(NamedTuple):
    """Strips in which a die's last elements come and are made maps; how many of them each die has sent before it makes
    the maps of each."""

    strips: tuple[TileStrip, ...]
    ahead: tuple[int, ...]


@lru_cache(maxsize=1 << 12)
def gather_strips(parameters: DieParameters, images: int, tiling: Tiling, channels: int, elements: int, dies: int,
                  added: bool) -> GatherStrips | None:
    """The strips of a gather; None: its last elements come at once.

    Parameters
    ----------
    channels : int
        Of a tile, at the die.
    elements : int
        Of a tile, that each of the cluster's ``dies`` sends. Links take what those of a ring do.
    added : bool
        As of :class:`~plinth.step.tile_operations.Untile`.
    """
    if not parameters.leaving_flits:
        return None
    wide, flit = parameters.within.flit_words, parameters.flit_words
    pieces, each = _pieces(images, tiling.tiles)
    words = elements * channels * each
    sent, flits, link = words * dies / wide, words * (dies - 1) / flit, words * dies * (dies + 2) / 8 / flit
    # Cycles for which links have what waits.
    held = (waiting(parameters) + buffered(parameters)) * link / flits
    # A beat a cycle, read or written.
    mapped = each * (tiling.elements + prod(transform.outputs for transform in tiling.form.transforms)) * place_flits(
        parameters.within, channels)
    by_column = images > 1 and (added or tiling.tiles[1] < images)

    def ahead(sizes: Sequence[int]) -> tuple[int, ...]:
        """As many as what waits for links has room for, once a strip has come; at least the next one."""
        counts = []
        for number in range(1, len(sizes) + 1):
            more = [last for last in range(number + 2, len(sizes) + 1)
                    if sum(sizes[number:last]) * link <= held + STRIP_ARRIVAL_CYCLES]
            counts.append(max([min(number + 1, len(sizes)), *more]))
        return tuple(counts)

    def end(bounds: Sequence[int]) -> float:
        """Cycles until the last map is there."""
        sizes = [high - low for low, high in pairwise(bounds)]
        engine, links, came = 0.0, 0.0, list[float]()
        for number, (size, before) in enumerate(zip(sizes, ahead(sizes), strict=True)):
            for more in sizes[len(came):before]:
                engine += PASS_CYCLES
                links = max(links, engine) + more * link
                came.append(links + STRIP_ARRIVAL_CYCLES)
                engine = max(engine + more * sent, links - held)
            descriptors = tiling.tiles[1] if by_column else size if images > 1 else 1
            engine = max(engine, came[number]) + descriptors * PASS_CYCLES + size * mapped
        return engine

    places = range(0, pieces, -(-pieces // MOST_PIECES))[1:]
    best = min(((0, *some, pieces) for count in range(MOST_GATHERED) for some in combinations(places, count)), key=end)
    strips = _cut(best, images, tiling.tiles[0])
    return GatherStrips(strips, ahead([high - low for low, high in pairwise(best)])) if strips else None
