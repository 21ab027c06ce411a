"""ONNX files: layers, the whole zoo written and read back, and what is refused."""

import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.onnx_models import model, node, read, shape_of, weights

from plinth.errors import UserError
from plinth.network.file import load_network
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Gelu,
    Join,
    LeakyRelu,
    MaxPool,
    MeanPool,
    Relu,
    Relu6,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.network.onnx.reader import read_onnx
from plinth.network.zoo import NETWORKS

SIMPLE = {Relu: "Relu", Tanh: "Tanh", Sigmoid: "Sigmoid", Add: "Add", Join: "Mean", Flatten: "Flatten"}


def exported(network: Network) -> onnx.ModelProto:
    """A network as ONNX, layer by layer."""
    nodes, tensors = [], []
    size = ("batch", *network.input)
    for layer in network.layers[:-1]:
        names = [name if name != "input" else "x" for name in layer.inputs]
        source = network.shapes[layer.name].inputs[0]
        if isinstance(layer, (Convolution, Dense)):
            tensors.append(weights(f"{layer.name}.w", layer.channels, source.channels, *layer.kernel)
                           if isinstance(layer, Convolution) else
                           weights(f"{layer.name}.w", layer.outputs, source.elements))
            names.append(f"{layer.name}.w")
            if layer.bias:
                tensors.append(weights(f"{layer.name}.b", network.shapes[layer.name].variables[1].elements))
                names.append(f"{layer.name}.b")
        if isinstance(layer, Dense):
            nodes.append(node("Gemm", names, layer.name, transB=1))
        elif isinstance(layer, (Convolution, MaxPool, MeanPool)):
            settings = {} if isinstance(layer, Convolution) else {"ceil_mode": int(layer.ceil)}
            operator = {Convolution: "Conv", MaxPool: "MaxPool", MeanPool: "AveragePool"}[type(layer)]
            nodes.append(node(operator, names, layer.name, kernel_shape=layer.kernel, strides=layer.stride,
                              pads=layer.padding * 2, **settings))
        else:
            nodes.append(node(SIMPLE[type(layer)], names, layer.name))
    last = network.loss.inputs[0]
    if isinstance(network.loss, SoftmaxCrossEntropy):
        nodes.append(node("Softmax", [last], "softmax"))
        last = "softmax"
    return model(nodes, tensors, size=size, output=last, stated=("batch", *network.output))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_zoo_comes_back(tmp_path, name: str) -> None:
    network = NETWORKS[name]
    imported = read(tmp_path, exported(network), None if network.output.flat else "mean-squared-error")
    assert imported.layers == network.layers
    assert imported.input == network.input


def test_activations_with_bounds_and_slopes(tmp_path) -> None:
    zero, six = (helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [value]) for name, value in (
        ("zero", 0.0), ("six", 6.0)))
    proto = model([
        node("Flatten", ["x"], "f"), node("Clip", ["f", "zero", "six"], "a"), node("LeakyRelu", ["a"], "b"),
        node("LeakyRelu", ["b"], "c", alpha=0.2), node("Clip", ["c", "zero"], "d"),
        node("Clip", ["d", "zero", "six"], "e"), node("Gemm", ["e", "w"], "out")], [zero, six, weights("w", 192, 4)])
    *layers, _, _ = read(tmp_path, proto).layers
    assert layers == [Flatten(name="f", inputs=("input",)), Relu6(name="a", inputs=("f",)),
                      LeakyRelu(name="b", inputs=("a",)), LeakyRelu(name="c", inputs=("b",), slope=0.2),
                      Relu(name="d", inputs=("c",)), Relu6(name="e", inputs=("d",))]


def constant(name: str, value: float, kind: int = onnx.TensorProto.FLOAT, dimensions: tuple[int, ...] = ()):
    return helper.make_tensor(name, kind, dimensions, [value])


