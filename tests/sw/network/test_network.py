"""Networks: shapes that follow, graphs that hold, and what is said where they do not."""

import pickle

import pytest

from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Gelu,
    Join,
    Layer,
    LeakyRelu,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron
from plinth.network.variables import Gradient
from plinth.network.zoo import NETWORKS

LOSS = SoftmaxCrossEntropy(name="loss")
FLAT = Flatten(name="flat")


def network(*layers: Layer, size: tuple[int, ...] = (3, 8, 8)) -> Network:
    return Network(name="net", input=Shape(size), layers=layers)


def convolution(name: str = "conv", **settings) -> Convolution:
    return Convolution(name=name, **{"channels": 4, "kernel": (3, 3), "padding": (1, 1), **settings})


def test_digits_network_has_the_shape_of_the_main_job() -> None:
    network = NETWORKS["digits-mlp"]
    assert [tuple(variable.shape) for variable in network.variables.values() if not variable.added] == [
        (64, 128), (128, 64), (64, 10)]
    assert network.parameters == 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10


def test_shapes_of_maps_and_gradients_are_derived() -> None:
    classifier = network(convolution(stride=(2, 1)), Relu(name="relu"), FLAT, Dense(name="fc", outputs=10), LOSS)
    conv = classifier.shapes["conv"]
    assert conv.inputs == ((3, 8, 8),)
    assert conv.output == (4, 4, 8)
    assert {variable.name: (variable.axes, variable.shape) for variable in conv.variables} == {
        "weights": (("kernel rows", "kernel columns", "inputs", "outputs"), (3, 3, 3, 4)), "bias": (("outputs",), (4,))}
    fc = classifier.shapes["fc"]
    assert {variable.name: variable.shape for variable in fc.variables} == {"weights": (128, 10), "bias": (10,)}
    assert list(classifier.variables) == ["conv.weights", "conv.bias", "fc.weights", "fc.bias"]
    assert classifier.output == (10,)
    assert classifier.parameters == 27 * 4 + 4 + 1290
    assert classifier.weights == 27 * 4 + 1280
    assert classifier.macs == 27 * 4 * 32 + 1280
    assert str(classifier.output_shape("relu")) == "4x4x8"
    assert [classifier.output_shape("relu").channels, classifier.output_shape("relu").positions] == [4, 32]


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "ceil", "expected"), [
    (8, 2, 2, 0, False, 4), (32, 3, 2, 0, True, 16), (32, 3, 2, 0, False, 15), (7, 3, 2, 1, False, 4),
    (5, 2, 2, 1, True, 3), (4, 1, 3, 0, True, 2), (6, 1, 3, 0, True, 2), (13, 3, 2, 0, False, 6),
])
def test_windows_of_pools(size, kernel, stride, padding, ceil, expected) -> None:
    for kind in (MaxPool, MeanPool):
        layer = kind(name="pool", kernel=(kernel,) * 2, stride=(stride,) * 2, padding=(padding,) * 2, ceil=ceil,
                     inputs=("input",))
        assert layer.output([Shape((2, size, size))]) == (2, expected, expected)


def test_inputs_default_to_the_layer_before() -> None:
    residual = network(convolution(), convolution("second"), Add(name="add", inputs=("conv", "second")), FLAT, LOSS)
    assert [layer.inputs for layer in residual.layers] == [
        ("input",), ("conv",), ("conv", "second"), ("add",), ("flat",)]
    assert residual.consumers("conv") == ("second", "add")
    assert residual.consumers("input") == ("conv",)
    assert residual.loss is residual.layers[-1]


def test_embedding_gathers_rows_of_the_input() -> None:
    embedded = network(Embedding(name="words", rows=1000, width=16), Dense(name="fc", outputs=10), LOSS, size=(5,))
    assert embedded.shapes["words"].output == (80,)
    (table,) = embedded.shapes["words"].variables
    assert (table.name, table.shape, table.gradient) == ("weights", (1000, 16), Gradient.ROWS)
    assert embedded.layer_macs("words") == 0


