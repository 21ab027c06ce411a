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

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

from plinth.step.vector import VectorProgram
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

#: Of GELU, Hendrycks and Gimpel 2016: tanh(INNER (x + CUBIC x^3)).
INNER, CUBIC = sqrt(2 / pi), 0.044715


def _relu(program: VectorProgram, target: str, source: str) -> None:
    program.run(VectorOp.RELU, target, source)


def _relu_back(program: VectorProgram, error: str, output: str) -> None:
    program.run(VectorOp.RELU_MASK, error, error, output)


def _leaky_relu(program: VectorProgram, target: str, source: str, slope: float) -> None:
    scaled = f"{target}.scaled"
    program.run(VectorOp.SCALE, scaled, source, immediate=slope)
    program.run(VectorOp.MAX, target, source, scaled)


def _leaky_relu_back(program: VectorProgram, error: str, output: str, slope: float) -> None:
    passed = f"{error}.passed"
    program.run(VectorOp.RELU_MASK, passed, error, output)
    program.run(VectorOp.SUB, error, error, passed)
    program.run(VectorOp.SCALE, error, error, immediate=slope)
    program.run(VectorOp.ADD, error, error, passed)


def _relu6(program: VectorProgram, target: str, source: str) -> None:
    # There is no minimum, and no constant but those that are added: nothing is above 0 behind a ReLU's negative.
    bound = f"{target}.bound"
    program.run(VectorOp.RELU, target, source)
    program.run(VectorOp.SCALE, target, target, immediate=-1)
    program.run(VectorOp.RELU_MASK, bound, target, target)
    program.run(VectorOp.ADD_IMMEDIATE, bound, bound, immediate=-6)
    program.run(VectorOp.MAX, target, target, bound)
    program.run(VectorOp.SCALE, target, target, immediate=-1)


def _relu6_back(program: VectorProgram, error: str, output: str) -> None:
    program.run(VectorOp.RELU_MASK, error, error, output)
    program.run(VectorOp.SCALE, output, output, immediate=-1)
    program.run(VectorOp.ADD_IMMEDIATE, output, output, immediate=6)
    program.run(VectorOp.RELU_MASK, error, error, output)


def _argument(program: VectorProgram, source: str, linear: str, cubic: str) -> None:
    """Of GELU's tanh: ``linear`` = u, ``cubic`` = k."""
    program.run(VectorOp.SCALE, linear, source, immediate=INNER)
    program.run(VectorOp.SCALE, cubic, source, immediate=sqrt(CUBIC))
    program.run(VectorOp.MUL, cubic, cubic, cubic)
    program.run(VectorOp.MUL, cubic, linear, cubic)
    program.run(VectorOp.ADD, linear, linear, cubic)


def _gelu(program: VectorProgram, target: str, source: str) -> None:
    argument = f"{target}.argument"
    _argument(program, source, argument, target)
    program.run(VectorOp.FUNCTION, argument, argument, VectorFunction.TANH)
    program.run(VectorOp.SCALE, target, source, immediate=0.5)
    program.run(VectorOp.MUL, argument, target, argument)
    program.run(VectorOp.ADD, target, target, argument)


def _gelu_back(program: VectorProgram, error: str, source: str) -> None:
    argument, cubic = f"{error}.argument", f"{error}.cubic"
    _argument(program, source, argument, cubic)
    program.run(VectorOp.FUNCTION, source, argument, VectorFunction.TANH)
    program.run(VectorOp.ADD, argument, argument, cubic)
    program.run(VectorOp.ADD, argument, argument, cubic)
    program.run(VectorOp.SCALE, source, source, immediate=0.5)
    program.run(VectorOp.ADD_IMMEDIATE, source, source, immediate=0.5)
    program.run(VectorOp.MUL, cubic, source, source)
    program.run(VectorOp.SUB, cubic, source, cubic)
    program.run(VectorOp.ADD, cubic, cubic, cubic)
    program.run(VectorOp.MUL, cubic, cubic, argument)
    program.run(VectorOp.ADD, cubic, cubic, source)
    program.run(VectorOp.MUL, error, error, cubic)


