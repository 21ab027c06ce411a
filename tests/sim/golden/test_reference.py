"""The float64 reference against loops, textbook formulas and finite differences; who decides at kinks."""

import itertools
import weakref
from math import prod

import numpy as np
import pytest
from tests.support import reference

from plinth_sim.golden import reference as by_name
from plinth_sim.golden.reference import ReferenceLayer
from plinth_sim.golden.reference_layers import KINDS, Call, Output

SOFTMAX, SQUARES = "softmax-cross-entropy", "mean-squared-error"
SAMPLES = 3
#: Kernel, stride, padding, ceil, sizes of the map.
WINDOWS = [
    ((1, 1), (1, 1), (0, 0), False, (3, 4)),
    ((3, 3), (1, 1), (1, 1), False, (5, 4)),
    ((3, 2), (2, 3), (1, 0), False, (6, 7)),
    ((2, 2), (2, 2), (0, 0), False, (5, 5)),
    ((2, 3), (3, 1), (0, 1), False, (7, 3)),
    ((1, 2), (3, 2), (0, 1), False, (8, 4)),
    ((3, 3), (2, 2), (0, 1, 1, 0), False, (6, 5)),
    ((3, 2), (1, 1), (1, 0, 0, 1), False, (4, 5)),
    ((4, 5), (3, 2), (2, 1, 1, 2), False, (5, 6)),
]
CEILED = [
    ((2, 2), (2, 2), (0, 0), True, (5, 4)),
    ((3, 2), (2, 3), (1, 1), True, (6, 6)),
    ((2, 3), (3, 2), (1, 0), True, (4, 6)),
    ((2, 2), (3, 3), (1, 1), True, (5, 5)),
    ((3, 3), (2, 3), (0, 1, 1, 0), True, (5, 6)),
]


def chain(*kinds):
    """Layers from (kind, settings), each fed by the one before, named as their kind and place."""
    layers, before = [], "input"
    for number, (kind, settings) in enumerate(kinds):
        layers.append(ReferenceLayer(f"{kind}{number}", kind, (before,), **settings))
        before = layers[-1].name
    return layers


def window(kernel, stride, padding, ceil, _):
    """Settings of a layer; windows lie within the map unless it is said otherwise."""
    return {"kernel": kernel, "stride": stride, "padding": padding, **({"ceil": True} if ceil else {})}


def parameters(rng, *shapes, bias=True):
    return [(rng.standard_normal(shape), rng.standard_normal(shape[-1]) if bias else None) for shape in shapes]


def assert_equal_to_differences(layers, weights, x, targets, step=1e-6):
    gradients = reference.gradients(layers, weights, x, targets).layers
    assert len(gradients) == len(weights)
    for pair, gradient in zip(weights, gradients, strict=True):
        for values, wanted in zip(pair, gradient, strict=True):
            assert (values is None) == (wanted is None)
            for index in np.ndindex(() if values is None else values.shape):
                if values is None:
                    continue
                kept = values[index]
                values[index] = kept + step
                above = reference.loss(layers, weights, x, targets)
                values[index] = kept - step
                below = reference.loss(layers, weights, x, targets)
                values[index] = kept
                assert wanted[index] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)


def taps(x, kernel, stride, padding, ceil):
    """Loops over windows: (sample, window, list of (row, column) of taps, None outside the map)."""
    counts = []
    for size, k, s, p, far in zip(x.shape[1:3], kernel, stride, padding[:2], padding[-2:], strict=True):
        starts = [i for i in range(0, size + p + far, s) if i + k <= size + p + far]
        if ceil and starts[-1] + k < size + p + far and starts[-1] + s < size + p:
            starts.append(starts[-1] + s)
        counts.append([start - p for start in starts])
    for i, j in itertools.product(range(len(counts[0])), range(len(counts[1]))):
        places = [(counts[0][i] + u, counts[1][j] + v) for u in range(kernel[0]) for v in range(kernel[1])]
        yield (i, j), [(r, c) if 0 <= r < x.shape[1] and 0 <= c < x.shape[2] else None for r, c in places]


@pytest.mark.parametrize(("kind", "case"), [
    *(("convolution", case) for case in WINDOWS), *itertools.product(("max-pool", "mean-pool"), WINDOWS + CEILED)])
