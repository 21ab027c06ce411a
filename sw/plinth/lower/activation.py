"""Activations as instructions of a vector program: forward on a region, and backward from the saved output."""

from plinth.lower.vector import VectorProgram
from plinth.model.layers import Layer, Relu
from plinth_hw.isa.tasks import VectorOp


def forward(program: VectorProgram, layer: Layer, target: str, source: str) -> None:
    """Region ``target`` = the activation of region ``source``."""
    if not isinstance(layer, Relu):
        raise ValueError(f"An activation must be relu, not {layer.kind!r}")
    program.run(VectorOp.RELU, target, source)


def backward(program: VectorProgram, layer: Layer, error: str, output: str) -> None:
    """Region ``error``, of the activation's output, becomes that of its input; ``output`` is what forward gave."""
    if not isinstance(layer, Relu):
        raise ValueError(f"An activation must be relu, not {layer.kind!r}")
    program.run(VectorOp.RELU_MASK, error, error, output)
