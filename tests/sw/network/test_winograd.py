"""Settings of convolutions that are computed by Winograd tiles, and weights of kernels as those of tiles."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from plinth.cli.commands import cli
from plinth.errors import UserError
from plinth.files.documents import parse_yaml
from plinth.network.file import network_from_data, network_to_data, network_to_yaml
from plinth.network.layers import Convolution, Flatten, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.winograd import (
    converted,
    element_rates,
    elements_of_kernel,
    fit,
    growth,
    kernel_of_elements,
    other_forms,
    parameter_rates,
    with_fit,
    with_tiles,
)
from plinth.network.zoo import NETWORKS
from plinth.train import checkpoint
from plinth_hw.isa.winograd import OUTPUTS, form, transposed

DIGITS = NETWORKS["digits-cnn"]
MAP = Shape((3, 8, 8))


def layer(**settings) -> Convolution:
    return Convolution(**({"name": "conv", "channels": 4, "kernel": (3, 3), "padding": (1, 1)} | settings))


@pytest.mark.parametrize(("settings", "transform", "weights"), [
    ({}, None, (3, 3, 3, 4)), ({"winograd": 2}, 2, (3, 3, 3, 4)), ({"winograd": 4}, 4, (3, 3, 3, 4)),
    ({"winograd": "auto"}, 4, (3, 3, 3, 4)), ({"winograd": "auto", "weights": "winograd"}, 2, (4, 4, 3, 4)),
    ({"winograd": 4, "weights": "winograd"}, 4, (6, 6, 3, 4)),
    ({"winograd": 2, "weights": "winograd", "kernel": (1, 3), "padding": (0, 2)}, 2, (1, 4, 3, 4)),
    ({"winograd": "auto", "kernel": (2, 2)}, None, (2, 2, 3, 4)),
    ({"winograd": "auto", "stride": (2, 2)}, None, (3, 3, 3, 4)),
    ({"winograd": "auto", "weights": "winograd", "kernel": (4, 4)}, None, (4, 4, 3, 4)),
])
def test_what_a_convolution_says(settings, transform, weights) -> None:
    convolution = layer(**settings)
    convolution.output([MAP])
    assert convolution.transform([MAP]) == transform
    assert convolution.variables([MAP])[0].shape == weights


def test_products_are_those_of_tiles() -> None:
    assert layer(winograd=4).macs([MAP]) == 36 * 4 * 3 * 4
    assert layer(winograd=2).macs([MAP]) == 16 * 16 * 3 * 4


@pytest.mark.parametrize(("settings", "why"), [
    ({"winograd": 2, "kernel": (7, 7)}, "a kernel of 7x7 has no Winograd transform here"),
    ({"winograd": 4, "kernel": (5, 5)}, "a kernel of 5x5 makes 2 outputs a tile each way, not 4"),
    ({"winograd": 2, "stride": (2, 1)}, "a stride of 2x1 has no Winograd transform; use direct convolution"),
    ({"winograd": 2, "padding": (1, 1, 3, 1)}, "a padding of 3 is not between 0 and 2"),
    ({"winograd": 2, "padding": (3, 3)}, "a padding of 3 is not between 0 and 2"),
    ({"weights": "winograd"}, "trains Winograd tiles, but winograd is off"),
])
def test_what_has_no_transform_is_refused(settings, why) -> None:
    with pytest.raises(ValueError, match=why):
        layer(**settings).output([MAP])


@pytest.mark.parametrize("settings", [{"winograd": 3}, {"winograd": True}, {"winograd": None}, {"weights": "free"},
                                      {"winograd": "2"}])
def test_other_words_are_refused(settings) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        layer(**settings)


def test_files_say_it_too() -> None:
    network = with_tiles(DIGITS, 4, "winograd")
    assert network_from_data(parse_yaml(network_to_yaml(network), "x"), "x") == network
    data = network_to_data(DIGITS)
    text = network_to_yaml(DIGITS).replace("channels: 8,", "channels: 8, winograd: off,")
    assert "off" in text
    assert network_from_data(parse_yaml(text, "x"), "x") == DIGITS
    data["layers"][0]["winograd"] = "some"
    with pytest.raises(UserError, match=r"x: layer 1 \('conv1'\): winograd must be one of off, auto, 2, 4, not the"):
        network_from_data(data, "x")


def test_what_no_layer_can_is_refused() -> None:
    with pytest.raises(ValueError, match="no layer of network 'digits-mlp' has a Winograd transform of 4 outputs"):
        with_tiles(NETWORKS["digits-mlp"], 4, None)
    with pytest.raises(ValueError, match="no layer of network 'digits-cnn' trains Winograd tiles"):
        with_tiles(NETWORKS["digits-cnn"], "off", "winograd")
    with pytest.raises(ValueError, match="no layer of network 'digits-cnn' trains Winograd tiles"):
        with_tiles(DIGITS, None, "winograd")
    assert with_tiles(NETWORKS["digits-mlp"], "auto", None) == NETWORKS["digits-mlp"]
    assert with_tiles(with_tiles(DIGITS, 4, "winograd"), "off", None) == DIGITS


@pytest.mark.parametrize(("kernel", "outputs"), [
    (kernel, outputs) for kernel, some in OUTPUTS.items() for outputs in some])
def test_a_kernel_comes_back(kernel, outputs) -> None:
    weights = np.random.default_rng(0).standard_normal((*kernel, 3, 2))
    tiles = form(kernel, outputs)
    elements = elements_of_kernel(tiles, weights)
    assert np.allclose(kernel_of_elements(tiles, elements), weights, atol=1e-12)
    # What a change of the elements leaves is the nearest kernel: the rest is orthogonal to all kernels.
    moved = elements + np.random.default_rng(1).standard_normal(elements.shape)
    rest = moved - elements_of_kernel(tiles, kernel_of_elements(tiles, moved))
    assert abs((rest * elements_of_kernel(tiles, np.ones_like(weights))).sum()) < 1e-9


def test_rates_of_elements() -> None:
    """r_u = m / (|A_u|^2 |B^T_u|^2): F(4,3) has columns of A^T of 1, 4, 85 and rows of B^T of 42, 34, 10."""
    each = [4 / 42, 4 / 136, 4 / 136, 4 / 850, 4 / 850, 4 / 42]
    assert np.allclose(element_rates(form((3, 3), 4)), np.outer(each, each).ravel(), rtol=1e-6)
    assert element_rates(form((3, 3), 2)) == element_rates(form((1, 3), 2)) == ()
    first, *rest = parameter_rates(with_tiles(DIGITS, 4, "winograd"))
    assert first is not None and len(first) == 36 * 8 + 8
    assert first[8] == np.float32(each[0] * each[1]) and (first[-8:] == 1).all()
    assert rest[1:] == [None, None]


def test_initial_tiles_are_those_of_the_initial_kernels() -> None:
    plain, tiles = (initial_parameters(network, 5) for network in (DIGITS, with_tiles(DIGITS, 2, "winograd")))
    network = with_tiles(DIGITS, 2, "winograd")
    tile_weights, left = converted(network, "conv2", plain["conv2.weights"])
    assert np.allclose(tile_weights, tiles["conv2.weights"], rtol=1e-6, atol=1e-7) and not left
    assert (plain["fc1.weights"] == tiles["fc1.weights"]).all()
    assert set(other_forms(network, "conv2")) == {(3, 3, 8, 20), (6, 6, 8, 20)}


def test_checkpoints_convert_both_ways(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.npz" for name in "abc")
    tiles = with_tiles(DIGITS, 4, "winograd")
    plain = initial_parameters(DIGITS, 3)
    checkpoint.save(first, DIGITS, checkpoint.Checkpoint(plain, 2, 3))
    with pytest.raises(UserError, match=r"holds 72 weights of a kernel, but network 'digits-cnn' trains other 288; "
                                        "say weights=spatial, as it was trained .* makes its tiles, the same "):
        checkpoint.load(first, tiles)
    run = CliRunner()
    conversion = run.invoke(cli, ["convert", str(first), str(second), "--network", "digits-cnn", "--winograd", "4",
                                  "--weights", "winograd"])
    assert conversion.output == f"checkpoint: {second}\n"
    loaded = checkpoint.load(second, tiles)
    assert (loaded.epoch, loaded.seed) == (2, 3)
    with pytest.raises(UserError, match=r"holds 288 weights of Winograd tiles, .*; say winograd=4 weights=winograd,"
                                        " as it was trained .* those nearest to them, another function"):
        checkpoint.load(second, DIGITS)
    conversion = run.invoke(cli, ["convert", str(second), str(third), "--network", "digits-cnn"])
    assert conversion.output == f"checkpoint: {third}\n", "these tiles are a kernel's"
    for name, values in checkpoint.load(third, DIGITS).parameters.items():
        assert np.allclose(values, plain[name], atol=1e-6)


@pytest.mark.parametrize(("outputs", "options"), [
    (2, []), (4, []), (4, ["--winograd", "2", "--weights", "winograd"])])
def test_what_becomes_another_function_is_said(outputs: int, options: list[str], tmp_path: Path) -> None:
    """Tiles that were trained freely: those of conv1 alone are moved, by as much as the nearest kernel leaves out."""
    tiles = with_tiles(DIGITS, outputs, "winograd")
    parameters = initial_parameters(tiles, 3)
    first, second = str(tmp_path / "a.npz"), str(tmp_path / "b.npz")
    sides = form((3, 3), outputs)
    elements = parameters["conv1.weights"].astype(np.float64)
    noise = np.random.default_rng(0).standard_normal(elements.shape)
    noise -= elements_of_kernel(sides, kernel_of_elements(sides, noise))
    noise *= 0.75 * np.linalg.norm(elements) / np.linalg.norm(noise)
    parameters["conv1.weights"] = (elements + noise).astype(np.float32)
    checkpoint.save(Path(first), tiles, checkpoint.Checkpoint(parameters, 2, 3))
    conversion = CliRunner().invoke(cli, ["convert", first, second, "--network", "digits-cnn", *options])
    assert conversion.output == (
        "note: this is another function: no kernel has the tiles that were trained, so it is that of the nearest "
        f"kernels, which leave out 60.00% of conv1; `plinth eval` says what either is worth\ncheckpoint: {second}\n")
    loss = {}
    for path, more in ((first, ["--winograd", str(outputs), "--weights", "winograd"]), (second, options)):
        evaluation = CliRunner().invoke(cli, ["eval", path, "--network", "digits-cnn", *more, "--json"])
        loss[path] = json.loads(evaluation.output)["test_loss"]
    assert abs(loss[first] - loss[second]) > 1e-3


def test_a_state_does_not_convert(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    plain = initial_parameters(DIGITS, 3)
    kept = {name: {"state": np.zeros_like(values)} for name, values in plain.items()}
    checkpoint.save(path, DIGITS, replace(checkpoint.Checkpoint(plain, 2, 3), update="momentum", kept=kept))
    with pytest.raises(UserError, match="holds the state of update 'momentum', which has no other form"):
        checkpoint.load(path, with_tiles(DIGITS, 2, "winograd"), convert=True)


FORMS = [(kernel, outputs) for kernel, many in OUTPUTS.items() for outputs in many]


def of_fp16(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float64)


def windows(maps: np.ndarray, reach: tuple[int, ...], step: tuple[int, ...]) -> np.ndarray:
    """[image, tile down, tile across, place down, place across, channel]."""
    views = np.lib.stride_tricks.sliding_window_view(maps, reach, axis=(1, 2))[:, ::step[0], ::step[1]]
    return np.moveaxis(views, 3, -1)


def overlapped(tiles: np.ndarray, step: tuple[int, ...]) -> np.ndarray:
    """Windows added up to maps."""
    images, down, across, rows, columns, channels = tiles.shape
    maps = np.zeros((images, (down - 1) * step[0] + rows, (across - 1) * step[1] + columns, channels))
    for i in range(down):
        for j in range(across):
            maps[:, i * step[0]:i * step[0] + rows, j * step[1]:j * step[1] + columns] += tiles[:, i, j]
    return maps


def passes(kernel, outputs, x, w, dy, rounded) -> list[np.ndarray]:
    """y, dx and dw by tiles whose numbers are rounded as operands are; without outputs directly."""
    if outputs is None:
        x, w, dy = map(rounded, (x, w, dy))
        parts = windows(x, kernel, (1, 1))
        return [np.einsum("ntuklc,klcd->ntud", parts, w), overlapped(np.einsum("ntud,klcd->ntuklc", dy, w), (1, 1)),
                np.einsum("ntuklc,ntud->klcd", parts, dy)]
    down, across = form(kernel, outputs).transforms
    (a, g, b), (a2, g2, b2) = ([np.array(matrix, dtype=np.float64)
                                for matrix in (transform.a, transform.g, transform.b)] for transform in (down, across))
    step = down.outputs, across.outputs
    v = rounded(np.einsum("up,vq,ntspqc->ntsuvc", b, b2, windows(x, (down.size, across.size), step)))
    u = rounded(np.einsum("iu,jv,ntsijd->ntsuvd", a, a2, windows(dy, step, step)))
    tiles = rounded(np.einsum("uk,vl,klcd->uvcd", g, g2, w))
    return [overlapped(np.einsum("iu,jv,ntsuvd->ntsijd", a, a2, np.einsum("ntsuvc,uvcd->ntsuvd", v, tiles)), step),
            overlapped(np.einsum("up,vq,ntsuvc->ntspqc", b, b2, np.einsum("ntsuvd,uvcd->ntsuvc", u, tiles)), step),
            np.einsum("uk,vl,uvcd->klcd", g, g2, np.einsum("ntsuvc,ntsuvd->uvcd", v, u))]


@pytest.mark.parametrize(("kernel", "outputs"), FORMS)
def test_errors_of_fp16_operands_grow_as_stated(kernel, outputs) -> None:
    """Of standard normal data, in the root of the mean of squares, over those of direct convolution; exact sums."""
    generator = np.random.default_rng(0)
    map_sides = [8 if taps > 1 else 9 for taps in kernel]
    x, w, dy = (generator.standard_normal(shape) for shape in (
        (4, *(side + taps - 1 for side, taps in zip(map_sides, kernel, strict=True)), 8), (*kernel, 8, 8),
        (4, *map_sides, 8)))
    exact = passes(kernel, None, x, w, dy, lambda values: values)
    assert all(np.allclose(direct, tiled) for direct, tiled in zip(
        exact, passes(kernel, outputs, x, w, dy, lambda values: values), strict=True))
    tile_errors, direct_errors = ([np.sqrt(np.mean((rounded_sums - exact_sums)**2)) for rounded_sums, exact_sums in zip(
        passes(kernel, some, x, w, dy, of_fp16), exact, strict=True)] for some in (outputs, None))
    stated = growth(form(kernel, outputs))
    for tile_error, direct_error in zip(tile_errors, direct_errors, strict=True):
        assert abs(tile_error / direct_error / stated - 1) < 0.25, (tile_error / direct_error, stated)
    assert fit(form(kernel, outputs)) == (max(form(kernel, outputs).sides) == 4) == (stated <= 2)


@pytest.mark.parametrize(("kernel", "outputs"), FORMS)
def test_numbers_of_fit_tiles_stay_near_those_of_maps(kernel, outputs) -> None:
    """Of the largest tile, over the largest number of a map or a kernel: two bits of what FP16 holds at most."""
    sums = [max(sum(map(abs, row)) for row in matrix) for transform in form(kernel, outputs).transforms
            for matrix in (transform.b, transposed(transform.a), transform.g)]
    gains = [float(down * across) for down, across in zip(sums[:3], sums[3:], strict=True)]
    assert (max(gains) <= 4) == fit(form(kernel, outputs)), gains
    if outputs == 4:
        assert gains[:2] == [100, 225]


@pytest.mark.parametrize(("settings", "chosen"), [
    ({}, (2, "spatial")), ({"weights": "winograd"}, (2, "winograd")), ({"kernel": (5, 5)}, ("off", "spatial")),
    ({"kernel": (5, 5), "weights": "winograd"}, ("off", "spatial")),
    ({"kernel": (1, 3), "padding": (0, 1)}, (2, "spatial")),
    ({"stride": (2, 2)}, ("off", "spatial")), ({"winograd": 4}, (4, "spatial"))])
def test_layers_that_may_choose_take_what_is_fit(settings, chosen) -> None:
    convolution = layer(**({"winograd": "auto"} | settings))
    (fitted, *_) = with_fit(Network(name="x", input=MAP, layers=(
        convolution, Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss")))).layers
    assert (fitted.winograd, fitted.weights) == chosen