def test_windows_equal_loops(kind, case) -> None:
    kernel, stride, padding, ceil, sizes = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *sizes, 3)) - 5.0
    weights = parameters(rng, (*kernel, 3, 4)) if kind == "convolution" else []
    y = reference.forward(chain((kind, window(*case)), (SQUARES, {})), weights, x)[f"{kind}0"]
    seen = 0
    for (i, j), places in taps(x, kernel, stride, padding, ceil):
        values = [x[:, r, c] for r, c in filter(None, places)]
        if kind == "convolution":
            matrix, bias = weights[0]
            wanted = bias + sum(x[:, place[0], place[1]] @ matrix.reshape(-1, 3, 4)[number]
                                for number, place in enumerate(places) if place)
        else:
            wanted = np.max(values, axis=0) if kind == "max-pool" else np.mean(values, axis=0)
        np.testing.assert_allclose(y[:, i, j], wanted, rtol=1e-12)
        seen += 1
    assert seen == prod(y.shape[1:3])


@pytest.mark.parametrize(("kind", "case"), [
    *(("convolution", case) for case in WINDOWS), *itertools.product(("max-pool", "mean-pool"), WINDOWS + CEILED)])
def test_windows_equal_differences(kind, case) -> None:
    """The layer stands behind a convolution, whose gradients show the error that it hands down."""
    rng = np.random.default_rng(1)
    layers = chain(("convolution", {}), (kind, window(*case)), (SQUARES, {}))
    weights = parameters(rng, (1, 1, 2, 2), *([(*case[0], 2, 3)] if kind == "convolution" else []))
    x = rng.standard_normal((2, *case[4], 2))
    target = rng.standard_normal(reference.forward(layers, weights, x)[layers[-2].name].shape)
    assert_equal_to_differences(layers, weights, x, target)


@pytest.mark.parametrize("loss", [SOFTMAX, SQUARES])
@pytest.mark.parametrize(("kind", "settings"), [
    ("relu", {}), ("leaky-relu", {"slope": 0.125}), ("relu6", {}), ("gelu", {}), ("tanh", {}), ("sigmoid", {})])
@pytest.mark.parametrize("bias", [True, False])
def test_dense_and_elementwise_equal_differences(kind, settings, loss, bias) -> None:
    rng = np.random.default_rng(2)
    layers = chain(("dense", {}), (kind, settings), ("dense", {}), (loss, {}))
    weights = parameters(rng, (5, 7), (7, 4), bias=bias)
    if kind == "relu6":  # Sums below 0, between, and beyond 6.
        weights[0][0][:] *= 4.0
    targets = rng.integers(0, 4, SAMPLES) if loss == SOFTMAX else rng.standard_normal((SAMPLES, 4))
    assert_equal_to_differences(layers, weights, rng.standard_normal((SAMPLES, 5)), targets)


@pytest.mark.parametrize("bias", [True, False])
def test_a_scale_and_a_shift_equal_differences(bias) -> None:
    """Of maps, behind a convolution, and of features."""
    rng = np.random.default_rng(4)
    layers = chain(("convolution", {}), ("affine", {}), ("tanh", {}), ("flatten", {}), ("dense", {}), ("affine", {}),
                   (SQUARES, {}))
    weights = [*parameters(rng, (1, 1, 2, 3), bias=bias), *parameters(rng, (3,), bias=bias),
               *parameters(rng, (12, 4)), *parameters(rng, (4,), bias=bias)]
    assert_equal_to_differences(layers, weights, rng.standard_normal((SAMPLES, 2, 2, 2)),
                                rng.standard_normal((SAMPLES, 4)))


def test_concatenations_equal_differences() -> None:
    """Of maps and of features, of one twice, with the network's input."""
    rng = np.random.default_rng(4)
    layers = [ReferenceLayer("a", "convolution", ("input",)), ReferenceLayer("b", "convolution", ("a",)),
              ReferenceLayer("maps", "concat", ("b", "a", "input", "b")), ReferenceLayer("c", "convolution", ("maps",)),
              ReferenceLayer("flat", "flatten", ("c",)), ReferenceLayer("d", "dense", ("flat",)),
              ReferenceLayer("e", "dense", ("flat",)),
              ReferenceLayer("features", "concat", ("e", "d")), ReferenceLayer("loss", SOFTMAX, ("features",))]
    weights = parameters(rng, (1, 1, 2, 3), (1, 1, 3, 1), (1, 1, 7, 2), (12, 2), (12, 3))
    x = rng.standard_normal((SAMPLES, 2, 3, 2))
    assert_equal_to_differences(layers, weights, x, rng.integers(0, 5, SAMPLES))
    outputs = reference.forward(layers, weights, x)
    np.testing.assert_array_equal(outputs["maps"], np.concatenate(
        [outputs["b"], outputs["a"], x, outputs["b"]], axis=3))


