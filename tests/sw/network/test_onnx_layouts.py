"""Graphs in other layouts, and of one spatial dimension: the network computes what ONNX's own reference evaluator does.

The evaluator shares no code with the reader. Which weight of the file is which of the network's is written out here, by
the layouts that files and layers are documented to have.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from tests.support.onnx_models import model, node, read, shape_of

from plinth.errors import UserError
from plinth.train.float64 import float64_predictor

Array = NDArray[Any]
RANDOM = np.random.default_rng(0)
NCHW, NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def tensor(name: str, *shape: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(RANDOM.standard_normal(shape), name)


def values(model: onnx.ModelProto, name: str) -> Array:
    return next(onnx.numpy_helper.to_array(entry) for entry in model.graph.initializer if entry.name == name)


def rows(layout: str, **sizes: int) -> Array:
    """Of elements in an order of axes, row by row, the places of those that a layer has: row, column, channel."""
    places = np.arange(np.prod(list(sizes.values()))).reshape([sizes[axis] for axis in layout])
    return places.transpose([layout.index(axis) for axis in "hwc" if axis in layout]).ravel()


def agrees(tmp_path, nodes: Sequence[onnx.NodeProto], tensors: Sequence[onnx.TensorProto], size: tuple[int, ...],
           weighted: Sequence[tuple[str, str, Array | None]], samples: str, *, rows_of: int = 0,
           judged: Sequence[onnx.NodeProto] | None = None) -> list[str]:
    """Read a graph, compute both on random samples, and compare; kinds of its layers.

    ``weighted`` has a layer's weights, bias, and for a dense layer behind a map the order of its rows; ``samples`` is
    the layout of the graph's input. ``judged`` are nodes that mean the same to who judges.
    """
    elements = TensorProto.INT64 if rows_of else TensorProto.DOUBLE
    proto = model(nodes, tensors, size=("batch", *size), opset=17, elements=elements)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    network = read(tmp_path, proto)
    x = RANDOM.integers(0, rows_of, (3, *size)) if rows_of else RANDOM.standard_normal((3, *size))
    if judged is not None:
        del proto.graph.node[:]
        proto.graph.node.extend(judged)
    expected = ReferenceEvaluator(proto).run(None, {"x": x})[0].reshape(3, -1)
    parameters = {}
    for layer, (name, bias, order) in zip(network.weighted, weighted, strict=True):
        array = values(proto, name)
        if array.ndim > 2:
            array = array.reshape(*array.shape[:2], *(1,) * (4 - array.ndim), *array.shape[2:]).transpose(2, 3, 1, 0)
        array = array if order is None else array[order]
        parameters[f"{layer.name}.weights"] = array
        if bias:
            parameters[f"{layer.name}.bias"] = values(proto, bias).ravel()
    shapes = {name: variable.shape for name, variable in network.variables.items()}
    assert parameters.keys() == shapes.keys()
    parameters = {name: array.reshape(shapes[name]) for name, array in parameters.items()}
    if not rows_of:
        x = x.transpose([0, *(1 + samples.index(axis) for axis in "hwc" if axis in samples)])
    predictions = np.concatenate(list(float64_predictor(network)(parameters, x.reshape(3, -1))))
    np.testing.assert_allclose(predictions, expected, rtol=1e-9, atol=1e-9)
    return [layer.kind for layer in network.layers[:-1]]


def test_tf2onnx_transposes_once(tmp_path) -> None:
    # Keras: Conv2D, MaxPooling2D, Conv2D, Flatten, Dense, Dense; Transposes in the middle have been removed.
    kinds = agrees(tmp_path, [
        node("Transpose", ["x"], "t", perm=NCHW), node("Conv", ["t", "k1", "b1"], "c1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], "r1"), node("MaxPool", ["r1"], "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "k2", "b2"], "c2"), node("Relu", ["c2"], "r2"), node("Transpose", ["r2"], "u", perm=NHWC),
        node("Reshape", ["u", "s"], "f"), node("MatMul", ["f", "w1"], "m"), node("Add", ["m", "b3"], "a"),
        node("Relu", ["a"], "r3"), node("MatMul", ["r3", "w2"], "out")],
        [tensor("k1", 4, 3, 3, 3), tensor("b1", 4), tensor("k2", 5, 4, 3, 3), tensor("b2", 5), shape_of("s", -1, 20),
         tensor("w1", 20, 7), tensor("b3", 7), tensor("w2", 7, 2)], (8, 8, 3),
        [("k1", "b1", None), ("k2", "b2", None), ("w1", "b3", None), ("w2", "", None)], "hwc")
    assert kinds == ["convolution", "relu", "max-pool", "convolution", "relu", "flatten", "dense", "relu", "dense"]


def test_tf2onnx_transposes_around_each_layer(tmp_path) -> None:
    # Biases, activations, a residual and the mean are channels last.
    kinds = agrees(tmp_path, [
        node("Transpose", ["x"], "t1", perm=NCHW), node("Conv", ["t1", "k1"], "c1", auto_pad="SAME_UPPER"),
        node("Transpose", ["c1"], "u1", perm=NHWC), node("Add", ["u1", "b1"], "a1"), node("Relu", ["a1"], "r1"),
        node("Transpose", ["r1"], "t2", perm=NCHW), node("Conv", ["t2", "k2"], "c2", auto_pad="SAME_LOWER"),
        node("Transpose", ["c2"], "u2", perm=NHWC), node("Add", ["b2", "u2"], "a2"), node("Add", ["a2", "r1"], "j"),
        node("Transpose", ["j"], "t3", perm=NCHW),
        node("AveragePool", ["t3"], "p", kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0]),
        node("Transpose", ["p"], "u3", perm=NHWC), node("Tanh", ["u3"], "h"),
        node("ReduceMean", ["h"], "g", axes=[1, 2], keepdims=0), node("MatMul", ["g", "w"], "out")],
        [tensor("k1", 4, 3, 3, 3), tensor("b1", 4), tensor("k2", 4, 4, 3, 3), tensor("b2", 1, 1, 1, 4),
         tensor("w", 4, 2)], (5, 8, 3), [("k1", "b1", None), ("k2", "b2", None), ("w", "", None)], "hwc")
    assert kinds == ["convolution", "relu", "convolution", "add", "mean-pool", "tanh", "mean-pool", "flatten", "dense"]


def test_an_input_may_be_read_in_two_layouts(tmp_path) -> None:
    for head in ([node("Flatten", ["x"], "g")], [node("Tanh", ["x"], "h"), node("Flatten", ["h"], "g")]):
        agrees(tmp_path, [
            node("Transpose", ["x"], "t", perm=NCHW), *head, node("MatMul", ["g", "w1"], "m"),
            node("Conv", ["t", "k", "b"], "c"), node("GlobalMaxPool", ["c"], "p"), node("Flatten", ["p"], "q"),
            node("MatMul", ["q", "w2"], "n"), node("Add", ["m", "n"], "out")],
            [tensor("k", 4, 3, 3, 3), tensor("b", 4), tensor("w1", 120, 2), tensor("w2", 4, 2)], (5, 8, 3),
            [("w1", "", None), ("k", "b", None), ("w2", "", None)], "hwc")
    agrees(tmp_path, [
        node("Transpose", ["x"], "t", perm=NCHW), node("Conv", ["t", "k", "b"], "c"), node("Tanh", ["x"], "h"),
        node("Transpose", ["h"], "u", perm=NCHW), node("Conv", ["u", "l", "b2"], "d"), node("Add", ["c", "d"], "a"),
        node("GlobalMaxPool", ["a"], "p"), node("Flatten", ["p"], "q"), node("MatMul", ["q", "w"], "out")],
        [tensor("k", 4, 3, 3, 3), tensor("b", 4), tensor("l", 4, 3, 3, 3), tensor("b2", 4), tensor("w", 4, 2)],
        (5, 8, 3), [("k", "b", None), ("l", "b2", None), ("w", "", None)], "hwc")
    # Features for one layer, a map of one channel for another.
    kinds = agrees(tmp_path, [
        node("Flatten", ["x"], "g"), node("Unsqueeze", ["x", "one"], "t"), node("Conv", ["t", "k", "b"], "c"),
        node("GlobalMaxPool", ["c"], "p"), node("Flatten", ["p"], "q"), node("MatMul", ["q", "w2"], "n"),
        node("MatMul", ["g", "w1"], "m"), node("Add", ["m", "n"], "out")],
        [tensor("k", 4, 1, 3, 3), tensor("b", 4), tensor("w1", 48, 2), tensor("w2", 4, 2), shape_of("one", 1)],
        (6, 8), [("k", "b", None), ("w2", "", None), ("w1", "", None)], "hw")
    assert kinds == ["convolution", "max-pool", "flatten", "dense", "flatten", "dense", "add"]


@pytest.mark.parametrize(("tail", "order"), [
    ([node("Flatten", ["r"], "f")], rows("chw", c=4, h=4, w=6)),
    ([node("Transpose", ["r"], "u", perm=NHWC), node("Flatten", ["u"], "f")], None),
    ([node("Transpose", ["r"], "u", perm=[0, 3, 1, 2]), node("Flatten", ["u"], "f")], rows("wch", c=4, h=4, w=6)),
    ([node("Reshape", ["r", "cp"], "v"), node("Transpose", ["v"], "u", perm=[0, 2, 1]), node("Flatten", ["u"], "f")],
     None),
])
def test_a_head_has_the_rows_of_what_it_flattens(tmp_path, tail, order) -> None:
    agrees(tmp_path, [node("Conv", ["x", "k", "b"], "c"), node("Relu", ["c"], "r"), *tail,
                      node("Gemm", ["f", "w", "d"], "out")],
           [tensor("k", 4, 2, 3, 3), tensor("b", 4), tensor("w", 96, 3), tensor("d", 3), shape_of("cp", 0, 4, 24)],
           (2, 6, 8), [("k", "b", None), ("w", "d", order)], "chw")


@pytest.mark.parametrize(("size", "samples", "head"), [
    ((6, 8, 1), "hwc", [node("Reshape", ["x", "s"], "t")]),  # tf2onnx: a Transpose that moves one element only
    ((6, 8), "hw", [node("Unsqueeze", ["x", "one"], "t")]),  # x.unsqueeze(1)
    ((48,), "h", [node("Reshape", ["x", "s"], "t")]),  # x.view(-1, 1, 6, 8)
])
def test_maps_of_one_channel_may_come_without_it(tmp_path, size, samples, head) -> None:
    agrees(tmp_path, [*head, node("Conv", ["t", "k", "b"], "c"), node("GlobalMaxPool", ["c"], "g"),
                      node("Flatten", ["g"], "f"), node("Gemm", ["f", "w"], "out")],
           [tensor("k", 4, 1, 3, 3), tensor("b", 4), tensor("w", 4, 3), shape_of("s", -1, 1, 6, 8), shape_of("one", 1)],
           size, [("k", "b", None), ("w", "", None)], samples)


def test_zeros_of_a_pad_are_padding_of_a_convolution(tmp_path) -> None:
    # Keras: ZeroPadding2D, channels last; TorchScript: nn.ZeroPad2d in front of a padded convolution
    kinds = agrees(tmp_path, [
        node("Pad", ["x", "p1"], "z", mode="constant"), node("Transpose", ["z"], "t", perm=NCHW),
        node("Conv", ["t", "k1", "b1"], "c1", strides=[2, 2]), node("Relu", ["c1"], "r"),
        node("Pad", ["r", "p2", "zero"], "y"), node("Conv", ["y", "k2", "b2"], "c2", pads=[0, 0, 1, 0]),
        node("GlobalAveragePool", ["c2"], "g"), node("Flatten", ["g"], "f"), node("Gemm", ["f", "w"], "out")],
        [shape_of("p1", 0, 1, 2, 0, 0, 1, 2, 0), tensor("k1", 4, 3, 3, 3), tensor("b1", 4),
         shape_of("p2", 0, 0, 1, 1, 0, 0, 0, 1), onnx.numpy_helper.from_array(np.zeros(()), "zero"),
         tensor("k2", 5, 4, 3, 3), tensor("b2", 5), tensor("w", 5, 2)],
        (7, 6, 3), [("k1", "b1", None), ("k2", "b2", None), ("w", "", None)], "hwc")
    assert kinds == ["convolution", "relu", "convolution", "mean-pool", "flatten", "dense"]


def test_pads_as_torchscript_computes_them(tmp_path) -> None:
    # F.pad(x, (1, 1, 2, 0)): last dimension first, filled up with zeros, then turned round by way of a table
    kinds = agrees(tmp_path, [
        node("ConstantOfShape", ["four"], "zeros", value=shape_of("", 0)),
        node("Concat", ["given", "zeros"], "all", axis=0), node("Reshape", ["all", "table"], "pairs"),
        node("Slice", ["pairs", "last", "beyond", "zero", "last"], "turned"),
        node("Transpose", ["turned"], "sides", perm=[1, 0]), node("Reshape", ["sides", "last"], "list"),
        node("Cast", ["list"], "pads", to=TensorProto.INT64), node("Pad", ["x", "pads"], "z"),
        node("Conv", ["z", "k", "b"], "c", pads=[0, 0, 2, 0]), node("GlobalAveragePool", ["c"], "g"),
        node("Flatten", ["g"], "f"), node("Gemm", ["f", "w"], "out")],
        [shape_of("four", 4), shape_of("given", 1, 1, 2, 0), shape_of("table", -1, 2), shape_of("last", -1),
         shape_of("beyond", -(1 << 63) + 1), shape_of("zero", 0), tensor("k", 4, 3, 3, 3), tensor("b", 4),
         tensor("w", 4, 2)], (3, 5, 6), [("k", "b", None), ("w", "", None)], "chw")
    assert kinds == ["convolution", "mean-pool", "flatten", "dense"]


@pytest.mark.parametrize(("auto", "size"), [("SAME_UPPER", (3, 8, 9)), ("SAME_LOWER", (3, 8, 9)),
                                            ("SAME_UPPER", (3, 7, 12)), ("SAME_LOWER", (3, 10, 7))])
def test_automatic_padding_may_differ_on_opposite_sides(auto: str, size: tuple[int, ...], tmp_path) -> None:
    # Keras: Conv2D(padding="same", strides=2), MaxPooling2D(padding="same"), AveragePooling2D(padding="same"). ONNX's
    # evaluator takes pads of a MaxPool for those of other sides, and gets them from a Pad.
    first, last = [node("Conv", ["x", "k1", "b1"], "c1", auto_pad=auto, strides=[2, 2]), node("Relu", ["c1"], "r")], [
        node("AveragePool", ["p"], "q", kernel_shape=[2, 2], strides=[1, 1], auto_pad=auto),
        node("Conv", ["q", "k2", "b2"], "c2", auto_pad=auto), node("GlobalAveragePool", ["c2"], "g"),
        node("Flatten", ["g"], "f"), node("Gemm", ["f", "w"], "out")]
    total = [(-(-side // 2) - 1) * 2 + taps - side for side, taps in zip(
        (-(-size[1] // 2), -(-size[2] // 2)), (2, 3), strict=True)]
    less, more = [rim // 2 for rim in total], [rim - rim // 2 for rim in total]
    begin, end = (less, more) if auto == "SAME_UPPER" else (more, less)
    agrees(tmp_path, [*first, node("MaxPool", ["r"], "p", kernel_shape=[2, 3], strides=[2, 2], auto_pad=auto), *last],
           [tensor("k1", 4, 3, 3, 4), tensor("b1", 4), tensor("k2", 5, 4, 2, 3), tensor("b2", 5), tensor("w", 5, 2),
            shape_of("pads", 0, 0, *begin, 0, 0, *end), onnx.numpy_helper.from_array(np.full((), -np.inf), "least")],
           size, [("k1", "b1", None), ("k2", "b2", None), ("w", "", None)], "chw",
           judged=[*first, node("Pad", ["r", "pads", "least"], "y"), node("MaxPool", ["y"], "p", kernel_shape=[2, 3],
                                                                          strides=[2, 2]), *last])


@pytest.mark.parametrize("ceil", [0, 1])
def test_pads_may_differ_on_opposite_sides(ceil: int, tmp_path) -> None:
    # ZeroPadding2D(((0, 1), (0, 1))) in front of a Conv2D; F.pad(x, pads, value=-inf) in front of a MaxPool2d
    agrees(tmp_path, [
        node("Pad", ["x", "p"], "z"), node("Conv", ["z", "k1", "b1"], "c1", strides=[2, 2], pads=[0, 1, 1, 0]),
        node("Relu", ["c1"], "r"), node("Pad", ["r", "q", "least"], "y"),
        node("MaxPool", ["y"], "m", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=ceil),
        node("AveragePool", ["m"], "a", kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 1, 0], ceil_mode=ceil),
        node("Conv", ["a", "k2", "b2"], "c2", pads=[1, 0, 0, 2]), node("GlobalMaxPool", ["c2"], "g"),
        node("Flatten", ["g"], "f"), node("Gemm", ["f", "w"], "out")],
        [shape_of("p", 0, 0, 0, 0, 0, 0, 1, 1), shape_of("q", 0, 0, 1, 0, 0, 0, 0, 1),
         onnx.numpy_helper.from_array(np.full((), -np.inf), "least"), tensor("k1", 4, 3, 3, 3), tensor("b1", 4),
         tensor("k2", 5, 4, 2, 2), tensor("b2", 5), tensor("w", 5, 2)], (3, 10, 11),
        [("k1", "b1", None), ("k2", "b2", None), ("w", "", None)], "chw")


@pytest.mark.parametrize(("near", "far"), [((0, 0), (2, 1)), ((1, 0), (0, 2)), ((2, 2), (2, 2)), ((0, 1), (1, 0))])
@pytest.mark.parametrize("stride", [(2, 2), (3, 2), (2, 3), (3, 4)])
@pytest.mark.parametrize("size", [(5, 6), (6, 7), (7, 8)])
def test_a_pool_may_round_up_behind_a_pad(size: tuple[int, int], stride: tuple[int, int], near: tuple[int, int],
                                          far: tuple[int, int], tmp_path) -> None:
    """As ONNX's evaluator has it, unless a window has no element of the map: that is refused."""
    nodes = [node("Conv", ["x", "k", "b"], "c"), node("Pad", ["c", "pads", "least"], "y"),
             node("MaxPool", ["y"], "m", kernel_shape=[4, 4], strides=list(stride), ceil_mode=1),
             node("Flatten", ["m"], "out")]
    tensors = [tensor("k", 1, 1, 1, 1), tensor("b", 1), shape_of("pads", 0, 0, *near, 0, 0, *far),
               onnx.numpy_helper.from_array(np.full((), -np.inf), "least")]
    proto = model(nodes, tensors, size=("batch", 1, *size), opset=17, elements=TensorProto.DOUBLE)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    (maxima,) = ReferenceEvaluator(proto).run(None, {"x": RANDOM.standard_normal((1, 1, *size))})
    if np.isfinite(maxima).all():
        agrees(tmp_path, nodes, tensors, (1, *size), [("k", "b", None)], "chw")
    else:
        with pytest.raises(UserError, match=r"^[^\n]*'m' \(MaxPool\): rounds up to a last window[^\n]*ceil_mode=False"):
            read(tmp_path, proto, "mean-squared-error")


