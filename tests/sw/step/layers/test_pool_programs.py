"""Pooling tasks on the golden model: bits of the documented order in NumPy, and values of a direct pool in float64."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.machine.convolution import FeatureMap
from plinth.network.layers import MaxPool, MeanPool, Shape
from plinth.step.layers.pool_programs import Pool, backward, forward
from plinth.step.vector import Move, VectorProgram
from plinth_hw.isa.operations import Engine, VectorOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.golden import vector

TINY, DEMO = preset("ndp-tiny"), preset("ndp-demo")
#: Word that no task may touch.
FENCE = 0x7FC12345

Values = NDArray[Any]


def half(values: Values, packed: bool) -> Values:
    """Rounded to FP16 if a map holds that, as FP32."""
    return values.astype(np.float16).astype(np.float32) if packed else values


def taps(size: int, windows: int, kernel: int, stride: int, padding: int) -> Iterator[tuple[int, int, int]]:
    """(tap, window, place), taps ascending."""
    for tap in range(kernel):
        for window in range(windows):
            place = window * stride + tap - padding
            if 0 <= place < size:
                yield tap, window, place


class Model:
    """The documented order along axis 1 of [outer, place, inner], in FP32."""

    def __init__(self, layer: Pool, axis: int, size: int, windows: int):
        self.maximum = isinstance(layer, MaxPool)
        self.size, self.windows = size, windows
        self.taps = list(taps(size, windows, layer.kernel[axis], layer.stride[axis], layer.padding[axis]))
        counts = np.bincount([window for _, window, _ in self.taps], minlength=windows)
        self.scale = (1 / counts).astype(np.float32)

    def forward(self, x: Values) -> Values:
        y: dict[int, Values] = {}
        for _, window, place in self.taps:
            part = x[:, place]
            y[window] = (np.maximum if self.maximum else np.add)(y[window], part) if window in y else part
        result = np.stack([y[window] for window in range(self.windows)], axis=1)
        return result if self.maximum else result * self.scale[None, :, None]

    def backward(self, x: Values, y: Values, dy: Values, packed: bool) -> Values:
        dx: dict[int, Values] = {}
        rest = dy.copy()
        for _, window, place in self.taps:
            if self.maximum:
                left = np.where(y[:, window] - x[:, place] > 0, rest[:, window], np.float32(0))
                share, rest[:, window] = rest[:, window] - left, left
            else:
                share = dy[:, window] * self.scale[window]
            dx[place] = half(dx[place] + share if place in dx else share, packed)
        return np.stack([dx.get(place, np.zeros_like(dy[:, 0])) for place in range(self.size)], axis=1)


def direct(layer: Pool, x: Values, dy: Values) -> tuple[Values, Values]:
    """Output and the input's error, window by window from the definition, in float64. Of equal maxima the leftmost,
    and of those the topmost, gets the error."""
    y, dx = np.zeros(dy.shape), np.zeros(x.shape)
    images, channels = np.ogrid[:x.shape[0], :x.shape[3]]
    for i, j in np.ndindex(dy.shape[1:3]):
        (top, left), (height, width) = ((number * step - rim for number, step, rim in
                                         zip((i, j), layer.stride, layer.padding[:2], strict=True)), layer.kernel)
        place = (slice(None), slice(max(top, 0), top + height), slice(max(left, 0), left + width))
        window, error = x[place], dy[:, i:i + 1, j:j + 1]
        if isinstance(layer, MaxPool):
            y[:, i, j] = window.max((1, 2))
            rows = window.shape[1]
            winner = window.swapaxes(1, 2).reshape(len(x), -1, x.shape[3]).argmax(1)
            dx[images, max(top, 0) + winner % rows, max(left, 0) + winner // rows, channels] += error[:, 0, 0]
        else:
            y[:, i, j] = window.mean((1, 2))
            dx[place] += error / (window.shape[1] * window.shape[2])
    return y, dx


@dataclass
class Placed:
    """A layer's maps in memory, with words between them that nothing may touch."""

    layer: Pool
    images: int
    shape: Shape
    packed: dict[str, bool]
    gap: int
    at: int = 3
    maps: dict[str, FeatureMap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        _, rows, columns = self.layer.output([self.shape])
        elements = channels + self.gap
        if any(self.packed.values()):
            elements += elements % 2
        for name, shape in {"x": (height, width), "middle": (rows, width), "y": (rows, columns)}.items():
            for prefix in ("", "d", "rest_"):
                packed = self.packed[prefix + name]
                stride = elements // 2 if packed else elements
                buffer = Buffer(prefix + name, self.at, self.images * shape[0] * shape[1], channels, stride, 0, packed)
                self.maps[buffer.name] = FeatureMap(buffer, *shape)
                self.at += buffer.rows * stride + 3

    @classmethod
    def random(cls, rng: np.random.Generator, *, mixed: bool) -> "Placed":
        """A layer of any kind."""
        while True:
            kernel, stride, padding = ((int(down), int(across)) for down, across in (
                rng.integers(low, high, 2) for low, high in ((1, 7), (1, 5), (0, 3))))
            if rng.integers(2):
                padding = (*padding, *map(int, rng.integers(0, 3, 2)))
            if rng.integers(3) == 0:
                kernel = stride = (2, 2)
            kind = (MaxPool, MeanPool)[rng.integers(2)]
            layer = kind(name="pool", inputs=("input",), kernel=kernel, stride=stride, padding=padding,
                         ceil=bool(rng.integers(2)))
            shape = Shape((int(rng.choice((1, 2, 3, int(rng.integers(1, 21))))), *map(int, rng.integers(1, 12, 2))))
            packed = {name: mixed and bool(rng.integers(2)) for name in (
                "x", "middle", "y", "dx", "dmiddle", "dy", "rest_x", "rest_middle", "rest_y")}
            packed["rest_y"] = packed["dy"]
            if kind is MeanPool:
                packed["middle"] = False
                packed["y"] &= kernel[1] <= max(4, stride[1]) or kernel[1] <= 4
            try:
                return cls(layer, int(rng.integers(1, 5)), shape, packed, int(rng.choice((0, 0, 0, 2))))
            except ValueError:
                continue

    def spread(self, name: str) -> tuple[slice, tuple[int, ...]]:
        """Words of a map with its gaps, and its shape."""
        feature_map = self.maps[name]
        start = feature_map.buffer.address
        return (slice(start, start + feature_map.buffer.rows * feature_map.buffer.stride),
                (feature_map.images, feature_map.height, feature_map.width, -1))

    def write(self, memory: Values, name: str, values: Values) -> None:
        """Place a map of [image, row, column, channel]."""
        words, shape = self.spread(name)
        memory[words] = 0
        kind = np.float16 if self.packed[name] else np.float32
        memory[words].view(kind).reshape(shape)[..., :values.shape[-1]] = values

    def read(self, memory: Values, name: str) -> Values:
        """A map as FP32."""
        words, shape = self.spread(name)
        kind = np.float16 if self.packed[name] else np.float32
        return memory[words].view(kind).reshape(shape)[..., :self.shape[0]].astype(np.float32)

    def programs(self, parameters: DieParameters, *, rest: bool = True) -> list[tuple[str, VectorProgram]]:
        """Forward and backward."""
        maps = self.maps
        x, middle, y = maps["x"], maps["middle"], maps["y"]
        return [*forward(self.layer, parameters, x, middle, y),
                *backward(self.layer, parameters, x, middle, y, maps["dy"], maps["dmiddle"], maps["dx"],
                          maps["rest_y"] if rest else None)]


def execute(memory: Values, parameters: DieParameters, program: VectorProgram) -> None:
    vector.execute(memory, program.body(), [0] * 16, beat_words=parameters.beat_words,
                   buffer_words=parameters.vector_buffer_words)


def bits(values: Values) -> Values:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


@pytest.mark.parametrize("mixed", [False, True], ids=["fp32", "mixed"])
@pytest.mark.parametrize("seed", range(80))
def test_pools(seed: int, mixed: bool) -> None:
    """Any kernel, stride, padding, rounding and storage; with equal maxima among the values."""
    rng = np.random.default_rng(seed)
    placed = Placed.random(rng, mixed=mixed)
    layer, images, (channels, height, width) = placed.layer, placed.images, placed.shape
    _, rows, columns = layer.output([placed.shape])
    memory = np.full(placed.at, FENCE, dtype=np.uint32)
    x = half(rng.integers(-3, 4 if seed % 2 else 1000, (images, height, width, channels)) / np.float32(64), True)
    dy = half(rng.normal(size=(images, rows, columns, channels)).astype(np.float32), placed.packed["dy"])
    for name in placed.maps:
        placed.write(memory, name, rng.normal(size=(images, placed.maps[name].height, placed.maps[name].width,
                                                    channels)))
    placed.write(memory, "x", x)
    placed.write(memory, "dy", dy)
    parameters = (TINY, DEMO)[seed % 3 == 0]
    for _, program in placed.programs(parameters, rest=True):
        execute(memory, parameters, program)

    down, across = Model(layer, 0, height, rows), Model(layer, 1, width, columns)
    tall = (images, -1, width * channels)
    middle = half(down.forward(x.reshape(tall)), placed.packed["middle"])
    wide = (images * rows, -1, channels)
    y = half(across.forward(middle.reshape(wide)), placed.packed["y"])
    dmiddle = across.backward(middle.reshape(wide), y, dy.reshape(wide), placed.packed["dmiddle"])
    dx = down.backward(x.reshape(tall), middle, dmiddle.reshape(tall), placed.packed["dx"])
    for name, wanted in (("x", x), ("y", y), ("dy", dy), ("dx", dx)):
        got = placed.read(memory, name)
        np.testing.assert_array_equal(bits(got), bits(wanted).reshape(got.shape), err_msg=f"{name} of {placed}")
    fence = np.ones(len(memory), dtype=bool)
    for name in placed.maps:
        fence[placed.spread(name)[0]] = False
    assert (memory[fence] == FENCE).all()

    exact_y, exact_dx = direct(layer, x.astype(np.float64), dy.astype(np.float64))
    tolerance = 4e-3 if mixed else 2e-6
    np.testing.assert_allclose(placed.read(memory, "y"), exact_y, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(placed.read(memory, "dx"), exact_dx, rtol=tolerance, atol=8 * tolerance)


def words(buffers: list[Buffer]) -> set[int]:
    return {buffer.address + row * buffer.stride + word for buffer in buffers for row in range(buffer.rows)
            for word in range(buffer.row_words)}


@pytest.mark.parametrize("seed", range(20))
def test_tasks_wait_for_what_they_read(seed: int) -> None:
    """Nobody loads what an earlier task writes before that has finished; loads of a task may overtake the stores of
    those before it. Without a map for the rest the error of the output serves."""
    rng = np.random.default_rng(seed)
    placed = Placed.random(rng, mixed=bool(seed % 2))
    builder = GraphBuilder(TINY)
    written: list[set[int]] = []
    for name, program in placed.programs(TINY, rest=False):
        loads = words([_place(move, program) for move in program.loads])
        builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, program.body(), reads=program.reads,
                    writes=program.writes)
        waits = [value for _, _, header, _ in builder._pending for enable, value in (
            (header["wait_enable"] & 1, header["wait_value"][0]),) if enable]
        needed = max((number + 1 for number, stores in enumerate(written) if stores & loads), default=0)
        assert max(waits, default=0) >= needed, f"{name} of {placed}"
        written.append(words([_place(move, program) for move in program.stores]))


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 3), (5, 2), (2, 5)])
@pytest.mark.parametrize("kind", [MaxPool, MeanPool])
def test_tasks_keep_others_waiting_for_what_they_write_alone(kind: type[Pool], kernel: tuple[int, int]) -> None:
    layer = kind(name="pool", inputs=("input",), kernel=kernel, stride=kernel)
    placed = Placed(layer, 2, Shape((3, 10, 10)), dict.fromkeys(
        [prefix + name for prefix in ("", "d", "rest_") for name in ("x", "middle", "y")], False), 0)
    claimed, stored = set(), set()
    for _, program in placed.programs(TINY):
        claimed |= {buffer.name for buffer in program.writes}
        stored |= {name for name, feature_map in placed.maps.items() for move in program.stores
                   if words([_place(move, program)]) & words([feature_map.buffer])}
    assert claimed == stored


