"""Operators with weights: convolutions, products, what is added to or normalises their outputs, and embeddings."""

from dataclasses import replace

from plinth.network.layers import Affine, Convolution, Dense, Embedding, feeder
from plinth.network.network import INPUT
from plinth.network.onnx.graph import OnnxGraph, UnknownError
from plinth.network.onnx.layout import Value
from plinth.network.onnx.proto import OnnxNode
from plinth.network.onnx.views import select
from plinth.network.onnx.windows import join, read_windows, window_layer


def convolution(graph: OnnxGraph, node: OnnxNode) -> None:
    """Conv: a convolution over all channels, of one or two dimensions."""
    constant = graph.constants.get(node.inputs[1])
    if constant is not None and len(constant.dimensions) == 5:
        raise node.error("is a convolution over three dimensions (Conv3d), which no layer does; use one over two "
                         "(Conv2d)")
    channels, source, *kernel = graph.weights(node, 1, (3, 4), "the weights")
    group = node.integer("group", 1)
    if group != 1:
        kind = "depthwise" if source == 1 else "grouped"
        node.problems.append(f"is a {kind} convolution, group {group}; only convolutions of all channels, group 1, are "
                             "supported: export with groups=1")
    node.expect("kernel_shape", kernel, node.attributes.get("kernel_shape", kernel), "the weights have that kernel")
    bias = len(node.inputs) > 2
    if bias:
        graph.vector(node, 2, ([channels],), "the bias")
    windows, value, axes = read_windows(graph, node, kernel)
    if source != value.shape.channels and group == 1:
        raise node.error(f"its weights take {source} channels, but {feeder(value.layer)} gives {value.shape}; mend one")
    window_layer(graph, node, Convolution, windows, value, axes, channels, channels=channels, bias=bias)


def _dense(graph: OnnxGraph, node: OnnxNode, inputs: int, outputs: int, *, bias: bool) -> None:
    value = graph.features(node)
    if value.shape.flat and inputs != value.shape.elements:
        raise node.error(f"its weights take {inputs} features, but {feeder(value.layer)} gives {value.shape}; mend one")
    graph.define(node, graph.add(node, Dense, [value], outputs=outputs, bias=bias))


def gemm(graph: OnnxGraph, node: OnnxNode) -> None:
    """Gemm: fully connected, with its bias."""
    for key, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
        node.expect(key, wanted, node.attributes.get(key, wanted), "other values are not supported")
    inputs, outputs = graph.weights(node, 1, (2,), "the weights")
    if node.attributes.get("transB", 0):
        inputs, outputs = outputs, inputs
    bias = len(node.inputs) > 2
    if bias:
        graph.vector(node, 2, ([outputs], [1, outputs]), "the bias")
    _dense(graph, node, inputs, outputs, bias=bias)


def matmul(graph: OnnxGraph, node: OnnxNode) -> None:
    """MatMul: fully connected; a bias may follow as an Add."""
    if not any(name in graph.constants for name in node.inputs):
        if not all(name in graph.values or name in graph.activations for name in node.inputs):
            graph.value(node, 0)
            graph.value(node, 1)
        raise node.error("is a product of two activations, as in attention, which no layer computes; only products "
                         "with weights that the file holds are supported")
    if node.inputs[0] in graph.constants:
        raise node.error("has its weights on the left; only x @ weights is supported: export it so, as nn.Linear does")
    inputs, outputs = graph.weights(node, 1, (2,), "the weights")
    _dense(graph, node, inputs, outputs, bias=False)


def transpose(graph: OnnxGraph, node: OnnxNode) -> None:
    """Transpose of weights: the same numbers, so that who reads both is seen to tie them. Of a tensor: another layout,
    in which the batch stays the first dimension."""
    constant = graph.constants.get(node.inputs[0])
    rank = len(constant.dimensions) if constant is not None else len(graph.value(node, padded=True).view) + 1
    permutation = node.attributes.get("perm", list(range(rank))[::-1])
    if not isinstance(permutation, list) or sorted(permutation) != list(range(rank)):
        raise node.error(f"perm must have each of 0 to {rank - 1} once, not {str(permutation)[:60]}; mend the file")
    if constant is not None:
        graph.constants[node.output] = replace(
            constant, dimensions=tuple(constant.dimensions[place] for place in permutation))
        return
    value = graph.value(node, padded=True)
    if permutation[0] != 0:
        raise node.error(f"moves the batch (perm {permutation[:8]}), as for time-major sequences; keep it the first "
                         "dimension (batch_first=True)")
    turned = value.transposed([place - 1 for place in permutation[1:]])
    if turned is None:
        raise node.error(f"reorders parts of an axis, {list(value.view)} behind the batch, elements of "
                         f"{feeder(value.layer)} ({value.shape}), as attention heads and channel shuffles do; no layer "
                         "does that, leave it out of the model")
    graph.leave_out(node, "Transpose")
    graph.define(node, turned)


