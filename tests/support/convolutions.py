"""Random convolution layers in a memory image, and what their tasks ought to leave there."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.machine.convolution import (
    Body,
    ConvolutionShape,
    ConvolutionWindow,
    FeatureMap,
    forward,
    input_gradient,
    weight_gradient,
)
from plinth_hw.isa.parameters import DieParameters

Tensor = NDArray[np.float64]
PASSES = ("forward", "input_gradient", "weight_gradient")


def square(size: int, kernel: int, stride: int, padding: int) -> ConvolutionWindow:
    """Windows of equal sides."""
    output = (size + 2 * padding - kernel) // stride + 1
    return ConvolutionWindow((size, size), (kernel, kernel), (stride, stride), (padding, padding), (output, output))


def direct(layer: ConvolutionShape, x: Tensor, w: Tensor, dz: Tensor) -> dict[str, Tensor]:
    """Output, input gradient and weight gradient, tap by tap from the definition, in float64."""
    images, (down, right) = len(x), layer.stride
    (top, left), (bottom, after) = layer.padding[:2], layer.padding[-2:]
    padded = np.zeros((images, top + layer.height + bottom, left + layer.width + after, layer.inputs))
    inner = (slice(None), slice(top, top + layer.height), slice(left, left + layer.width))
    padded[inner] = x
    z = np.zeros((images, layer.out_height, layer.out_width, layer.outputs))
    dx, dw = np.zeros_like(padded), np.zeros_like(w)
    for u, v in product(*map(range, layer.kernel)):
        window = (slice(None), slice(u, u + down * (layer.out_height - 1) + 1, down),
                  slice(v, v + right * (layer.out_width - 1) + 1, right))
        z += padded[window] @ w[u, v]
        dx[window] += dz @ w[u, v].T
        dw[u, v] = np.einsum("bijc,bijn->cn", padded[window], dz)
    return {"forward": z, "input_gradient": dx[inner], "weight_gradient": dw}


def random_layer(rng: np.random.Generator, channels: int = 20) -> tuple[ConvolutionShape, int]:
    """A layer of any shape, and a number of images."""
    while True:
        few = (1, 2, 3, int(rng.integers(1, channels + 1)), int(rng.integers(1, channels + 1)))
        kernel, stride = ((int(first), int(second)) for first, second in rng.integers(1, (6, 4), (2, 2)).T)
        padding = tuple(int(rng.integers(0, taps + 1)) for taps in kernel * int(rng.integers(1, 3)))
        try:
            return ConvolutionShape(
                height=int(rng.integers(1, 9)), width=int(rng.integers(1, 9)), inputs=int(rng.choice(few)),
                outputs=int(rng.choice(few)), kernel=kernel, stride=stride, padding=padding), int(rng.integers(1, 4))
        except ValueError:
            continue


@dataclass
class Placed:
    """A layer's buffers in memory from word ``at`` on, with gaps between positions or rows.

    ``packed``: operands are FP16. What a pass writes has a place of its own.
    """

    layer: ConvolutionShape
    images: int
    parameters: DieParameters
    rng: np.random.Generator
    packed: bool
    at: int = 0
    gaps: bool = True
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layer = self.layer
        inside, outside = (self.images * height * width for height, width in
                           ((layer.height, layer.width), (layer.out_height, layer.out_width)))
        for name, rows, columns, packed in (
                ("x", inside, layer.inputs, self.packed), ("w", layer.taps, layer.outputs, self.packed),
                ("dz", outside, layer.outputs, self.packed), ("forward", outside, layer.outputs, False),
                ("input_gradient", inside, layer.inputs, False),
                ("weight_gradient", layer.taps, layer.outputs, False)):
            words = -(-columns // 2) if packed else columns
            gap = int(self.rng.choice((0, 0, 1, 5))) if self.gaps else 0
            self.at += int(self.rng.integers(0, 9)) if self.gaps else -self.at % 16
            self.buffers[name] = Buffer(name, self.at, rows, columns, words + gap, packed=packed)
            self.at += rows * (words + gap)

    def write(self, memory: NDArray[np.uint32], name: str, values: NDArray[np.floating[Any]]) -> None:
        """Store a tensor, its last dimension in the columns of a buffer."""
        buffer = self.buffers[name]
        kind = np.float16 if buffer.packed else np.float32
        rows = np.zeros((buffer.rows, buffer.row_words * (2 if buffer.packed else 1)), dtype=kind)
        rows[:, :buffer.columns] = values.reshape(buffer.rows, buffer.columns)
        for row in range(buffer.rows):
            start = buffer.address + row * buffer.stride
            memory[start:start + buffer.row_words] = rows[row].view(np.uint32)

    def read(self, memory: NDArray[np.uint32], name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """An FP32 tensor of memory."""
        buffer = self.buffers[name]
        rows = [memory[buffer.address + row * buffer.stride:][:buffer.columns] for row in range(buffer.rows)]
        return np.array(rows).view(np.float32).reshape(shape)

    def bodies(self, name: str, *, accumulate: bool = False) -> list[Body]:
        """Tasks of a pass."""
        layer, at = self.layer, self.buffers
        x, dx = (FeatureMap(at[of], layer.height, layer.width) for of in ("x", "input_gradient"))
        z, dz = (FeatureMap(at[of], layer.out_height, layer.out_width) for of in ("forward", "dz"))
        if name == "forward":
            return forward(layer, self.parameters, x, at["w"], z, accumulate=accumulate)
        if name == "input_gradient":
            return input_gradient(layer, self.parameters, dz, at["w"], dx, accumulate=accumulate)
        return weight_gradient(layer, self.parameters, x, dz, at["weight_gradient"], accumulate=accumulate)
