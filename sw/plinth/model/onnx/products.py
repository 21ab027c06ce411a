"""Operators with weights: convolutions, products, what is added to or normalises their outputs, and embeddings."""

from dataclasses import replace

from plinth.model.layers import Convolution, Dense, Embedding, feeder
from plinth.model.network import INPUT
from plinth.model.onnx.graph import Graph, Value
from plinth.model.onnx.proto import Node
from plinth.model.onnx.views import select
from plinth.model.onnx.windows import join, settings


def convolution(graph: Graph, node: Node) -> None:
    """Conv: a convolution over all channels."""
    value = graph.value(node)
    channels, source, *kernel = graph.weights(node, 1, 4, "the weights")
    node.expect("group", 1, node.attributes.get("group", 1), "grouped convolutions are not supported")
    node.expect("kernel_shape", kernel, node.attributes.get("kernel_shape", kernel), "the weights have that kernel")
    if not value.shape.flat and source != value.shape.channels:
        raise node.error(f"its weights take {source} channels, but {feeder(value.layer)} gives {value.shape}; mend one")
    bias = len(node.inputs) > 2
    if bias:
        graph.vector(node, 2, ([channels],), "the bias")
    graph.define(node, graph.add(node, Convolution, [value], channels=channels, bias=bias,
                                 **settings(node, kernel, value.shape)))


def _dense(graph: Graph, node: Node, inputs: int, outputs: int, *, bias: bool) -> None:
    value = graph.value(node)
    if value.shape.flat and inputs != value.shape.elements:
        raise node.error(f"its weights take {inputs} features, but {feeder(value.layer)} gives {value.shape}; mend one")
    graph.define(node, graph.add(node, Dense, [value], outputs=outputs, bias=bias))


def gemm(graph: Graph, node: Node) -> None:
    """Gemm: fully connected, with its bias."""
    for key, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
        node.expect(key, wanted, node.attributes.get(key, wanted), "other values are not supported")
    inputs, outputs = graph.weights(node, 1, 2, "the weights")
    if node.attributes.get("transB", 0):
        inputs, outputs = outputs, inputs
    bias = len(node.inputs) > 2
    if bias:
        graph.vector(node, 2, ([outputs], [1, outputs]), "the bias")
    _dense(graph, node, inputs, outputs, bias=bias)


def matmul(graph: Graph, node: Node) -> None:
    """MatMul: fully connected; a bias may follow as an Add."""
    inputs, outputs = graph.weights(node, 1, 2, "the weights")
    _dense(graph, node, inputs, outputs, bias=False)


def transpose(graph: Graph, node: Node) -> None:
    """Transpose of weights: the same numbers, so that who reads both is seen to tie them."""
    constant = graph.constants.get(node.inputs[0])
    if constant is None or len(constant.dimensions) != 2 or node.attributes.get("perm", [1, 0]) != [1, 0]:
        raise node.error("only weights of two dimensions can be transposed; export with another order of dimensions")
    graph.constants[node.output] = replace(constant, dimensions=constant.dimensions[::-1])


def add(graph: Graph, node: Node) -> None:
    """Add: the bias of the MatMul or Conv before it, or a residual add."""
    places = [place for place, name in enumerate(node.inputs) if name in graph.constants]
    if not places:
        join(graph, node)
        return
    value = graph.value(node, 1 - places[0])
    layer = graph.layers.get(value.layer)
    if not isinstance(layer, Dense | Convolution) or layer.bias or not value.sole:
        raise node.error("adds a constant to what is no MatMul or Conv of its own; only their bias is supported")
    sizes = [value.shape.channels] + [1] * (len(value.shape) - 1)
    graph.vector(node, places[0], (sizes, [1, *sizes]), "the bias")
    _with_bias(graph, node, layer, value)


def batch_normalization(graph: Graph, node: Node) -> None:
    """BatchNormalization in evaluation form: a scale and a shift of each channel, part of the layer before it."""
    if node.integer("training_mode", 0) or any(node.proto.output[1:]):
        raise node.error("normalises over the batch (training form), which no layer does; export in evaluation mode, "
                         "so that it becomes part of the layer before it")
    value = graph.value(node)
    layer = graph.layers.get(value.layer)
    if not isinstance(layer, Dense | Convolution) or not value.sole:
        raise node.error("normalises what is no Conv, Gemm or MatMul that it alone reads, so that it cannot become "
                         "part of one; move it behind one or remove it")
    for place, what in enumerate(("the scale", "the shift", "the mean", "the variance"), start=1):
        graph.vector(node, place, ([value.shape.channels],), what)
    _with_bias(graph, node, layer, value)


def _with_bias(graph: Graph, node: Node, layer: Dense | Convolution, value: Value) -> None:
    graph.layers[layer.name] = replace(layer, bias=True)
    graph.define(node, value)


def gather(graph: Graph, node: Node) -> None:
    """Gather: rows of an embedding; or the only element along an axis, which drops the axis."""
    if node.inputs[0] not in graph.constants:
        select(graph, node)
        return
    node.expect("axis", 0, node.integer("axis", 0) % 2, "an embedding gathers along axis 0")
    rows, width = graph.weights(node, 0, 2, "the table")
    value = graph.value(node, 1, regrouped=True)
    if value.layer != INPUT:
        raise node.error(f"its row numbers come from {feeder(value.layer)}; they must be the graph's input")
    made = graph.add(node, Embedding, [value], rows=rows, width=width)
    graph.define(node, replace(made, view=(*value.view, width)))
