"""Tiles between dies in numpy: copies, Winograd tiles made of maps, maps made of tiles, and lines of tiles.

Work that may go to other dies is said in two halves, which may lie in different processes: what its die makes, a part
for each place (:class:`Made`), and the places of a die that gets some, in the same order.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.machine.convolution import FeatureMap
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.step.tasks import LineTransform, RowsByNumber, TileCopy, TransformTiles
from plinth_hw.isa.winograd import Lattice, Matrix, transposed

Span = tuple[slice, slice]


class MadePart(NamedTuple):
    """The part of a result that a die gives another, or itself: ``give`` writes it into an array of ``shape``."""

    die: int
    shape: tuple[int, ...]
    give: Callable[[Floats], object]


class Made(NamedTuple):
    """The result of work for all dies that get some of it: its parts, which are given behind ``prepare``, where there
    is one."""

    parts: list[MadePart]
    prepare: Kernel | None = None


def _copying(source: Floats) -> Callable[[Floats], object]:
    return lambda out: np.copyto(out, source)


def _receivers(work: TileCopy | LineTransform, die: int) -> list[tuple[int, int]]:
    """Who gets a part, and how many words behind the first one's its source lies."""
    if work.members is None:
        return [(die if work.die is None else work.die, 0)]
    return [(other, number * work.members_apart) for number, (other, _) in enumerate(work.members.shares)]


class NumberedRows(NamedTuple):
    """Rows of a matrix, by their numbers, that something is written to, or added to."""

    matrix: Floats
    rows: NDArray[np.int64]
    added: bool = False

    @property
    def size(self) -> int:
        """Numbers that are written."""
        return len(self.rows) * self.matrix.shape[1]

    def put(self, words: Floats) -> None:
        """Write all rows, in the order of their numbers."""
        if self.added:
            np.add.at(self.matrix, self.rows, words.reshape(len(self.rows), -1))
        else:
            self.matrix[self.rows] = words.reshape(len(self.rows), -1)


#: Where some of what another die makes goes.
TilePlace = Floats | NumberedRows


def _planes(memory: Memory, work: TileCopy, buffer: Buffer, plane: int) -> Floats:
    """``[plane, row, column]`` of either side of a copy."""
    return memory.strided(buffer, (work.planes, *work.shape), (plane, buffer.stride, 1))


def copied_tile(memory: Memory, die: int, work: TileCopy) -> Made:
    """Make the parts of a copy of a tile, one for each die that it goes to."""
    if work.index is not None and not work.index.scatter:
        matrix, rows = memory.view(work.source), work.index.rows
        return Made([MadePart(other, work.shape, lambda out: np.take(matrix, rows, axis=0, out=out, mode="clip"))
                     for other, _ in _receivers(work, die)])
    sources = ((other, _planes(memory, work, work.source._replace(address=work.source.address + apart), work.apart[0]))
               for other, apart in _receivers(work, die))
    return Made([MadePart(other, source.shape, _copying(source)) for other, source in sources])


def tile_places(memory: Memory, die: int, work: TileCopy, other: int) -> list[TilePlace]:
    """The places on another die, whose memory this is, of a tile that a die copies."""
    count = sum(to == other for to, _ in _receivers(work, die))
    if not count:
        return []
    if work.index is None:
        return [_planes(memory, work, work.target, work.apart[1])] * count
    target = memory.view(work.target)
    return [NumberedRows(target, work.index.rows, work.added) if work.index.scatter else target] * count


def rows_kernel(memory: Memory, work: RowsByNumber) -> Kernel:
    """Make the kernel that copies or adds rows of an embedding by their numbers."""
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