def test_embedding_equals_differences() -> None:
    rng = np.random.default_rng(3)
    layers = chain(("embedding", {}), ("tanh", {}), ("dense", {}), (SOFTMAX, {}))
    weights = [(rng.standard_normal((6, 3)), None), *parameters(rng, (12, 4))]
    rows = np.array([[0, 1, 1, 5], [5, 5, 5, 2], [4, 0, 1, 1]], dtype=np.float32)
    assert_equal_to_differences(layers, weights, rows, rng.integers(0, 4, SAMPLES))
    assert np.array_equal(reference.forward(layers, weights, rows)["embedding0"][1, 9:], weights[0][0][2])


def residual():
    """A graph with a shortcut, an output read thrice, a join, a layer added to itself, and both pools."""
    pool = {"kernel": (2, 2), "stride": (2, 2)}
    same = {"kernel": (3, 3), "padding": (1, 1)}
    return [
        ReferenceLayer("stem", "convolution", ("input",), **same), ReferenceLayer("relu1", "relu", ("stem",)),
        ReferenceLayer("a", "convolution", ("relu1",), **same), ReferenceLayer("tanh", "tanh", ("a",)),
        ReferenceLayer("b", "convolution", ("tanh",), **same), ReferenceLayer("add", "add", ("b", "relu1", "tanh")),
        ReferenceLayer("relu2", "relu", ("add",)), ReferenceLayer("max", "max-pool", ("relu2",), **pool, ceil=True),
        ReferenceLayer("c", "convolution", ("relu2",), kernel=(3, 3), stride=(2, 2), padding=(1, 1)),
        ReferenceLayer("mean", "mean-pool", ("relu2",), **pool, ceil=True),
            ReferenceLayer("join", "join", ("max", "c", "mean")),
        ReferenceLayer("twice", "add", ("join", "join")), ReferenceLayer("flatten", "flatten", ("twice",)),
        ReferenceLayer("fc", "dense", ("flatten",)), ReferenceLayer("loss", SOFTMAX, ("fc",))]


def residual_parameters(rng):
    return parameters(rng, (3, 3, 1, 2), (3, 3, 2, 2), (3, 3, 2, 2), (3, 3, 2, 2), (18, 4))


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_equals_differences(seed) -> None:
    rng = np.random.default_rng(seed)
    x, labels = rng.standard_normal((SAMPLES, 5, 5, 1)), rng.integers(0, 4, SAMPLES)
    assert_equal_to_differences(residual(), residual_parameters(rng), x, labels)


def test_flatten_is_row_column_channel() -> None:
    x = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    y = reference.forward(chain(("flatten", {}), (SQUARES, {})), [], x)["flatten0"]
    assert y[1, (2 * 4 + 3) * 5 + 4] == x[1, 2, 3, 4]


def test_add_is_the_sum_and_join_the_mean() -> None:
    x = np.array([[1.0, -2.0, 5.0]])
    layers = [ReferenceLayer("tanh", "tanh", ("input",)), ReferenceLayer("add", "add", ("input", "tanh", "input")),
              ReferenceLayer("join", "join", ("add", "input", "input", "tanh")),
              ReferenceLayer("loss", SQUARES, ("join",))]
    outputs = reference.forward(layers, [], x)
    np.testing.assert_allclose(outputs["add"], 2 * x + np.tanh(x))
    np.testing.assert_allclose(outputs["join"], (4 * x + 2 * np.tanh(x)) / 4)


def test_losses_are_means_over_batch_and_elements() -> None:
    x = np.array([[1.0, 2.0, 3.0], [-1.0, 5.0, 0.0]])
    shares = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    wanted = -(np.log(shares[0, 2]) + np.log(shares[1, 0])) / 2
    assert reference.loss(chain((SOFTMAX, {})), [], x, np.array([2, 0])) == pytest.approx(wanted)
    assert reference.loss(chain((SQUARES, {})), [], x, x - [[0, 3, 0], [1, 1, 1]]) == pytest.approx(12 / 6)


