"""ONNX models made by hand, and read back through a file."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from plinth.network.file import load_network
from plinth.network.network import Network


def weights(name: str, *dimensions: int) -> TensorProto:
    """An initializer without values, which are not read."""
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dimensions)


def shape_of(name: str, *values: int) -> TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def node(operator: str, inputs: list[str], output: str, **attributes) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=output, **attributes)


def model(nodes, initializers=(), *, size=(1, 3, 8, 8), output="out", opset=13, elements=TensorProto.FLOAT,
          stated=None) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", elements, size)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, stated)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def read(tmp_path, model: onnx.ModelProto, loss: str | None = None) -> Network:
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return load_network(str(path), loss)


def every_operator() -> list[onnx.ModelProto]:
    """Two models that hold every operator between them."""
    constant = onnx.numpy_helper.from_array
    convolutions = model([
        node("Identity", ["x"], "i"), node("ConstantOfShape", ["two"], "near", value=shape_of("", 0)),
        node("Concat", ["near", "rim", "near", "rim"], "pads", axis=0), node("Pad", ["i", "pads"], "padded"),
        node("Conv", ["padded", "c.w", "c.b"], "c", pads=[0, 0, 0, 0], group=1),
        node("BatchNormalization", ["c", "s", "s", "m", "v"], "n", epsilon=1e-5, training_mode=0),
        node("Transpose", ["n"], "last1", perm=[0, 2, 3, 1]),
        node("Relu", ["last1"], "last2"), node("Transpose", ["last2"], "r", perm=[0, 3, 1, 2]),
        node("Conv", ["r", "e.w"], "e", auto_pad="SAME_UPPER"), node("Add", ["e", "r"], "a"),
        node("Sum", ["a", "r", "e"], "u"), node("Mean", ["u", "a"], "j"), node("Tanh", ["j"], "t1"),
        node("LeakyRelu", ["t1"], "t2", alpha=0.2), node("Clip", ["t2", "least", "most"], "t3"),
        node("Gelu", ["t3"], "t", approximate="tanh"),
        node("MaxPool", ["t"], "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("AveragePool", ["p"], "q", kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=0),
        helper.make_node("Dropout", ["q", "", "no"], ["d", "mask"], name="d"),
        node("ReduceMax", ["d"], "w", axes=[3], keepdims=1), node("ReduceMean", ["w", "axes"], "g", keepdims=1),
        node("Squeeze", ["g", "last"], "z"), node("Unsqueeze", ["z", "last"], "y"),
        node("GlobalMaxPool", ["y"], "k"), node("GlobalAveragePool", ["k"], "l"),
        node("Gather", ["l", "zero"], "o", axis=3), node("Shape", ["o"], "h", start=0),
        node("Gather", ["h", "zero"], "b", axis=0), node("Unsqueeze", ["b", "first"], "f"),
        node("Slice", ["h", "first", "one", "first"], "f2"), node("Mul", ["f2", "one"], "f3"),
        node("Cast", ["f3"], "f4", to=TensorProto.INT64), node("ReduceProd", ["f4"], "f5", keepdims=1),
        node("Constant", [], "rest", value_ints=[-1]), node("Concat", ["f5", "rest"], "target", axis=0),
        node("Reshape", ["o", "target"], "v1", allowzero=1), node("Concat", ["f", "rest"], "target2", axis=0),
        node("Reshape", ["v1", "target2"], "v2"), node("Transpose", ["d.w"], "d.t", perm=[1, 0]),
        node("MatMul", ["v2", "d.t"], "mm"), node("Add", ["mm", "d.b"], "biased"),
        node("Gemm", ["biased", "g.w", "g.b"], "gemm", transB=1, alpha=1.0), node("Sigmoid", ["gemm"], "sigmoid"),
        node("LogSoftmax", ["sigmoid"], "out", axis=-1),
    ], [weights("c.w", 4, 3, 3, 3), weights("c.b", 4), weights("e.w", 4, 4, 3, 3), weights("d.w", 6, 4),
        weights("d.b", 6), weights("g.w", 5, 6), constant(np.ones(5, np.float32), "g.b"),
        constant(np.ones(4, np.float32), "s"), weights("m", 4), weights("v", 4), constant(np.array(False), "no"),
        shape_of("axes", 2), shape_of("last", -1), shape_of("first", 0), shape_of("one", 1),
        shape_of("two", 2), shape_of("rim", 1, 1),
        constant(np.array(0), "zero"), constant(np.array(0, np.float32), "least"),
        constant(np.array([6], np.float32), "most")], size=("batch", 3, 5, 6), opset=20, stated=("batch", 5))
    rows = model([node("Cast", ["x"], "n", to=TensorProto.INT64), node("Gather", ["t", "n"], "rows", axis=0),
                  node("Flatten", ["rows"], "f", axis=1), node("Gemm", ["f", "w"], "g"), node("Softmax", ["g"], "out")],
                 [weights("t", 50, 8), weights("w", 40, 3)], size=("batch", 5), elements=TensorProto.INT64)
    return [convolutions, rows]
