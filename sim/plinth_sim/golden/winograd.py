"""Golden model of the tiles of Winograd layers: scatter and gather of :mod:`plinth_hw.isa.winograd`, bit for bit.

A direction at a time, by a matrix c of integers. A number is multiplied by powers of two alone, which is exact, so a
coefficient is as many terms as it has ones: 5 x is 4 x, then x. The terms u_1, u_2, .. of a row, in the order of its
columns, are added in FP32 two by two, and these sums one after the other::

    (c x)_t = RN32(RN32(RN32(u_1 + u_2) + RN32(u_3 + u_4)) + RN32(u_5 + u_6)),  u = s 2^e x_j: each e of |c_tj|, falling

A term or a pair that is not there is not added.

=========  ==========================================================================================
scatter    across (columns of a window), then down; what lies outside the map is +0
gather     down, then across; where windows overlap, each is added to what is there, +0 at first, in the order
           of rows, then columns, of tiles
=========  ==========================================================================================

A direction of one element is left out. Both orders are those of the way: a die that holds whole lines of a tile does
the first direction of a gather and the second of a scatter, so it sends ``reach`` instead of T numbers of each.
"""

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.winograd import Lattice, Matrix, terms, transposed
from plinth_sim.golden import arithmetic

Array = NDArray[np.float32]
Sides = tuple[Lattice, Lattice]


def weighted(matrix: Matrix, values: Array, axis: int) -> Array:
    """``matrix`` times ``values`` along an axis: as above.

    Raises
    ------
    ValueError
        If the axis has not as many places as the matrix has columns, or as :func:`~plinth_hw.isa.winograd.terms`.
    """
    places = np.moveaxis(values, axis, 0)
    if len(places) != len(matrix[0]):
        raise ValueError(f"an axis of {len(places)} places does not fit a matrix of {len(matrix[0])} columns")
    product = np.zeros((len(matrix), *places.shape[1:]), dtype=np.float32)
    for row, line in zip(matrix, product, strict=True):
        added = [arithmetic.multiply(np.full_like(places[at], power), places[at]) for at, power in terms(row)]
        pairs = [reduce(arithmetic.add, added[first:first + 2]) for first in range(0, len(added), 2)]
        line[...] = reduce(arithmetic.add, pairs)
    return np.moveaxis(product, 0, axis)


def scatter(sides: Sides, maps: Array) -> Array:
    """Tiles ``[samples, tiles down, tiles across, T, T', channels]`` of maps ``[samples, rows, columns, channels]``."""
    windows = maps
    for axis, lattice in ((1, sides[0]), (3, sides[1])):
        places = np.arange(lattice.count)[:, None] * lattice.step + lattice.first + np.arange(lattice.reach)
        inside = (places >= 0) & (places < windows.shape[axis])
        windows = np.take(windows, np.where(inside, places, 0), axis=axis)
        shape = [1] * windows.ndim
        shape[axis:axis + 2] = inside.shape
        windows = np.where(inside.reshape(shape), windows, np.float32(0))
    across = weighted(sides[1].matrix, windows, 4)
    return weighted(sides[0].matrix, across, 2).swapaxes(2, 3)


def gather(sides: Sides, tiles: Array, shape: tuple[int, int]) -> Array:
    """Maps of ``shape`` (rows, columns) of tiles: the transpose of :func:`scatter`."""
    down = weighted(transposed(sides[0].matrix), tiles, 3)
    windows = weighted(transposed(sides[1].matrix), down, 4)
    maps = np.zeros((len(tiles), *shape, tiles.shape[-1]), dtype=np.float32)
    adds = any(lattice.reach > lattice.step for lattice in sides)
    for at in np.ndindex(sides[0].count, sides[1].count):
        spans = []
        for lattice, number, side in zip(sides, at, shape, strict=True):
            start = number * lattice.step + lattice.first
            begin, end = max(start, 0), min(start + lattice.reach, side)
            spans.append((slice(begin, end), slice(begin - start, end - start)))
        (rows, tile_rows), (columns, tile_columns) = spans
        window, place = windows[:, *at, tile_rows, tile_columns], maps[:, rows, columns]
        place[...] = arithmetic.add(place, np.ascontiguousarray(window)) if adds else window
    return maps