def textbook(weights, x, labels, passed=None):
    """Gradients of a multi-layer perceptron; hidden units in `passed` pass."""
    values = [x]
    for w, b in weights:
        values.append(np.maximum(values[-1] @ w + b, 0.0))
    z = values[-2] @ weights[-1][0] + weights[-1][1]
    error = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    error[np.arange(len(x)), labels] -= 1.0
    error /= len(x)
    gradients = []
    for number in reversed(range(len(weights))):
        gradients.insert(0, (values[number].T @ error, error.sum(axis=0)))
        if number:
            passes = values[number] > 0 if passed is None else passed[number - 1]
            error = (error @ weights[number][0].T) * passes
    return gradients


def assert_close(left, right) -> None:
    for pair, other in itertools.zip_longest(left, right):
        for values, wanted in zip(pair, other, strict=True):
            np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=1e-15)


PERCEPTRON = chain(("dense", {}), ("relu", {}), ("dense", {}), ("relu", {}), ("dense", {}), (SOFTMAX, {}))


@pytest.mark.parametrize("seed", range(3))
def test_perceptron_equals_textbook(seed) -> None:
    rng = np.random.default_rng(seed)
    weights = parameters(rng, (5, 7), (7, 6), (6, 4))
    x, labels = rng.standard_normal((9, 5)), rng.integers(0, 4, 9)
    gradients = reference.gradients(PERCEPTRON, weights, x, labels)
    assert_close(gradients.layers, textbook(weights, x, labels))
    assert gradients.kinks == 0


def tenths(rng, *shape):
    """FP32 numbers near multiples of 0.1: their products cancel often, but for rounding."""
    return (rng.integers(-3, 4, shape) / np.float32(10)).astype(np.float32)


