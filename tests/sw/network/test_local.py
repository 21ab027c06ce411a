"""Parts of a global network: what a local network has of each variable, and which layers have to stay whole."""

from typing import Any

import numpy as np
import pytest
from tests.support.local import WIDTHS, network

from plinth.errors import UserError
from plinth.network.layers import (
    Add,
    Affine,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Layer,
    MaxPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.local import MEAN, LocalNetwork, makers, widths_of
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.train.float64 import float64_predictor


def drawn(local: LocalNetwork, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {layer: np.sort(generator.choice(whole, width, replace=False))
            for layer, (width, whole) in local.hidden.items()}


def of(*layers: Layer, shape: tuple[int, ...] = (2, 6, 6)) -> Network:
    return Network(name="net", input=Shape(shape), layers=(*layers, SoftmaxCrossEntropy(name="loss")))


#: Maps behind each other, pooled and flattened; features beside maps' features; a factor on each channel.
CONVOLUTIONAL = of(
    Convolution(name="conv1", channels=6, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
    Affine(name="affine"), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
    Convolution(name="conv2", channels=8, kernel=(2, 2), inputs=("pool",)),
    Convolution(name="conv3", channels=5, kernel=(2, 2), inputs=("pool",)),
    Concat(name="both", inputs=("conv2", "conv3")), Flatten(name="flat"), Dense(name="fc1", outputs=10),
    Tanh(name="tanh"), Concat(name="side", inputs=("tanh", "flat")), Dense(name="fc2", outputs=3))


def predicted(whole: Network, parameters: dict[str, Any], x: Any) -> Any:
    return np.concatenate(list(float64_predictor(whole)(parameters, x)))


@pytest.mark.parametrize(("whole", "widths"), [
    (network(), (12, 8, 4, 4)), (network(), (12, 16, 3, 4)), (CONVOLUTIONAL, (72, 3, 8, 5, 10, 3)),
    (CONVOLUTIONAL, (72, 2, 5, 3, 4, 3)), (CONVOLUTIONAL, (72, 6, 8, 2, 1, 3))], ids=str)
@pytest.mark.parametrize("power", [0.0, 0.5, MEAN])
def test_a_local_network_is_the_global_one_without_other_units(whole: Network, widths: tuple[int, ...], power: float
                                                               ) -> None:
    """The global network predicts the same once weights that read other units are 0, and the rest times the factor:
    known from which *outputs* feed a layer, not from how parts are found."""
    local = LocalNetwork(whole, widths, power)
    units, parameters = drawn(local), initial_parameters(whole, 3)
    generator = np.random.default_rng(1)
    parameters = {name: values + generator.normal(0, 0.1, values.shape).astype(np.float32)
                  for name, values in parameters.items()}
    parts = local.parts(units)
    cut = {name: part.cut(parameters[name]) * part.factor for name, part in parts.items()}
    assert {name: values.shape for name, values in cut.items()} == {
        name: tuple(variable.shape) for name, variable in local.network.variables.items()}
    x = generator.uniform(-1, 1, (5, whole.input.elements)).astype(np.float32)
    masked = dict(parameters)
    for layer in makers(whole):
        shape = masked[f"{layer.name}.weights"].shape
        kept = np.zeros(shape[-2], bool)
        kept[parts[f"{layer.name}.weights"].indices[-2]] = True
        factor = (shape[-2] / kept.sum())**power
        masked[f"{layer.name}.weights"] = masked[f"{layer.name}.weights"] * kept[:, None] * factor
    assert np.allclose(predicted(local.network, cut, x), predicted(whole, masked, x), atol=1e-12)


def test_units_behind_a_flattened_map_are_those_of_its_channels() -> None:
    local = LocalNetwork(CONVOLUTIONAL, (72, 6, 3, 2, 10, 3))
    units = {"conv2": np.array([0, 4, 7]), "conv3": np.array([1, 3])}
    # 2 x 2 positions of 8 and 5 channels.
    wanted = [13 * position + channel for position in range(4) for channel in (0, 4, 7, 8 + 1, 8 + 3)]
    parts = local.parts(units)
    assert parts["fc1.weights"].indices[0].tolist() == wanted
    assert parts["fc2.weights"].indices[0].tolist() == [*range(10), *(10 + index for index in wanted)]
    assert parts["fc1.weights"].factor == pytest.approx((52 / 20)**0.5)
    assert parts["affine.bias"].factor == 1 and len(parts["affine.bias"].indices[0]) == 6


def test_widths_are_those_of_the_input_and_of_layers_with_units_of_their_own() -> None:
    assert widths_of(network()) == WIDTHS
    assert widths_of(CONVOLUTIONAL) == (72, 6, 8, 5, 10, 3)
    whole = LocalNetwork(network(), WIDTHS)
    assert whole.network == network() and not whole.hidden and whole.share == 1
    half = LocalNetwork(network(), (12, 8, 4, 4))
    assert half.hidden == {"fc1": (8, 16), "fc2": (4, 8)} and half.network.name == "small-local"
    assert half.shares["fc2.weights"] == 0.25 and half.shares["fc3.bias"] == 1
    assert half.share == (12 * 8 + 8 * 4 + 4 * 4) / (12 * 16 + 16 * 8 + 8 * 4) and half.words == half.network.parameters


@pytest.mark.parametrize(("widths", "said"), [
    ((12, 8, 4), "must be as many as its own, which are 12, 16, 8, 4, not 3 widths"),
    ((12, 8, 4, 4, 4), "not 5 widths"), ("1/2", "not the text '1/2'"), (None, "not nothing"),
    ((12, 17, 4, 4), "local widths of layer 'fc1' must be from 1 to 16, not 17"),
    ((12, 8, 0, 4), "local widths of layer 'fc2' must be from 1 to 8, not 0"),
    ((12, 8.0, 4, 4), "not 8.0"), ((12, True, 4, 4), "not true"),
    ((6, 8, 4, 4), "the input is what samples are, and cannot have 6 of 12 units; leave it whole"),
    ((12, 8, 4, 3), "layer 'fc3' is the output, and cannot have 3 of 4 units; leave it whole")])
def test_widths_that_are_none_are_refused(widths: Any, said: str) -> None:
    with pytest.raises(UserError) as error:
        LocalNetwork(network(), widths)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("whole", "widths", "said"), [
    (of(Dense(name="fc1", outputs=6), Dense(name="fc2", outputs=6), Add(name="sum", inputs=("fc1", "fc2")),
        Dense(name="fc3", outputs=3), shape=(5,)), (5, 3, 6, 3),
     "layer 'fc1' is added up with other units in layer 'sum'"),
    (of(Embedding(name="table", rows=9, width=4), Dense(name="fc", outputs=3), shape=(2,)), (2, 2, 3),
     "layer 'table' is of kind 'embedding', of which no parts are trained")], ids=["add", "embedding"])
def test_layers_whose_units_cannot_be_left_out_are_named(whole: Network, widths: tuple[int, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        LocalNetwork(whole, widths)
    assert LocalNetwork(whole, widths_of(whole)).network == whole
