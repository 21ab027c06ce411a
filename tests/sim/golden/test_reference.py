"""The float64 reference against finite differences."""

import itertools

import numpy as np
import pytest

from plinth_sim.golden import reference


def network(seed: int):
    rng = np.random.default_rng(seed)
    widths = [5, 7, 6, 4]
    weights = [rng.standard_normal((a, b)) for a, b in itertools.pairwise(widths)]
    biases = [rng.standard_normal(b) * 0.1 for b in widths[1:]]
    return weights, biases, rng.standard_normal((9, 5)), rng.integers(0, 4, 9)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_equal_central_differences(seed: int) -> None:
    weights, biases, x, labels = network(seed)
    found = reference.gradients(weights, biases, x, labels).layers
    step = 1e-6
    for layer in range(3):
        for values, gradient in ((weights[layer], found[layer][0]), (biases[layer], found[layer][1])):
            for index in np.ndindex(values.shape):
                kept = values[index]
                values[index] = kept + step
                above = reference.loss(weights, biases, x, labels)
                values[index] = kept - step
                below = reference.loss(weights, biases, x, labels)
                values[index] = kept
                assert gradient[index] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)


def test_another_computation_decides_only_at_the_kink() -> None:
    weights, biases, x, labels = network(0)
    plain = reference.gradients(weights, biases, x, labels)
    wrong = [np.zeros((9, 7), dtype=bool), np.zeros((9, 6), dtype=bool)]
    same = reference.gradients(weights, biases, x, labels, wrong)
    assert same.kinks == 0
    for one, two in zip(plain.layers, same.layers, strict=True):
        assert np.array_equal(one[0], two[0])
    # Put one hidden unit's input within an FP32 rounding of 0 for the first sample.
    biases[0][2] -= (x[0] @ weights[0] + biases[0])[2] - 1e-9
    at_kink = reference.gradients(weights, biases, x, labels, wrong)
    assert at_kink.kinks == 1
