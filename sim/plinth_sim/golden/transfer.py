"""Golden model of the transfer engine.

For plane p, row r, column c, all ascending, with S, D the first source and destination words and Sp, Sr, Dp, Dr
their plane and row strides:

    COPY   target[D + p * Dp + r' * Dr + c] = source[S + p * Sp + r" * Sr + c]
    ADD    target[D + p * Dp + r' * Dr + c] = target[same] + source[S + p * Sp + r" * Sr + c]

r" = index[r] with ``gather``, r' = index[r] with ``scatter``, otherwise r; ``source`` and ``index`` are the memory of
the die that runs the task, ``target`` that of the destination's die. The sum is that of
:func:`~plinth_sim.golden.arithmetic.add_words`; where rows of the destination overlap, later ones store over, or add
to, what earlier ones left. TRANSFORM stores, and TRANSFORM_ADD adds, what matrices M and M' make of windows: for tile
(p, r), place (t, t'), column c, all ascending, with W the first word of a window and Z that of its tile:

    X[t, t', c] = (M d M'^T)[t, t'],  d[i, j] = source[W + i * down + j * across + c], or +0 outside the source's map
    target[Z + t * down' + t' * across' + c] = X[t, t', c]  (or the sum), inside the destination's map

with sums and order of :mod:`plinth_sim.golden.winograd`; with ``marks`` an X of 0 is -0 if one of its d that have a
coefficient, M[t, i] M'[t', j], is any word but +0, else +0. Places of a tile do not overlap at the destination. ENCODE
stores the string of each row (:mod:`plinth_sim.golden.codes`), its length in words first; DECODE the row of each;
PREDICT masks (:mod:`plinth_sim.golden.prediction`).

Address arithmetic is modulo 2^32. If source and destination overlap, what the destination holds afterwards is
unspecified (here: every read sees the memory as it was before the task).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.codes import LEVELS, MOST_SHIFT, REGION_BITS, SCALES, shifts
from plinth_hw.isa.formats import FP32, Format
from plinth_hw.isa.operations import TransferOperation
from plinth_hw.isa.winograd import FROM_ELEMENTS, MATRICES, matrix_numbers, member_places, places, transposed
from plinth_sim.golden import arithmetic, codes, prediction, regions, winograd
from plinth_sim.golden.vector import BadOperandError

ADDRESS_MASK = 0xFFFF_FFFF
Words = NDArray[np.unsignedinteger]


class ReceiveError(Exception):
    """The destination lies outside the memory."""


class CodeError(Exception):
    """The string of a run has no room, or is not as long as the run's words take."""


@dataclass(frozen=True)
class Rows:
    """What a transfer reads: the first word of each row's destination, and the rows ``[rows, columns]``."""

    starts: NDArray[np.int64]
    words: Words
    adds: bool
    #: Of each row the number of the die that it goes to, if they go to several.
    members: NDArray[np.int64] | None = None

    def of_member(self, number: int) -> "Rows":
        """Those of one of several dies."""
        mine = self.members == number
        return Rows(self.starts[mine], self.words[mine], self.adds)


def rows(operation: TransferOperation, source: Words, body: Any, bases: Sequence[int],
         transforms: Sequence[tuple[int, int]] = (), lanes: int = 1) -> Rows:
    """The source's side of a transfer, on a die with some transforms, whose engine moves ``lanes`` words a cycle.
    ``body`` has the fields of ``TransferBody``, or of what goes on behind it, as attributes.

    Raises
    ------
    BadOperandError
        If the number of columns, rows or planes is zero, or both sides are indexed, or one of a task that transforms,
        or such a task names a matrix that the die has not.
    CodeError
        If a string has no room, or is not one.
    IndexError
        If a row of the source, a place within its map, the index, a mask or a string lies outside the memory.
    """
    if not (body.columns and body.rows and body.planes):
        raise BadOperandError(f"A transfer needs columns, rows and planes, not {body.columns} x "
                              f"{body.rows} x {body.planes}")
    adds = operation in (TransferOperation.ADD, TransferOperation.TRANSFORM_ADD)
    if operation in (TransferOperation.COPY, TransferOperation.ADD):
        if body.gather and body.scatter:
            raise BadOperandError("A transfer has one indexed side at most")
        return _moved(source, body, bases, adds)
    if operation in (TransferOperation.ENCODE, TransferOperation.DECODE):
        return _coded(operation, source, body, bases)
    known = matrix_numbers(transforms)
    if operation is TransferOperation.PREDICT:
        if body.columns % lanes:
            raise BadOperandError(f"A prediction has a multiple of {lanes} channels, not {body.columns}")
        return _predicted(source, body, bases, [number for number in known if number in FROM_ELEMENTS])
    if body.gather or body.scatter or body.down not in known or body.across not in known:
        raise BadOperandError("A transform indexes nothing and has matrices of the die")
    if body.members:
        places = body.members * body.member_places + min(body.members, body.longer_members)
        if (not body.remote or not body.member_places
                or places != len(MATRICES[body.down]) * len(MATRICES[body.across])):
            raise BadOperandError("Members of a transform have all places of a tile, each some, and are remote")
    return _transformed(source, body, bases, adds)


