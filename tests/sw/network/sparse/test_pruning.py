"""Magnitude pruning, and convolutions as matrices."""

import numpy as np
import pytest

from plinth.network.layers import Convolution, Dense, Flatten, Layer, MaxPool, MeanSquaredError, Relu, Shape
from plinth.network.network import Network, perceptron
from plinth.network.parameters import initial_parameters
from plinth.network.sparse import matrices
from plinth.network.sparse.activations import SparseSigmoid
from plinth.network.sparse.inference import forward
from plinth.network.sparse.network import SparseNetwork
from plinth.network.sparse.pruning import PrunedChain, prune
from plinth.network.zoo import NETWORKS


def network_of(shape: tuple[int, ...], *layers: Layer) -> Network:
    return Network(name="it", input=Shape(shape), layers=(*layers, MeanSquaredError(name="loss")))


def convolved(source: np.ndarray, kernel: np.ndarray, stride: tuple[int, int], padding: tuple[int, ...]) -> np.ndarray:
    """A convolution by its definition: windows of a padded map [rows, columns, channels]."""
    top, left, bottom, right = padding if len(padding) == 4 else 2 * padding
    padded = np.pad(source, ((top, bottom), (left, right), (0, 0)))
    height, width = ((padded.shape[axis] - kernel.shape[axis]) // stride[axis] + 1 for axis in (0, 1))
    outputs = np.zeros((height, width, kernel.shape[3]))
    for y in range(height):
        for x in range(width):
            rows, columns = (slice(place * step, place * step + taps)
                             for place, step, taps in zip((y, x), stride, kernel.shape[:2], strict=True))
            outputs[y, x] = np.tensordot(padded[rows, columns], kernel, 3)
    return outputs


@pytest.mark.parametrize(("size", "kernel", "stride", "padding"), [
    ((6, 7), (3, 3), (1, 1), (0, 0)), ((6, 7), (3, 3), (1, 1), (1, 1)), ((7, 6), (5, 3), (2, 3), (2, 1)),
    ((5, 8), (3, 2), (2, 1), (0, 1, 2, 0)), ((4, 4), (1, 1), (2, 2), (0, 0)), ((3, 3), (3, 3), (1, 1), (2, 2))])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_convolution_is_its_matrix(size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
                                     padding: tuple[int, ...], share: float) -> None:
    generator = np.random.default_rng(0)
    network = network_of((2, *size), Convolution(name="conv", channels=3, kernel=kernel, stride=stride,
                                                 padding=padding))
    weights = generator.standard_normal((*kernel, 2, 3)).astype(np.float32)
    bias = generator.standard_normal(3).astype(np.float32)
    layer, = prune(network, {"conv.weights": weights, "conv.bias": bias}, share)
    kept = np.sort(np.abs(weights).ravel())[::-1][:round(share * weights.size)]
    pruned = np.where(np.abs(weights) >= kept[-1], weights, 0)
    source = generator.standard_normal((*size, 2))
    wanted = convolved(source, pruned.astype(np.float64), stride, padding)
    matrix = layer.matrix()
    assert np.allclose((matrix.astype(np.float64) @ source.ravel()).reshape(wanted.shape), wanted, rtol=1e-10)
    assert np.array_equal(layer.bias.reshape(wanted.shape), np.broadcast_to(bias.astype(np.float64), wanted.shape))
    matrices.checked(matrix, "it")
    assert (layer.kept, layer.weights) == (len(kept), weights.size) and matrix.nnz <= layer.entries
    chosen = np.random.default_rng(1).permutation(layer.outputs)[:7]
    assert np.array_equal(layer.rows(chosen).toarray(), matrix.toarray()[chosen])


def test_a_dense_layer() -> None:
    weights = np.array([[3.0, -1.0], [0.5, -4.0], [2.0, 0.0]], np.float32)  # [inputs, outputs]
    network = network_of((3,), Dense(name="fc", outputs=2, bias=False))
    layer, = prune(network, {"fc.weights": weights}, 0.5)
    assert layer.matrix().toarray().tolist() == [[3.0, 0.0, 2.0], [0.0, -4.0, 0.0]]
    assert layer.rows([1]).toarray().tolist() == [[0.0, -4.0, 0.0]] and layer.bias.tolist() == [0.0, 0.0]
    assert (layer.name, layer.inputs, layer.outputs, layer.kept, layer.weights) == ("fc", 3, 2, 3, 6)
    whole, = prune(network, {"fc.weights": weights}, 1.0)
    assert whole.matrix().nnz == 6, "an entry of 0 is an entry"


def test_shares() -> None:
    """Of all layers together and of each, rounded, and at least one."""
    network = perceptron("it", (4, 5, 2))
    parameters = {name: np.zeros(variable.shape, np.float32) for name, variable in network.variables.items()}
    parameters["fc1.weights"] = np.arange(1, 21, dtype=np.float32).reshape(4, 5) * -1
    parameters["fc2.weights"] = np.full((5, 2), 11.0, np.float32)

    def kept(share: float, per_layer: bool) -> list[int]:
        return [layer.kept for layer in prune(network, parameters, share, per_layer)]

    # Larger than 11 are nine of the first layer; of equal 11s the one of the first layer comes first.
    assert kept(0.3, False) == [9, 0] and kept(1 / 3, False) == [10, 0] and kept(0.4, False) == [10, 2]
    assert kept(0.3, True) == [6, 3] and kept(1.0, False) == kept(1.0, True) == [20, 10]
    assert kept(1e-9, False) == [1, 0] and kept(1e-9, True) == [1, 1]
    second = prune(network, parameters, 0.4)[1]
    assert second.matrix().toarray().tolist() == [[11.0, 0, 0, 0, 0], [11.0, 0, 0, 0, 0]], "the first by position"


@pytest.mark.parametrize("name", ["digits-mlp", "digits-cnn", "sconv", "lenet-c", "cifar-c", "mpt-early"])
def test_networks_of_the_zoo(name: str) -> None:
    network = NETWORKS[name]
    parameters = initial_parameters(network, seed=4)
    layers = prune(network, parameters, 0.1)
    assert [layer.name for layer in layers] == [layer.name for layer in network.weighted]
    assert sum(layer.kept for layer in layers) == round(0.1 * network.weights)
    for layer in layers:
        shapes = network.shapes[layer.name]
        assert (layer.outputs, layer.inputs) == (shapes.output.elements, shapes.inputs[0].elements)
        some = layer.rows(np.linspace(0, layer.outputs - 1, 50).astype(int))
        magnitudes = np.abs(parameters[f"{layer.name}.weights"])
        assert set(np.abs(some.data).tolist()) <= set(magnitudes.ravel().tolist())
    least = min(np.abs(layer.rows(np.arange(min(layer.outputs, 500))).data).min(initial=np.inf) for layer in layers)
    every = np.concatenate([np.abs(parameters[f"{layer.name}.weights"]).ravel() for layer in layers])
    assert np.sort(every)[::-1][:round(0.1 * network.weights)][-1] <= least
    again = prune(network, parameters, 0.1)
    assert [layer.kept for layer in again] == [layer.kept for layer in layers]


def test_a_perceptron_is_a_chain() -> None:
    network = NETWORKS["digits-mlp"]
    parameters = initial_parameters(network, seed=0)
    layers = prune(network, parameters, 1.0)
    sparse = SparseNetwork(name="it", source=PrunedChain(layers), biases=[layer.bias for layer in layers],
                           activations=[SparseSigmoid()] * 3)
    assert sparse.widths == (64, 128, 64, 10)
    values = samples = np.random.default_rng(0).random((5, 64))
    for number in (1, 2, 3):
        sums = values @ parameters[f"fc{number}.weights"].astype(np.float64) + parameters[f"fc{number}.bias"]
        values = 1 / (1 + np.exp(-sums))
    assert np.allclose(forward(sparse, samples), values, rtol=1e-10)
    with pytest.raises(ValueError, match="layer 'conv2' reads 128 inputs, but layer 'conv1' gives 512"):
        PrunedChain(prune(NETWORKS["digits-cnn"], initial_parameters(NETWORKS["digits-cnn"], 0), 0.5))
    with pytest.raises(ValueError, match="layer must be from 0 to 2, not 3"):
        sparse.rows(3, [0])


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network = perceptron("it", (4, 3))
    parameters = initial_parameters(network, seed=0)
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share must be above 0 and up to 1"):
            prune(network, parameters, share)
    with pytest.raises(ValueError, match=r"parameters of network 'it' have no 'fc1.weights'; give 4x3"):
        prune(network, {}, 0.5)
    with pytest.raises(ValueError, match=r"'fc1.weights' must be finite numbers \[4, 3\], not \[3, 4\]"):
        prune(network, {**parameters, "fc1.weights": np.zeros((3, 4))}, 0.5)
    with pytest.raises(ValueError, match=r"not \[4, 3\] of which some are not"):
        prune(network, {**parameters, "fc1.weights": np.full((4, 3), np.nan)}, 0.5)
    tiles = network_of((1, 6, 6), Convolution(name="conv", channels=2, kernel=(3, 3), winograd=2, weights="winograd"))
    with pytest.raises(ValueError, match=r"layer 'conv' \(convolution\) trains Winograd tiles, which are not pruned"):
        prune(tiles, initial_parameters(tiles, 0), 0.5)
    pools = network_of((1, 6, 6), Convolution(name="conv", channels=2, kernel=(3, 3)), Relu(name="relu"),
                       MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"),
                       Dense(name="fc", outputs=3))
    layers = prune(pools, initial_parameters(pools, 0), 0.5)
    assert [layer.name for layer in layers] == ["conv", "fc"]
    monkeypatch.setattr(matrices, "MAXIMUM_ENTRIES", 10)
    with pytest.raises(ValueError, match=r"the matrix of layer 'conv' has \d+ entries, more than 10; take fewer"):
        layers[0].matrix()