#: By who writes it: nodes from "c" to "g" that are GELU's tanh approximation.
GELUS = {
    "TorchScript below opset 20": [
        node("Mul", ["c", "c"], "g1"), node("Mul", ["c", "g1"], "g2"), node("Mul", ["cubic", "g2"], "g3"),
        node("Add", ["c", "g3"], "g4"), node("Mul", ["inner", "g4"], "g5"), node("Tanh", ["g5"], "g6"),
        node("Add", ["one", "g6"], "g7"), node("Mul", ["c", "g7"], "g8"), node("Mul", ["half", "g8"], "g")],
    "dynamo below opset 20": [
        node("Pow", ["c", "three"], "g1"), node("Mul", ["cubic", "g1"], "g2"), node("Add", ["c", "g2"], "g3"),
        node("Mul", ["inner", "g3"], "g4"), node("Tanh", ["g4"], "g5"), node("Add", ["g5", "one"], "g6"),
        node("Mul", ["half", "g6"], "g7"), node("Mul", ["c", "g7"], "g")],
    "dynamo, Constants": [
        node("Constant", [], "k1", value=constant("", 3.0)), node("Pow", ["c", "k1"], "g1"),
        node("Constant", [], "k2", value=constant("", 0.044715)), node("Mul", ["k2", "g1"], "g2"),
        node("Add", ["c", "g2"], "g3"), node("Mul", ["inner", "g3"], "g4"), node("Tanh", ["g4"], "g5"),
        node("Add", ["g5", "one"], "g6"), node("Mul", ["c", "g6"], "g7"), node("Mul", ["half", "g7"], "g")],
    "half of x first": [
        node("Mul", ["c", "half"], "g0"), node("Pow", ["c", "three"], "g1"), node("Mul", ["g1", "cubic"], "g2"),
        node("Add", ["c", "g2"], "g3"), node("Mul", ["g3", "inner"], "g4"), node("Tanh", ["g4"], "g5"),
        node("Add", ["g5", "one"], "g6"), node("Mul", ["g0", "g6"], "g")],
    "x taken out": [
        node("Mul", ["c", "inner"], "g1"), node("Mul", ["c", "c"], "g2"), node("Mul", ["g2", "cubic"], "g3"),
        node("Add", ["g3", "one"], "g4"), node("Mul", ["g1", "g4"], "g5"), node("Tanh", ["g5"], "g6"),
        node("Add", ["g6", "one"], "g7"), node("Mul", ["g7", "half"], "g8"), node("Mul", ["g8", "c"], "g")],
    "opset 20": [node("Gelu", ["c"], "g", approximate="tanh")],
}


@pytest.mark.parametrize("name", GELUS)
def test_gelus_by_tanh_are_one_layer_however_they_are_written(tmp_path, name: str) -> None:
    """Behind a sum, which is no part of it, and before one that reads its input again."""
    tensors = [constant("inner", 0.7978845608028654, onnx.TensorProto.DOUBLE), constant("cubic", 0.044715),
               constant("one", 1.0), constant("half", 0.5, dimensions=(1,)),
               constant("three", 3, onnx.TensorProto.INT64)]
    proto = model([node("Conv", ["x", "a.w"], "a"), node("Conv", ["x", "b.w"], "b"), node("Add", ["a", "b"], "c"),
                   *GELUS[name], node("Add", ["g", "c"], "out")],
                  [*tensors, weights("a.w", 4, 3, 1, 1), weights("b.w", 4, 3, 1, 1)], opset=20)
    network = read(tmp_path, proto, "mean-squared-error")
    assert network.layers[2:-1] == (Add(name="c", inputs=("a", "b")), Gelu(name="g", inputs=("c",)),
                                    Add(name="out", inputs=("g", "c")))


