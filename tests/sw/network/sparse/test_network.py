"""Sparse networks as values, and what is asked of matrices."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, eye_array
from tests.support.sparse_networks import random_matrix, random_network

from plinth.network.sparse import matrices
from plinth.network.sparse.activations import ClippedRelu, SparseRelu, SparseSigmoid
from plinth.network.sparse.matrices import checked, unordered_row
from plinth.network.sparse.network import MatrixSource, SparseNetwork
from plinth.network.sparse.radix_net import RadixNet


def raw(values: list[float], columns: list[int], starts: list[int], shape: tuple[int, int]) -> csr_array:
    return csr_array((np.array(values), np.array(columns), np.array(starts)), shape=shape)


def test_rows_and_biases() -> None:
    generator = np.random.default_rng(0)
    network = random_network(generator, (5, 7, 3), SparseSigmoid())
    assert network.widths == (5, 7, 3) and network.layers == 2
    whole = network.matrix(0)
    assert whole.shape == (7, 5) and network.rows(0, np.arange(7)) is whole
    assert np.array_equal(network.rows(0, [6, 0, 6]).toarray(), whole.toarray()[[6, 0, 6]])
    assert network.rows(0, []).shape == (0, 5)
    bias = network.bias(0)
    assert isinstance(bias, np.ndarray) and np.array_equal(network.bias(0, [3, 1]), bias[[3, 1]])
    assert random_network(generator, (5, 7), SparseSigmoid(), trained_biases=False).bias(0, [1]) == 0.25
    for rows in ([7], [-1], [[0]], [0.0]):
        with pytest.raises(ValueError, match="rows must be"):
            network.rows(0, rows)
    for layer in (-1, 2):
        with pytest.raises(ValueError, match="layer must be from 0 to 1"):
            network.rows(layer, [0])


def test_loaded_is_the_same_in_memory() -> None:
    network = SparseNetwork(name="lazy", source=RadixNet(neurons=64, layers=3, weights="uniform"), biases=[0.5] * 3,
                            activations=[SparseRelu()] * 3)
    for dtype in (np.float32, np.float64):
        loaded = network.loaded(dtype)
        assert isinstance(loaded.source, MatrixSource) and loaded.matrix(1).dtype == dtype
        assert all(np.array_equal(loaded.matrix(layer).toarray(), network.matrix(layer).toarray())
                   for layer in range(3))
        assert loaded.biases == network.biases and loaded.name == "lazy"


@pytest.mark.parametrize(("changes", "message"), [
    ({"biases": [0.0]}, "has 2 layers, but 1 biases; give one a layer"),
    ({"activations": [SparseRelu()] * 3}, "has 2 layers, but 3 activations"),
    ({"biases": [np.zeros(2), 0.0]}, r"bias of layer 0 must be a number or 3 of them, not \[2\]"),
    ({"biases": [0.0, np.nan]}, "bias of layer 1 must be finite"),
    ({"biases": [0.0, np.full(4, np.inf)]}, "bias of layer 1 must be finite"),
    ({"loss": "softmax"}, "loss must be 'mean-squared-error', not 'softmax'")])
def test_networks_refused(changes: dict, message: str) -> None:
    generator = np.random.default_rng(0)
    source = MatrixSource([random_matrix(generator, 3, 5), random_matrix(generator, 4, 3)])
    with pytest.raises(ValueError, match=message):
        SparseNetwork(**{"name": "bad", "source": source, "biases": [0.0, 0.0], "activations": [SparseRelu()] * 2,
                         **changes})


def test_chains_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match="layer 1 reads 4 inputs, but layer 0 gives 3"):
        MatrixSource([random_matrix(generator, 3, 5), random_matrix(generator, 4, 4)])
    with pytest.raises(ValueError, match="must have 1 to 65536 layers of 1 to 16777216 neurons, not 0 of 5 to 5"):
        SparseNetwork(name="small", source=SimpleNamespace(widths=(5,)), biases=(), activations=())
    with pytest.raises(ValueError, match="at least one layer"):
        MatrixSource([])


def test_matrices_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    good = raw([1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 2, 3], (3, 3))
    assert checked(good, "it") is good
    for wrong in (good.toarray(), csc_array(good), eye_array(3), good.astype(np.int64), good.astype(complex)):
        with pytest.raises(TypeError, match=r"it must be a scipy\.sparse\.csr_array of float32 or float64"):
            checked(wrong, "it")
    with pytest.raises(ValueError, match="columns of row 2 of it do not ascend"):
        checked(raw([1.0, 2.0, 3.0, 4.0], [0, 2, 1, 1], [0, 2, 2, 4], (3, 3)), "it")
    with pytest.raises(ValueError, match="columns of row 0 of it do not ascend"):
        checked(raw([1.0, 2.0], [2, 0], [0, 2, 2, 2], (3, 3)), "it")
    with pytest.raises(ValueError, match="it has values that are not finite"):
        checked(raw([np.nan], [0], [0, 1], (1, 3)), "it")
    monkeypatch.setattr(matrices, "MAXIMUM_ENTRIES", 2)
    with pytest.raises(ValueError, match="it has 3 entries, more than 2; take fewer of its rows"):
        checked(good, "it")
    monkeypatch.setattr(matrices, "MAXIMUM_NEURONS", 2)
    with pytest.raises(ValueError, match="it must have 1 to 2 rows and columns, not 3 x 3"):
        checked(good, "it")


@pytest.mark.parametrize(("starts", "columns", "row"), [
    ([0, 0], [], None), ([0, 2, 4], [0, 1, 0, 1], None), ([0, 0, 2, 2], [3, 4], None), ([0, 0, 2, 2], [4, 4], 1),
    ([0, 1, 1, 1, 4], [9, 1, 3, 2], 4 - 1), ([0, 2, 2], [1, 0], 0)])
def test_unordered_row(starts: list[int], columns: list[int], row: int | None) -> None:
    assert unordered_row(np.array(starts), np.array(columns, np.int64)) == row


def test_activations() -> None:
    sums = np.array([[-1.0, 0.0, 0.5, 40.0]])
    assert ClippedRelu().outputs(sums, 0.75).tolist() == [[0.0, 0.0, 1.25, 32.0]]
    assert ClippedRelu(2.0).outputs(sums, np.array([[-0.75]])).tolist() == [[0.0, 0.0, 0.0, 2.0]]
    assert SparseRelu().outputs(sums, 0.75).tolist() == [[0.0, 0.75, 1.25, 40.75]]
    assert np.allclose(SparseSigmoid().outputs(sums, 0.0), 1 / (1 + np.exp(-sums)))
    assert SparseSigmoid().outputs(np.array([[-1e4, 1e4]]), 0.0).tolist() == [[0.0, 1.0]]
    outputs = np.array([[0.0, 1.0, 32.0]])
    assert ClippedRelu().slope(outputs).tolist() == [[0.0, 1.0, 0.0]]
    assert SparseRelu().slope(outputs).tolist() == [[0.0, 1.0, 1.0]]
    assert SparseSigmoid().slope(np.array([[0.25]])).tolist() == [[0.1875]]
    for activation in (ClippedRelu(), SparseRelu(), SparseSigmoid()):
        single = activation.outputs(sums.astype(np.float32), np.full((1, 1), 0.1, np.float32))
        assert single.dtype == np.float32 and activation.slope(single).dtype == np.float32
        assert activation.outputs(sums.astype(np.float32), -0.3).dtype == np.float32
    for ceiling in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="ceiling must be a positive number"):
            ClippedRelu(ceiling)
