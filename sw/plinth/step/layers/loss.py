"""Losses: what the network predicts, and the error of that."""

from abc import ABC, abstractmethod
from functools import cached_property
from math import log
from typing import ClassVar

from plinth.partition.graph import DP, Edge
from plinth.step.layers.node import NodeLayer, column_sum
from plinth.step.layers.weighted import WeightedLayer
from plinth.step.operations import Sweep
from plinth.step.reductions import Reductions
from plinth.step.tasks import FPROP
from plinth.step.tensors import Tensor, folded
from plinth.step.vector import VectorProgram
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VectorFunction, VectorOp


class LossLayer(NodeLayer, ABC):
    """Builds the operations of the loss, all forwards. Where the node before is a product that nothing follows, with
    parts that are whole, it finishes that one: reads the product, adds the bias, and sums the bias gradient."""

    narrow_splits = (DP,)
    #: Column regions that :meth:`compare` needs, if it looks at whole rows.
    column_regions: ClassVar[int | None] = None

    @cached_property
    def edge(self) -> Edge:
        """The edge of the graph along which it reads the network's output."""
        return self.step.graph.edges[self.step.graph.inputs[self.number][0]]

    def finishes(self, other: NodeLayer) -> bool:
        node, there, step = other.node, other.here, self.step
        # Each die's part is its own.
        return (isinstance(other, WeightedLayer) and not other.by_channel
                and step.graph.outputs[other.number] == self.feeds
                and not node.epilogue and not there.mp and not there.op and not there.ep
                and step.defined(node, FPROP, "copy", self.feeds[0]) is None
                and not (node.bias and self.rows < node.output_positions))

    @property
    def rows(self) -> int:
        """Rows of a sample in its programs: one a position, or one."""
        return self.node.input_elements // self.node.input_channels

    @property
    @abstractmethod
    def slope(self) -> float:
        """Factor on differences to the target, of which the error of a sample is made."""

    def compare(self, program: VectorProgram) -> None:
        """Region "z", what the node before gives, becomes what the network predicts, and region "d" its difference to
        region "t"."""
        program.run(VectorOp.SUB, "d", "z", "t")

    def input(self, place: int, edge: int) -> Tensor:
        before = self.layers[self.edge.producer]
        return before.z if before.z is not None and before.finished else super().input(place, edge)

    def forward(self) -> None:
        """Append prediction and its error."""
        self.read()
        step, node, edge, region, source = self.step, self.node, self.edge, self.here.input, self.x[0]
        before, positions = self.layers[edge.producer], edge.elements // edge.channels
        fused = before.finished
        predictions = self.tensor("predictions", region, edge.channels, positions)
        targets = self.tensor("target", region, edge.channels, positions, moves=True)
        step.predictions.append(predictions)
        step.targets.append(targets)
        step.outputs[node.name] = step.predictions
        error = self.error = self.tensor(f"{before.node.name}.error" if fused else f"{node.name}.error", region,
                                         edge.channels, positions, packed=step.narrow and before.takes_narrow)
        if fused:
            before.error = error
        biased = fused and before.node.bias > 0
        factor, fold = step.scale / step.batch * self.slope, positions // self.rows

        def program(first: bool) -> VectorProgram:
            sweep = VectorProgram(step.parameters)
            sweep.load("z", folded(source, fold))
            sweep.load("t", folded(targets, fold))
            if biased:
                sweep.load("b", step.weights[before.node.name].bias_of(error), "row")
                sweep.run(VectorOp.ADD, "z", "z", "b")
            self.compare(sweep)
            sweep.run(VectorOp.SCALE, "d", "d", immediate=factor)
            sweep.store("z", folded(predictions, fold))
            if biased:
                column_sum(sweep, step.gradients[before.node.name].bias_of(error),
                           first=first and not step.micro_batch)
            sweep.store("d", folded(error, fold))
            return sweep

        step.add(Sweep(node.name, node, step.parameters, program(True), program(False), error, 3, 3,
                       self.column_regions, fold))

    def backward(self, reductions: Reductions) -> None:
        """Its error is that of what it reads."""
        assert self.error is not None
        self.errors[0] = self.error


class SoftmaxLayer(LossLayer):
    """Builds the operations of cross-entropy behind a softmax over classes."""

    column_regions = 1
    rows = 1
    slope = 1.0

    def compare(self, program: VectorProgram) -> None:
        """Region "z", row by row: ``exp(z - max) * (1 / sum)``; in fixed point ``exp((z - max) - c)``, that sums of so
        many classes stay within the format, as far as their inverses do: ``c`` is log(classes / 2^i), at most
        log(2^i). No error asks an output for more than the room that is left above it there."""
        fmt, classes = program.parameters.memory_format, self.edge.elements
        if isinstance(fmt, Fixed):
            program.run(VectorOp.RELU, "r", "z")
            program.run(VectorOp.ADD_IMMEDIATE, "r", "r", immediate=-float(fmt.most) / (1 << fmt.fraction_bits))
        program.run(VectorOp.MAXIMUM, "m", "z", shape="column")
        program.run(VectorOp.SUB, "z", "z", "m")
        if isinstance(fmt, Fixed) and classes > 1 << fmt.integer_bits:
            shift = min(log(classes / 2**fmt.integer_bits), log(2**fmt.integer_bits))
            program.run(VectorOp.ADD_IMMEDIATE, "z", "z", immediate=-shift)
        program.run(VectorOp.FUNCTION, "z", "z", VectorFunction.EXPONENTIAL)
        program.run(VectorOp.SUM, "m", "z")
        program.run(VectorOp.FUNCTION, "m", "m", VectorFunction.RECIPROCAL)
        program.run(VectorOp.MUL, "z", "z", "m")
        super().compare(program)
        if isinstance(fmt, Fixed):
            program.run(VectorOp.MAX, "d", "d", "r")


class SquaresLayer(LossLayer):
    """Builds the operations of the mean of squared differences, which are as those of the node before."""

    @property
    def by_channel(self) -> bool:  # type: ignore[override]
        return self.layers[self.edge.producer].by_channel

    @property
    def slope(self) -> float:
        return 2 / self.node.input_elements
