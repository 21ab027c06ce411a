"""RadiX-Net networks against their construction from Kronecker products, and what the construction promises."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from plinth.limits import MAXIMUM_SEED
from plinth.network.sparse.activations import ClippedRelu, SparseSigmoid
from plinth.network.sparse.radix_net import CHALLENGE_BIASES, RadixNet, challenge_network, trained_network


def base_layer(classes: int, offset: int) -> np.ndarray:
    """A layer of the base network, [inputs, outputs]: sum of powers of the cyclic shift (mixed radix topology), times
    a dense 16 x 16 layer by a Kronecker product."""
    shift = np.roll(np.eye(classes, dtype=int), -1, axis=1)  # class q -> q - 1
    return np.kron(np.ones((16, 16), int), np.minimum(1, np.eye(classes, dtype=int)
                                                      + np.linalg.matrix_power(shift, offset)))


def patterns(network: RadixNet, layer: int) -> np.ndarray:
    """As [inputs, outputs], the way in which the construction has them."""
    return (network.rows(layer, np.arange(network.neurons)).toarray() != 0).astype(int).T


@pytest.mark.parametrize("neurons", [32, 64, 256, 1024])
def test_copy_0_is_the_kronecker_product(neurons: int) -> None:
    network = RadixNet(neurons=neurons, layers=20)
    for layer in range(network.base_layers):
        assert np.array_equal(patterns(network, layer), base_layer(neurons // 16, 2**layer))


@pytest.mark.parametrize("neurons", [64, 256])
def test_other_copies_are_the_base_behind_one_permutation(neurons: int) -> None:
    """The class that a permutation gives an input is the only one that all layers of a copy connect it to."""
    network = RadixNet(neurons=neurons, layers=64, seed=3)
    classes, depth = network.classes, network.base_layers
    permutations = set()
    for copy in range(1, 4):
        layers = [patterns(network, copy * depth + layer) for layer in range(depth)]
        common = np.minimum.reduce(layers)[:, :classes]
        assert (common.sum(axis=1) == 1).all(), "each input has one class"
        found = common.argmax(axis=1)
        assert np.bincount(found).tolist() == [16] * classes
        assert all(np.array_equal(layer, base_layer(classes, 2**number)[found])
                   for number, layer in enumerate(layers))
        permutations.add(tuple(found))
    assert len(permutations) == 3


@pytest.mark.parametrize("neurons", [32, 64, 256])
def test_paths_of_the_base_are_equal_in_number(neurons: int) -> None:
    """RadiX-Net's symmetry: 32^B paths leave an input, and spread evenly over N outputs."""
    network = RadixNet(neurons=neurons, layers=8)
    depth = network.base_layers
    paths = np.linalg.multi_dot([patterns(network, layer) for layer in range(depth)] + [np.eye(neurons, dtype=int)])
    assert (paths == 32**depth // neurons).all() and 32**depth // neurons == 16**(depth - 1)


@pytest.mark.parametrize(("neurons", "layer"), [(32, 3), (1024, 0), (1024, 5), (1024, 119), (4096, 25), (65536, 13)])
def test_every_neuron_has_32_connections(neurons: int, layer: int) -> None:
    matrix = RadixNet(neurons=neurons, layers=120).rows(layer, np.arange(neurons))
    assert matrix.shape == (neurons, neurons) and matrix.dtype == np.float32
    assert (np.diff(matrix.indptr) == 32).all() and (np.bincount(matrix.indices) == 32).all()
    assert (np.diff(matrix.indices.reshape(-1, 32), axis=1) > 0).all() and (matrix.data == 1 / 16).all()


@pytest.mark.parametrize(("layer", "output", "inputs"), [
    (1, 1, [1, 2, 65, 66, 129]), (1, 2, [2, 3, 66, 67, 130]), (1, 26, [26, 27, 90, 91, 154]),
    (3, 1024, [4, 64, 68, 128, 132]), (6, 1024, [32, 64, 96, 128, 160])])
def test_published_layers(layer: int, output: int, inputs: list[int]) -> None:
    """The first inputs, from 1, of some outputs in the Graph Challenge's files n1024-l1, -l3 and -l6, all of copy 0."""
    columns = challenge_network(1024, 120).rows(layer - 1, [output - 1]).indices
    assert (columns[:5] + 1).tolist() == inputs


@pytest.mark.parametrize("weights", ["constant", "uniform"])
def test_rows_are_made_alone(weights: str) -> None:
    network = RadixNet(neurons=1024, layers=9, seed=5, weights=weights)
    chosen = np.array([700, 3, 1023, 4])
    for layer in (0, 8):
        whole, some = network.rows(layer, np.arange(1024)), network.rows(layer, chosen)
        assert np.array_equal(whole[chosen].toarray(), some.toarray())
        assert network.rows(layer, []).shape == (0, 1024)


def test_seeds_and_drawn_weights() -> None:
    every = np.arange(64)

    def drawn(seed: int, layer: int, weights: str = "uniform") -> csr_array:
        return RadixNet(neurons=64, layers=4, seed=seed, weights=weights).rows(layer, every)

    assert np.array_equal(drawn(1, 1).toarray(), drawn(1, 1).toarray())
    assert np.array_equal(drawn(1, 1).indices, drawn(2, 1).indices), "copy 0 knows no seed"
    assert not np.array_equal(drawn(1, 2).indices, drawn(2, 2).indices)
    assert not np.array_equal(drawn(1, 0).data, drawn(2, 0).data)
    assert not np.array_equal(drawn(1, 0).data, drawn(1, 1).data)
    assert np.array_equal(drawn(1, 3).indices, drawn(1, 3, "constant").indices)
    values = drawn(1, 0).data
    assert len(set(values.tolist())) > 2040 and values.min() < -0.99 and values.max() > 0.99


@pytest.mark.parametrize(("changes", "message"), [
    ({"neurons": 1000}, "16 times a power of two, from 32 to 16777216, not 1000; take for example 1024"),
    ({"neurons": 16}, "not 16"), ({"neurons": 48}, "not 48"), ({"neurons": 1 << 25}, "not 33554432"),
    ({"layers": 0}, "layers must be from 1 to 65536, not 0"), ({"seed": -1}, "seed must be from 0 to"),
    ({"seed": MAXIMUM_SEED + 1}, "seed must be from 0 to"), ({"weights": "one"}, "'constant' or 'uniform', not 'one'")])
def test_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RadixNet(**{"neurons": 1024, "layers": 120, **changes})


def test_rows_and_layers_out_of_range() -> None:
    network = RadixNet(neurons=32, layers=2)
    for layer in (-1, 2):
        with pytest.raises(ValueError, match="layer must be from 0 to 1, not"):
            network.rows(layer, [0])
    for rows in ([32], [-1], [0.5], [[1]], [True]):
        with pytest.raises(ValueError, match="rows must be"):
            network.rows(0, rows)


def test_networks() -> None:
    for neurons, bias in CHALLENGE_BIASES.items():
        network = challenge_network(neurons, 120)
        assert network.layers == 120 and set(network.biases) == {bias}
        assert set(network.activations) == {ClippedRelu(32.0)}
    assert [round(bias, 2) for bias in CHALLENGE_BIASES.values()] == [-0.3, -0.35, -0.4, -0.45]
    with pytest.raises(ValueError, match="no bias for 64 neurons; take one of 1024, 4096, 16384, 65536"):
        challenge_network(64, 2)
    plain, biased = trained_network(64, 3, seed=1), trained_network(64, 3, seed=1, biases=True)
    assert set(plain.biases) == {0.0} and set(plain.activations) == {SparseSigmoid()}
    assert [bias.tolist() for bias in biased.biases] == [[0.0] * 64] * 3
    assert plain.matrix(2).data.min() < 0