def _moved(source: Words, body: Any, bases: Sequence[int], adds: bool) -> Rows:
    """Of COPY and ADD."""
    first = bases[body.index.base] + body.index.offset & ADDRESS_MASK
    numbers = np.zeros(0, dtype=np.int64)
    if body.gather or body.scatter:
        if first + body.rows > len(source):
            raise IndexError(f"words {first}+{body.rows} lie outside a memory of {len(source)} words")
        numbers = source[first:first + body.rows].astype(np.int64)

    def starts(pointer: Any, row_stride: int, plane_stride: int, indexed: int) -> NDArray[np.int64]:
        rows = numbers if indexed else np.arange(body.rows)
        offsets = (np.arange(body.planes)[:, None] * plane_stride + rows * row_stride).ravel()
        return (bases[pointer.base] + pointer.offset + offsets) & ADDRESS_MASK

    sources = starts(body.source, body.source_row_stride, body.source_plane_stride, body.gather)
    beyond = sources[sources + body.columns > len(source)]
    if len(beyond):
        raise IndexError(f"words {beyond[0]}+{body.columns} lie outside a memory of {len(source)} words")
    targets = starts(body.destination, body.destination_row_stride, body.destination_plane_stride, body.scatter)
    return Rows(targets, source[sources[:, None] + np.arange(body.columns)], adds)


def _transformed(source: Words, body: Any, bases: Sequence[int], adds: bool) -> Rows:
    """Of TRANSFORM and TRANSFORM_ADD."""
    at, inside = places(body, "source", bases[body.source.base] + body.source.offset)
    windows = np.zeros((*at.shape, body.columns), dtype=np.float32)
    windows[inside] = source[at[inside][:, None] + np.arange(body.columns)].view(np.float32)
    something = windows.view(np.uint32) != 0
    ways = [(body.down, 2), (body.across, 3)]
    for number, axis in ways if body.down_first else ways[::-1]:
        windows = winograd.weighted(MATRICES[number], windows, axis)
    if body.marks:
        supports = transposed(MATRICES[body.down]), transposed(MATRICES[body.across])
        caused = prediction.needed(supports, np.moveaxis(something, (2, 3), (0, 1)))
        zeros = np.where(np.moveaxis(caused, (0, 1), (2, 3)), np.float32(-0.0), np.float32(0))
        windows = np.where(windows == 0, zeros, windows)
    targets, wanted = places(body, "destination", bases[body.destination.base] + body.destination.offset)
    members = None
    if body.members:
        number, _ = member_places(body)
        members = np.broadcast_to(number.reshape(1, 1, *wanted.shape[2:]), wanted.shape)[wanted]
    return Rows(targets[wanted], np.ascontiguousarray(windows[wanted]).view(source.dtype), adds, members)