def difference(left: reference.Gradients, right: reference.Gradients) -> float:
    """Distance of a layer's gradients, weights then bias, over the larger one's size; largest of all layers."""
    pairs = [[np.concatenate([np.ravel(part) for part in layer]) for layer in each.layers] for each in (left, right)]
    distances = [np.linalg.norm(a - b) / max(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(*pairs, strict=True)]
    assert max(distances) > 1e-3
    return float(max(distances))


def test_fp32_decides_relus_at_the_kink() -> None:
    rng = np.random.default_rng(4)
    weights = [(tenths(rng, 40, 60), tenths(rng, 60)), (tenths(rng, 60, 50), tenths(rng, 50)),
               (tenths(rng, 50, 4), tenths(rng, 4))]
    x, labels = tenths(rng, 64, 40), rng.integers(0, 4, 64)
    outputs = []
    for w, b in weights[:2]:
        terms = np.concatenate([(outputs[-1] if outputs else x)[:, :, None] * w, np.tile(b, (64, 1, 1))], axis=1)
        outputs.append(np.maximum(np.cumsum(terms, axis=1, dtype=np.float32)[:, -1], 0))
    exact = [(w.astype(float), b.astype(float)) for w, b in weights]
    gradients = reference.gradients(PERCEPTRON, exact, x, labels, {"relu1": outputs[0], "relu3": outputs[1]})
    assert gradients.kinks > 10 and gradients.kinked == 64 * (60 + 50)
    assert_close(gradients.layers, textbook(exact, x.astype(float), labels, [output > 0 for output in outputs]))
    assert gradients.kink_difference == pytest.approx(
        difference(gradients, reference.gradients(PERCEPTRON, exact, x, labels)))


def test_fp32_decides_max_pools_at_ties() -> None:
    rng = np.random.default_rng(5)
    layers = chain(("convolution", {}), ("max-pool", {"kernel": (2, 2), "stride": (2, 2)}), (SQUARES, {}))
    x, w, b = tenths(rng, 16, 8, 8, 9), tenths(rng, 1, 1, 9, 5), tenths(rng, 5)
    target = rng.standard_normal((16, 4, 4, 5))
    maps = np.cumsum(x[..., None] * w[0, 0], axis=3, dtype=np.float32)[..., -1, :] + b
    exact = [(w.astype(float), b.astype(float))]
    gradients = reference.gradients(layers, exact, x, target, {"max-pool1": maps.reshape(16, -1)})
    assert gradients.kinks > 10
    y = x.astype(float) @ exact[0][0][0, 0] + exact[0][1]
    error = np.zeros_like(y)
    for n, i, j, c in np.ndindex(target.shape):
        v, u = divmod(int(maps[n, 2 * i:2 * i + 2, 2 * j:2 * j + 2, c].T.argmax()), 2)
        best = y[n, 2 * i:2 * i + 2, 2 * j:2 * j + 2, c].max()
        error[n, 2 * i + u, 2 * j + v, c] = 2 * (best - target[n, i, j, c]) / target.size
    wanted = (np.einsum("nhwi,nhwo->io", x.astype(float), error)[None, None], error.sum(axis=(0, 1, 2)))
    assert_close(gradients.layers, [wanted])
    plain = reference.gradients(layers, exact, x, target)
    assert not np.allclose(plain.layers[0][0], wanted[0], rtol=1e-9)
    assert gradients.kinked == target.size and plain.kink_difference == 0
    assert gradients.kink_difference == pytest.approx(difference(gradients, plain))


def test_away_from_kinks_nothing_is_decided() -> None:
    rng = np.random.default_rng(6)
    weights, x, labels = residual_parameters(rng), rng.standard_normal((4, 5, 5, 1)), rng.integers(0, 4, 4)
    plain = reference.gradients(residual(), weights, x, labels)
    outputs = reference.forward(residual(), weights, x)
    wrong = {"relu1": -outputs["stem"], "relu2": -outputs["add"], "max": -outputs["relu2"]}
    gradients = reference.gradients(residual(), weights, x, labels, wrong)
    assert gradients.kinks == 0
    assert_close(gradients.layers, plain.layers)


@pytest.mark.parametrize(("equal", "winner"), [("1111", 0), ("0110", 2), ("0101", 1), ("0011", 2)])
def test_of_equal_taps_the_leftmost_wins_and_of_those_the_topmost(equal, winner) -> None:
    """Channel 0 holds the taps, channel 1 numbers, of which the gradient of a zero weight shows one."""
    layers = chain(("convolution", {}), ("max-pool", {"kernel": (2, 2), "stride": (2, 2)}), (SQUARES, {}))
    weights = [(np.array([[[[1.0], [0.0]]]]), np.zeros(1))]
    x = np.stack([np.array([float(tap) for tap in equal]), np.arange(4.0)], axis=-1).reshape(1, 2, 2, 2)
    for decided in ({}, {"max-pool1": x[..., 0]}):
        gradients = reference.gradients(layers, weights, x, np.array([0.0]), decided)
        assert gradients.kinks == 0
        assert gradients.layers[0][0].ravel()[1] == 2 * winner


@pytest.mark.parametrize(("sum_of_both", "kinks"), [(1e-2, 1), (10.0, 0)])
def test_bound_behind_an_addition_is_that_of_what_was_added(sum_of_both, kinks) -> None:
    layers = [ReferenceLayer("a", "dense", ("input",)), ReferenceLayer("b", "dense", ("input",)),
              ReferenceLayer("add", "add", ("a", "b")),
              ReferenceLayer("relu", "relu", ("add",)), ReferenceLayer("fc", "dense", ("relu",)),
              ReferenceLayer("loss", SQUARES, ("fc",))]
    weights = [(np.array([[value]]), np.zeros(1)) for value in (1e6, sum_of_both - 1e6, 1.0)]
    ones = np.ones((1, 1))
    assert reference.gradients(layers, weights, ones, 2 * ones, {"relu": np.zeros(1)}).kinks == kinks


def test_wrong_descriptions_are_refused() -> None:
    with pytest.raises(ValueError, match="no known kind: 'dropout'"):
        reference.forward(chain(("dropout", {}), (SQUARES, {})), [], np.zeros((1, 1)))
    with pytest.raises(ValueError):
        reference.forward(PERCEPTRON, parameters(np.random.default_rng(0), (5, 7)), np.zeros((1, 5)))
    right = {"dense0.weights": np.zeros((5, 7)), "dense2.weights": np.zeros((7, 4))}
    for wrong, message in (({"dense0.wieghts": np.zeros(1)}, "'dense0.wieghts' is of no layer, or none of its weights"),
                           ({"dense7.weights": np.zeros(1)}, "'dense7.weights' is of no layer")):
        with pytest.raises(ValueError, match=message):
            by_name.forward(PERCEPTRON, right | wrong, np.zeros((1, 5)))
    with pytest.raises(ValueError, match=r"layer 'dense0' \(dense\) is given no weights"):
        by_name.forward(PERCEPTRON, {}, np.zeros((1, 5)))


@pytest.mark.parametrize("loss", [SOFTMAX, SQUARES])
def test_what_a_step_finds_and_what_its_errors_are_relative_to(loss) -> None:
    """Predictions, loss, new weights; sizes of the terms, of gradients from those of single samples."""
    rng, samples = np.random.default_rng(2), 5
    layers = chain(("dense", {}), ("tanh", {}), ("dense", {}), (loss, {}))
    weights, x = parameters(rng, (3, 4), (4, 6)), rng.standard_normal((samples, 3))
    targets = rng.integers(0, 6, samples) if loss == SOFTMAX else rng.standard_normal((samples, 6))
    gradients = reference.gradients(layers, weights, x, targets)
    z = reference.forward(layers, weights, x)["dense2"]
    wanted = np.eye(6)[targets] if loss == SOFTMAX else targets
    predictions = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) if loss == SOFTMAX else z
    np.testing.assert_allclose(gradients.predictions, predictions, rtol=1e-12)
    assert gradients.loss == pytest.approx(reference.loss(layers, weights, x, targets), rel=1e-12)
    own, other = np.linalg.norm(predictions), np.linalg.norm(wanted)
    assert gradients.scales.predictions == pytest.approx(own if loss == SOFTMAX else own + other)
    sizes = np.abs(z) + np.abs(targets) if loss == SQUARES else np.zeros(1)
    assert gradients.scales.loss == pytest.approx(1 + gradients.loss if loss == SOFTMAX else np.mean(
        2 * np.abs(z - targets) * sizes + 64 * 2.0**-24 * sizes**2))
    assert gradients.scales.cancellation == pytest.approx((own + other) / np.linalg.norm(predictions - wanted))
    single = [reference.gradients(layers, weights, x[[i]], targets[[i]]).layers for i in range(samples)]
    for layer, (pair, terms) in enumerate(zip(gradients.layers, gradients.sizes, strict=True)):
        magnitudes = [sum(np.abs(sample[layer][part]) for sample in single) / samples for part in (0, 1)]
        assert terms == pytest.approx(np.sqrt(sum((each**2).sum() for each in magnitudes))
                                      / np.sqrt(sum((each**2).sum() for each in pair)))