def test_one_dimension_is_maps_of_one_row(tmp_path) -> None:
    # Conv1d, MaxPool1d, AvgPool1d, Flatten, Linear
    kinds = agrees(tmp_path, [
        node("Conv", ["x", "k1", "b1"], "c1", pads=[1, 1], strides=[2], kernel_shape=[3]), node("Relu", ["c1"], "r"),
        node("MaxPool", ["r"], "p", kernel_shape=[3], strides=[2], pads=[1, 1]),
        node("Conv", ["p", "k2", "b2"], "c2", auto_pad="SAME_UPPER"),
        node("AveragePool", ["c2"], "q", kernel_shape=[2], strides=[1], ceil_mode=1), node("Flatten", ["q"], "f"),
        node("Gemm", ["f", "w", "b3"], "out", transB=0)],
        [tensor("k1", 4, 3, 3), tensor("b1", 4), tensor("k2", 5, 4, 3), tensor("b2", 5), tensor("w", 25, 2),
         tensor("b3", 2)], (3, 24),
        [("k1", "b1", None), ("k2", "b2", None), ("w", "b3", rows("cw", c=5, w=5))], "cw")
    assert kinds == ["convolution", "relu", "max-pool", "convolution", "mean-pool", "flatten", "dense"]


@pytest.mark.parametrize("end", [
    [node("GlobalAveragePool", ["r"], "g"), node("Flatten", ["g"], "f")],
    [node("ReduceMean", ["r"], "f", axes=[2], keepdims=0)],
    [node("ReduceMean", ["r"], "g", axes=[-1], keepdims=1), node("Squeeze", ["g", "last"], "f")],
])
def test_one_dimension_with_channels_last(tmp_path, end) -> None:
    # x.transpose(1, 2) in front of a Conv1d
    agrees(tmp_path, [node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("Conv", ["t", "k", "b"], "c"),
                      node("Sigmoid", ["c"], "r"), *end, node("Gemm", ["f", "w"], "out")],
           [tensor("k", 4, 3, 5), tensor("b", 4), tensor("w", 4, 2), shape_of("last", -1)], (9, 3),
           [("k", "b", None), ("w", "", None)], "wc")