def _tanh(program: VectorProgram, target: str, source: str) -> None:
    program.run(VectorOp.FUNCTION, target, source, VectorFunction.TANH)


def _tanh_back(program: VectorProgram, error: str, output: str) -> None:
    program.run(VectorOp.MUL, output, output, output)
    program.run(VectorOp.SCALE, output, output, immediate=-1)
    program.run(VectorOp.ADD_IMMEDIATE, output, output, immediate=1)
    program.run(VectorOp.MUL, error, error, output)


def _sigmoid(program: VectorProgram, target: str, source: str) -> None:
    if isinstance(program.parameters.memory_format, Fixed):
        program.run(VectorOp.FUNCTION, target, source, VectorFunction.SIGMOID)
        return
    program.run(VectorOp.SCALE, target, source, immediate=-1)
    program.run(VectorOp.FUNCTION, target, target, VectorFunction.EXPONENTIAL)
    program.run(VectorOp.ADD_IMMEDIATE, target, target, immediate=1)
    program.run(VectorOp.FUNCTION, target, target, VectorFunction.RECIPROCAL)


def _sigmoid_back(program: VectorProgram, error: str, output: str) -> None:
    slope = f"{output}.slope"
    program.run(VectorOp.SCALE, slope, output, immediate=-1)
    program.run(VectorOp.ADD_IMMEDIATE, slope, slope, immediate=1)
    program.run(VectorOp.MUL, slope, output, slope)
    program.run(VectorOp.MUL, error, error, slope)


@dataclass(frozen=True)
class Activation:
    """An activation as instructions.

    Parameters
    ----------
    forward : callable
        ``(program, target, source, **settings)``: region ``target`` becomes the activation of region ``source``, which
        may be the same unless the input is kept.
    backward : callable
        ``(program, error, kept, **settings)``: region ``error``, of the activation's output, becomes that of its
        input; ``kept`` is what forward gave, or read where the input is kept, and may be used up.
    regions : int
        Full regions that backward needs.
    further : int
        Full regions that forward needs beside its source.
    kinked : bool
        Whether its slope jumps somewhere.
    keeps_input : bool
        Whether backward is from the input.
    settings : tuple of str
        Settings of the layer that both are given.
    """

    forward: Callable[..., None]
    backward: Callable[..., None]
    regions: int = 2
    further: int = 0
    kinked: bool = False
    keeps_input: bool = False
    settings: tuple[str, ...] = ()

    def of(self, layer: Any) -> dict[str, Any]:
        """Settings of a layer."""
        return {key: getattr(layer, key) for key in self.settings}


#: By kind of layer.
ACTIVATIONS = {
    "relu": Activation(_relu, _relu_back, kinked=True),
    "leaky-relu": Activation(_leaky_relu, _leaky_relu_back, 3, 1, kinked=True, settings=("slope",)),
    "relu6": Activation(_relu6, _relu6_back, 2, 1, kinked=True),
    "gelu": Activation(_gelu, _gelu_back, 4, 2, keeps_input=True),
    "tanh": Activation(_tanh, _tanh_back),
    "sigmoid": Activation(_sigmoid, _sigmoid_back, 3),
}


def run_forward(layer: Any, program: VectorProgram, target: str, source: str) -> None:
    """``target`` becomes the activation, a layer, of ``source``."""
    made = ACTIVATIONS[layer.kind]
    made.forward(program, target, source, **made.of(layer))


def run_backward(layer: Any, program: VectorProgram, error: str, kept: str) -> None:
    """``error`` of the output becomes that of the activation's input, as :attr:`Activation.backward`."""
    made = ACTIVATIONS[layer.kind]
    made.backward(program, error, kept, **made.of(layer))