def test_a_loss_is_read_from_probabilities_of_fp32() -> None:
    """Far from its class a sample counts as FP32's least normal number."""
    layers, x = chain((SOFTMAX, {})), np.array([[200.0, 0.0], [0.0, 1.0]])
    gradients = reference.gradients(layers, [], x, np.array([1, 1]))
    assert gradients.loss == pytest.approx((-np.log(np.finfo(np.float32).tiny) + np.log1p(np.exp(-1))) / 2)
    assert reference.loss(layers, [], x, np.array([1, 1])) > 100


def test_kinks_are_as_wide_as_the_roundings() -> None:
    layers = chain(("dense", {}), ("relu", {}), (SQUARES, {}))
    weights, x = [(np.array([[1.0], [-1.0]]), None)], np.array([[1.0, 1.001]])
    other = {"relu1": np.array([[0.5]])}
    assert reference.gradients(layers, weights, x, np.ones((1, 1)), other).kinks == 0
    assert reference.gradients(layers, weights, x, np.ones((1, 1)), other, 2.0**-11).kinks == 1


@pytest.mark.parametrize(("roundings", "kinks"), [(7.9, 1), (8.1, 0)])
def test_a_kink_is_eight_roundings_wide(roundings, kinks) -> None:
    """Each of the size of all terms."""
    layers, weights = chain(("dense", {}), ("relu", {}), (SQUARES, {})), [(np.array([[1.0], [-1.0]]), None)]
    x = np.array([[1.0, 1.0 - 2 * roundings * 2.0**-24]])
    assert reference.gradients(layers, weights, x, np.ones((1, 1)), {"relu1": np.zeros((1, 1))}).kinks == kinks


