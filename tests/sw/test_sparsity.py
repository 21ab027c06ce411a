"""What prediction and skipping send: networks train by right gradients, and words are those that one counts by hand."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from tests.sim.golden.test_reference import chain
from tests.support import reference

from plinth.reproduce.sparsity import drops, gathers, networks, scatters
from plinth.reproduce.sparsity.layers import layers
from plinth.reproduce.sparsity.networks import ForwardPass, Images, Recipe
from plinth_hw.isa.codes import REGION_BITS
from plinth_sim.golden import prediction


def images(seed: int = 0, sides: tuple[int, int] = (8, 12)) -> Images:
    """Noise, whose class is whether its left half is brighter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((96, *sides, 2)).astype(np.float32)
    y = rng.integers(0, 2, 96)
    x[:, :, :sides[1] // 2] += np.where(y, 1, -1)[:, None, None, None]
    return Images(x[:64], y[:64], x[64:], y[64:])


RECIPE = Recipe("noise", images, ((16, 8), (16,)), 2, 30, 0.02, batch=16)


@pytest.fixture(scope="module")
def trained() -> networks.Trained:
    return networks.train(RECIPE)


def test_it_learns_and_does_so_again(trained) -> None:
    assert trained.accuracy > 0.8
    again = networks.train(RECIPE)
    for ours, theirs in zip((*trained.weights, *trained.biases), (*again.weights, *again.biases), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_gradients_are_those_of_the_reference(trained) -> None:
    data, biases = images(), [np.float32(0.01) + bias for bias in trained.biases]
    x, y = data.train_x[:6], 1 - data.train_y[:6]
    window, pool = {"kernel": (3, 3), "padding": (1, 1)}, {"kernel": (2, 2), "stride": (2, 2)}
    named = chain(("convolution", window), ("relu", {}), ("convolution", window), ("relu", {}), ("max-pool", pool),
                  ("convolution", window), ("relu", {}), ("max-pool", pool), ("flatten", {}), ("dense", {}),
                  ("softmax-cross-entropy", {}))
    wanted = reference.gradients(named, list(zip(trained.weights, biases, strict=True)), x, y)
    forward_pass = ForwardPass(RECIPE, trained.weights, biases, x)
    by_weights, by_biases, _ = forward_pass.backward(networks.errors(forward_pass.logits, y))
    for ours, theirs in zip(zip(by_weights, by_biases, strict=True), wanted.layers, strict=True):
        for gradient, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(gradient, expected, atol=2e-5 * max(np.abs(expected).max(), 0.1))


@pytest.mark.parametrize("outputs", [2, 4])
def test_tiles_are_those_of_the_convolution(trained, outputs) -> None:
    data = images()
    direct = ForwardPass(RECIPE, trained.weights, trained.biases, data.test_x[:4])
    tiled_layers = list(layers(trained, outputs, data.test_x[:4], data.test_y[:4]))
    assert len(tiled_layers) == 2
    for layer, z in zip(tiled_layers, direct.z[1:], strict=True):
        neurons = prediction.neurons(layer.way(False), layer.products) + layer.bias
        rows, columns = z.shape[1:3]
        feature_map = neurons.transpose(2, 3, 0, 4, 1, 5).reshape(4, -1, neurons.shape[4] * outputs, z.shape[3])
        np.testing.assert_allclose(feature_map[:, :rows, :columns], z, atol=1e-4)
        assert (layer.error[z < -1e-3] == 0).all()
        lines = prediction.neurons(layer.way(True), layer.elements(True))
        np.testing.assert_array_equal(lines + layer.bias, neurons)


def first_layers(trained, samples: int):
    """The first of the layers that are measured, of two batches."""
    data = images()
    return [next(layers(trained, 2, data.test_x[start:start + samples], data.test_y[start:start + samples]))
            for start in (0, samples)]


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("lines", [False, True])
def test_bits_of_gathers(trained, lines, pooled) -> None:
    """Of all schemes: none drops a neuron, the oracles' are the arithmetic of units, more bits find more units."""
    layer, other = (replace(layer, pooled=pooled) for layer in first_layers(trained, 8))
    sent = gathers.measured(layer, gathers.chosen(other, lines), lines)
    words = layer.elements(lines).size
    unit = 4 if lines else 16
    assert sent.dropped == 0 and sent.all == 32 * words and sent.units == words // unit
    assert sent.oracle == words + 32 * unit * (sent.units - sent.dead)
    assert sent.pooled_oracle == words + 32 * unit * (sent.units - sent.unread)
    neurons = prediction.neurons(layer.way(False), layer.products) + layer.bias
    axes = 1 if lines else (0, 1)
    assert sent.dead == (~(neurons > 0).any(axis=axes)).sum() > 0
    # A window of a pool is a tile.
    read = (neurons > 0) & (neurons == neurons.max(axis=(0, 1), keepdims=True) if pooled else True)
    assert sent.unread == (~read.any(axis=axes)).sum()
    # MPT's scheme, too, asks for no more where it knows of a pool; a tile that is a window has its largest neuron.
    assert sent.pooled_paper <= sent.paper and (sent.pooled_paper < sent.paper) is (lines and pooled)
    assert sent.over_pooled_paper == sent.two_rounds / sent.pooled_paper >= sent.two_rounds / sent.paper
    assert sent.unpooled_over_paper == sent.unpooled / sent.paper
    assert (sent.unread > sent.dead) is (lines and pooled) and (sent.two_rounds < sent.unpooled) is pooled
    assert 0 < sent.two_rounds_found <= sent.dead and sent.one_round_found <= sent.dead
    assert sent.two_rounds_found <= sent.two_rounds_unread <= sent.unread >= sent.one_round_unread
    assert sent.share("two_rounds") < 0.9
    unit_counts = [(~gathers.by_regions(layer, lines, bits)[1]).sum() for bits in REGION_BITS]
    assert unit_counts[0] <= unit_counts[-1]
    total = sent + sent
    assert asdict(total) == {name: 2 * value for name, value in asdict(sent).items()}


@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("lines", [False, True])
def test_a_layer_is_the_same_with_prediction(trained, outputs, lines) -> None:
    """Bit for bit, behind the ReLU, and where errors pass it."""
    data = images()
    for layer in layers(trained, outputs, data.test_x[:4], data.test_y[:4]):
        elements = layer.elements(lines)
        for levels in gathers.chosen(layer, lines):
            gathered = prediction.gathered(layer.way(lines), elements.view(np.uint32), levels, layer.after,
                                           layer.inside)
            assert gathered.mask.mean() < 1
            true, predicted = (np.where(layer.inside, prediction.neurons(layer.way(lines), some) + layer.bias, 0)
                               for some in (elements, gathered.elements.view(np.float32)))
            np.testing.assert_array_equal(np.maximum(predicted, 0), np.maximum(true, 0))
            np.testing.assert_array_equal(predicted > 0, layer.live)


def test_words_of_scatters(trained) -> None:
    """By hand, of F(2,3): maps, and words whose windows are not all +0 where the element has a coefficient."""
    layer, other = first_layers(trained, 4)
    skipped = scatters.measured(layer, other)
    b = np.array(layer.form.transforms[0].b, dtype=float) != 0
    padded = np.pad(layer.x, ((0, 0), (1, 1), (1, 1), (0, 0))) != 0
    needed = sum(int(padded[:, row:row + 4, column:column + 4][:, b[u]][:, :, b[v]].any(axis=(1, 2)).sum())
                 for row in range(0, 8, 2) for column in range(0, 12, 2) for u in range(4) for v in range(4))
    run = layer.tiles[0, 0].size
    assert skipped.all == 16 * run and skipped.returned == needed and skipped.forward == needed + 16 * -(-run // 32)
    assert skipped.forward_least <= skipped.forward < skipped.all
    assert skipped.line_words < skipped.lines < skipped.all
    ways = scatters.back(layer, gathers.chosen(other, False).two_rounds)
    errors = (layer.error != 0).reshape(4, 4, 2, 6, 2, -1)
    error_words = sum(int(errors[:, :, rows][:, :, :, :, columns].any(axis=(2, 4)).sum())
                      for rows in ([0], [0, 1], [0, 1], [1]) for columns in ([0], [0, 1], [0, 1], [1]))
    assert ways.in_skip_code == error_words + 16 * -(-layer.products[0, 0].size // 32)
    assert skipped.backward in ways and skipped.backward_least <= ways.in_skip_code


def test_no_live_neuron_is_dropped_and_the_tiles_can_tell(monkeypatch) -> None:
    monkeypatch.setattr(drops, "CHUNK", 1 << 10)
    tally = drops.dropped(1, seed=1)
    assert tally.tiles == 36 << 10 and tally.dropped == 0
    assert tally.live > tally.tiles and tally.dead > tally.tiles and tally.printed > 100
    assert tally.tiles < tally.pooled_live < tally.live and tally.dead < tally.pooled_dead


def test_trained_weights_are_kept(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.setitem(networks.RECIPES, "noise", replace(RECIPE, steps=2))
    networks.trained.cache_clear()
    first = networks.trained("noise")
    path, = (tmp_path / "sparsity").rglob("*.npz")
    monkeypatch.setattr(networks, "train", lambda recipe: pytest.fail("it is kept"))
    networks.trained.cache_clear()
    again = networks.trained("noise")
    assert again.accuracy == first.accuracy
    for ours, theirs in zip((*first.weights, *first.biases), (*again.weights, *again.biases), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    path.write_bytes(b"no weights")
    monkeypatch.undo()
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.setitem(networks.RECIPES, "noise", replace(RECIPE, steps=2))
    networks.trained.cache_clear()
    assert networks.trained("noise").accuracy == first.accuracy
    networks.trained.cache_clear()


def test_images() -> None:
    """Crops for testing have nothing of those for training, and digits are what they are in a margin."""
    crops = networks._crops(training=20, test=10)
    assert crops.train_x.shape == (20, 32, 32, 3) and set(crops.train_y) | set(crops.test_y) <= set(range(6))
    assert abs(crops.train_x.mean()) < 1e-4 and abs(crops.train_x.std() - 1) < 1e-2
    digits = networks._digits()
    assert digits.train_x.shape == (1437, 28, 28, 1) and not digits.train_x[:, :2].any()
    np.testing.assert_allclose(digits.test_x[:, 3:-2:3, 3:-2:3, 0].reshape(360, 64),
                               networks.named("digits").test_x, atol=1e-6)
