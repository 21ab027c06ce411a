"""The operations of a training batch as micro-benchmarks know them: which kind of work each is, of which sizes.

========================  ==========================================================================================
kind                      sizes
========================  ==========================================================================================
product (3 directions)    samples m, inputs k, outputs n
convolution (3)           positions of all images, taps of a window with its channels, output channels, input elements,
                          taps of a window without channels
relu, tanh, sigmoid (2)   rows (samples or positions), columns (channels)
max-pool, mean-pool (2)   input elements, output elements, taps of a window, channels
loss                      samples, classes
update                    weights and biases of a layer
write, read, message      words of a transfer, which no batch has
========================  ==========================================================================================

Directions are fprop, bprop and update of products, forward and backward of the others. Where a layer has a bias alone,
its addition is function ``bias``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from plinth.errors import UserError
from plinth.network.layers import Layer, MaxPool, MeanPool, Relu, Sigmoid, Tanh
from plinth.network.network import Network
from plinth.partition.graph import LOSS, Epilogue, Node, from_network
from plinth.step.tasks import BPROP, FPROP, UPDATE

#: Kinds of layers behind a product that are measured: functions, and pools.
FUNCTIONS: dict[type[Layer], str] = {Relu: "relu", Tanh: "tanh", Sigmoid: "sigmoid"}
POOLS: dict[type[Layer], str] = {MaxPool: "max-pool", MeanPool: "mean-pool"}
#: The addition of a bias where no function follows.
BIAS = "bias"
#: Names of the two directions of what is no product.
FORWARD, BACKWARD = "forward", "backward"
#: Kinds of transfers: to the device, from the device, and between two ranks.
WRITE, READ, MESSAGE = TRANSFERS = "write", "read", "message"


@dataclass(frozen=True)
class BatchWork:
    """An operation of a training batch.

    Attributes
    ----------
    operation : str
        Its name in the step, without numbers of pieces, as ``fc1.fprop``.
    kind : str
        What is measured alike, as ``product fprop``.
    sizes : tuple of int
        As the module's table says.
    """

    operation: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def is_forward(self) -> bool:
        """Whether it is part of forward propagation, with the loss."""
        return self.kind.endswith((FPROP, FORWARD)) or self.kind == LOSS


def batch_works(network: Network, batch: int) -> list[BatchWork]:
    """The operations of a training batch of a network on one device.

    Raises
    ------
    UserError
        If the network has a layer that no micro-benchmark measures; the message names it.
    """
    graph = from_network(network)
    found: list[BatchWork] = []
    # The bias of what the loss reads is added with the loss.
    last = {edge.producer for edge in graph.edges if graph.nodes[edge.consumer].kind == LOSS}
    for number, node in enumerate(graph.nodes):
        found += _loss(network, node, batch) if node.kind == LOSS else _layer(node, batch, number in last)
    return found


def _loss(network: Network, node: Node, batch: int) -> Iterator[BatchWork]:
    yield BatchWork(node.name, LOSS, (batch, network.shapes[network.layers[-1].name].inputs[0].elements))


def _layer(node: Node, batch: int, is_last: bool) -> Iterator[BatchWork]:
    """A weighted layer with what follows it; the last one feeds the loss."""
    if node.kind not in ("dense", "convolution") or node.tiling is not None:
        raise _unknown(node.name, node.kind if node.tiling is None else "convolution by Winograd tiles")
    kind, sizes = _product(node, batch)
    for direction, suffix in ((FPROP, "fprop"), (BPROP, "bprop"), (UPDATE, "update_grad")):
        if direction != BPROP or not node.network_inputs:
            yield BatchWork(f"{node.name}.{suffix}", f"{kind} {direction}", sizes)
    yield BatchWork(f"{node.name}.update", "update", (node.weights + node.bias,))
    pools = [behind for behind in node.epilogue if type(behind.layer) in POOLS]
    for pool in pools:
        yield from _pool(pool, node, batch)
    others = [behind for behind in node.epilogue if behind not in pools]
    for behind in others:
        if type(behind.layer) not in FUNCTIONS:
            raise _unknown(behind.name, behind.layer.kind)
    if len(others) > 1:
        raise UserError(f"layer {others[1].name!r} is a second function behind layer {node.name!r}, of which no "
                        "micro-benchmark tells anything; leave one of them out")
    function = FUNCTIONS[type(others[0].layer)] if others else BIAS
    if node.epilogue or (node.bias and not is_last):
        rows = batch * node.raw_positions
        yield BatchWork(f"{node.name}.output", f"{function} {FORWARD}", (rows, node.output_channels))
        yield BatchWork(f"{node.name}.backward", f"{function} {BACKWARD}", (rows, node.output_channels))


def _product(node: Node, batch: int) -> tuple[str, tuple[int, ...]]:
    if node.window is None:
        return "product", (batch, node.input_elements, node.output_channels)
    taps = prod(node.window.kernel) * node.input_channels
    return "convolution", (batch * node.output_positions, taps, node.output_channels, batch * node.input_elements,
                           prod(node.window.kernel))


def _pool(pool: Epilogue, node: Node, batch: int) -> Iterator[BatchWork]:
    layer = pool.layer
    assert isinstance(layer, (MaxPool, MeanPool))
    before, behind = (batch * prod(size) * node.output_channels for size in (pool.size, pool.output))
    for direction in (FORWARD, BACKWARD):
        yield BatchWork(f"{pool.name}.{direction}", f"{POOLS[type(layer)]} {direction}", (
            before, behind, prod(layer.kernel), node.output_channels))


def _unknown(name: str, kind: str) -> UserError:
    return UserError(f"layer {name!r} ({kind}) has no micro-benchmark; a profile knows dense, convolution, relu, tanh, "
                     "sigmoid, max-pool, mean-pool, flatten and softmax-cross-entropy or mean-squared-error")