def test_one_dimension_as_tf2onnx_writes_it(tmp_path) -> None:
    # Keras: Conv1D is a convolution of maps of one row, MaxPooling1D a pool of maps of one column.
    kinds = agrees(tmp_path, [
        node("Unsqueeze", ["x", "row"], "x1"), node("Transpose", ["x1"], "t1", perm=NCHW),
        node("Conv", ["t1", "k1"], "c1", kernel_shape=[1, 3], strides=[1, 2]),
        node("Transpose", ["c1"], "u1", perm=NHWC), node("Squeeze", ["u1", "row"], "y1"),
        node("Add", ["y1", "b1"], "a1"), node("Relu", ["a1"], "r1"), node("Unsqueeze", ["r1", "column"], "x2"),
        node("Transpose", ["x2"], "t2", perm=NCHW),
        node("MaxPool", ["t2"], "p", kernel_shape=[2, 1], strides=[3, 1]), node("Transpose", ["p"], "u2", perm=NHWC),
        node("Squeeze", ["u2", "column"], "y2"), node("Flatten", ["y2"], "f"), node("MatMul", ["f", "w"], "out")],
        [shape_of("row", 1), shape_of("column", 2), tensor("k1", 4, 3, 1, 3), tensor("b1", 4), tensor("w", 16, 2)],
        (24, 3), [("k1", "b1", None), ("w", "", None)], "wc")
    assert kinds == ["convolution", "relu", "max-pool", "flatten", "dense"]