@pytest.mark.parametrize(("kink", "size"), [(0.0, 2.0), (6.0, 6.0)])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("roundings", "kinks"), [(7.9, 1), (8.1, 0)])
def test_a_relu6_has_two_kinks(kink, size, side, roundings, kinks) -> None:
    """Its output decides near either, on both sides, within eight roundings of the size of its argument's terms."""
    layers = chain(("dense", {}), ("relu6", {}), (SQUARES, {}))
    terms = np.array([[6.0, 0.0] if kink else [1.0, -1.0]])
    terms[0, 1] += side * roundings * 2.0**-24 * size
    passes = (side > 0) == (kink == 0)
    other = {"relu61": np.array([[0.0 if passes else 3.0]])}
    assert reference.gradients(layers, [(np.ones((2, 1)), None)], terms, np.ones((1, 1)), other).kinks == kinks


def scale_of(layers, weights, x):
    """Of the last layer's elements: what is compared with a ReLU's argument where it has a kink."""
    return reference.outputs(layers, weights, x)[layers[-1].name].scale


@pytest.mark.parametrize("padding", [(0, 0), (1, 0)])
def test_scales_are_sums_of_magnitudes(padding) -> None:
    """Of products those of their own terms; what is behind passes on what its inputs have."""
    rng = np.random.default_rng(3)
    first = ("convolution", {"kernel": (3, 2), "stride": (1, 2), "padding": padding})
    x, ((w, bias), *_) = rng.standard_normal((2, 6, 7, 2)), parameters(rng, (3, 2, 2, 3))
    weights = [(w, bias)]
    value = reference.forward(chain(first, (SQUARES, {})), weights, x)["convolution0"]
    size = reference.forward(chain(first, (SQUARES, {})), [(np.abs(w), np.abs(bias))], np.abs(x))["convolution0"]
    pool = {"kernel": (2, 2), "stride": (2, 1), "padding": (0, 0)}
    rows, columns = size.shape[1] // 2, size.shape[2] - 1
    largest = np.array([[[size[n, 2 * i:2 * i + 2, j:j + 2].max(axis=(0, 1)) for j in range(columns)]
                         for i in range(rows)] for n in range(2)])
    mean = np.array([[[size[n, 2 * i:2 * i + 2, j:j + 2].mean(axis=(0, 1)) for j in range(columns)]
                      for i in range(rows)] for n in range(2)])
    wanted = {("relu",): size, ("max-pool",): largest, ("mean-pool",): mean, ("flatten",): size.reshape(2, -1),
              ("tanh",): size * (1 - np.tanh(value)**2) + np.abs(np.tanh(value)),
              ("sigmoid",): size * np.exp(-value) / (1 + np.exp(-value))**2 + 1 / (1 + np.exp(-value)),
              ("relu", "flatten"): size.reshape(2, -1)}
    for kinds, sizes in wanted.items():
        behind = [(kind, pool if kind.endswith("pool") else {}) for kind in kinds]
        np.testing.assert_allclose(scale_of(chain(first, *behind), weights, x), sizes, rtol=1e-12, atol=1e-14)
    for kind, factor in (("add", 1), ("join", 1 / 3)):
        sums = [*chain(first, ("relu", {})), ReferenceLayer("sum", kind, ("convolution0", "relu1", "convolution0"))]
        np.testing.assert_allclose(scale_of(sums, weights, x), 3 * factor * size, rtol=1e-12)
    both = [*chain(first), ReferenceLayer("both", "concat", ("convolution0", "convolution0"))]
    np.testing.assert_allclose(scale_of(both, weights, x), np.concatenate([size, size], axis=3), rtol=1e-12)
    flat = [*weights, (rng.standard_normal((value[0].size, 4)), rng.standard_normal(4))]
    np.testing.assert_allclose(scale_of(chain(first, ("flatten", {}), ("dense", {})), flat, x),
                               np.abs(value.reshape(2, -1)) @ np.abs(flat[1][0]) + np.abs(flat[1][1]), rtol=1e-12)
    np.testing.assert_allclose(scale_of(chain(("relu", {})), [], x), np.abs(x))


def carried(kind, noise, x, weights=None, bias=None, **settings):
    """What a layer hands on of what its input carries."""
    layer = ReferenceLayer("layer", kind, ("before",), **settings)
    before = Output(x, lambda: np.full_like(x, 1e9), lambda error: ([], {}), carry=lambda: noise)
    variables = {name: values for name, values in (("weights", weights), ("bias", bias)) if values is not None}
    output = KINDS[kind](Call(layer, [before], variables, None, None, 2.0**-24))
    assert KINDS[kind](Call(layer, [Output(x, before.terms, before.backward)], variables, None, None,
                            2.0**-24)).carried == 0
    return output.carried