def _place(move: Move, program: VectorProgram) -> Buffer:
    rows, columns = (1, 1) if program.regions[move.region] == "element" else (program.rows, program.columns)
    assert isinstance(move.operand, Buffer)
    return move.operand._replace(rows=rows, columns=columns)


@pytest.mark.parametrize("kind", [MaxPool, MeanPool])
def test_regular_windows_take_few_tasks(kind: type[Pool]) -> None:
    """2 x 2 windows at a distance of 2 over 8 images of 8 x 16 x 16: as many tasks as the scratchpad needs."""
    layer = kind(name="pool", inputs=("input",), kernel=(2, 2), stride=(2, 2))
    placed = Placed(layer, 8, Shape((8, 16, 16)), dict.fromkeys(
        [prefix + name for prefix in ("", "d", "rest_") for name in ("x", "middle", "y")], False), 0)
    names = [name for name, _ in placed.programs(DEMO)]
    half_words = DEMO.vector_buffer_words
    middle, y = 8 * 8 * 8 * 16, 8 * 8 * 8 * 8
    forward_tasks = -(-2 * middle // half_words) + -(-2 * y // half_words)
    backward_tasks = -(-4 * middle // half_words) + -(-4 * y // half_words)
    assert len(names) <= forward_tasks + (backward_tasks if kind is MaxPool else forward_tasks) + 2


@pytest.mark.parametrize("kernel, stride, channels, gaps", [
    ((1, 1), (1, 4), 3, 4), ((1, 1), (1, 4), 32, 4), ((1, 1), (4, 1), 3, 4), ((2, 2), (5, 5), 3, 3 + 3)])
def test_neighbours_in_no_window_are_cleared_at_once(kernel: tuple[int, int], stride: tuple[int, int], channels: int,
                                                     gaps: int) -> None:
    """16 places, a window at every fourth, or two of five: a task for the places between two windows, of which half
    the scratchpad holds up to 4,096 words."""
    layer = MaxPool(name="pool", inputs=("input",), kernel=kernel, stride=stride)
    placed = Placed(layer, 2, Shape((channels, 16, 16)), dict.fromkeys(
        [prefix + name for prefix in ("", "d", "rest_") for name in ("x", "middle", "y")], False), 0)
    assert len([name for name, program in placed.programs(DEMO) if "zero" in program.regions]) == gaps


def test_first_largest_wins_and_odd_values() -> None:
    """Equal maxima, infinities, zeros of both signs; a NaN takes the error of its window if it comes first."""
    layer = MaxPool(name="pool", inputs=("input",), kernel=(1, 4), stride=(1, 4))
    placed = Placed(layer, 1, Shape((1, 1, 16)), dict.fromkeys(
        [prefix + name for prefix in ("", "d", "rest_") for name in ("x", "middle", "y")], False), 0)
    memory = np.full(placed.at, FENCE, dtype=np.uint32)
    inf, nan = np.inf, np.nan
    x = np.array([1, 2, 2, 2, -inf, -inf, -inf, -inf, inf, 3, inf, 0, 0, nan, 1, 2], np.float32)
    placed.write(memory, "x", x.reshape(1, 1, 16, 1))
    placed.write(memory, "dy", np.array([5, 6, 7, 8], np.float32).reshape(1, 1, 4, 1))
    for _, program in placed.programs(TINY):
        execute(memory, TINY, program)
    assert placed.read(memory, "y").ravel()[:3].tolist() == [2, -inf, inf]
    assert np.isnan(placed.read(memory, "y").ravel()[3])
    assert placed.read(memory, "dx").ravel().tolist() == [0, 5, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0]


def test_refusals() -> None:
    names = [prefix + name for prefix in ("", "d", "rest_") for name in ("x", "middle", "y")]
    layer = MeanPool(name="pool", inputs=("input",), kernel=(1, 5), stride=(1, 1))
    placed = Placed(layer, 1, Shape((2, 6, 6)), dict.fromkeys(names, False) | {"y": True}, 0)
    maps = placed.maps
    with pytest.raises(ValueError, match="adds 5 taps in several tasks and needs an FP32 map for the sums: make 'y'"):
        list(forward(layer, TINY, maps["x"], maps["middle"], maps["y"]))
    with pytest.raises(ValueError, match="map 'x' must be 1 images of 2x6x2, not 1 of 2x6x6"):
        list(forward(layer, TINY, maps["x"], maps["middle"], maps["x"]))
    wide = FeatureMap(Buffer("wide", 0, 12, 2, 3), 6, 2)
    with pytest.raises(ValueError, match="positions of map 'wide' must be 2 elements apart, not 3"):
        list(forward(layer, TINY, maps["x"], maps["middle"], wide))
