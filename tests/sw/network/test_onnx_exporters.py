"""ONNX in the forms that today's exporters write; each test says whose form it is.

`TorchScript` is torch.onnx.export with dynamo=False, `dynamo` with dynamo=True, both of torch 2.13: what they write for
the Python in the comments.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.onnx_models import model, node, read, shape_of, weights

from plinth.errors import UserError
from plinth.network.layers import Dense, Embedding
from plinth.network.network import Network
from plinth.network.onnx.operators import OPERATORS

BATCH = ("batch", 3, 4, 6)
CONV = [weights("c.w", 8, 3, 3, 3), weights("c.b", 8)]
HEAD = [weights("h.w", 5, 8), weights("h.b", 5)]


def scalar(name: str, value: int) -> TensorProto:
    return onnx.numpy_helper.from_array(np.array(value, dtype=np.int64), name)


def uniform(name: str, count: int, value: float) -> TensorProto:
    return onnx.numpy_helper.from_array(np.full(count, value, dtype=np.float32), name)


def form(network: Network) -> list[tuple]:
    """Kinds, settings and shapes, whatever the names."""
    return [(layer.kind, network.shapes[layer.name], [getattr(layer, key) for key in layer.forms()])
            for layer in network.layers]


def conv(source: str, output: str, **attributes) -> onnx.NodeProto:
    return node("Conv", [source, "c.w", "c.b"], output, pads=[1, 1, 1, 1], **attributes)


def with_tail(tail, tensors=(), *, opset=18, size=BATCH, features=8) -> onnx.ModelProto:
    """A convolution with its ReLU, ``tail`` from "r" to "f", and a product."""
    head = [weights("h.w", 5, features), weights("h.b", 5)]
    return model([conv("x", "c"), node("Relu", ["c"], "r"), *tail, node("Gemm", ["f", "h.w", "h.b"], "out", transB=1)],
                 [*CONV, *head, *tensors], size=size, opset=opset)


def batch_of(source: str) -> list[onnx.NodeProto]:
    """TorchScript: x.size(0)."""
    return [node("Shape", [source], "shape"), node("Constant", [], "zero", value=scalar("", 0)),
            node("Gather", ["shape", "zero"], "size", axis=0), node("Constant", [], "axes", value=shape_of("", 0)),
            node("Unsqueeze", ["size", "axes"], "batch")]


FLATTENED = {
    "TorchScript: torch.flatten(x, 1)": ([node("Flatten", ["r"], "f", axis=1)], []),
    "TorchScript: x.view(-1, 192)": ([node("Constant", [], "s", value=shape_of("", -1, 192)),
                                      node("Reshape", ["r", "s"], "f", allowzero=0)], []),
    "TorchScript: x.view(x.size(0), -1)": (
        [*batch_of("r"), node("Constant", [], "rest", value=shape_of("", -1)),
         node("Concat", ["batch", "rest"], "s", axis=0), node("Reshape", ["r", "s"], "f", allowzero=0)], []),
    "TorchScript: x.view(-1, x.size(1) * 24)": (
        [node("Shape", ["r"], "shape"), node("Gather", ["shape", "one"], "channels", axis=0),
         node("Mul", ["channels", "positions"], "elements"), node("Unsqueeze", ["elements", "axes"], "list"),
         node("Concat", ["rest", "list"], "s", axis=0), node("Reshape", ["r", "s"], "f")],
        [scalar("one", 1), scalar("positions", 24), shape_of("axes", 0), shape_of("rest", -1)]),
    "TorchScript: x.flatten(2).flatten(1)": (
        [node("Shape", ["r"], "shape"), node("Slice", ["shape", "from", "to", "from"], "kept"),
         node("Concat", ["kept", "rest"], "s", axis=0), node("Reshape", ["r", "s"], "grouped"),
         node("Flatten", ["grouped"], "f", axis=1)], [shape_of("from", 0), shape_of("to", 2), shape_of("rest", -1)]),
    "dynamo: x.flatten(1), any batch": ([node("Reshape", ["r", "s"], "f", allowzero=1)], [shape_of("s", -1, 192)]),
    "dynamo, optimize=False: x.flatten(1), any batch": (
        [node("Shape", ["x"], "shape", start=0, end=1), node("Squeeze", ["shape"], "size"),
         node("Constant", [], "whole", value_ints=[-1]), node("Reshape", ["size", "whole"], "batch", allowzero=0),
         node("Constant", [], "rest", value_ints=[192]), node("Concat", ["batch", "rest"], "s", axis=0),
         node("Reshape", ["r", "s"], "f", allowzero=1)], []),
    "numpy.prod of a shape": (
        [node("Shape", ["r"], "shape", start=1), node("ReduceProd", ["shape"], "elements", keepdims=1),
         node("Cast", ["elements"], "cast", to=TensorProto.INT64), node("Concat", ["rest", "cast"], "s", axis=0),
         node("Reshape", ["r", "s"], "f")], [shape_of("rest", -1)]),
}


@pytest.mark.parametrize("tail", FLATTENED)
def test_every_way_to_flatten_is_one_layer(tmp_path, tail: str) -> None:
    nodes, tensors = FLATTENED[tail]
    layers = form(read(tmp_path, with_tail(nodes, tensors, features=192)))
    assert layers == form(read(tmp_path, with_tail(*FLATTENED["TorchScript: torch.flatten(x, 1)"], features=192)))
    assert [kind for kind, *_ in layers] == ["convolution", "relu", "flatten", "dense", "softmax-cross-entropy"]


@pytest.mark.parametrize("sizes", [(7, -1), (7, 192), (-1, 192), (0, -1), (7, 8, -1)])
def test_a_fixed_batch_may_stand_in_a_shape(tmp_path, sizes) -> None:
    # dynamo writes [7, -1] with allowzero=1 for x.flatten(1) where the batch is fixed, TorchScript without.
    tail = [node("Reshape", ["r", "s"], "g", allowzero=int(0 not in sizes)), node("Flatten", ["g"], "f")]
    assert len(read(tmp_path, with_tail(tail, [shape_of("s", *sizes)], size=(7, 3, 4, 6), features=192)).layers) == 5


@pytest.mark.parametrize(("sizes", "allowzero", "size", "needle"), [
    ((0, -1), 1, BATCH, "with allowzero, so to no elements"),
    ((7, -1), 0, (4, 3, 4, 6), r"to \[7, -1\]; the batch must stay the first dimension, as in \[4, 192\]"),
    ((7, 192), 0, (4, 3, 4, 6), "the batch must stay"),
    ((-1, -1, -1, 192), 0, BATCH, "the batch must stay"),
    ((-1, 96), 0, BATCH, r"to \[-1, 96\]; the batch must stay"),
    ((-1, -1), 0, BATCH, "the batch must stay"),
    ((-1, 192, 0), 0, BATCH, "the batch must stay"),
    ((192, -1), 0, (7, 3, 4, 6), "the batch must stay"),
    ((0, -1, -192), 0, BATCH, "the batch must stay"),
    ((0, 0, -1), 0, BATCH, "elements of layer 'r' .* not flattened"),
    ((0, 5, -1), 0, BATCH, "the batch must stay"),
])
def test_a_reshape_keeps_the_batch(tmp_path, sizes, allowzero, size, needle) -> None:
    proto = with_tail([node("Reshape", ["r", "s"], "f", allowzero=allowzero)], [shape_of("s", *sizes)], size=size)
    with pytest.raises(UserError, match=needle):
        read(tmp_path, proto)


def test_a_traced_batch_fixes_it(tmp_path) -> None:
    # TorchScript: x.reshape(len(x), -1), traced with two samples and exported for any batch.
    tail = [node("Reshape", ["r", "two"], "f")]
    assert len(read(tmp_path, with_tail(tail, [shape_of("two", 2, -1)], features=192)).layers) == 5
    with pytest.raises(UserError, match=r"as in \[2, 192\]"):
        read(tmp_path, with_tail([node("Reshape", ["r", "two"], "g"), node("Reshape", ["g", "three"], "f")],
                                 [shape_of("two", 2, -1), shape_of("three", 3, -1)], features=192))


REDUCED = {
    "nn.AdaptiveAvgPool2d(1), flatten": ([node("GlobalAveragePool", ["r"], "g"), node("Flatten", ["g"], "f")], [], 13),
    "TorchScript 17: x.mean((2, 3))": ([node("ReduceMean", ["r"], "f", axes=[2, 3], keepdims=0)], [], 17),
    "TorchScript 20: x.mean((2, 3))": ([node("ReduceMean", ["r", "a"], "f", keepdims=0)], [shape_of("a", 2, 3)], 20),
    "TorchScript 17: x.mean((-1, -2), keepdim=True)": (
        [node("ReduceMean", ["r"], "g", axes=[-1, -2], keepdims=1), node("Flatten", ["g"], "f", axis=1)], [], 17),
    "dynamo: nn.AdaptiveAvgPool2d(1), flatten": (
        [node("ReduceMean", ["r", "a"], "g", keepdims=1, noop_with_empty_axes=0),
         node("Reshape", ["g", "s"], "f", allowzero=1)], [shape_of("a", -1, -2), shape_of("s", -1, 8)], 18),
    "squeeze(-1).squeeze(-1)": (
        [node("GlobalAveragePool", ["r"], "g"), node("Squeeze", ["g", "a"], "q"), node("Squeeze", ["q", "a"], "f")],
        [shape_of("a", -1)], 17),
    "TorchScript: squeeze()": ([node("GlobalAveragePool", ["r"], "g"), node("Squeeze", ["g"], "f")], [], 17),
    "TorchScript: x[:, :, 0, 0]": (
        [node("GlobalAveragePool", ["r"], "g"), node("Gather", ["g", "i"], "q", axis=2),
         node("Gather", ["q", "i"], "f", axis=2)], [scalar("i", 0)], 17),
    "dynamo, optimize=False: x[:, :, 0, 0]": (
        [node("GlobalAveragePool", ["r"], "g"), node("Slice", ["g", "start", "end", "start", "step"], "p"),
         node("Gather", ["p", "i"], "q", axis=2), node("Gather", ["q", "i"], "f", axis=2)],
        [scalar("i", 0), shape_of("start", 0), shape_of("end", (1 << 63) - 1), shape_of("step", 1)], 18),
    "x.view(n, c, -1).mean(2)": (
        [node("Reshape", ["r", "s"], "g"), node("ReduceMean", ["g"], "f", axes=[2], keepdims=0)],
        [shape_of("s", 0, 0, -1)], 17),
    "there and back": (
        [node("GlobalAveragePool", ["r"], "g"), node("Squeeze", ["g", "a"], "q"), node("Unsqueeze", ["q", "a"], "u"),
         node("Identity", ["u"], "i"), node("Flatten", ["i"], "f", axis=-3)], [shape_of("a", 2)], 17),
}


@pytest.mark.parametrize("tail", REDUCED)
def test_every_mean_over_a_map_is_one_layer(tmp_path, tail: str) -> None:
    nodes, tensors, opset = REDUCED[tail]
    layers = form(read(tmp_path, with_tail(nodes, tensors, opset=opset)))
    assert layers == form(read(tmp_path, with_tail(*REDUCED["nn.AdaptiveAvgPool2d(1), flatten"][:2])))
    assert [kind for kind, *_ in layers][2:4] == ["mean-pool", "flatten"]


def test_means_over_one_side_and_maxima_are_read(tmp_path) -> None:
    # x.mean(3).mean(2), x.mean(3, keepdim=True), x.amax((2, 3)), nn.AdaptiveMaxPool2d(1)
    network = read(tmp_path, with_tail([node("ReduceMean", ["r"], "g", axes=[3], keepdims=0),
                                        node("ReduceMean", ["g"], "f", axes=[2], keepdims=0)], opset=17))
    assert [layer.kernel for layer in network.layers[2:4]] == [(1, 6), (4, 1)]
    assert network.output_shape("f-flatten") == (8,)
    network = read(tmp_path, with_tail([node("ReduceMean", ["r"], "g", axes=[3]), node("Flatten", ["g"], "f")],
                                       opset=17, features=32))
    assert network.output_shape("g") == (8, 4, 1)
    for tail in ([node("ReduceMax", ["r"], "f", axes=[2, 3], keepdims=0)],
                 [node("GlobalMaxPool", ["r"], "g"), node("Flatten", ["g"], "f")]):
        network = read(tmp_path, with_tail(tail, opset=17))
        assert [layer.kind for layer in network.layers[2:4]] == ["max-pool", "flatten"]
        assert network.layers[2].kernel == (4, 6)


def test_what_only_renames_leaves_no_layer(tmp_path) -> None:
    # Identity: nn.Identity and outputs that are inputs; Dropout: training=PRESERVE; AveragePool of one element:
    # nn.AdaptiveAvgPool2d to the size that the map has, as in AlexNet and VGG.
    proto = with_tail([node("Identity", ["r"], "i"), node("AveragePool", ["i"], "a", kernel_shape=[1, 1]),
                       helper.make_node("Dropout", ["a", "ratio", "no"], ["d", "mask"]), node("Dropout", ["d"], "e"),
                       node("Flatten", ["e"], "f")],
                      [uniform("ratio", 1, 0.5), onnx.numpy_helper.from_array(np.array(False), "no")], features=192)
    assert [layer.kind for layer in read(tmp_path, proto).layers] == [
        "convolution", "relu", "flatten", "dense", "softmax-cross-entropy"]


@pytest.mark.parametrize(("tail", "tensors", "needle"), [
    ([node("Dropout", ["r", "", "yes"], "f")], [onnx.numpy_helper.from_array(np.array(True), "yes")],
     r"node 'f' \(Dropout\): drops elements \(training form\), which no layer does; export in evaluation mode"),
    ([node("Dropout", ["r", "", "nowhere"], "f")], [], "training form"),
    ([node("ReduceMean", ["r"], "f", axes=[1, 2, 3])], [], r"reduces axes \[1, 2, 3\] of \[8, 4, 6\] .* only height"),
    ([node("ReduceMean", ["r"], "f", axes=[0, 2, 3])], [], "only height and width"),
    ([node("ReduceMean", ["r"], "f")], [], "no axes that are known"),
    ([node("ReduceMean", ["r"], "f", axes=[4])], [], "axis 4 does not exist; the tensor has 4 dimensions"),
    ([node("Flatten", ["r"], "g"), node("ReduceMean", ["g"], "f", axes=[1])], [], "only height and width"),
    ([node("Reshape", ["r", "s"], "g"), node("ReduceMean", ["g"], "f", axes=[2])], [shape_of("s", 0, 4, 48)],
     r"reduces axes \[2\] of \[4, 48\]"),
    ([node("Reshape", ["r", "s"], "g"), node("ReduceMean", ["g"], "f", axes=[1])], [shape_of("s", 0, 0, -1)],
     r"reduces axes \[1\] of \[8, 24\]"),
    ([node("Squeeze", ["r"], "f")], [], "put a flatten"),
    ([node("Squeeze", ["r", "a"], "f")], [shape_of("a", 1)], r"squeezes axes \[1\] of \[batch, 8, 4, 6\]"),
    ([node("Squeeze", ["r", "a"], "f")], [shape_of("a", 0)], "only dimensions of 1 behind the batch"),
    ([node("Unsqueeze", ["r", "a"], "f")], [shape_of("a", 0)], "the batch must stay the first"),
    ([node("Gather", ["r", "a"], "f", axis=2)], [scalar("a", 0)], "takes elements out"),
    ([node("Slice", ["r", "a", "b"], "f")], [shape_of("a", 0, 0), shape_of("b", 1 << 31, 7)],
     r"takes a part of \[8, 4, 6\]"),
    ([node("Slice", ["r", "a", "b", "c1"], "f")], [shape_of("a", 1), shape_of("b", 8), shape_of("c1", 1)], "a part of"),
    ([node("Slice", ["r", "a", "b", "c1"], "f")], [shape_of("a", 0), shape_of("b", 4), shape_of("c1", 0)], "a part of"),
    ([node("Slice", ["r", "a", "b", "c1"], "f")], [shape_of("a", 0, 0), shape_of("b", 9), shape_of("c1", 1)],
     "a part of"),
    ([node("Slice", ["r", "a", "b", "c1", "d"], "f")],
     [shape_of("a", 0), shape_of("b", 8), shape_of("c1", 1), shape_of("d", 2)], "a part of"),
    ([node("Slice", ["r", "a", "r"], "f")], [shape_of("a", 0)], "a part of"),
    ([node("Concat", ["r", "r"], "f", axis=2)], [],
     r"concatenates along axis 2 of \[8, 4, 6\] behind the batch, which are no channels of maps"),
    ([node("Shape", ["r"], "s"), node("Mul", ["s", "s"], "t"), node("Reshape", ["r", "t"], "f")], [],
     "multiplies the batch"),
    ([node("Shape", ["r"], "s"), node("Slice", ["s", "a", "b", "a", "b"], "t"), node("Reshape", ["r", "t"], "f")],
     [shape_of("a", 0), shape_of("b", 2)], "in steps of 2; only 1"),
    ([node("Mul", ["a", "a"], "b"), node("Mul", ["b", "b"], "c2"), node("Reshape", ["r", "c2"], "f")],
     [shape_of("a", 1 << 20)], "no integer of ONNX holds"),
    ([node("Shape", ["r"], "s"), node("Gather", ["s", "a"], "f")], [scalar("a", 9)], "axis 9 does not exist"),
    ([node("Cast", ["r"], "f", to=TensorProto.INT64)], [], "only row numbers"),
])
def test_what_changes_more_than_the_view_is_refused(tmp_path, tail, tensors, needle) -> None:
    with pytest.raises(UserError, match=needle):
        read(tmp_path, with_tail(tail, tensors, opset=17))


def normalised(source: str, output: str, *, channels=8, prefix="n", **attributes) -> tuple[onnx.NodeProto, list]:
    names = [f"{prefix}.{what}" for what in ("weight", "bias", "mean", "var")]
    return (node("BatchNormalization", [source, *names], output, **attributes),
            [weights(name, channels) for name in names])


def test_normalisation_in_evaluation_form_becomes_part_of_the_layer_before(tmp_path) -> None:
    # TorchScript keeps it behind Gemm and MatMul (and with training=PRESERVE behind Conv); opset 13 without
    # training_mode. Both exporters fold it into a Conv themselves.
    first, tensors = normalised("c", "n", prefix="n", epsilon=1e-5, momentum=0.9, training_mode=0)
    second, more = normalised("d", "e", channels=5, prefix="m")
    network = read(tmp_path, model(
        [node("Conv", ["x", "c.w"], "c"), first, node("Relu", ["n"], "r"), node("Flatten", ["r"], "f"),
         node("MatMul", ["f", "d.w"], "d"), second, node("Identity", ["e"], "out")],
        [CONV[0], weights("d.w", 8 * 2 * 4, 5), *tensors, *more], size=BATCH))
    assert [layer.kind for layer in network.layers] == [
        "convolution", "relu", "flatten", "dense", "softmax-cross-entropy"]
    assert [layer.bias for layer in network.weighted] == [True, True]


@pytest.mark.parametrize(("nodes", "kinds"), [
    ([conv("x", "c"), node("Relu", ["c"], "r"), normalised("r", "out")[0]], ["convolution", "relu", "affine"]),
    ([conv("x", "c"), normalised("c", "n")[0], node("Add", ["c", "n"], "out")], ["convolution", "affine", "add"]),
    ([conv("x", "c"), node("Identity", ["c"], "i"), normalised("i", "n")[0], node("Add", ["c", "n"], "out")],
     ["convolution", "affine", "add"]),
    ([conv("x", "c"), node("Identity", ["c"], "i"), normalised("i", "n")[0], node("Add", ["i", "n"], "out")],
     ["convolution", "affine", "add"]),
    ([conv("x", "c"), node("Relu", ["c"], "r"), node("Mul", ["r", "n.weight.map"], "m"),
      node("Add", ["m", "n.bias.map"], "out")], ["convolution", "relu", "affine"]),
    ([normalised("x", "n", channels=3)[0], conv("n", "out")], ["affine", "convolution"]),
    ([conv("x", "c"), node("GlobalAveragePool", ["c"], "g"), node("Flatten", ["g"], "f"), normalised("f", "out")[0]],
     ["convolution", "mean-pool", "flatten", "affine"])])
def test_what_no_layer_before_takes_up_is_a_scale_and_a_shift(tmp_path, nodes, kinds) -> None:
    """Of channels, trained, as a pre-activation block has them."""
    channels = 3 if nodes[0].op_type == "BatchNormalization" else 8
    tensors = [*CONV, *normalised("c", "n", channels=channels)[1], weights("n.weight.map", 8, 1, 1),
               weights("n.bias.map", 8, 1, 1)]
    network = read(tmp_path, model(nodes, tensors, size=BATCH), "mean-squared-error")
    assert [layer.kind for layer in network.layers[:-1]] == kinds
    (affine,) = (layer for layer in network.layers if layer.kind == "affine")
    assert affine.bias and [variable.shape for variable in network.shapes[affine.name].variables] == [(channels,)] * 2
    (note,) = (note for note in network.notes if "became affine layers" in note)
    assert note.split()[1] in {node.op_type for node in nodes} & {"BatchNormalization", "Mul"}


@pytest.mark.parametrize(("nodes", "needle"), [
    ([conv("x", "c"), normalised("c", "out", training_mode=1)[0]],
     r"normalises over the batch \(training form\), which no layer does; export in evaluation mode"),
    ([conv("x", "c"), helper.make_node("BatchNormalization", ["c", "n.weight", "n.bias", "n.mean", "n.var"],
                                       ["out", "mean", "var"], name="n")], "training form"),
    ([conv("x", "c"), node("BatchNormalization", ["c", "h.b", "n.bias", "n.mean", "n.var"], "out")],
     "the scale must be an initializer of 8 elements"),
])
def test_normalisation_that_cannot_be_folded_is_named(tmp_path, nodes, needle) -> None:
    with pytest.raises(UserError, match=needle):
        read(tmp_path, model(nodes, [*CONV, *HEAD, *normalised("c", "n")[1]], size=BATCH))


def test_normalisation_as_a_product_and_a_sum_becomes_part_of_the_layer_before(tmp_path) -> None:
    # tf2onnx: Dense and BatchNormalization; the scale of each channel, and the shift of mean and bias together
    tail = [node("MatMul", ["f", "d.w"], "d"), node("Add", ["d", "d.b"], "e"), node("Mul", ["e", "n.weight"], "m"),
            node("Add", ["m", "n.bias"], "n"), node("Relu", ["n"], "out")]
    tensors = [*CONV, weights("d.w", 192, 8), weights("d.b", 8), *normalised("c", "n")[1], uniform("half", 1, 0.5)]
    head = [conv("x", "c"), node("Relu", ["c"], "r"), node("Flatten", ["r"], "f")]
    network = read(tmp_path, model([*head, *tail], tensors, size=BATCH))
    assert [layer.kind for layer in network.layers[3:]] == ["dense", "relu", "softmax-cross-entropy"]
    assert network.layers[3].bias and network.notes[0].startswith("1 Mul ('m') folded into the layers before")
    for changed, needle in (
            ([node("Mul", ["e", "half"], "out")], "scales by a constant"),
            ([node("Mul", ["e", "n.weight"], "m"), node("Add", ["m", "n.bias"], "n"),
              node("Add", ["n", "n.mean"], "out")],
             "adds a constant"),
            ([node("Mul", ["n.mean", "n.var"], "k"), node("Add", ["e", "k"], "out")], "multiplies constants")):
        with pytest.raises(UserError, match=needle):
            read(tmp_path, model([*head, *tail[:2], *changed], tensors, size=BATCH))


def test_nodes_that_reach_no_output_are_ignored(tmp_path) -> None:
    # Also those that no layer could be made of; and they are no readers, so that a normalisation is still folded.
    proto = model([node("Conv", ["x", "c.w"], "c"), normalised("c", "out")[0], node("Relu", ["c"], "r"),
                   node("LSTM", ["r"], "l"), node("Gelu", ["l"], "g")], [*CONV, *normalised("c", "n")[1]], size=BATCH)
    network = read(tmp_path, proto, "mean-squared-error")
    assert [layer.kind for layer in network.layers] == ["convolution", "mean-squared-error"]
    assert network.layers[0].bias
    assert any(note.startswith("3 nodes ignored") for note in network.notes)
    # Of a layer only the shape may be read.
    proto = model([node("Conv", ["x", "c.w"], "c"), node("Shape", ["c"], "s"), conv("x", "d", strides=[1, 1]),
                   node("Slice", ["s", "from", "to"], "k"), node("Concat", ["k", "rest"], "t", axis=0),
                   node("Reshape", ["d", "t"], "f"), node("Gemm", ["f", "w"], "out")],
                  [*CONV, shape_of("from", 0), shape_of("to", 1), shape_of("rest", -1), weights("w", 192, 2)],
                  size=BATCH)
    proto.graph.node[2].input[1] = "e.w"
    proto.graph.initializer.append(weights("e.w", 8, 3, 3, 3))
    assert [layer.name for layer in read(tmp_path, proto).layers] == ["d", "f", "out", "loss"]


def test_the_end_of_a_graph_counts_as_a_reader(tmp_path) -> None:
    proto = model([conv("x", "c"), normalised("c", "out")[0]], [*CONV, *normalised("c", "n")[1]], size=BATCH)
    proto.graph.output.add(name="c")
    with pytest.raises(UserError, match="outputs"):
        read(tmp_path, proto, "mean-squared-error")


def two_products(second: list, tensors=(), *, bias="b") -> onnx.ModelProto:
    return model([node("Gemm", ["x", "w", "b"], "first"), node("Relu", ["first"], "r"), *second],
                 [weights("w", 9, 9), *tensors], size=("batch", 9))


TIED = [
    # dynamo and TorchScript: one module twice, or two with one Parameter.
    ([node("Gemm", ["r", "w", "z"], "out")], "the weights 'w'"),
    # x @ w and F.linear(x, w)
    ([node("MatMul", ["r", "w"], "out")], "the weights 'w'"),
    ([node("Transpose", ["w"], "t", perm=[1, 0]), node("MatMul", ["r", "t"], "out")], "the weights 'w'"),
    ([node("Identity", ["w"], "i"), node("MatMul", ["r", "i"], "out")], "the weights 'w'"),
    ([node("Identity", ["w"], "i"), node("Transpose", ["i"], "t"), node("Identity", ["t"], "j"),
      node("Gemm", ["r", "j"], "out", transB=1)], "the weights 'w'"),
    ([node("Gemm", ["r", "v", "b"], "out")], "the bias 'b'"),
    ([node("MatMul", ["r", "v"], "p"), node("Add", ["p", "b"], "out")], "the bias 'b'"),
]


@pytest.mark.parametrize(("second", "needle"), TIED)
def test_tied_parameters_are_refused_and_both_nodes_named(tmp_path, second, needle) -> None:
    bias = onnx.numpy_helper.from_array(np.arange(9, dtype=np.float32), "b")
    with pytest.raises(UserError, match=rf"node '(out|first)'.*{needle} in common with node '(out|p|first)'; tied"):
        read(tmp_path, two_products(second, [bias, weights("v", 9, 9), weights("z", 9)]))


def test_a_table_is_not_tied_to_a_product(tmp_path) -> None:
    # dynamo: model.decoder.weight = model.embedding.weight
    proto = model([node("Gather", ["t", "x"], "rows"), node("Gemm", ["rows", "t"], "out", transB=1)],
                  [weights("t", 50, 8)], size=("batch",), elements=TensorProto.INT64)
    with pytest.raises(UserError, match=r"node 'out'.* the weights 't' in common with node 'rows'"):
        read(tmp_path, proto)


@pytest.mark.parametrize("bias", [uniform("b", 9, 0.0), uniform("b", 9, -0.5),
                                  helper.make_tensor("b", TensorProto.FLOAT, [9], [1.0] * 9)])
def test_vectors_of_one_value_are_not_tied(tmp_path, bias) -> None:
    # TorchScript merges initializers that are equal, and leaves an Identity for the second: biases that are 0 in a
    # fresh network, and scales and variances of normalisation, which are 1.
    proto = two_products([node("Identity", ["b"], "b2"), node("Gemm", ["r", "v", "b2"], "second"),
                          node("BatchNormalization", ["second", "b", "b", "b", "b"], "out")],
                         [bias, weights("v", 9, 9)])
    assert [layer.bias for layer in read(tmp_path, proto).weighted] == [True, True]


@pytest.mark.parametrize("bias", [
    weights("b", 9), TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[9], raw_data=bytes(35)),
    TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[9], float_data=[0.0] * 8),
    TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[9], raw_data=bytes(36),
                data_location=TensorProto.EXTERNAL)])
def test_vectors_whose_values_are_not_there_may_be_tied(tmp_path, bias) -> None:
    with pytest.raises(UserError, match="tied"):
        read(tmp_path, two_products([node("Gemm", ["r", "v", "b"], "out")], [bias, weights("v", 9, 9)]))


def test_weights_in_another_file_are_read_by_their_shape(tmp_path) -> None:
    # dynamo writes weights of 256 bytes and more beside the model; that file need not be there, and is never opened.
    tensor = weights("w", 9, 4)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    proto = model([node("MatMul", ["x", "w"], "out")], [tensor], size=("batch", 9))
    assert read(tmp_path, proto).parameters == 36


@pytest.mark.parametrize("damage", [
    {"data_location": TensorProto.EXTERNAL}, {"raw_data": bytes(15)}, {"raw_data": bytes(24)},
    {"raw_data": b"", "int64_data": [-1, 192]}, {"data_type": TensorProto.FLOAT}, {"dims": [1, 2]}, {"dims": [-2]},
    {"data_type": TensorProto.INT32}])
def test_a_shape_must_be_in_the_file(tmp_path, damage) -> None:
    whole = shape_of("s", -1, 192)
    sizes = TensorProto(**{"name": "s", "data_type": whole.data_type, "dims": whole.dims, "raw_data": whole.raw_data}
                        | damage)
    with pytest.raises(UserError, match="no list of integers that the file holds"):
        read(tmp_path, with_tail([node("Reshape", ["r", "s"], "f")], [sizes], features=192))
    whole = TensorProto(name="s", data_type=whole.data_type, dims=[2], int64_data=[-1, 192])
    assert read(tmp_path, with_tail([node("Reshape", ["r", "s"], "f")], [whole], features=192))
    whole.int64_data.append(1)
    with pytest.raises(UserError, match="no list of integers that the file holds"):
        read(tmp_path, with_tail([node("Reshape", ["r", "s"], "f")], [whole], features=192))


def test_padding_that_is_the_same_on_both_sides_may_be_automatic(tmp_path) -> None:
    # TorchScript 13: nn.Conv2d(padding="same"); tf2onnx
    for auto, stride, height in (("SAME_UPPER", 1, 4), ("SAME_LOWER", 1, 4), ("VALID", 1, 2)):
        proto = model([node("Conv", ["x", "c.w"], "out", auto_pad=auto, strides=[stride, stride])], CONV[:1],
                      size=BATCH)
        assert read(tmp_path, proto, "mean-squared-error").output == (8, height, height + 2)


def test_the_bias_of_a_convolution_may_be_added(tmp_path) -> None:
    for dimensions in ((8, 1, 1), (1, 8, 1, 1)):
        proto = model([node("Conv", ["x", "c.w"], "c"), node("Add", ["c", "b"], "out")],
                      [CONV[0], weights("b", *dimensions)], size=BATCH)
        assert read(tmp_path, proto, "mean-squared-error").layer("c").bias
    with pytest.raises(UserError, match="the bias must be"):
        read(tmp_path, model([node("Conv", ["x", "c.w"], "c"), node("Add", ["c", "b"], "out")],
                             [CONV[0], weights("b", 8)], size=BATCH))


def test_log_softmax_and_sum_are_read(tmp_path) -> None:
    # F.log_softmax(x, 1) in front of F.nll_loss; torch.sum of a list is a chain of Add, Sum is of other exporters
    proto = model([node("MatMul", ["x", "w"], "z"), node("Sum", ["z", "x", "z"], "s"),
                   node("LogSoftmax", ["s"], "out", axis=1)], [weights("w", 5, 5)], size=(7, 5))
    network = read(tmp_path, proto)
    assert [layer.kind for layer in network.layers] == ["dense", "add", "softmax-cross-entropy"]
    assert len(network.layers[1].inputs) == 3


def test_rows_are_flattened_in_any_way(tmp_path) -> None:
    # TorchScript: e(x).view(x.size(0), -1), x of any batch; e(x.long())
    table = [weights("t", 50, 8), weights("w", 3, 40), weights("v", 3, 8)]
    tail = [*batch_of("x"), node("Concat", ["batch", "rest"], "s", axis=0), node("Reshape", ["rows", "s"], "f"),
            node("Gemm", ["f", "w"], "out", transB=1)]
    proto = model([node("Cast", ["x"], "n", to=TensorProto.INT64), node("Gather", ["t", "n"], "rows"), *tail],
                  [*table, shape_of("rest", -1)], size=("batch", 5))
    network = read(tmp_path, proto)
    assert [type(layer) for layer in network.weighted] == [Embedding, Dense]
    # One row a sample, numbered by a vector, needs no Flatten.
    proto = model([node("Gather", ["t", "x"], "rows"), node("Gemm", ["rows", "v"], "out", transB=1)], table,
                  size=("batch",), elements=TensorProto.INT64)
    assert read(tmp_path, proto).output_shape("rows") == (8,)


def test_a_regression_may_end_without_its_one_dimension(tmp_path) -> None:
    # model(x).squeeze(1)
    proto = model([node("MatMul", ["x", "w"], "y"), node("Squeeze", ["y", "a"], "out")],
                  [weights("w", 5, 1), shape_of("a", 1)], size=("batch", 5), opset=17)
    assert read(tmp_path, proto, "mean-squared-error").output == (1,)
    proto = model([conv("x", "c"), node("Reshape", ["c", "s"], "out")], [*CONV, shape_of("s", 0, 8, -1)], size=BATCH)
    with pytest.raises(UserError, match=r"its output has dimensions \[8, 24\] behind the batch, but layer 'c' gives"):
        read(tmp_path, proto, "mean-squared-error")


def test_joins_need_one_view(tmp_path) -> None:
    proto = model([conv("x", "c"), node("Reshape", ["c", "s"], "g"), node("Add", ["c", "g"], "out")],
                  [*CONV, shape_of("s", 0, 8, -1)], size=BATCH)
    with pytest.raises(UserError, match=r"needs equal dimensions, not \[8, 4, 6\] and \[8, 24\]"):
        read(tmp_path, proto, "mean-squared-error")


def test_every_operator_stands_in_a_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_onnx*.py"))
    assert [operator for operator in OPERATORS if f'"{operator}"' not in text] == []