def test_what_is_carried_goes_through_every_kind_of_layer() -> None:
    """As by the magnitudes of its derivatives; a bias, and what the layer's own roundings are, do not count."""
    rng = np.random.default_rng(7)
    noise, x = rng.random((2, 4, 6, 3)) + 0.5, rng.standard_normal((2, 4, 6, 3)) * 3
    pool = {"kernel": (2, 3), "stride": (2, 3)}
    tiled = noise.reshape(2, 2, 2, 2, 3, 3)
    np.testing.assert_allclose(carried("max-pool", noise, x, **pool), tiled.max(axis=(2, 4)))
    np.testing.assert_allclose(carried("mean-pool", noise, x, **pool), tiled.mean(axis=(2, 4)))
    for kind in ("relu", "relu6", "leaky-relu"):
        np.testing.assert_array_equal(carried(kind, noise, x, slope=0.25), noise)
    for kind in ("tanh", "sigmoid", "gelu"):
        layers, step = chain((kind, {})), 1e-6
        above, below = (reference.outputs(layers, [], x + side * step)[f"{kind}0"].value for side in (1, -1))
        np.testing.assert_allclose(carried(kind, noise, x), noise * np.abs(above - below) / (2 * step), atol=1e-7)
    np.testing.assert_array_equal(carried("flatten", noise, x), noise.reshape(2, -1))
    scale, bias = rng.standard_normal(3), np.full(3, 100.0)
    np.testing.assert_allclose(carried("affine", noise, x, scale, bias), noise * np.abs(scale))
    kernel = rng.standard_normal((2, 3, 3, 5))
    wanted = np.einsum("nabcde,bdef->nacf", tiled, np.abs(kernel))
    found = carried("convolution", noise, x, kernel, np.full(5, 100.0), **pool)
    np.testing.assert_allclose(found, wanted)
    matrix, flat = rng.standard_normal((72, 4)), x.reshape(2, -1)
    np.testing.assert_allclose(carried("dense", noise.reshape(2, -1), flat, matrix, np.full(4, 100.0)),
                               noise.reshape(2, -1) @ np.abs(matrix))


def test_sums_and_concatenations_carry_what_any_input_does() -> None:
    x, noise = np.ones((2, 3)), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    plain = Output(x, lambda: x, lambda error: ([], {}))
    noisy, even = (Output(x, lambda: x, plain.backward, carry=lambda carries=carries: carries)
                   for carries in (noise, 7.0))

    def through(kind, *inputs):
        return KINDS[kind](Call(ReferenceLayer("layer", kind, ("a", "b")), list(inputs), {}, None, None, 0.0))

    np.testing.assert_allclose(through("add", plain, noisy, even).carried, noise + 7)
    np.testing.assert_allclose(through("join", noisy, plain, noisy, even).carried, (2 * noise + 7) / 4)
    np.testing.assert_allclose(through("concat", plain, noisy, even).carried,
                               np.concatenate([np.zeros((2, 3)), noise, np.full((2, 3), 7.0)], axis=1))
    for kind in ("add", "join", "concat"):
        assert through(kind, plain, plain).carry is None


def test_a_prediction_keeps_outputs_until_they_have_been_read(monkeypatch) -> None:
    """And nothing else of a layer, as what the way back would need."""
    kept = []

    def probe(call):
        alive.append([each() is not None for pair in kept for each in pair])
        inner, value = np.ones(3), np.array(call.x)
        kept.append((weakref.ref(value), weakref.ref(inner)))
        return Output(value, lambda: inner, lambda error: ([inner], {}))

    alive = []
    monkeypatch.setitem(KINDS, "probe", probe)
    layers = [ReferenceLayer("a", "probe", ("input",)), ReferenceLayer("b", "probe", ("a",)),
              ReferenceLayer("c", "probe", ("b",)), ReferenceLayer("d", "probe", ("b",)),
              ReferenceLayer("loss", SQUARES, ("d",))]
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(by_name.prediction(layers, {}, x), x)
    gone = [False, False]
    assert alive == [[], [True, False], [*gone, True, False], [*gone, True, False, True, False]]
