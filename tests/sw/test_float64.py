"""Networks as the float64 reference takes them: shapes, parameters, and gradients along random directions."""

import numpy as np
import pytest
from tests.support.networks import random_network

from plinth.network.layers import Embedding, SoftmaxCrossEntropy
from plinth.network.network import INPUT, Network
from plinth.network.parameters import initial_parameters, layer_vectors, named
from plinth.network.zoo import NETWORKS
from plinth.train import float64
from plinth_sim.golden import reference

SAMPLES = 3


def inputs(network: Network, rng: np.random.Generator):
    """Random samples, maps with channels innermost, and targets."""
    channels, *sides = network.input
    rows = [layer.rows for layer in network.layers if isinstance(layer, Embedding)]
    shape = (SAMPLES, *sides, channels)
    x = rng.integers(0, min(rows), shape) if rows else rng.standard_normal(shape)
    softmax = isinstance(network.loss, SoftmaxCrossEntropy)
    classes = network.output.elements
    return x, rng.integers(0, classes, SAMPLES) if softmax else rng.standard_normal((SAMPLES, classes))


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_have_their_shapes_and_the_slope_of_their_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    layers, (x, targets) = float64.reference_layers(network), inputs(network, rng)
    start = [np.float32(0.5) * rng.standard_normal(network.layer_parameters(layer.name), dtype=np.float32)
             for layer in network.weighted]
    outputs = reference.forward(layers, named(network, start), x)
    for layer in network.layers[:-1]:
        channels, *sides = network.output_shape(layer.name)
        assert outputs[layer.name].shape == (SAMPLES, *sides, channels)
    float64_step = float64.float64_reference(network)(start, x.reshape(SAMPLES, -1), targets, {})
    gradients = float64_step.gradients
    assert float64_step.kinks == 0
    wanted = reference.loss(layers, named(network, start), x, targets)
    assert float64_step.loss == pytest.approx(wanted, rel=1e-9) or float64_step.loss < wanted > 28
    assert [len(values) for values in gradients] == [len(values) for values in start]
    ways = [rng.standard_normal(len(values)) for values in start]
    step = 1e-6
    above, below = (reference.loss(layers, named(network, [
        values + sign * step * way for values, way in zip(start, ways, strict=True)]), x, targets) for sign in (1, -1))
    slope = sum(float(gradient @ way) for gradient, way in zip(gradients, ways, strict=True))
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-6)


def test_rounded_maps_decide_alike() -> None:
    network, rng = NETWORKS["digits-cnn"], np.random.default_rng(0)
    x, targets = inputs(network, rng)
    parameters = initial_parameters(network, 0)
    compute, flat = float64.float64_reference(network), x.reshape(SAMPLES, -1)
    weights = [layer.join(parameters) for layer in layer_vectors(network)]
    outputs = reference.forward(float64.reference_layers(network), parameters, x)
    decided = {layer.name: outputs[layer.name if layer.kind == "relu" else layer.inputs[0]].astype(np.float32)
               for layer in network.layers if layer.kind in ("relu", "max-pool") and layer.inputs[0] != INPUT}
    plain, same = compute(weights, flat, targets, {}), compute(weights, flat, targets, decided)
    assert same.kinks == 0
    assert all(np.array_equal(left, right) for left, right in zip(plain.gradients, same.gradients, strict=True))
