"""Inference against dense loops, and the Graph Challenge's categories."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_networks import random_network

from plinth.network.sparse.activations import ClippedRelu, SparseRelu, SparseSigmoid
from plinth.network.sparse.inference import categories, forward
from plinth.network.sparse.network import SparseNetwork
from plinth.network.sparse.radix_net import RadixNet, challenge_network


def challenge_outputs(network: SparseNetwork, samples: np.ndarray) -> np.ndarray:
    """The rule as the Graph Challenge states it, ``Y W`` with dense W [inputs, outputs], one sample at a time."""
    values = list(samples)
    for layer in range(network.layers):
        weights, bias = network.matrix(layer).toarray().T.astype(np.float64), network.biases[layer]
        for number, value in enumerate(values):
            z = value @ weights
            y = z + (z != 0) * bias
            y[y < 0] = 0
            y[y > 32] = 32
            values[number] = y
    return np.array(values)


@pytest.mark.parametrize("bias", [-0.3, 0.3])
def test_the_challenge_rule(bias: float) -> None:
    """Also with a bias above 0, which would wake what no input reaches if it were added there."""
    generator = np.random.default_rng(1)
    network = SparseNetwork(name="it", source=RadixNet(neurons=128, layers=5, seed=2, weights="uniform"),
                            biases=[bias] * 5, activations=[ClippedRelu()] * 5)
    samples = np.where(generator.random((12, 128)) < 0.05, 60.0, 0.0)
    samples[3] = 0
    outputs = forward(network, samples)
    assert np.allclose(outputs, challenge_outputs(network, samples), rtol=1e-12, atol=1e-12)
    assert (outputs == 32).any() and (outputs[3] == 0).all() and (outputs > 0).any()
    assert np.array_equal(outputs, forward(network, csr_array(samples)))


def test_categories_of_a_challenge_network() -> None:
    generator = np.random.default_rng(3)
    network = challenge_network(1024, 12, seed=1)
    shares = np.repeat([0.0, 0.05, 0.5, 0.9], 4)[:, None]
    samples = (generator.random((16, 1024)) < shares).astype(np.float64)
    outputs = forward(network, samples)
    wanted = [number for number, row in enumerate(challenge_outputs(network, samples)) if row.sum() > 0]
    assert categories(outputs).tolist() == wanted and 0 < len(wanted) < 16
    assert categories(np.zeros((3, 4))).tolist() == [] and categories(np.array([[0, 0], [0, 2.0]])).tolist() == [1]


@pytest.mark.parametrize("activation", [SparseRelu(), SparseSigmoid(), ClippedRelu(1.0)])
def test_float32_is_float64_rounded(activation: SparseRelu | SparseSigmoid | ClippedRelu) -> None:
    generator = np.random.default_rng(4)
    network = random_network(generator, (40, 30, 20), activation)
    samples = generator.standard_normal((9, 40))
    double, single = forward(network, samples), forward(network, samples, np.float32)
    assert double.dtype == np.float64 and single.dtype == np.float32 and double.shape == (9, 20)
    assert np.abs(double - single).max() < 1e-4 * np.abs(double).max()
    assert not np.array_equal(double, single)
    each = np.concatenate([forward(network, sample[None]) for sample in samples])
    assert np.allclose(each, double, rtol=1e-13)


def test_samples_refused() -> None:
    network = random_network(np.random.default_rng(0), (4, 3), SparseRelu())
    for samples in (np.zeros(4), np.zeros((2, 5)), csr_array((2, 3))):
        with pytest.raises(ValueError, match=r"samples must be \[samples, 4\], as network 'small' reads them"):
            forward(network, samples)
