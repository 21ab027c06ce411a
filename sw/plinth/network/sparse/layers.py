"""Networks of :mod:`plinth.network` with sparse layers: of chains of sparse weights, of pruned networks, in files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.documents import dump_yaml
from plinth.network.file import network_to_data
from plinth.network.layers import Convolution, Dense, Layer, MeanSquaredError, Relu, Sigmoid, Sparse
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.network.sparse.activations import Activation, SparseRelu, SparseSigmoid
from plinth.network.sparse.network import SparseNetwork
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.pattern_file import holds_patterns, write_patterns
from plinth.network.sparse.pruning import prune
from plinth.output import check_ending, check_writable, write_whole

#: Most connections of a network in memory: with four bytes for the column and the weight of each, 2 GiB, which is what
#: a file of patterns holds.
MAXIMUM_CONNECTIONS = 1 << 28
#: Layers that compute activations of sparse chains.
_ACTIVATIONS: dict[type[Activation], type[Layer]] = {SparseRelu: Relu, SparseSigmoid: Sigmoid}


def layered(sparse: SparseNetwork) -> Network:
    """A chain of sparse weights as a network that trains them: layers ``fc1``, ``fc2``, ..., each with its activation
    behind it, and the mean squared error.

    Raises
    ------
    ValueError
        If an activation is no layer of networks, as the clipped ReLU is none, or a bias is a number other than 0, which
        would stay; if there are more than :data:`MAXIMUM_CONNECTIONS`.
    """
    layers: list[Layer] = []
    connections = 0
    for number in range(sparse.layers):
        activation, bias = sparse.activations[number], sparse.biases[number]
        if type(activation) not in _ACTIVATIONS:
            raise ValueError(f"layer {number} of {sparse.name!r} has a {activation.kind}, which is for inference on "
                             "one processor alone; choose a ReLU or a sigmoid")
        if isinstance(bias, float) and bias:
            raise ValueError(f"layer {number} of {sparse.name!r} has a bias of {bias} that stays; biases of layers are "
                             "trained, give it an array, or 0")
        matrix = sparse.matrix(number)
        connections += matrix.nnz
        if connections > MAXIMUM_CONNECTIONS:
            raise ValueError(f"the first {number + 1} of {sparse.layers} layers of {sparse.name!r} have {connections} "
                             f"connections, more than {MAXIMUM_CONNECTIONS}; take fewer layers or neurons")
        layers.append(Sparse(name=f"fc{number + 1}", pattern=SparsePattern.of(matrix),
                             bias=not isinstance(bias, float)))
        layers.append(_ACTIVATIONS[type(activation)](name=f"{activation.kind}{number + 1}"))
    return Network(name=sparse.name, input=Shape((sparse.widths[0],)),
                   layers=(*layers, MeanSquaredError(name="loss")))


def pruned_network(network: Network, parameters: Mapping[str, NDArray[Any]], share: float, *, per_layer: bool = False
                   ) -> Network:
    """A network whose fully connected layers keep so large a share of their weights, the largest, as sparse layers;
    biases are trained from 0 on.

    Parameters
    ----------
    parameters : mapping
        Arrays by the variables' names: trained ones, as a rule.
    share, per_layer
        As of :func:`~plinth.network.sparse.pruning.prune`.

    Raises
    ------
    ValueError
        As :func:`~plinth.network.sparse.pruning.prune`; if there are convolutions, whose Toeplitz matrices train each
        element of theirs by itself.
    """
    for layer in network.layers:
        if isinstance(layer, Convolution):
            raise layer.refuse("is a convolution, whose pruned matrix would train each window by itself; prune a "
                               "network of fully connected layers")
    matrices = {pruned.name: pruned.matrix() for pruned in prune(network, parameters, share, per_layer)}
    return replace(network, name=f"{network.name}-pruned"[:64], layers=tuple(
        Sparse(name=layer.name, inputs=layer.inputs, pattern=SparsePattern.of(matrices[layer.name]), bias=layer.bias)
        if isinstance(layer, Dense) else layer for layer in network.layers))


def write_sparse(path: Path, network: Network) -> None:
    """Write a network with sparse layers: a YAML file, and beside it, of the same name, ``.npz`` with all patterns and
    first weights, to which it points.

    Raises
    ------
    UserError
        If the file has another ending or cannot be written, patterns are too large for one file, or the ``.npz`` file
        is there and holds something else than patterns.
    """
    check_ending("the network's file", path, ".yaml")
    check_writable(path)
    patterns = {layer.name: layer.pattern for layer in network.layers if isinstance(layer, Sparse)}
    matrices = path.with_suffix(".npz")
    if matrices.exists() and not holds_patterns(matrices):
        raise UserError(f"{matrices}: is there and holds no patterns, and those of {path.name} would take its place; "
                        "give the network another name, or move the file")
    write_patterns(matrices, {name: pattern.matrix() for name, pattern in patterns.items()},
                   values=all(pattern.valued for pattern in patterns.values()))
    data = network_to_data(network)
    for layer in data["layers"]:
        if layer["name"] in patterns:
            layer["pattern"] = {"file": matrices.name, "matrix": layer["name"]}
    write_whole(path, lambda place: place.write_text(dump_yaml(data), encoding="utf-8"))
