"""Gradients against finite differences of the loss."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_networks import random_matrix, random_network

from plinth.network.sparse import gradient
from plinth.network.sparse.activations import Activation, ClippedRelu, SparseRelu, SparseSigmoid
from plinth.network.sparse.gradient import gradients, mean_squared_error, sampled_product, sgd_step
from plinth.network.sparse.inference import forward
from plinth.network.sparse.network import SparseNetwork, replace_weights
from plinth.network.sparse.radix_net import trained_network


def differences(network: SparseNetwork, samples: np.ndarray, targets: np.ndarray,
                layer: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Central differences of the loss by each weight and each trained bias of a layer."""
    step = 1e-6

    def slope(move: np.ndarray, number: int) -> float:
        before, losses = move[number], []
        for value in (before + step, before - step):
            move[number] = value
            losses.append(mean_squared_error(forward(changed, samples), targets))
        move[number] = before
        return (losses[0] - losses[1]) / (2 * step)

    matrices = [network.matrix(number).copy() for number in range(network.layers)]
    biases = [bias if isinstance(bias, float) else bias.copy() for bias in network.biases]
    changed = replace_weights(network, matrices, biases)
    of_weights = np.array([slope(matrices[layer].data, number) for number in range(matrices[layer].nnz)])
    # The network keeps a copy of its biases: its own are moved.
    bias = changed.biases[layer]
    return of_weights, None if isinstance(bias, float) else np.array(
        [slope(bias, number) for number in range(len(bias))])


@pytest.mark.parametrize("activation", [SparseSigmoid(), SparseRelu(), ClippedRelu(1.5)])
@pytest.mark.parametrize("trained_biases", [True, False])
def test_gradients_are_the_slopes_of_the_loss(activation: Activation, trained_biases: bool) -> None:
    generator = np.random.default_rng(5)
    network = random_network(generator, (8, 7, 6, 5), activation, trained_biases=trained_biases)
    samples, targets = generator.standard_normal((4, 8)), generator.random((4, 5))
    found = gradients(network, samples, targets)
    assert np.array_equal(found.outputs, forward(network, samples))
    assert found.loss == pytest.approx(((forward(network, samples) - targets) ** 2).sum() / 20, rel=1e-12)
    for layer in range(3):
        of_weights, of_biases = differences(network, samples, targets, layer)
        assert np.abs(of_weights).max() > 1e-3
        assert np.allclose(found.weights[layer], of_weights, rtol=1e-5, atol=1e-8)
        of_bias = found.biases[layer]
        assert (of_biases is None) == (of_bias is None) == (not trained_biases)
        if of_bias is not None:
            assert np.allclose(of_bias, of_biases, rtol=1e-5, atol=1e-8)


def test_a_bias_that_is_not_added_is_not_trained() -> None:
    """Where the Graph Challenge's rule leaves the bias out."""
    network = random_network(np.random.default_rng(0), (3, 2), ClippedRelu())
    biases = [np.array([1.0, 1.0])]
    network = replace_weights(network, [csr_array(np.array([[1.0, 0, 0], [0, 0, 1.0]]))], biases)
    found = gradients(network, np.array([[0.0, 5.0, 2.0]]), np.zeros((1, 2)))
    assert found.outputs.tolist() == [[0.0, 3.0]]
    assert found.biases[0] is not None and found.biases[0].tolist() == [0.0, 3.0]


def test_a_step() -> None:
    generator = np.random.default_rng(6)
    network = random_network(generator, (9, 8, 4), SparseSigmoid())
    samples, targets = generator.standard_normal((5, 9)), generator.random((5, 4))
    before = [network.matrix(layer).toarray() for layer in range(2)]
    after, found = sgd_step(network, samples, targets, 0.5)
    for layer in range(2):
        assert np.array_equal(network.matrix(layer).toarray(), before[layer]), "the network before is as it was"
        matrix, old = after.matrix(layer), network.matrix(layer)
        assert np.array_equal(matrix.indices, old.indices) and np.array_equal(matrix.indptr, old.indptr)
        assert np.array_equal(matrix.data, old.data - 0.5 * found.weights[layer])
        assert np.array_equal(after.bias(layer), network.bias(layer) - 0.5 * found.biases[layer])
    losses = [found.loss]
    for _ in range(30):
        after, found = sgd_step(after, samples, targets, 0.5)
        losses.append(found.loss)
    assert all(later < earlier for earlier, later in pairwise(losses))


def test_a_batch_is_the_mean_of_its_samples() -> None:
    """Which averaged deltas would not give, as weights' gradients are products of each sample's own inputs."""
    generator = np.random.default_rng(7)
    network = trained_network(64, 3, seed=1, biases=True)
    samples, targets = generator.random((6, 64)), generator.random((6, 64))
    whole = gradients(network, samples, targets)
    each = [gradients(network, samples[[number]], targets[[number]]) for number in range(6)]
    for layer in range(3):
        assert np.allclose(whole.weights[layer], np.mean([one.weights[layer] for one in each], axis=0), rtol=1e-12)
        assert np.allclose(whole.biases[layer], np.mean([one.biases[layer] for one in each], axis=0), rtol=1e-12)
    assert np.array_equal(gradients(network, csr_array(samples), targets).weights[0], whole.weights[0])


def test_sampled_products(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(8)
    pattern = random_matrix(generator, 11, 6)
    deltas, inputs = generator.standard_normal((11, 5)), generator.standard_normal((6, 5))
    rows, columns = pattern.toarray().nonzero()
    wanted = (deltas @ inputs.T)[rows, columns]
    assert np.allclose(sampled_product(pattern, deltas, inputs), wanted, rtol=1e-13)
    for gathered in (1, 12, 35):
        monkeypatch.setattr(gradient, "_GATHERED", gathered)
        assert np.allclose(sampled_product(pattern, deltas, inputs), wanted, rtol=1e-13)
    assert sampled_product(csr_array((11, 6)), deltas, inputs).shape == (0,)


def test_targets_refused() -> None:
    network = random_network(np.random.default_rng(0), (4, 3), SparseRelu())
    for targets in (np.zeros((2, 4)), np.zeros((1, 3)), np.zeros(3)):
        with pytest.raises(ValueError, match=r"targets must be \[samples, outputs\] \[2, 3\], of at least one sample"):
            gradients(network, np.zeros((2, 4)), targets)
    with pytest.raises(ValueError, match="of at least one sample"):
        gradients(network, np.zeros((0, 4)), np.zeros((0, 3)))


def test_what_is_not_finite_is_refused_without_a_warning() -> None:
    network = random_network(np.random.default_rng(0), (4, 3, 2), SparseRelu())
    samples, targets = np.ones((2, 4)), np.ones((2, 2))
    told = "gradients of network 'small' are not finite; give finite samples and targets"
    for wrong in ((np.full((2, 4), np.nan), targets), (samples, np.full((2, 2), np.inf)),
                  (samples * 1e200, targets), (samples, targets * 1e200)):
        with pytest.raises(ValueError, match=told):
            gradients(network, *wrong)
    for rate in (1e308, np.nan):
        with pytest.raises(ValueError, match="weights of network 'small' are not finite after a step of rate"):
            sgd_step(network, samples, 1e6 * targets, rate)
