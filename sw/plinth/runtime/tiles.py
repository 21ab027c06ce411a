"""What goes between dies in numpy: tiles as they are, Winograd tiles of maps and maps of tiles, lines of tiles."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from plinth.machine.convolution import FeatureMap
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.step.tasks import LineTransform, RowsByNumber, TileCopy, TransformTiles
from plinth_hw.isa.winograd import Lattice, Matrix, transposed

Span = tuple[slice, slice]


def tile_kernel(memories: Sequence[Memory], die: int, work: TileCopy) -> Kernel:
    """A copy of a tile, to other dies as well."""
    pairs = []
    to = [(die if work.die is None else work.die, 0)]
    if work.members is not None:
        to = [(other, number * work.members_apart) for number, (other, _) in enumerate(work.members.shares)]
    for other, apart in to:
        source = work.source._replace(address=work.source.address + apart)
        source_view, target_view = (memory.strided(buffer, (work.planes, work.source.rows, work.source.columns),
                                                   (plane, buffer.stride, 1))
                                    for memory, buffer, plane in ((memories[die], source, work.apart[0]),
                                                                  (memories[other], work.target, work.apart[1])))
        pairs.append((source_view, target_view))

    def run() -> None:
        for source_view, target_view in pairs:
            np.copyto(target_view, source_view)

    return run


def rows_kernel(memory: Memory, work: RowsByNumber) -> Kernel:
    """Rows by their numbers."""
    numbers, table, rows = (memory.view(buffer) for buffer in (work.numbers, work.table, work.rows))
    index = numbers.view(np.uint32)

    def run() -> None:
        if work.added:
            np.add.at(table, index.ravel(), rows)
        else:
            np.take(table, index.ravel(), axis=0, out=rows)

    return run


def _numbers(matrix: Matrix) -> Floats:
    return np.array([[float(coefficient) for coefficient in row] for row in matrix], dtype=np.float32)


def _map(memory: Memory, maps: FeatureMap) -> Floats:
    """``[image, row, column, channel]``."""
    buffer = maps.buffer
    return memory.strided(buffer, (maps.images, maps.height, maps.width, buffer.columns),
                          (maps.image_words, maps.row_words, buffer.stride, 1))


def _tiles(memory: Memory, work: TransformTiles, sides: tuple[int, int], lines: int) -> Floats:
    """``[image, tile down, tile across, row of a tile, column of it, channel]`` of some elements of a die."""
    tiles, (down, across) = work.tiles, work.counts
    steps = (work.plane, work.column * work.plane) if work.column else (sides[1] * work.plane, work.plane)
    return memory.strided(tiles, (work.maps.images, lines, across, *sides, tiles.columns),
                          (down * across * tiles.stride, across * tiles.stride, tiles.stride, *steps, 1))


def _shared(work: TransformTiles, memories: Sequence[Memory], sides: tuple[int, int], lines: int
            ) -> Iterator[tuple[NDArray[np.int64], list[Floats]]]:
    """For each die that gets elements of a tile, row by row or column by column: their numbers, and where they go,
    ``[image, tile down, tile across, channel]`` each."""
    assert work.members is not None
    first, tiles, (down, across) = 0, work.tiles, work.counts
    table = np.arange(sides[0] * sides[1]).reshape(sides)
    order = (table.T if work.column else table).reshape(-1)
    for other, count in work.members.shares:
        where = [memories[other].strided(
            tiles._replace(address=tiles.address + number * work.plane),
            (work.maps.images, lines, across, tiles.columns),
            (down * across * tiles.stride, across * tiles.stride, tiles.stride, 1)) for number in range(count)]
        yield order[first:first + count], where
        first += count


def _windows(canvas: Floats, lattices: tuple[Lattice, Lattice], lines: int) -> Floats:
    """Windows of a map within its rim: ``[image, tile down, tile across, row, column, channel]``."""
    down, across = lattices
    windows = np.lib.stride_tricks.sliding_window_view(canvas, (down.reach, across.reach), axis=(1, 2))
    return windows[:, ::down.step, ::across.step][:, :lines, :across.count].transpose(0, 1, 2, 4, 5, 3)


def _rim(work: TransformTiles, first: int, lines: int) -> tuple[tuple[int, int], Span, Span]:
    """Rows and columns of a map with all that windows reach; where the map lies in it, and which of its rows and
    columns do."""
    sizes, inside, of = [], [], []
    for lattice, side, start, count in zip(work.lattices, (work.maps.height, work.maps.width), (first, 0),
                                           (lines, work.lattices[1].count), strict=True):
        begin = lattice.first + start * lattice.step
        size = (count - 1) * lattice.step + lattice.reach
        low, high = max(begin, 0), min(begin + size, side)
        sizes.append(size)
        inside.append(slice(low - begin, high - begin))
        of.append(slice(low, high))
    return (sizes[0], sizes[1]), (inside[0], inside[1]), (of[0], of[1])


def transform_kernel(memories: Sequence[Memory], die: int, work: TransformTiles) -> Kernel:
    """Winograd tiles made of maps, for dies that have their elements, or maps made of tiles."""
    lattices = work.lattices
    first, lines = work.lines or (0, lattices[0].count)
    sides = lattices[0].size, lattices[1].size
    size, inside, of = _rim(work, first, lines)
    maps = _map(memories[die], work.maps)
    canvas = np.zeros((maps.shape[0], *size, maps.shape[3]), dtype=np.float32)
    down, across = (_numbers(lattice.matrix) for lattice in lattices)
    row, rows, column, wide = work.elements
    if work.scatter:
        parts = list(_shared(work, memories, sides, lines)) if work.members is not None else []
        # Elements that go to one die are the rectangle's; _tiles is told the sides of what goes there.
        target = None if parts else _tiles(memories[die if work.die is None else work.die], work, (rows, wide), lines)
        windows = _windows(canvas, lattices, lines)

        def scatter() -> None:
            canvas[:, inside[0], inside[1]] = maps[:, of[0], of[1]]
            elements = np.einsum("ti,nlaijc,uj->nlatuc", down, windows, across, optimize=True)
            if target is not None:
                target[...] = elements[:, :, :, row:row + rows, column:column + wide]
            flat = elements.reshape(*elements.shape[:3], -1, elements.shape[5])
            for numbers, where in parts:
                for number, place in zip(numbers.tolist(), where, strict=True):
                    place[...] = flat[:, :, :, number]

        return scatter
    tiles = _tiles(memories[die], work, sides, lines)
    back = [_numbers(transposed(lattice.matrix)) for lattice in lattices]
    kept = None if work.added else [(lattice.step, lattice.reach) for lattice in lattices]

    def gather() -> None:
        windows = np.einsum("it,nlatuc,ju->nlaijc", back[0], tiles, back[1], optimize=True)
        canvas[...] = 0
        for window_row in range(lattices[0].reach):
            for window_column in range(lattices[1].reach):
                place = canvas[:, window_row:window_row + lattices[0].step * lines:lattices[0].step,
                               window_column:window_column + lattices[1].step * lattices[1].count:lattices[1].step]
                place += windows[:, :, :, window_row, window_column]
        if kept is None:
            maps[:, of[0], of[1]] += canvas[:, inside[0], inside[1]]
        else:
            maps[:, of[0], of[1]] = canvas[:, inside[0], inside[1]]

    return gather


def line_kernel(memories: Sequence[Memory], die: int, work: LineTransform) -> Kernel:
    """Columns of tiles of outputs made lines."""
    assert work.node.tiling is not None
    elements, outputs = work.sides
    matrix = _numbers(work.node.tiling.form.transforms[0].a)
    to = [(die if work.die is None else work.die, 0)]
    if work.members is not None:
        to = [(other, number * work.members_apart) for number, (other, _) in enumerate(work.members.shares)]
    pairs = []
    for other, apart in to:
        source = work.source._replace(address=work.source.address + apart)
        pairs.append(tuple(memory.strided(buffer, (work.columns, side, buffer.rows, buffer.columns),
                                          (side * plane, plane, buffer.stride, 1))
                           for memory, buffer, side, plane in zip(
                               (memories[die], memories[other]), (source, work.target), (elements, outputs),
                               work.planes, strict=True)))

    def run() -> None:
        for source, target in pairs:
            np.einsum("ot,ctrk->cork", matrix, source, out=target, optimize=True)

    return run
