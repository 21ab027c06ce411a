"""Products of a die's part of a layer: sizes, as costs are asked for, and what each machine makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plinth.buffers import Buffer
from plinth.machine.choices import choose, dense, dense_update
from plinth.machine.convolution import Body, ConvolutionShape, ConvolutionWindow, FeatureMap
from plinth.machine.mappings import Loops, Mapping
from plinth.machine.row_stationary_tasks import (
    RowStationary,
    forward_loops,
    input_gradient_loops,
    weight_gradient_loops,
)
from plinth.machine.systolic_tasks import Systolic
from plinth_hw.isa.operations import MatrixOperation
from plinth_hw.isa.parameters import ROW_STATIONARY, SYSTOLIC, DieParameters

FPROP, BPROP, UPDATE = DIRECTIONS = ("fprop", "bprop", "update")


@dataclass(frozen=True)
class Product:
    """fprop, bprop or updateGrad of a part of a layer: samples, input and output channels (features), and for a
    convolution its windows."""

    direction: str
    samples: int
    inputs: int
    outputs: int
    window: ConvolutionWindow | None = None
    #: Name of the layer, for messages.
    layer: str = field(default="a product", compare=False)

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
        """The kind of task that computes the product."""
        return f"convolution-{self.direction}" if self.window else self.direction

    @property
    def gemm(self) -> tuple[int, int, int]:
        """The sizes m, n and k of the product as one of matrices."""
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
        run = channels if channels % packing else channels * columns
        return min(self.gemm[2], run) if self.direction == BPROP else run


def row_stationary_parts(die: DieParameters, product: Product) -> Sequence[tuple[Loops, Mapping]]:
    """Loops and mappings of a product, as lowering makes tasks of them."""
    samples, inputs, outputs, window = product.samples, product.inputs, product.outputs, product.window
    if window is None:
        if product.direction == UPDATE:
            parts = dense_update(die, samples, inputs, outputs, product.layer)
        elif product.direction == FPROP:
            parts = dense(die, samples, inputs, outputs, False, product.layer)
        else:
            parts = dense(die, samples, outputs, inputs, True, product.layer)
        return [(part.loops, part.mapping) for part in parts]
    (height, width), kernel, stride, padding = window.size, window.kernel, window.stride, window.padding
    layer = ConvolutionShape(height=height, width=width, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride,
                             padding=padding)
    if product.direction == FPROP:
        loop_nests = [forward_loops(layer, samples)]
    elif product.direction == UPDATE:
        loop_nests = [weight_gradient_loops(layer, samples)]
    else:
        loop_nests = [loops for _, loops in input_gradient_loops(layer, samples)]
    return [(loops, choose(die, loops, product.layer)) for loops in loop_nests]


#: What makes the tasks of each machine.
MAKERS: dict[str, type[Systolic] | type[RowStationary]] = {SYSTOLIC: Systolic, ROW_STATIONARY: RowStationary}


class MatrixTasks(NamedTuple):
    """Tasks of a product: groups of bodies; those of a group write different words, a group adds to those before."""

    operation: MatrixOperation
    groups: list[list[Body]]


def matrix_tasks(parameters: DieParameters, layer: str, direction: str, shape: ConvolutionShape | None,
                 a: Buffer | FeatureMap, b: Buffer | FeatureMap, c: Buffer | FeatureMap) -> MatrixTasks:
    """Tasks of a product; operands as :class:`plinth.step.tasks.Multiplication` has them.

    Raises
    ------
    UserError
        If the layer has no mapping onto the machine, or is larger than a task's fields.
    """
    maker = MAKERS[parameters.machine](parameters, layer)
    operation = maker.operation(shape is None)
    if shape is None:
        assert isinstance(a, Buffer) and isinstance(b, Buffer) and isinstance(c, Buffer)
        dense = {"fprop": maker.dense_forward, "bprop": maker.dense_input_gradient,
                 "update": maker.dense_weight_gradient}[direction]
        return MatrixTasks(operation, dense(a, b, c))
    convolve: Any = {"fprop": maker.forward, "bprop": maker.input_gradient, "update": maker.weight_gradient}[direction]
    return MatrixTasks(operation, convolve(shape, a, b, c))