@pytest.mark.parametrize(("tail", "order"), [
    ([], None), ([node("Transpose", ["rows"], "turned", perm=[0, 2, 1])], rows("ch", h=5, c=4))])
def test_rows_of_a_table_may_be_transposed(tmp_path, tail, order) -> None:
    last = tail[-1].output[0] if tail else "rows"
    agrees(tmp_path, [node("Gather", ["t", "x"], "rows"), *tail, node("Flatten", [last], "f"),
                      node("Gemm", ["f", "w"], "out")], [tensor("t", 9, 4), tensor("w", 20, 3)], (5,),
           [("t", "", None), ("w", "", order)], "h", rows_of=9)


@pytest.mark.parametrize(("nodes", "needle"), [
    ([node("Transpose", ["x"], "out", perm=[1, 0, 2, 3])],
     r"moves the batch \(perm \[1, 0, 2, 3\]\).*batch_first=True"),
    ([node("Transpose", ["x"], "out")], "moves the batch"),
    ([node("Transpose", ["x"], "out", perm=[0, 1, 1, 2])], "perm must have each of 0 to 3 once"),
    # Attention heads, channel shuffle: a part of the channels is moved.
    ([node("Conv", ["x", "k"], "c"), node("Reshape", ["c", "s"], "r"),
      node("Transpose", ["r"], "out", perm=[0, 2, 1, 3])],
     r"reorders parts of an axis, \[2, 2, 24\] behind the batch, elements of layer 'c' \(4x4x6\)"),
    ([node("Conv", ["x", "k"], "c"), node("Transpose", ["c"], "t", perm=NHWC), node("Add", ["c", "t"], "out")],
     "needs equal dimensions"),
    ([node("Conv", ["x", "k"], "c"), node("Transpose", ["c"], "t", perm=NHWC), node("Flatten", ["c"], "f"),
      node("Flatten", ["t"], "g"), node("Add", ["f", "g"], "out")], "lie in different orders"),
    ([node("Conv", ["x", "k"], "c"), node("Transpose", ["c"], "t", perm=NHWC), node("Conv", ["t", "l"], "out")],
     r"reads dimensions \[4, 6, 4\] behind the batch, elements of layer 'c' \(4x4x6\), which are not"),
    ([node("Conv", ["x", "k"], "c"), node("Transpose", ["c"], "t", perm=NHWC), node("MatMul", ["t", "w"], "out")],
     r"is a dense layer at each of \[4, 6\] positions.*a convolution with a kernel of 1"),
    ([node("Conv", ["x", "k"], "c"), node("Flatten", ["c"], "f"), node("MatMul", ["f", "m"], "d"),
      node("Reshape", ["d", "map"], "r"), node("Conv", ["r", "l"], "out")],
     r"features of layer 'd' regrouped to \[4, 2, 3\]; no layer makes a map of features"),
    ([node("Pad", ["x", "p"], "z"), node("MaxPool", ["z"], "out", kernel_shape=[2, 2])], "only a Conv may"),
    ([node("Pad", ["x", "p"], "z"), node("AveragePool", ["z"], "out", kernel_shape=[2, 2])], "only a Conv may"),
    ([node("Pad", ["x", "p", "least"], "z"), node("Conv", ["z", "k"], "out")], "only a MaxPool may"),
    ([node("Pad", ["x", "p", "least"], "y"), node("Pad", ["y", "p"], "z"), node("MaxPool", ["z"], "out", kernel_shape=[
        2, 2])], "another number than the Pad before it"),
    ([node("Pad", ["x", "p"], "z", mode="edge"), node("Conv", ["z", "k"], "out", pads=[0, 0, 1, 0])], "in mode 'edge'"),
    ([node("Pad", ["x", "p", "half"], "out")], "another number than 0"),
    ([node("Pad", ["x", "batch"], "out")], "pads the batch"),
    ([node("Pad", ["x", "channels"], "z"), node("Conv", ["z", "k"], "out")], "pads channels"),
    ([node("Pad", ["x", "less"], "out")], "are not two integers from 0"),
])
def test_what_no_layout_is_is_refused(tmp_path, nodes, needle) -> None:
    with pytest.raises(UserError, match=needle):
        read(tmp_path, model(nodes, [
            tensor("k", 4, 2, 3, 3), tensor("l", 4, 4, 1, 1), tensor("w", 4, 2), tensor("m", 96, 24),
            shape_of("map", 0, 4, 2, 3), shape_of("s", 0, 2, 2, 24),
            shape_of("p", 0, 0, 1, 0, 0, 0, 0, 0), onnx.numpy_helper.from_array(np.full((), 0.5, np.float32), "half"),
            onnx.numpy_helper.from_array(np.full((), -np.inf, np.float32), "least"),
            shape_of("batch", 1, *(0,) * 7), shape_of("channels", 0, 1, *(0,) * 6), shape_of("less", *(-1,) * 8)],
            size=("batch", 2, 6, 8)), "mean-squared-error")


