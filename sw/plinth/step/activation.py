"""Activations as instructions of a vector program: forward on a region, and backward from the saved output.

::

    relu       y = x where x > 0, else +0             dx = dy where y > 0, else +0
    tanh       y = tanh(x)                            dx = dy * (1 - y * y)
    sigmoid    y = 1 / (1 + exp(-x))                  dx = dy * (y * (1 - y))

Each operation rounds to FP32, those in parentheses first. The sigmoid goes through the function unit twice, which
keeps its relative accuracy for negative x; it is 0 where exp(-x) is infinite, below -88.7.
"""

from collections.abc import Callable
from dataclasses import dataclass

from plinth.step.vector import VectorProgram
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VectorFunction, VectorOp


def _relu(program: VectorProgram, target: str, source: str) -> None:
    program.run(VectorOp.RELU, target, source)


def _relu_back(program: VectorProgram, error: str, output: str) -> None:
    program.run(VectorOp.RELU_MASK, error, error, output)


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
        ``(program, target, source)``: region ``target`` becomes the activation of region ``source``.
    backward : callable
        ``(program, error, output)``: region ``error``, of the activation's output, becomes that of its input;
        ``output`` is what forward gave, and may be used up.
    regions : int
        Full regions that backward needs.
    """

    forward: Callable[[VectorProgram, str, str], None]
    backward: Callable[[VectorProgram, str, str], None]
    regions: int = 2


#: By kind of layer.
ACTIVATIONS = {"relu": Activation(_relu, _relu_back), "tanh": Activation(_tanh, _tanh_back),
               "sigmoid": Activation(_sigmoid, _sigmoid_back, 3)}