def test_a_network_of_many_layers_is_read(tmp_path) -> None:
    proto = model([
        node("Conv", ["x", "c.w"], "c", pads=[1, 1, 1, 1]),
        node("Tanh", ["c"], "t"), node("Sigmoid", ["c"], "s"), node("Add", ["t", "s"], "a"),
        node("Mean", ["a", "c", "t"], "m"), node("Relu", ["m"], "r"),
        node("MaxPool", ["r"], "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", ["p"], "q", kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0]),
        node("GlobalAveragePool", ["q"], "g"),
        node("Constant", [], "k", value=shape_of("", 0, -1)), node("Reshape", ["g", "k"], "f"),
        node("MatMul", ["f", "d.w"], "d"), node("Add", ["d.b", "d"], "e"),
        node("Gemm", ["e", "h.w"], "h"), node("Flatten", ["h"], "flat"), node("Softmax", ["flat"], "out", axis=1),
    ], [weights("c.w", 4, 3, 3, 3), weights("d.w", 4, 5), weights("d.b", 5), weights("h.w", 5, 2)])
    network = read(tmp_path, proto)
    assert [layer.kind for layer in network.layers] == [
        "convolution", "tanh", "sigmoid", "add", "join", "relu", "max-pool", "mean-pool", "mean-pool", "flatten",
        "dense", "dense", "softmax-cross-entropy"]
    assert network.layer("q").kernel == (3, 2)
    assert network.layer("g").kernel == (4, 2)
    assert [network.layer("d").bias, network.layer("h").bias] == [True, False]


def test_embeddings_are_read_where_they_are_flattened(tmp_path) -> None:
    tensors = [weights("t", 100, 8), weights("w", 40, 3)]
    proto = model([node("Gather", ["t", "x"], "rows"), node("Relu", ["rows"], "relu"),
                   node("Flatten", ["relu"], "flat"), node("MatMul", ["flat", "w"], "out")],
                  tensors, size=("batch", 5), elements=TensorProto.INT64)
    network = read(tmp_path, proto)
    assert isinstance(network.layers[0], Embedding)
    assert network.output_shape("rows") == (40,)
    with pytest.raises(UserError, match="not flattened"):
        read(tmp_path, model([node("Gather", ["t", "x"], "rows"), node("MatMul", ["rows", "w"], "out")], tensors,
                             size=("batch", 5), elements=TensorProto.INT64))


def test_the_loss_can_be_chosen(tmp_path) -> None:
    proto = model([node("MatMul", ["x", "w"], "out")], [weights("w", 5, 2)], size=(7, 5))
    assert read(tmp_path, proto).loss.kind == "softmax-cross-entropy"
    assert read(tmp_path, proto, "mean-squared-error").loss.kind == "mean-squared-error"
    with pytest.raises(UserError, match="did you mean 'mean-squared-error'"):
        read(tmp_path, proto, "mean-square-error")
    proto = model([node("MatMul", ["x", "w"], "z"), node("Softmax", ["z"], "out")], [weights("w", 5, 2)], size=(7, 5))
    with pytest.raises(UserError, match="ends in Softmax"):
        read(tmp_path, proto, "mean-squared-error")


def test_nodes_in_any_order_are_read(tmp_path) -> None:
    nodes = [node("MatMul", ["x", "w"], "z"), node("Relu", ["z"], "out")]
    networks = [read(tmp_path, model(order, [weights("w", 5, 2)], size=(7, 5))) for order in (nodes, nodes[::-1])]
    assert networks[0] == networks[1]


def test_names_are_made_fit(tmp_path) -> None:
    proto = model([helper.make_node("MatMul", ["x", "w"], ["z"], name="/net/fc 1/MatMul"),
                   helper.make_node("Relu", ["z"], ["y"], name="input"), helper.make_node("Relu", ["y"], ["u"]),
                   helper.make_node("Relu", ["u"], ["out"], name="loss")], [weights("w", 5, 2)], size=(7, 5))
    assert [layer.name for layer in read(tmp_path, proto).layers] == [
        "net_fc_1_MatMul", "input-2", "Relu3", "loss", "loss-2"]