def test_branches_are_concatenated(tmp_path) -> None:
    """Channels first, a map twice and one channel; channels last; along a line; features, of a map's mean as well."""
    maps = [tensor("k", 4, 3, 3, 3), tensor("b", 4), tensor("l", 1, 3, 3, 3), tensor("e", 1)]
    branches = [node("Conv", ["x", "k", "b"], "c"), node("Conv", ["x", "l", "e"], "d")]
    weighted: list[tuple[str, str, Array | None]] = [("k", "b", None), ("l", "e", None)]
    kinds = agrees(tmp_path, [
        *branches, node("Relu", ["c"], "r"), node("Concat", ["d", "r", "d", "r"], "j", axis=1),
        node("Conv", ["j", "m", "b2"], "n"), node("Flatten", ["n"], "f"), node("MatMul", ["f", "w"], "out")],
        [*maps, tensor("m", 2, 10, 1, 1), tensor("b2", 2), tensor("w", 24, 5)], (3, 5, 6),
        [*weighted, ("m", "b2", None), ("w", "", rows("chw", c=2, h=3, w=4))], "chw")
    assert kinds == ["convolution", "convolution", "relu", "concat", "convolution", "flatten", "dense"]
    agrees(tmp_path, [
        *branches, node("Transpose", ["c"], "u", perm=NHWC), node("Tanh", ["u"], "t"),
        node("Transpose", ["d"], "v", perm=NHWC), node("Concat", ["v", "t"], "j", axis=-1),
        node("ReduceMean", ["j"], "g", axes=[1], keepdims=0), node("Flatten", ["g"], "f"),
        node("MatMul", ["f", "w"], "out")],
        [*maps, tensor("w", 20, 5)], (3, 5, 6), [*weighted, ("w", "", None)], "chw")
    agrees(tmp_path, [
        node("Conv", ["x", "k", "b"], "c"), node("Conv", ["x", "l", "e"], "d"),
        node("Concat", ["c", "d"], "j", axis=1),
        node("ReduceMean", ["j"], "p", axes=[2], keepdims=0), node("MatMul", ["p", "w"], "out")],
        [tensor("k", 4, 2, 3), tensor("b", 4), tensor("l", 3, 2, 3), tensor("e", 3), tensor("w", 7, 5)], (2, 9),
        [("k", "b", None), ("l", "e", None), ("w", "", None)], "cw")
    kinds = agrees(tmp_path, [
        *branches, node("GlobalAveragePool", ["c"], "p"), node("Flatten", ["p"], "f"), node("Flatten", ["d"], "h"),
        node("MatMul", ["h", "v"], "m"), node("Concat", ["m", "f", "m"], "j", axis=1),
        node("MatMul", ["j", "w"], "out")],
        [*maps, tensor("v", 12, 6), tensor("w", 16, 5)], (3, 5, 6),
        [*weighted, ("v", "", None), ("w", "", None)], "chw")
    assert kinds.count("concat") == 1