@pytest.mark.parametrize(("layers", "needle"), [
    ([convolution(), Dense(name="fc", outputs=10), LOSS],
     r"'fc' \(dense\) needs features, but layer 'conv' gives a map of 4x8x8; put a flatten"),
    ([Dense(name="fc", outputs=2), LOSS], "network's input gives a map of 3x8x8"),
    ([convolution(), convolution("two", channels=5), Add(name="add", inputs=("conv", "two")), FLAT, LOSS],
     "layer 'conv' gives 4x8x8 and layer 'two' gives 5x8x8"),
    ([convolution(), Join(name="join", inputs=("conv", "input")), FLAT, LOSS],
     "layer 'conv' gives 4x8x8 and the network's input gives 3x8x8"),
    ([convolution(kernel=(9, 9), padding=(0, 0)), FLAT, LOSS], "kernel of 9x9, larger than the 3x8x8"),
    ([convolution(shape=Shape((4, 7, 7))), FLAT, LOSS], "states shape 4x7x7, but the network's input gives 3x8x8, "
                                                        "from which 4x8x8 follows"),
    ([FLAT, convolution(), LOSS], "needs a map"),
    ([convolution(kernel=(9, 9), padding=(0, 0, 5, 0)), FLAT, LOSS], "larger than .* a padding of 0x0x5x0; choose"),
    ([convolution(), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2), padding=(0, 0, 2, 0)), FLAT, LOSS],
     "a padding of 0x0x2x0, more than half its kernel of 2x2"),
    ([convolution(), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2), padding=(2, 2)), FLAT, LOSS],
     "more than half its kernel"),
    ([convolution(), LOSS], "put a flatten"),
    ([convolution(inputs=("nowhere",)), FLAT, LOSS], "'nowhere', which is no layer"),
    ([convolution(inputs=("conv",)), FLAT, LOSS], "reads its own output"),
    ([convolution(inputs=("flat",)), FLAT, LOSS], "no cycles"),
    ([convolution(), convolution(), FLAT, LOSS], "two layers are called 'conv'"),
    ([convolution("input"), FLAT, LOSS], "no layer may be called 'input'"),
    ([convolution(), convolution("idle"), Flatten(name="flat", inputs=("conv",)), LOSS], "'idle' .* read by no layer"),
    ([convolution(), FLAT], "last layer but no loss"),
    ([FLAT, SoftmaxCrossEntropy(name="first"), LOSS], "'first' .* not the last"),
    ([FLAT, LOSS], "no layer is trained; add one with weights"),
    ([convolution(), Add(name="add"), FLAT, LOSS], "takes 2 to 16 inputs, not 1"),
    ([convolution(inputs=("input", "input")), FLAT, LOSS], "takes 1 inputs, not 2"),
    ([], "1 to 4096 layers"),
])
def test_what_does_not_follow_is_named(layers, needle) -> None:
    with pytest.raises(ValueError, match=needle):
        network(*layers)


def test_row_numbers_feed_embeddings_only() -> None:
    with pytest.raises(ValueError, match="holds row numbers"):
        network(Embedding(name="words", rows=8, width=4), Dense(name="fc", outputs=4),
                Dense(name="odd", outputs=4, inputs=("input",)), Add(name="add", inputs=("fc", "odd")), LOSS, size=(4,))
    with pytest.raises(ValueError, match="put it first"):
        network(Dense(name="fc", outputs=4), Embedding(name="words", rows=8, width=4), LOSS, size=(4,))


@pytest.mark.parametrize(("settings", "needle"), [
    ({"channels": 0}, "channels of layer 'conv' must be an integer from 1"),
    ({"channels": True}, "not true"),
    ({"channels": 1.0}, "not 1.0"),
    ({"kernel": (0, 3)}, "from 1 to"),
    ({"kernel": (3, 3, 3)}, "list of two"),
    ({"padding": (-1, 0)}, "from 0 to"), ({"padding": (0, 0, 0, -1)}, "or four .top, left, bottom, right., not"),
    ({"padding": (1, 2, 3)}, "a list of two .vertical, horizontal. or four"),
    ({"bias": 1}, "true or false"),
    ({"name": ""}, "name must be"),
    ({"name": "a b"}, "name must be"),
])
def test_settings_are_checked(settings, needle) -> None:
    with pytest.raises(ValueError, match=needle):
        convolution(**settings)


def test_sizes_are_bounded() -> None:
    with pytest.raises(ValueError, match="more than"):
        network(FLAT, *(Dense(name=f"fc{number}", outputs=65536) for number in range(2)),
                MeanSquaredError(name="loss"), size=(65536, 512, 1))
    with pytest.raises(ValueError, match="input must be"):
        network(FLAT, LOSS, size=(3, 8))
    with pytest.raises(ValueError, match="at least two widths"):
        perceptron("x", (4,))


def test_networks_can_be_copied_and_compared() -> None:
    network = NETWORKS["digits-cnn"]
    again = pickle.loads(pickle.dumps(network))
    assert again == network
    assert hash(again) == hash(network)
    assert again.shapes["conv1"] == network.shapes["conv1"]


@pytest.mark.parametrize("slope", [0, 1, -0.1, 1.5, float("nan"), True, "0.1", None, [0.1]])
def test_slopes_are_between_0_and_1(slope: object) -> None:
    with pytest.raises(ValueError, match="slope of layer 'leaky' must be a number above 0 and below 1, not "):
        LeakyRelu(name="leaky", slope=slope)  # type: ignore[arg-type]
    assert LeakyRelu(name="leaky", slope=0.5).slope == 0.5


@pytest.mark.parametrize("approximate", ["none", "erf", True, None, 1])
def test_gelus_are_by_their_tanh_approximation(approximate: object) -> None:
    with pytest.raises(ValueError, match=r"approximate of layer .gelu. must be tanh, not .*; dies have no error fun"):
        Gelu(name="gelu", approximate=approximate)  # type: ignore[arg-type]
    assert Gelu(name="gelu") == Gelu(name="gelu", approximate="tanh")


def test_channels_are_concatenated() -> None:
    layer = Concat(name="both", inputs=("a", "b", "a"))
    assert layer.output([Shape((2, 3, 4)), Shape((1, 3, 4)), Shape((2, 3, 4))]) == (5, 3, 4)
    assert layer.output([Shape((2,)), Shape((1,)), Shape((2,))]) == (5,)
    for other in (Shape((1, 3, 3)), Shape((1,))):
        with pytest.raises(ValueError, match=r"layer 'both' \(concat\) needs maps of one height and width, or features"
                                             r", but layer 'a' gives 2x3x4 and layer 'b' gives 1"):
            layer.output([Shape((2, 3, 4)), other, Shape((2, 3, 4))])
