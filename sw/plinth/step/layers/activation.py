"""Activations as instructions of a vector program: forward on a region, and backward from what forward left in memory,
its output, or its input where the output does not tell the slope.

::

    relu        y = x where x > 0, else +0            dx = dy where y > 0, else +0
    leaky-relu  y = max(x, slope * x)                 dx = m + slope * (dy - m), m = dy where y > 0, else +0
    relu6       y = -max(-relu(x), -6)                dx = dy where y > 0 and 6 - y > 0, else +0
    gelu        y = h + h * t                         dx = dy * (s + v * (u + k + k)), v = w + w, w = s - s * s
    tanh        y = tanh(x)                           dx = dy * (1 - y * y)
    sigmoid     y = 1 / (1 + exp(-x))                 dx = dy * (y * (1 - y))

Each operation rounds to FP32, those in parentheses first. The sigmoid goes through the function unit twice, which
keeps its relative accuracy for negative x; it is 0 where exp(-x) is infinite, below -88.7.

Of GELU ``m = c x``, ``k = m r^2`` with ``r = sqrt(0.044715) x``, ``u = m + k``, ``t = tanh(u)``, ``h = x / 2`` and
``s = t / 2 + 1/2``, with ``c = sqrt(2 / pi)``; ``u + 2 k`` is x times the slope of u. A square of r stays within
Q3.12, which that of x does not; where u leaves it, from 5 on, t is 1.
"""

from math import pi, sqrt

from plinth.network.layers import LeakyRelu
from plinth.step.layers.epilogue import ElementwiseLayer
from plinth.step.vector import VectorProgram
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

#: Of GELU, Hendrycks and Gimpel 2016: tanh(INNER (x + CUBIC x^3)).
INNER, CUBIC = sqrt(2 / pi), 0.044715


def _less(program: VectorProgram, target: str, constant: float, source: str) -> None:
    """``target`` = a constant less ``source``."""
    program.run(VectorOp.SCALE, target, source, immediate=-1)
    program.run(VectorOp.ADD_IMMEDIATE, target, target, immediate=constant)


class ReluLayer(ElementwiseLayer):
    """Builds the operations of a ReLU."""

    kinked = True

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        program.run(VectorOp.RELU, target, source)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        program.run(VectorOp.RELU_MASK, error, error, kept)


class LeakyReluLayer(ElementwiseLayer):
    """Builds the operations of a leaky ReLU."""

    regions, further, kinked = 3, 1, True
    layer: LeakyRelu

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        scaled = f"{target}.scaled"
        program.run(VectorOp.SCALE, scaled, source, immediate=self.layer.slope)
        program.run(VectorOp.MAX, target, source, scaled)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        passed = f"{error}.passed"
        program.run(VectorOp.RELU_MASK, passed, error, kept)
        program.run(VectorOp.SUB, error, error, passed)
        program.run(VectorOp.SCALE, error, error, immediate=self.layer.slope)
        program.run(VectorOp.ADD, error, error, passed)


class Relu6Layer(ElementwiseLayer):
    """Builds the operations of a ReLU that ends at 6."""

    further, kinked = 1, True

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        # There is no minimum, and no constant but those that are added: nothing is above 0 behind a ReLU's negative.
        bound = f"{target}.bound"
        program.run(VectorOp.RELU, target, source)
        program.run(VectorOp.SCALE, target, target, immediate=-1)
        program.run(VectorOp.RELU_MASK, bound, target, target)
        program.run(VectorOp.ADD_IMMEDIATE, bound, bound, immediate=-6)
        program.run(VectorOp.MAX, target, target, bound)
        program.run(VectorOp.SCALE, target, target, immediate=-1)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        program.run(VectorOp.RELU_MASK, error, error, kept)
        _less(program, kept, 6, kept)
        program.run(VectorOp.RELU_MASK, error, error, kept)


class GeluLayer(ElementwiseLayer):
    """Builds the operations of GELU."""

    regions, further, keeps_input = 4, 2, True

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        argument = f"{target}.argument"
        self._argument(program, source, argument, target)
        program.run(VectorOp.FUNCTION, argument, argument, VectorFunction.TANH)
        program.run(VectorOp.SCALE, target, source, immediate=0.5)
        program.run(VectorOp.MUL, argument, target, argument)
        program.run(VectorOp.ADD, target, target, argument)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        argument, cubic = f"{error}.argument", f"{error}.cubic"
        self._argument(program, kept, argument, cubic)
        program.run(VectorOp.FUNCTION, kept, argument, VectorFunction.TANH)
        program.run(VectorOp.ADD, argument, argument, cubic)
        program.run(VectorOp.ADD, argument, argument, cubic)
        program.run(VectorOp.SCALE, kept, kept, immediate=0.5)
        program.run(VectorOp.ADD_IMMEDIATE, kept, kept, immediate=0.5)
        program.run(VectorOp.MUL, cubic, kept, kept)
        program.run(VectorOp.SUB, cubic, kept, cubic)
        program.run(VectorOp.ADD, cubic, cubic, cubic)
        program.run(VectorOp.MUL, cubic, cubic, argument)
        program.run(VectorOp.ADD, cubic, cubic, kept)
        program.run(VectorOp.MUL, error, error, cubic)

    @staticmethod
    def _argument(program: VectorProgram, source: str, linear: str, cubic: str) -> None:
        """The tanh's argument: ``linear`` = u, ``cubic`` = k."""
        program.run(VectorOp.SCALE, linear, source, immediate=INNER)
        program.run(VectorOp.SCALE, cubic, source, immediate=sqrt(CUBIC))
        program.run(VectorOp.MUL, cubic, cubic, cubic)
        program.run(VectorOp.MUL, cubic, linear, cubic)
        program.run(VectorOp.ADD, linear, linear, cubic)


class TanhLayer(ElementwiseLayer):
    """Builds the operations of a hyperbolic tangent."""

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        program.run(VectorOp.FUNCTION, target, source, VectorFunction.TANH)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        program.run(VectorOp.MUL, kept, kept, kept)
        _less(program, kept, 1, kept)
        program.run(VectorOp.MUL, error, error, kept)


class SigmoidLayer(ElementwiseLayer):
    """Builds the operations of a sigmoid."""

    regions = 3

    def apply(self, program: VectorProgram, target: str, source: str) -> None:
        if isinstance(program.parameters.memory_format, Fixed):
            program.run(VectorOp.FUNCTION, target, source, VectorFunction.SIGMOID)
            return
        program.run(VectorOp.SCALE, target, source, immediate=-1)
        program.run(VectorOp.FUNCTION, target, target, VectorFunction.EXPONENTIAL)
        program.run(VectorOp.ADD_IMMEDIATE, target, target, immediate=1)
        program.run(VectorOp.FUNCTION, target, target, VectorFunction.RECIPROCAL)

    def back(self, program: VectorProgram, error: str, kept: str) -> None:
        slope = f"{kept}.slope"
        _less(program, slope, 1, kept)
        program.run(VectorOp.MUL, slope, kept, slope)
        program.run(VectorOp.MUL, error, error, slope)
