"""Products of a die's part of a layer, as costs are asked for: sizes, and what each machine makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from plinth.mapping.choices import choose, dense, dense_update
from plinth.mapping.mappings import Loops, Mapping
from plinth.partition.graph import Node, Window
from plinth_hw.isa.parameters import DieParameters

FPROP, BPROP, UPDATE = DIRECTIONS = ("fprop", "bprop", "update")


@dataclass(frozen=True)
class Product:
    """fprop, bprop or updateGrad of a part of a layer: samples, input and output channels (features), and for a
    convolution its windows."""

    direction: str
    samples: int
    inputs: int
    outputs: int
    window: Window | None = None
    #: Name of the layer, for messages.
    layer: str = field(default="a product", compare=False)

    @classmethod
    def of(cls, direction: str, node: Node, samples: int, inputs: int, outputs: int) -> "Product":
        """Of a weighted node; channels of a flattened map have several features."""
        if node.kind == "convolution":
            return cls(direction, samples, inputs, outputs, node.window, node.name)
        return cls(direction, samples, inputs * node.weights // (node.input_channels * node.output_channels), outputs,
                   layer=node.name)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return not (self.samples and self.inputs and self.outputs)

    @property
    def weights(self) -> int:
        """Weights that it multiplies by or gives the gradient of."""
        kernel = self.window.kernel if self.window else (1, 1)
        return kernel[0] * kernel[1] * self.inputs * self.outputs

    @property
    def name(self) -> str:
        """Kind of task."""
        return f"convolution-{self.direction}" if self.window else self.direction

    @property
    def gemm(self) -> tuple[int, int, int]:
        """m, n, k."""
        samples, inputs, outputs, window = self.samples, self.inputs, self.outputs, self.window
        if window is None:
            return {FPROP: (samples, outputs, inputs), BPROP: (samples, inputs, outputs),
                    UPDATE: (inputs, outputs, samples)}[self.direction]
        taps = window.kernel[0] * window.kernel[1]
        if self.direction == FPROP:
            return samples * window.positions, outputs, inputs * taps
        if self.direction == UPDATE:
            return inputs * taps, outputs, samples * window.positions
        # With a stride, each position of the input meets only some of the taps.
        places = window.size[0] * window.size[1]
        return samples * places, inputs, -(-outputs * taps * window.positions // places)

    def run(self, packing: int) -> int:
        """Elements of the first operand that lie next to each other in memory, ``packing`` to a word; 0: all."""
        if self.window is None:
            return 0
        channels, columns = self.outputs if self.direction == BPROP else self.inputs, self.window.kernel[1]
        # A position begins with a word.
        found = channels if channels % packing else channels * columns
        return min(self.gemm[2], found) if self.direction == BPROP else found


def row_stationary_parts(die: DieParameters, product: Product) -> Sequence[tuple[Loops, Mapping]]:
    """Loops and mappings of a product, as lowering makes tasks of them; phases of a strided input gradient count as
    one of about their sizes each."""
    samples, inputs, outputs, window = product.samples, product.inputs, product.outputs, product.window
    if window is None:
        if product.direction == UPDATE:
            parts = dense_update(die, samples, inputs, outputs, product.layer)
        elif product.direction == FPROP:
            parts = dense(die, samples, inputs, outputs, False, product.layer)
        else:
            parts = dense(die, samples, outputs, inputs, True, product.layer)
        return [(part.loops, part.mapping) for part in parts]
    kernel, stride, size, output = window.kernel, window.stride, window.size, window.output
    if product.direction == FPROP:
        found = [Loops(images=samples, rows=output[0], columns=output[1], filters=outputs, channels=inputs,
                       kernel_rows=kernel[0], kernel_columns=kernel[1], row_stride=stride[0],
                       column_stride=stride[1], adjacent_channels=True)]
    elif product.direction == UPDATE:
        found = [Loops(rows=kernel[0], columns=kernel[1], units=inputs, filters=outputs, channels=samples,
                       kernel_rows=output[0], kernel_columns=output[1], row_dilation=stride[0],
                       column_dilation=stride[1])]
    else:
        sides = [[(-(-(size[axis] - place) // stride[axis]), -(-(kernel[axis] - place) // stride[axis]))
                  for place in range(min(stride[axis], size[axis]))] for axis in (0, 1)]
        found = [Loops(images=samples, rows=rows, columns=columns, filters=inputs,
                       channels=outputs if down > 0 and across > 0 else 1, kernel_rows=max(1, down),
                       kernel_columns=max(1, across), adjacent_channels=True, adjacent_filters=False)
                 for rows, down in sides[0] for columns, across in sides[1]]
    return [(loops, choose(die, loops, product.layer)) for loops in found]