def _coded(operation: TransferOperation, source: Words, body: Any, bases: Sequence[int]) -> Rows:
    """Of ENCODE and DECODE."""
    part: codes.CodeRange | codes.Skips | regions.Regions
    if body.skips:
        part = codes.Skips(bool(body.sent), bool(body.given), bool(body.maps))
    elif body.regions:
        part = regions.Regions(body.regions + REGION_BITS[0] - 1, body.first, bool(body.follows))
    else:
        part = codes.CodeRange(body.first)
        if body.follows:
            part = codes.CodeRange(body.first, body.known, None if body.exact else body.lower)
    try:
        part.check()
    except ValueError as error:
        raise BadOperandError(str(error)) from None
    if (body.skips and (body.follows or body.regions)) or (body.regions and body.follows and not body.exact):
        raise BadOperandError("Skip code has no next part and no regions, and these no lower level")
    if body.maps and not body.skips:
        raise BadOperandError("Only skip code has strings of masks alone")
    if body.planes != 1 or body.gather or body.scatter:
        raise BadOperandError("Runs that are coded are rows of one plane, and not indexed")

    def places(name: str) -> NDArray[np.int64]:
        pointer = getattr(body, name)
        stride = getattr(body, f"{name}_row_stride")
        return bases[pointer.base] + pointer.offset + np.arange(body.rows) * stride & ADDRESS_MASK

    def read(at: int, count: int) -> codes.Words:
        if at + count > len(source):
            raise IndexError(f"words {at}+{count} lie outside a memory of {len(source)} words")
        return source[at:at + count].astype(np.uint32)

    targets = places("destination")
    # Masks that were sent are not read but stored.
    stores = bool(body.skips and body.sent and body.given and operation is TransferOperation.DECODE)
    masked = part.follows or bool(body.skips and body.given and not stores)
    masks = [codes.unpacked(read(at, -(-body.columns // 32)), body.columns).astype(bool) if masked else None
             for at in places("mask")]
    if operation is TransferOperation.ENCODE:
        strings = [part.string(read(at, body.columns), mask) for at, mask in zip(places("source"), masks, strict=True)]
        if any(len(string) >= body.destination_row_stride for string in strings):
            raise CodeError(f"a string of {max(map(len, strings))} words has no room in "
                            f"{body.destination_row_stride}, the first of which is for its length")
        starts = [at + np.arange(len(string) + 1) for at, string in zip(targets, strings, strict=True)]
        words = [word for string in strings for word in (len(string), *string)]
        return Rows(np.concatenate(starts), np.array(words, dtype=source.dtype)[:, None], False)
    runs, mask_words = [], []
    for at, fills, mask in zip(places("codes"), places("source"), masks, strict=True):
        length = int(read(at, 1)[0])
        if length >= body.codes_row_stride:
            raise CodeError(f"a string of {length} words has no room in {body.codes_row_stride}")
        try:
            runs.append(part.run(read(at + 1, length), body.columns,
                                 read(fills, body.columns) if part.follows else None, mask))
            if stores:
                mask_words.append(codes.packed(codes.read_skipped(read(at + 1, length), body.columns)[1]))
        except ValueError as error:
            raise CodeError(str(error)) from None
    if stores:
        sides = [(targets, runs), (places("mask"), mask_words)]
        starts = [at + np.arange(len(row)) for first, side in sides for at, row in zip(first, side, strict=True)]
        stored = np.concatenate([row for _, side in sides for row in side])
        return Rows(np.concatenate(starts), stored.astype(source.dtype)[:, None], False)
    return Rows(targets, np.array(runs, dtype=source.dtype), False)


def _predicted(source: Words, body: Any, bases: Sequence[int], known: Sequence[int]) -> Rows:
    """Of PREDICT."""
    levelled = (body.first in SCALES if body.regions
                else body.first in LEVELS and body.first - MOST_SHIFT in LEVELS)
    if (body.planes != 1 or body.gather or body.scatter or body.down not in known or body.across not in known
            or not levelled):
        raise BadOperandError("A prediction has one plane, no index, matrices of the die and a level")
    way = MATRICES[body.down], MATRICES[body.across]
    window = body.destination_row_step, body.destination_column_step
    if window not in ((0, 0), (2, 2)) or (any(window) and any(len(matrix) % 2 for matrix in way)):
        raise BadOperandError("A pool behind a prediction has windows of 2x2, whole ones in a tile")
    if body.source_across and (any(window) or not body.destination_rows):
        raise BadOperandError("Maps that a prediction adds have sides, and no pool behind them")
    sizes = len(way[0][0]), len(way[1][0])

    def start(pointer: Any) -> int:
        return (bases[pointer.base] + pointer.offset) & ADDRESS_MASK

    u, v, tile = np.ogrid[:sizes[0], :sizes[1], :body.rows]
    places = start(body.source) + (u * sizes[1] + v) * body.source_plane_stride + tile * body.source_row_stride
    places = (places & ADDRESS_MASK)[..., None] + np.arange(body.columns)
    added = start(body.codes) + np.arange(body.columns)
    bias, fills = source[added].astype(np.uint32).view(np.float32), source[places].astype(np.uint32)
    inside, after = True, [bias]
    if body.destination_rows:
        number, row, column, inside = _map_places(body, len(way[0]), len(way[1]))
    if body.source_across:
        at = start(body.mask) + (number * body.mask_row_stride + row * body.source_down + column * body.source_across)
        # Outside a map anything is added.
        maps = np.where(inside, at & ADDRESS_MASK, added[0]) + np.arange(body.columns)
        after.append(source[maps].astype(np.uint32).view(np.float32))
    if body.regions:
        ends = regions.fill_ends(fills, body.regions + REGION_BITS[0] - 1, body.first)
    else:
        ends = prediction.ends(fills, body.first - np.array(shifts(*way)))
    live = prediction.live(way, ends, lambda neurons: reduce(prediction.plus, after, neurons), inside, any(window))
    named = (prediction.of_units if body.regions else prediction.needed)(way, live)
    masks = named.reshape(sizes[0] * sizes[1], -1)
    targets = start(body.destination) + np.arange(len(masks)) * body.destination_row_stride & ADDRESS_MASK
    return Rows(targets, np.array([codes.packed(mask) for mask in masks], dtype=source.dtype), False)


def _map_places(body: Any, down: int, across: int) -> tuple[Any, Any, Any, Any]:
    """Of neurons ``[m, m', tiles, 1]`` of a prediction: number of the map, row and column; whether they lie in it."""
    lines, columns = (max(1, -(-side // size)) for side, size in (
        (body.destination_rows, down), (body.destination_columns, across)))
    row, column, tile, _ = np.ogrid[:down, :across, :body.rows, :1]
    row, column = tile // columns % lines * down + row, tile % columns * across + column
    return (tile // columns // lines, row, column,
            (row < body.destination_rows) & (column < body.destination_columns))


def check(target: Words, rows: Rows) -> None:
    """Whether rows lie within a memory.

    Raises
    ------
    ReceiveError
        If one does not.
    """
    columns = rows.words.shape[1]
    beyond = rows.starts[rows.starts + columns > len(target)]
    if len(beyond):
        raise ReceiveError(f"words {beyond[0]}+{columns} lie outside a memory of {len(target)} words")


def write(target: Words, rows: Rows, fmt: Format = FP32) -> int:
    """The destination's side: store the rows, or add them to what is there, as numbers of a format; returns how many
    sums were beyond it."""
    places = rows.starts[:, None] + np.arange(rows.words.shape[1])
    if not rows.adds:
        # Of several numbers for a place the last one stays.
        target[places] = rows.words
        return 0
    ends = 0
    for some in _rounds(rows.starts, rows.words.shape[1]):
        target[places[some]], beyond = arithmetic.add_words(fmt, target[places[some]], rows.words[some])
        ends += beyond
    return ends


def _rounds(starts: NDArray[np.int64], columns: int) -> Iterator[NDArray[np.int64] | slice]:
    """Rows that are added together, each place once: one after the other, those of a place in their order."""
    order = np.argsort(starts, kind="stable")
    apart = np.diff(starts[order])
    if ((apart > 0) & (apart < columns)).any():
        yield from (slice(row, row + 1) for row in range(len(starts)))
        return
    # How often a row's place has come before it.
    first = np.concatenate([[True], apart > 0])
    times = np.arange(len(starts)) - np.maximum.accumulate(np.where(first, np.arange(len(starts)), 0))
    for time in range(int(times.max()) + 1):
        yield order[times == time]


def move(operation: TransferOperation, source: Words, target: Words, body: Any, bases: Sequence[int],
         fmt: Format = FP32, transforms: Sequence[tuple[int, int]] = (), lanes: int = 1) -> int:
    """Run a task from a memory to a memory; returns how many words it moved.

    Raises
    ------
    BadOperandError, IndexError
        As :func:`rows`.
    ReceiveError
        As :func:`check`. Nothing is written after an error.
    """
    moved = rows(operation, source, body, bases, transforms, lanes)
    check(target, moved)
    write(target, moved, fmt)
    return moved.words.size
