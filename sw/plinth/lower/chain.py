"""A network as what is lowered today: a chain of fully connected blocks, ReLU between, softmax at the end."""

from dataclasses import dataclass

from plinth.errors import UserError
from plinth.model.layers import Dense, Layer, Relu, SoftmaxCrossEntropy
from plinth.model.network import INPUT, Network


@dataclass(frozen=True)
class Block:
    """A fully connected layer with bias and what follows it: ``Y = X W + b``, then ReLU or the loss.

    Weights are ``[inputs, outputs]``, row-major, the bias behind them.
    """

    name: str
    inputs: int
    outputs: int

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return (self.inputs + 1) * self.outputs


def chain(network: Network) -> tuple[Block, ...]:
    """The blocks of a network; ReLU follows each but the last, which feeds softmax with cross-entropy.

    Raises
    ------
    UserError
        If a layer cannot be lowered; it is named.
    """
    blocks: list[Block] = []
    before: Layer | None = None
    for layer in network.layers:
        expected: tuple[type[Layer], ...] = (Relu, SoftmaxCrossEntropy) if isinstance(before, Dense) else (Dense,)
        fed = layer.inputs == (before.name if before else INPUT,)
        if not isinstance(layer, expected) or not fed:
            raise UserError(f"network {network.name!r}: layer {layer.name!r} ({layer.kind}) cannot be lowered "
                            f"{'here' if isinstance(layer, (Dense, Relu, SoftmaxCrossEntropy)) else 'yet'}; "
                            "lowered are chains of dense layers with relu between and softmax-cross-entropy "
                            "at the end")
        if isinstance(layer, Dense):
            if not layer.bias:
                raise UserError(f"network {network.name!r}: layer {layer.name!r} has no bias and cannot be "
                                "lowered; give it one")
            blocks.append(Block(layer.name, network.output_shape(layer.inputs[0]).elements, layer.outputs))
        before = layer
    return tuple(blocks)
