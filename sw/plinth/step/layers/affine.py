"""Affine layers: each channel, or feature, times a factor, and a summand."""

from collections.abc import Sequence

from plinth.step.layers.node import NodeLayer, column_sum
from plinth.step.operations import Sweep
from plinth.step.reductions import Reductions
from plinth.step.tensors import Placed, Tensor
from plinth.step.vector import Operand, VectorProgram
from plinth.step.weights import Matrix
from plinth_hw.isa.vector_body import VectorOp


class AffineLayer(NodeLayer):
    """Builds the operations of factors of channels."""

    fp32_reason = "where errors that go through its factors would lose too many of their 16 bits"
    narrow_error = False
    row_regions = 1

    def combine(self, program: VectorProgram, summands: Sequence[Placed], biases: Sequence[Operand]) -> None:
        """Region "z": input times factors, and biases."""
        program.load("z", summands[0])
        program.load("s", Matrix(self.step.weights[self.node.name]), "row")
        program.run(VectorOp.MUL, "z", "z", "s")
        self.add_biases(program, biases)

    def propagate(self, error: Tensor, reductions: Reductions) -> None:
        """Append input error, and the gradient, column sums of errors times inputs."""
        step, node, x, x_error = self.step, self.node, self.x[0], self.input_error()
        factors, gradient = (Matrix(of[node.name]) for of in (step.weights, step.gradients))

        def program(first: bool) -> VectorProgram:
            sweep = VectorProgram(step.parameters)
            sweep.load("e", error)
            sweep.load("x", x)
            sweep.run(VectorOp.MUL, "d", "e", "x")
            column_sum(sweep, gradient, first=first)
            if x_error is not None:
                sweep.load("s", factors, "row")
                sweep.run(VectorOp.MUL, "e", "e", "s")
                sweep.store("e", x_error)
            return sweep

        step.add(Sweep(f"{node.name}.scale", node, step.parameters, program(True), program(False), error, 3, 3))
        for piece in reductions.pieces(self.number):
            reductions.add(self.number, piece)
