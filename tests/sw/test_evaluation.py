"""Evaluation goes through the samples in parts: the same figures, in memory that does not grow with them."""

import tracemalloc

import numpy as np
import pytest

from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.train import float64
from plinth.train.data import digits
from plinth.train.evaluation import evaluate
from plinth.train.losses import accuracy, loss_of
from plinth_sim.golden import reference


@pytest.fixture(params=["digits-mlp", "digits-cnn"])
def network(request: pytest.FixtureRequest) -> Network:
    return NETWORKS[request.param]


def test_figures_do_not_depend_on_the_parts(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    data, parameters = digits(), initial_parameters(network, 3)
    x, y = data.test_x, data.test_y
    evaluations = []
    for elements in (1, 5000, 1 << 30):
        monkeypatch.setattr(float64, "BATCH_ELEMENTS", elements)
        evaluations.append(evaluate(network, float64.float64_predictor(network), parameters, x, y, classes=True))
    outputs = np.concatenate(list(float64.float64_predictor(network)(parameters, x)))
    for loss, right in evaluations:
        assert loss == pytest.approx(loss_of(network, outputs, y), rel=1e-13)
        assert right == accuracy(outputs, y)


def test_predictions_are_those_of_the_reference(network: Network) -> None:
    x, parameters = digits().test_x[:20], initial_parameters(network, 1)
    layers = float64.reference_layers(network)
    samples = float64._samples(network, x)
    wanted = reference.forward(layers, parameters, samples)[network.loss.inputs[0]]
    assert np.array_equal(reference.prediction(layers, parameters, samples), wanted)


def test_memory_does_not_grow_with_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    network = NETWORKS["digits-cnn"]
    monkeypatch.setattr(float64, "BATCH_ELEMENTS", 1 << 17)
    parameters = initial_parameters(network, 0)
    peaks = []
    for samples in (200, 1600):
        x, y = np.zeros((samples, 64), np.float32), np.zeros(samples, np.int64)
        tracemalloc.start()
        evaluate(network, float64.float64_predictor(network), parameters, x, y, classes=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 20 << 20