def test_names_of_nodes_are_kept(tmp_path) -> None:
    names = ["conv1.Conv_2-a", "n" * 64,
             f"StatefulPartitionedCall/{'model/' * 12}dense_1/MatMul", "n" * 65, "_.-hidden"]
    nodes = [helper.make_node("Relu", [f"y{place}" if place else "x"], [f"y{place + 1}"], name=name)
             for place, name in enumerate(names)]
    proto = model([*nodes, node("MatMul", [f"y{len(names)}", "w"], "out")], [weights("w", 5, 2)], size=(7, 5))
    kept = f"StatefulPartitionedCall_{'model_' * 12}dense_1_MatMul"
    assert [layer.name for layer in read(tmp_path, proto).layers] == [
        names[0], names[1], kept[-64:], f"{'n' * 62}-2", "hidden", "out", "loss"]


CONV = weights("w", 4, 3, 3, 3)
DENSE = weights("v", 192, 2)


def _twice(node: onnx.NodeProto, **attributes: object) -> onnx.NodeProto:
    """A node with an attribute again."""
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    return node


@pytest.mark.parametrize(("nodes", "tensors", "needle"), [
    ([node("LSTM", ["x"], "out")], [],
     r"node 'out' \(LSTM\): is an LSTM, a recurrent layer, .*; use convolutions along"),
    ([helper.make_node("Conv", ["x", "w"], ["out"], name="c", domain="com.example")], [CONV], "com.example.Conv"),
    ([node("Conv", ["x", "w"], "out", group=3)], [CONV], "is a grouped convolution, group 3"),
    ([node("Conv", ["x", "w"], "out", dilations=[2, 2])], [CONV], r"is a dilated window, dilations \[2, 2\]"),
    ([node("Conv", ["x", "w"], "out", pads=[-1, 0, -1, 0])], [CONV], "pads must be 4 integers from 0"),
    ([node("Conv", ["x", "w"], "out", strides=[1])], [CONV], "strides must be 2 integers"),
    ([node("Conv", ["x", "w"], "out", strides=[0, 1])], [CONV], "stride of layer"),
    ([node("Conv", ["x", "w"], "out", auto_pad="SAME")], [CONV], "auto_pad"),
    ([node("Conv", ["x", "w"], "out", auto_pad="VALID", pads=[1] * 4)], [CONV],
     "has both auto_pad VALID and pads .*; export with one of them"),
    ([_twice(node("Conv", ["x", "w"], "out", pads=[1] * 4), pads=[0] * 4)], [CONV],
     "attribute 'pads' is given twice; mend the file"),
    ([node("MaxPool", ["x"], "out", kernel_shape=[2, 2], pads=[0, 0, 0, 2])], [],
     "padding of 0x0x0x2, more than half its kernel of 2x2"),
    ([node("Conv", ["x", "w"], "out", kernel_shape=[5, 5])], [CONV], "kernel_shape must be"),
    ([node("Conv", ["x", "w"], "out")], [weights("w", 4, 2, 3, 3)],
     "take 2 channels, but the network's input gives 3x8x8"),
    ([node("Conv", ["x", "w"], "out")], [weights("w", 4, 3, 9, 9)], "larger than the 3x8x8"),
    ([node("Conv", ["x", "x"], "out")], [], "must be stored in the file"),
    ([node("Conv", ["x", "w"], "out", extra=1)], [CONV], "attribute 'extra' is not supported"),
    ([node("Conv", ["x", "w", "b"], "out")], [CONV, weights("b", 5)],
     "bias must be an initializer of 4 elements, .* not \\[5\\]"),
    ([node("MaxPool", ["x"], "out")], [], "no kernel_shape"),
    ([node("MaxPool", ["x"], "out", kernel_shape=[2, 2], dilations=[2, 1])], [], "dilations"),
    ([helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2]), node("Relu", ["i"], "out")], [],
     "output 'i' is read"),
    ([node("AveragePool", ["x"], "out", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)], [],
     "count_include_pad must be 0"),
    ([node("Flatten", ["x"], "f"), node("MatMul", ["f", "w"], "out")], [weights("w", 100, 2)],
     "take 100 features, but layer 'f' gives 192"),
    ([node("Gemm", ["x", "v"], "out")], [DENSE], "put a flatten"),
    ([node("Flatten", ["x"], "f"), node("Gemm", ["f", "v"], "out", alpha=0.5)], [DENSE], "alpha must be 1.0"),
    ([node("Flatten", ["x"], "f"), node("Gemm", ["f", "v", "b"], "out")], [DENSE, weights("b", 3)], "of 2 elements"),
    ([node("Flatten", ["x"], "out", axis=2)], [], "axis must be 1"),
    ([node("Constant", [], "s", value=3), node("Reshape", ["x", "s"], "out")], [], "constants with a tensor"),
    ([node("Relu", ["x"], "s"), node("Reshape", ["x", "s"], "out")], [], "dynamic"),
    ([node("Add", ["x", "b"], "out")], [weights("b", 3)], "add it to the samples instead"),
    ([node("Softmax", ["x"], "s"), node("Relu", ["s"], "out")], [], "gives a map"),
    ([node("Flatten", ["x"], "f"), node("Softmax", ["f"], "s"), node("Relu", ["s"], "out")], [], "only at the end"),
    ([node("Relu", ["b"], "a"), node("Relu", ["a"], "b"), node("Add", ["x", "b"], "out")], [], "cycle"),
    ([node("Relu", ["nowhere"], "out")], [], "input 'nowhere' is not defined"),
    ([node("Relu", ["x"], "out"), node("Tanh", ["x"], "out")], [], "defined twice"),
    ([node("Relu", ["x"], "y")], [], "outputs that layers give"),
    ([node("Flatten", ["x"], "out")], [], "no layer is trained"),
    ([node("Gather", ["t", "x"], "out")], [weights("t", 9, 4)], "end in a layer's own dimensions"),
    ([node("Relu", ["x"], "r"), node("Gather", ["t", "r"], "out")], [weights("t", 9, 4)],
     "row numbers come from layer 'r'"),
])
def test_what_is_refused_is_named(tmp_path, nodes, tensors, needle) -> None:
    with pytest.raises(UserError, match=needle) as caught:
        read(tmp_path, model(nodes, tensors))
    assert str(caught.value).startswith(str(tmp_path / "net.onnx"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("settings", "needle"), [
    ({"opset": 12}, "operator set 12 is not supported; export with opset 13"),
    ({"opset": 999}, "operator set 999"),
    ({"size": ("n", 3, "height", 8)}, "input 'x' has a dynamic dimension"),
    ({"size": (1, 3, 8, 0)}, "from 1 to"),
    ({"size": (1, 3, 8, 1 << 20)}, "from 1 to"),
    ({"size": None}, "no shape"),
    ({"size": ()}, "no shape"),
    ({"stated": (1, 5, 6, 6)}, r"'out' is stated as \[5, 6, 6\] behind the batch, but \[4, 6, 6\] follows"),
])
def test_models_that_cannot_be(tmp_path, settings, needle) -> None:
    with pytest.raises(UserError, match=needle):
        read(tmp_path, model([node("Conv", ["x", "w"], "out")], [CONV], **settings))


def test_a_network_has_one_input(tmp_path) -> None:
    proto = model([node("Add", ["x", "y"], "out")])
    proto.graph.input.add(name="y")
    with pytest.raises(UserError, match="has 2 inputs"):
        read(tmp_path, proto)


def test_sizes_are_bounded(tmp_path) -> None:
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(UserError, match="larger than"):
        read_onnx(path)
    with pytest.raises(UserError, match="9000 nodes, more than"):
        read(tmp_path, model([node("Relu", ["x"], f"y{number}") for number in range(9000)]))
    with pytest.raises(UserError, match="cannot be read"):
        load_network("nowhere.onnx")


def test_shapes_print_as_in_messages() -> None:
    assert str(Shape((3, 8, 8))) == "3x8x8"
