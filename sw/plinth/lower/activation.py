"""Activations as instructions of a vector program: forward on a region, and backward from the saved output.

::

    relu       y = x where x > 0, else +0             dx = dy where y > 0, else +0
    tanh       y = tanh(x)                            dx = dy * (1 - y * y)
    sigmoid    y = 1 / (1 + exp(-x))                  dx = dy * (y * (1 - y))

Each operation rounds to FP32, those in parentheses first. The sigmoid goes through the function unit twice, which
keeps its relative accuracy for negative x; it is 0 where exp(-x) is infinite, below -88.7.
"""

from plinth.lower.vector import VectorProgram
from plinth.model.layers import Layer, Relu, Sigmoid, Tanh
from plinth_hw.isa.tasks import VectorFunction, VectorOp


def _refused(layer: Layer) -> ValueError:
    return ValueError(f"An activation must be relu, tanh or sigmoid, not {layer.kind!r}")


def forward(program: VectorProgram, layer: Layer, target: str, source: str) -> None:
    """Region ``target`` = the activation of region ``source``.

    Raises
    ------
    ValueError
        If the layer is no activation.
    """
    if isinstance(layer, Relu):
        program.run(VectorOp.RELU, target, source)
    elif isinstance(layer, Tanh):
        program.run(VectorOp.FUNCTION, target, source, VectorFunction.TANH)
    elif isinstance(layer, Sigmoid):
        program.run(VectorOp.SCALE, target, source, immediate=-1)
        program.run(VectorOp.FUNCTION, target, target, VectorFunction.EXPONENTIAL)
        program.run(VectorOp.ADD_IMMEDIATE, target, target, immediate=1)
        program.run(VectorOp.FUNCTION, target, target, VectorFunction.RECIPROCAL)
    else:
        raise _refused(layer)


def backward(program: VectorProgram, layer: Layer, error: str, output: str) -> None:
    """Region ``error``, of the activation's output, becomes that of its input; ``output`` is what forward gave.

    Tanh uses ``output`` up; sigmoid needs one more region.

    Raises
    ------
    ValueError
        If the layer is no activation.
    """
    if isinstance(layer, Relu):
        program.run(VectorOp.RELU_MASK, error, error, output)
        return
    if isinstance(layer, Tanh):
        slope = output
        program.run(VectorOp.MUL, slope, output, output)
        program.run(VectorOp.SCALE, slope, slope, immediate=-1)
        program.run(VectorOp.ADD_IMMEDIATE, slope, slope, immediate=1)
    elif isinstance(layer, Sigmoid):
        slope = f"{output}.slope"
        program.run(VectorOp.SCALE, slope, output, immediate=-1)
        program.run(VectorOp.ADD_IMMEDIATE, slope, slope, immediate=1)
        program.run(VectorOp.MUL, slope, output, slope)
    else:
        raise _refused(layer)
    program.run(VectorOp.MUL, error, error, slope)
