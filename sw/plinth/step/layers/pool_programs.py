"""Pooling layers as vector tasks: forward and backward, first down the rows of a map, then across its columns.

Feature maps lie as [image, row, column, channel]. With windows w along a direction, taps u, stride s and padding p,
and only those taps that lie inside the map::

    middle[b, i, x]  = pool over u ascending of       x[b, i s + u - p, x]                            (down)
    y[b, i, j]       = pool over v ascending of  middle[b, i, j s + v - p]                            (across)

    maximum   max(max(x_0, x_1), ...)
    mean      ((x_0 + x_1) + ...) FP32(1 / n), n the number of taps inside

Backward goes the other way, from dy to dmiddle to dx. Each window shares its error out to its taps, ascending; a
place adds up what it gets, taps ascending (which is windows descending), and is +0 where no window is::

    maximum   rest_0 = dy;  r_u = rest_u where y - x_u > 0, else +0;  share_u = rest_u - r_u;  rest_(u+1) = r_u
    mean      share_u = dy FP32(1 / n)

so the first largest tap gets the error: of equal ones in a window the leftmost, of those the topmost. A store into an
narrow map rounds; with taps in several tasks that may happen between the shares of a place, never between the
terms of a mean.

A direction is a map seen as [outer, place, inner] with inner elements contiguous: down has outer = images,
inner = columns times channels; across has outer = images times rows, inner = channels. A task takes a 2-D strided
region of windows; see :meth:`_Direction.tiles`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from plinth.buffers import Buffer
from plinth.machine.convolution import FeatureMap
from plinth.machine.vector import PROGRAM_CYCLES
from plinth.network.layers import MaxPool, MeanPool, Shape
from plinth.step.vector import VectorProgram, scratchpad_lines
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VECTOR_LOADS, VECTOR_STORES, VectorOp

Pool = MaxPool | MeanPool
#: Largest number of rows or columns of a task.
LONGEST = (1 << 16) - 1


@dataclass(frozen=True)
class _Tile:
    """Windows of one task: row r is window ``window + r``, or with ``across`` that of the r-th outer index on;
    columns are elements from ``column`` on, which may run over several windows."""

    outer: int
    window: int
    column: int
    rows: int
    columns: int
    across: bool


@dataclass(frozen=True)
class _View:
    """A map along one direction: [outer, place, inner]."""

    buffer: Buffer
    places: int
    inner: int

    @property
    def packing(self) -> int:
        """Elements to a word."""
        return 2 if self.buffer.packed else 1

    @property
    def outer(self) -> int:
        """Lines of places."""
        words = self.places * self.inner // self.packing
        return self.buffer.rows * self.buffer.stride // words

    def region(self, tile: _Tile, step: int = 1, offset: int = 0) -> Buffer:
        """Places ``window * step + offset`` of a tile's windows."""
        start = (tile.outer * self.places + tile.window * step + offset) * self.inner + tile.column
        stride = (self.places if tile.across else step) * self.inner
        return self.buffer.part(self.buffer.name, start // self.packing, tile.rows, tile.columns,
                                stride // self.packing)


@dataclass(frozen=True)
class _Span:
    """Neighbouring windows with the same taps ``low`` to ``high`` inside the map."""

    first: int
    end: int
    low: int
    high: int
    #: The direction's last window is in it, alone if windows overlap.
    last: bool

    @property
    def windows(self) -> range:
        """Their numbers."""
        return range(self.first, self.end)


@dataclass(frozen=True)
class _Direction:
    """Windows along one direction of a layer."""

    parameters: DieParameters
    outer: int
    inner: int
    places: int
    windows: int
    kernel: int
    stride: int
    padding: int

    def spans(self) -> list[_Span]:
        """All windows."""
        spans = []

        def key(window: int) -> tuple[int, int, bool]:
            start = window * self.stride - self.padding
            return (max(0, -start), min(self.kernel, self.places - start),
                    self.kernel > self.stride and window == self.windows - 1)

        for (low, high, _), group in groupby(range(self.windows), key):
            members = list(group)
            spans.append(_Span(members[0], members[-1] + 1, low, high, members[-1] == self.windows - 1))
        return spans

    def single(self) -> "_Direction":
        """The same places, each a window."""
        return replace(self, windows=self.places, kernel=1, stride=1, padding=0)

    def gaps(self) -> list[range]:
        """Neighbouring places in no window, as windows of :meth:`single`."""
        covered = {place for window in range(self.windows) for place in range(
            window * self.stride - self.padding, window * self.stride - self.padding + self.kernel)}
        gaps = []
        for inside, group in groupby(range(self.places), covered.__contains__):
            members = list(group)
            if not inside:
                gaps.append(range(members[0], members[-1] + 1))
        return gaps

    def tiles(self, windows: range, regions: int) -> list[_Tile]:
        """Cuts neighbouring windows into tasks that hold ``regions`` full regions.

        Rows are outer indices, a task a window (all windows if the stride is 1, for they are then neighbours in
        memory); or rows are windows, a task an outer index (all of them if the windows of one follow on those of the
        one before). Of these the cheapest.
        """
        beat, lines = self.parameters.beat_words, scratchpad_lines(self.parameters) // regions
        count = len(windows)
        joined = count if self.stride == 1 else 1
        by_outer = [_Tile(0, window, 0, self.outer, joined * self.inner, True)
                    for window in windows[::joined]]
        if count == self.windows and self.places == self.stride * self.windows:
            by_window = [_Tile(0, 0, 0, self.outer * count, self.inner, False)]
        else:
            by_window = [_Tile(outer, windows.start, 0, count, self.inner, False) for outer in range(self.outer)]

        def cut(blocks: list[_Tile]) -> list[_Tile]:
            tiles = []
            for block in blocks:
                columns = min(block.columns, max(lines, 1) * beat, LONGEST // beat * beat)
                rows = min(block.rows, max(1, lines // -(-columns // beat)), LONGEST)
                for row in range(0, block.rows, rows):
                    outer, window = (block.outer + row, block.window) if block.across else divmod(
                        block.outer * self.windows + block.window + row, self.windows)
                    tiles += [_Tile(outer, window, column, min(rows, block.rows - row),
                                    min(columns, block.columns - column), block.across)
                              for column in range(0, block.columns, columns)]
            return tiles

        def cost(tiles: list[_Tile]) -> int:
            return sum(PROGRAM_CYCLES + tile.rows * -(-tile.columns // beat) for tile in tiles)

        return min(cut(by_outer), cut(by_window), key=cost)

    def program(self, tile: _Tile) -> VectorProgram:
        """An empty program over a tile."""
        return VectorProgram(self.parameters, tile.rows, tile.columns)

    def overlaps(self) -> bool:
        """Whether a place can lie in several windows."""
        return self.kernel > self.stride and self.windows > 1


def _phase(programs: list[VectorProgram], targets: Iterable[Buffer]) -> list[VectorProgram]:
    """Programs that write different places of ``targets``. The first and the last name these as a whole: tasks of an
    engine start and finish in order, so whoever waits for those two has waited for all."""
    whole = list(targets)
    for number, program in enumerate(programs):
        program.written = whole if number in (0, len(programs) - 1) else []
    return programs


def _forward(layer: Pool, direction: _Direction, source: _View, target: _View, *,
             spare: bool) -> Iterator[VectorProgram]:
    """Pools along a direction. Running results of more taps than a task can load lie in the target or, where that has
    no room for an FP32 sum and the source is ``spare``, in the place of the window's first tap."""
    mean = isinstance(layer, MeanPool)
    in_source = mean and target.buffer.packed
    chunks = 1 + max(0, -(-(direction.kernel - VECTOR_LOADS) // (VECTOR_LOADS - 1)))
    if in_source and chunks > 1 and (source.buffer.packed or not spare or direction.overlaps()):
        raise layer.refuse(f"adds {direction.kernel} taps in several tasks and needs an FP32 map for the sums: make "
                           f"{target.buffer.name!r} one")
    for chunk in range(chunks):
        programs = []
        for span in direction.spans():
            end = span.low + VECTOR_LOADS + chunk * (VECTOR_LOADS - 1)
            begin = end - (VECTOR_LOADS - 1) if chunk else span.low
            taps = range(begin, min(end, span.high))
            if not taps:
                continue
            last = taps.stop == span.high
            for tile in direction.tiles(span.windows, len(taps) + (chunk > 0)):
                program = direction.program(tile)
                result = target.region(tile)
                running = source.region(tile, direction.stride, span.low - direction.padding) if in_source else result
                if chunk:
                    program.load("sum", running)
                for tap in taps:
                    name = f"x{tap}" if chunk or tap > span.low else "sum"
                    program.load(name, source.region(tile, direction.stride, tap - direction.padding))
                    if name != "sum":
                        program.run(VectorOp.ADD if mean else VectorOp.MAX, "sum", "sum", name)
                if last and mean:
                    program.run(VectorOp.SCALE, "sum", "sum", immediate=1 / (span.high - span.low))
                program.store("sum", result if last else running)
                programs.append(program)
        written = [target.buffer, source.buffer] if in_source and chunks > 1 else [target.buffer]
        yield from _phase(programs, written)


def _groups(direction: _Direction, first: int, later: int) -> list[range]:
    """Taps, cut into groups for tasks: ``first`` of those that may touch a place before all others, ``later`` of the
    others. No place is touched twice in a group."""
    fresh = min(direction.kernel, direction.stride)
    later = min(later, direction.stride)
    return [range(tap, min(tap + first, fresh)) for tap in range(0, fresh, first)] + [
        range(tap, min(tap + later, direction.kernel)) for tap in range(fresh, direction.kernel, later)]


def _backward(direction: _Direction, dy: _View, dx: _View, kept: list[Buffer], groups: list[range],
              share: Callable[[_Span, range], Iterator[VectorProgram]]) -> Iterator[VectorProgram]:
    """Runs ``share`` for the taps of each group in each span, and clears places that no window touches."""
    programs = []
    for gap in direction.gaps():
        for tile in direction.single().tiles(gap, 2):
            program = direction.program(tile)
            program.clear("zero", dy.buffer)
            program.store("zero", dx.region(tile))
            programs.append(program)
    for group in groups:
        for span in direction.spans():
            taps = range(max(group.start, span.low), min(group.stop, span.high))
            if taps:
                programs += share(span, taps)
        yield from _phase(programs, [dx.buffer, *kept])
        programs = []


def _backward_max(direction: _Direction, x: _View, y: _View, dy: _View, dx: _View,
                  rest: _View) -> Iterator[VectorProgram]:
    """Errors to the first largest taps. ``rest`` keeps what is left of them between tasks."""

    def share(span: _Span, taps: range) -> Iterator[VectorProgram]:
        adds = taps.start >= direction.stride and not span.last
        for tile in direction.tiles(span.windows, 2 + len(taps) + adds):
            program = direction.program(tile)
            program.load("y", y.region(tile))
            program.load("dy", (dy if taps.start == span.low else rest).region(tile))
            left = "dy"
            stores = []
            for tap in taps:
                place = (tile, direction.stride, tap - direction.padding)
                name = f"x{tap}"
                program.load(name, x.region(*place))
                program.run(VectorOp.SUB, name, "y", name)
                program.run(VectorOp.RELU_MASK, name, left, name)
                program.run(VectorOp.SUB, left, left, name)
                if adds:
                    program.load("dx", dx.region(*place))
                    program.run(VectorOp.ADD, left, "dx", left)
                stores.append((left, dx.region(*place)))
                left = name
            if taps.stop < span.high:
                stores.append((left, rest.region(tile)))
            for name, place_of in stores:
                program.store(name, place_of)
            yield program

    groups = _groups(direction, VECTOR_LOADS - 2, VECTOR_LOADS - 3)
    yield from _backward(direction, dy, dx, [rest.buffer] if len(groups) > 1 else [], groups, share)


def _backward_mean(direction: _Direction, dy: _View, dx: _View) -> Iterator[VectorProgram]:
    """Errors in equal shares."""

    def share(span: _Span, taps: range) -> Iterator[VectorProgram]:
        adds = taps.start >= direction.stride and not span.last
        for tile in direction.tiles(span.windows, 1 + adds * len(taps)):
            program = direction.program(tile)
            program.load("dy", dy.region(tile))
            program.run(VectorOp.SCALE, "dy", "dy", immediate=1 / (span.high - span.low))
            stores = []
            for tap in taps:
                place, name = dx.region(tile, direction.stride, tap - direction.padding), "dy"
                if adds:
                    name = f"dx{tap}"
                    program.load(name, place)
                    program.run(VectorOp.ADD, name, name, "dy")
                stores.append((name, place))
            for name, place in stores:
                program.store(name, place)
            yield program

    yield from _backward(direction, dy, dx, [], _groups(direction, VECTOR_STORES, VECTOR_STORES), share)


def _elements(feature_map: FeatureMap) -> int:
    """Elements from a position to the next."""
    return feature_map.buffer.stride * (2 if feature_map.buffer.packed else 1)


def _down(feature_map: FeatureMap) -> _View:
    return _View(feature_map.buffer, feature_map.height, feature_map.width * _elements(feature_map))


def _across(feature_map: FeatureMap) -> _View:
    return _View(feature_map.buffer, feature_map.width, _elements(feature_map))


def _fit(feature_map: FeatureMap, x: FeatureMap, height: int, width: int) -> None:
    """Refuse a map that is not ``x``'s images and channels in ``height`` x ``width``, stored alike."""
    if (feature_map.height, feature_map.width, feature_map.images, feature_map.channels) != (
            height, width, x.images, x.channels):
        raise ValueError(f"map {feature_map.buffer.name!r} must be {x.images} images of {x.channels}x{height}x{width}, "
                         f"not {feature_map.images} of {feature_map.channels}x{feature_map.height}x{feature_map.width}")
    if _elements(feature_map) != _elements(x):
        raise ValueError(f"positions of map {feature_map.buffer.name!r} must be {_elements(x)} elements apart, not "
                         f"{_elements(feature_map)}")


def _directions(layer: Pool, parameters: DieParameters, x: FeatureMap, middle: FeatureMap,
                y: FeatureMap) -> tuple[_Direction, _Direction]:
    """Down and across, with the maps' sizes checked."""
    _, height, width = layer.output([Shape((x.channels, x.height, x.width))])
    _fit(middle, x, height, x.width)
    _fit(y, x, height, width)
    down, across = (_Direction(parameters, view.outer, view.inner, view.places, *settings) for view, *settings in zip(
        (_down(x), _across(middle)), (height, width), layer.kernel, layer.stride, layer.padding[:2], strict=True))
    return down, across


def _named(direction: str, programs: Iterable[VectorProgram]) -> Iterator[tuple[str, VectorProgram]]:
    return ((f"{direction}[{number}]", program) for number, program in enumerate(programs))


def forward(layer: Pool, parameters: DieParameters, x: FeatureMap, middle: FeatureMap,
            y: FeatureMap) -> Iterator[tuple[str, VectorProgram]]:
    """Programs for ``y = pool(x)`` with their names: ``"down[0]"``, ..., ``"across[0]"``, ...

    They run in this order; a graph builder must get them one behind the other. Maps are FP32 or narrow, each as it
    likes, as long as positions are the same number of elements apart; gaps between positions are pooled, and so
    overwritten, too.

    Parameters
    ----------
    layer : MaxPool or MeanPool
        Its settings.
    middle : FeatureMap
        ``y``'s rows and ``x``'s columns. For a maximum :func:`backward` reads it again. For a mean of more than four
        rows it must be FP32; of more than four columns into a narrow ``y`` also, and sums are left in it.

    Raises
    ------
    ValueError
        If the maps do not fit each other and the layer, or a mean of many taps has no FP32 map for its sums.
    """
    down, across = _directions(layer, parameters, x, middle, y)
    yield from _named("down", _forward(layer, down, _down(x), _down(middle), spare=False))
    yield from _named("across", _forward(layer, across, _across(middle), _across(y), spare=True))


def backward(layer: Pool, parameters: DieParameters, x: FeatureMap, middle: FeatureMap, y: FeatureMap, dy: FeatureMap,
             dmiddle: FeatureMap, dx: FeatureMap,
             rest: FeatureMap | None = None) -> Iterator[tuple[str, VectorProgram]]:
    """Programs for the error of ``x`` from that of ``y``, with their names, as :func:`forward` gives them.

    Parameters
    ----------
    x, middle, y : FeatureMap
        As :func:`forward` read and left them. For a mean only their shapes count.
    dy, dmiddle, dx : FeatureMap
        Errors, shaped like ``y``, ``middle`` and ``x``; ``dx`` is written, ``dmiddle`` is for the way there.
    rest : FeatureMap, optional
        Shaped like ``y``: where a maximum whose windows have more than two columns, or overlap in a row, keeps the
        errors not yet given away. Without it that is ``dy``, which is then used up.

    Raises
    ------
    ValueError
        If the maps do not fit each other and the layer.
    """
    down, across = _directions(layer, parameters, x, middle, y)
    rest = dy if rest is None else rest
    for feature_map, like in ((dy, y), (rest, y), (dmiddle, middle), (dx, x)):
        _fit(feature_map, x, like.height, like.width)
    if isinstance(layer, MeanPool):
        yield from _named("across", _backward_mean(across, _across(dy), _across(dmiddle)))
        yield from _named("down", _backward_mean(down, _down(dmiddle), _down(dx)))
        return
    yield from _named("across", _backward_max(across, _across(middle), _across(y), _across(dy), _across(dmiddle),
                                              _across(rest)))
    yield from _named("down", _backward_max(down, _down(x), _down(middle), _down(dmiddle), _down(dx),
                                            _down(dmiddle)))