def _shared(work: TransformTiles, sides: tuple[int, int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """For each die that gets elements of a tile, row by row or column by column: their numbers in the tile."""
    assert work.members is not None
    first, table = 0, np.arange(sides[0] * sides[1]).reshape(sides)
    order = (table.T if work.column else table).reshape(-1)
    for other, count in work.members.shares:
        yield other, order[first:first + count]
        first += count


def _element(memory: Memory, work: TransformTiles, number: int, lines: int) -> Floats:
    """``[image, tile down, tile across, channel]`` of an element of those that a die has of each tile."""
    tiles, (down, across) = work.tiles, work.counts
    return memory.strided(tiles._replace(address=tiles.address + number * work.plane),
                          (work.maps.images, lines, across, tiles.columns),
                          (down * across * tiles.stride, across * tiles.stride, tiles.stride, 1))


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


def _sides(work: TransformTiles) -> tuple[int, int]:
    return work.lattices[0].size, work.lattices[1].size


def _lines(work: TransformTiles) -> tuple[int, int]:
    """The first line of tiles, and how many."""
    return work.lines or (0, work.lattices[0].count)


def scattered_tiles(memory: Memory, die: int, work: TransformTiles) -> Made:
    """Make Winograd tiles of maps, for the dies that have their elements."""
    lattices, (first, lines), (row, rows, column, wide) = work.lattices, _lines(work), work.elements
    size, inside, of = _rim(work, first, lines)
    maps = _map(memory, work.maps)
    canvas = np.zeros((maps.shape[0], *size, maps.shape[3]), dtype=np.float32)
    down, across = (_numbers(lattice.matrix) for lattice in lattices)
    windows = _windows(canvas, lattices, lines)
    #: Between making all elements and giving each die its own.
    made: list[Floats] = []

    def transform() -> None:
        canvas[:, inside[0], inside[1]] = maps[:, of[0], of[1]]
        made[:] = [np.einsum("ti,nlaijc,uj->nlatuc", down, windows, across, optimize=True)]

    def part(to: int, rows: int | slice, columns: int | slice, *sides: int) -> MadePart:
        shape = len(maps), lines, lattices[1].count, *sides, maps.shape[3]
        return MadePart(to, shape, lambda out: np.copyto(out, made[0][:, :, :, rows, columns]))

    if work.members is None:
        # Elements that go to one die are a rectangle's.
        to = die if work.die is None else work.die
        return Made([part(to, slice(row, row + rows), slice(column, column + wide), rows, wide)], transform)
    return Made([part(to, *divmod(int(number), lattices[1].size)) for to, numbers in _shared(work, _sides(work))
                 for number in numbers], transform)


def scattered_places(memory: Memory, die: int, work: TransformTiles, other: int) -> list[Floats]:
    """The places on another die, whose memory this is, of elements of tiles that a die makes of maps."""
    _, lines = _lines(work)
    if work.members is not None:
        return [_element(memory, work, number, lines) for to, numbers in _shared(work, _sides(work)) if to == other
                for number in range(len(numbers))]
    # _tiles is told the sides of what goes there.
    _, rows, _, wide = work.elements
    return [_tiles(memory, work, (rows, wide), lines)] if other == (die if work.die is None else work.die) else []


def gather_kernel(memory: Memory, work: TransformTiles) -> Kernel:
    """Make the kernel that makes a map of a die's own tiles."""
    lattices, (first, lines) = work.lattices, _lines(work)
    size, inside, of = _rim(work, first, lines)
    maps, tiles = _map(memory, work.maps), _tiles(memory, work, _sides(work), lines)
    canvas = np.zeros((maps.shape[0], *size, maps.shape[3]), dtype=np.float32)
    back = [_numbers(transposed(lattice.matrix)) for lattice in lattices]

    def gather() -> None:
        windows = np.einsum("it,nlatuc,ju->nlaijc", back[0], tiles, back[1], optimize=True)
        canvas[...] = 0
        for window_row in range(lattices[0].reach):
            for window_column in range(lattices[1].reach):
                place = canvas[:, window_row:window_row + lattices[0].step * lines:lattices[0].step,
                               window_column:window_column + lattices[1].step * lattices[1].count:lattices[1].step]
                place += windows[:, :, :, window_row, window_column]
        if work.added:
            maps[:, of[0], of[1]] += canvas[:, inside[0], inside[1]]
        else:
            maps[:, of[0], of[1]] = canvas[:, inside[0], inside[1]]

    return gather


def _columns(memory: Memory, work: LineTransform, buffer: Buffer, output: bool) -> Floats:
    """``[column, element or output, row, channel]`` of either side of a line transform."""
    side, plane = work.sides[output], work.planes[output]
    return memory.strided(buffer, (work.columns, side, buffer.rows, buffer.columns),
                          (side * plane, plane, buffer.stride, 1))


def made_lines(memory: Memory, die: int, work: LineTransform) -> Made:
    """Make lines of columns of tiles of outputs."""
    assert work.node.tiling is not None
    matrix = _numbers(work.node.tiling.form.transforms[0].a)
    parts = []
    for other, apart in _receivers(work, die):
        source = _columns(memory, work, work.source._replace(address=work.source.address + apart), False)
        shape = (work.columns, work.sides[1], work.target.rows, work.target.columns)
        parts.append(MadePart(other, shape, _transforming(matrix, source)))
    return Made(parts)


def _transforming(matrix: Floats, source: Floats) -> Callable[[Floats], object]:
    return lambda out: np.einsum("ot,ctrk->cork", matrix, source, out=out, optimize=True)


def line_places(memory: Memory, die: int, work: LineTransform, other: int) -> list[Floats]:
    """The places on another die, whose memory this is, of lines that a die makes."""
    return [_columns(memory, work, work.target, True) for to, _ in _receivers(work, die) if to == other]