def add(graph: OnnxGraph, node: OnnxNode) -> None:
    """Add: the bias of the MatMul, Conv or scale before it, or a residual add."""
    places = [place for place, name in enumerate(node.inputs) if name in graph.constants]
    if not places:
        join(graph, node)
        return
    value = graph.value(node, 1 - places[0])
    layer = graph.layers.get(value.layer)
    if value.layer == INPUT:
        raise node.error("adds a constant to the network's input; add it to the samples instead")
    if graph.stands_in(value):
        raise UnknownError
    if not isinstance(layer, Dense | Convolution | Affine) or not value.sole or (
            layer.bias and layer.name not in graph.scaled):
        raise node.error("adds a constant to what is no MatMul, Conv or scale of its own; only their bias is "
                         "supported, leave it out of the model")
    allowed = value.bias_dimensions() or [[value.shape.channels]]
    graph.vector(node, places[0], allowed, "the bias")
    graph.scaled.discard(layer.name)
    _with_bias(graph, node, layer, value)


def multiply(graph: OnnxGraph, node: OnnxNode) -> None:
    """Mul of a constant for each channel: behind a product or convolution, as some exporters write a normalisation in
    evaluation form, with an Add behind it, part of the layer before it; elsewhere a layer of its own."""
    places = [place for place, name in enumerate(node.inputs) if name in graph.constants]
    if any(name in graph.unknown - graph.activations for name in node.inputs):
        raise UnknownError
    if all(name in graph.values or name in graph.activations for name in node.inputs):
        raise node.error("multiplies two activations element by element, which no layer does; add them (x + y), "
                         "or leave it out of the model")
    if len(places) != 1:
        raise node.error("multiplies constants; export with constants folded")
    value = node.stand_in = graph.value(node, 1 - places[0])
    layer = graph.layers.get(value.layer)
    if value.layer == INPUT:
        raise node.error("scales the network's input by a constant; scale the samples instead")
    if graph.stands_in(value):
        raise UnknownError
    dimensions = list(graph.constants[node.inputs[places[0]]].dimensions)
    if dimensions not in value.bias_dimensions():
        raise node.error("scales by a constant that is none for each channel, which no layer does; leave it out of the "
                         "model, the weights behind it learn it")
    graph.vector(node, places[0], [dimensions], "the scale")
    if not isinstance(layer, Dense | Convolution) or not value.sole:
        graph.leave_out(node, "Mul", "became affine layers: their scale, and a shift behind it, are trained")
        _affine(graph, node, value, bias=False)
        return
    graph.leave_out(node, "Mul")
    graph.scaled.add(layer.name)
    graph.define(node, value)


def batch_normalization(graph: OnnxGraph, node: OnnxNode) -> None:
    """BatchNormalization in evaluation form: a scale and a shift of each channel, part of the product or convolution
    before it, or a layer of its own."""
    if node.integer("training_mode", 0) or any(node.proto.output[1:]):
        raise node.error("normalises over the batch (training form), which no layer does; export in evaluation mode, "
                         "so that it becomes part of the layer before it")
    value = node.stand_in = graph.operand(node)
    layer = graph.layers.get(value.layer)
    if graph.stands_in(value):
        raise UnknownError
    channels_first = [value.shape.channels, *(1,) * (len(value.view) - 1)] in value.bias_dimensions()
    if not channels_first:
        raise node.error("normalises what has no channels behind the batch; export with channels first, or remove it")
    for place, what in enumerate(("the scale", "the shift", "the mean", "the variance"), start=1):
        graph.vector(node, place, ([value.shape.channels],), what)
    if not isinstance(layer, Dense | Convolution) or not value.sole:
        graph.leave_out(node, "BatchNormalization", "became affine layers: their scale and shift are trained, nothing "
                        "is normalised while training")
        _affine(graph, node, value, bias=True)
        return
    graph.leave_out(node, "BatchNormalization")
    _with_bias(graph, node, layer, value)


def _affine(graph: OnnxGraph, node: OnnxNode, value: Value, *, bias: bool) -> None:
    graph.define(node, replace(graph.add(node, Affine, [value], bias=bias), view=value.view, order=value.order))


def _with_bias(graph: OnnxGraph, node: OnnxNode, layer: Dense | Convolution | Affine, value: Value) -> None:
    graph.layers[layer.name] = replace(layer, bias=True)
    graph.define(node, value)


def gather(graph: OnnxGraph, node: OnnxNode) -> None:
    """Gather: rows of an embedding; or the only element along an axis, which drops the axis."""
    if node.inputs[0] not in graph.constants:
        select(graph, node)
        return
    node.expect("axis", 0, node.integer("axis", 0) % 2, "an embedding gathers along axis 0")
    rows, width = graph.weights(node, 0, (2,), "the table")
    graph.settle(graph.value(node, 1), rank=0)
    value = graph.value(node, 1)
    if value.layer != INPUT:
        raise node.error(f"its row numbers come from {feeder(value.layer)}; they must be the graph's input")
    table = graph.add(node, Embedding, [value], rows=rows, width=width)
    axes = (*((axis, size) for axis, size in enumerate(value.view)), (len(value.view), width))
    graph.define(node, replace(table, view=(*value.view, width), order=tuple(axis for axis in axes if axis[1] > 1)))
