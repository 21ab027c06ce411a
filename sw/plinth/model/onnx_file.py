"""Networks from ONNX files: shapes only, values of weights are not read.

Operators: Conv, Gemm, MatMul (with a following Add of a constant as its bias), MaxPool, AveragePool,
GlobalAveragePool, Relu, Tanh, Sigmoid, Add, Mean (join), Flatten, Reshape to two dimensions, Gather along the first
axis (embedding), Constant, and Softmax at the end, which becomes the loss. Opset 13 or newer. Maps are NCHW in ONNX;
only the first dimension, the batch, may be dynamic. Files are untrusted: external data is never loaded, and sizes
are limited.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from plinth.errors import UserError
from plinth.model.files import nearest, read_file
from plinth.model.layers import (
    KINDS,
    MAXIMUM_SIZE,
    Add,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Join,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
    is_integer,
)
from plinth.model.network import INPUT, Network

#: Largest file that is read, in bytes: VGG-E with its weights has 575 million.
MAXIMUM_BYTES = 640 << 20
#: Most nodes of a graph, and most initializers.
MAXIMUM_NODES = 8192
#: Oldest operator set.
OLDEST_OPSET = 13
#: Losses by their names in files.
LOSSES = tuple(kind for kind, made in KINDS.items() if made.is_loss)


@dataclass(frozen=True)
class _Value:
    """What a tensor of the graph is: the output of a layer, per sample."""

    layer: str
    shape: Shape
    #: Rows of an embedding lie in a dimension of their own in ONNX, until they are flattened.
    stacked: bool = False
    #: Behind the Softmax that ends the graph.
    softmax: bool = False


@dataclass(frozen=True)
class _Operator:
    """How a node is read: inputs at least and at most, attributes that are looked at, and what makes the layer."""

    inputs: tuple[int, int]
    attributes: frozenset[str]
    read: "Callable[[_Graph, _Node], None]"


def _refusal(where: str, problem: str) -> UserError:
    """An error in one line, whatever the file's names hold."""
    return UserError(f"{where}: {''.join(letter if letter.isprintable() else '?' for letter in problem)}")


class _Node:
    """A node with its attributes, and errors that name it."""

    def __init__(self, where: str, proto: Any, number: int) -> None:
        self.where, self.proto = where, proto
        self.operator = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
        self.name = proto.name or f"{proto.op_type}{number}"
        self.inputs = list(proto.input)
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        self.attributes: dict[str, Any] = {}

    def error(self, problem: str) -> UserError:
        return _refusal(self.where, f"node {self.name[:64]!r} ({self.operator[:64]}): {problem}")

    def read_attributes(self, known: frozenset[str]) -> None:
        for attribute in self.proto.attribute:
            if attribute.name not in known:
                raise self.error(f"attribute {attribute.name[:64]!r} is not supported; export without it")
            kinds = onnx.AttributeProto
            values = {kinds.INT: "i", kinds.INTS: "ints", kinds.FLOAT: "f", kinds.STRING: "s", kinds.TENSOR: "t"}
            if attribute.type not in values:
                raise self.error(f"attribute {attribute.name[:64]!r} has a type that is not supported")
            found = getattr(attribute, values[attribute.type])
            self.attributes[attribute.name] = list(found) if attribute.type == kinds.INTS else found

    def integers(self, key: str, count: int, default: int) -> list[int]:
        """An attribute that is a list of ``count`` integers."""
        found = self.attributes.get(key, [default] * count)
        if not isinstance(found, list) or len(found) != count or not all(is_integer(v, 0, MAXIMUM_SIZE) for v in found):
            raise self.error(f"{key} must be {count} integers from 0 to {MAXIMUM_SIZE}, not {str(found)[:60]}; only "
                             "two-dimensional windows are supported")
        return found

    def expect(self, key: str, wanted: Any, found: Any, remedy: str) -> None:
        """Refuse a setting that is not the only supported one."""
        if found != wanted:
            raise self.error(f"{key} must be {wanted}, not {str(found)[:60]}; {remedy}")


class _Graph:
    """Layers made from nodes so far."""

    def __init__(self, where: str, graph: Any) -> None:
        self.where, self.graph = where, graph
        self.layers: dict[str, Layer] = {}
        self.values: dict[str, _Value] = {}
        self.constants: dict[str, Any] = {}
        self.readers = Counter(name for node in graph.node for name in node.input)
        for tensor in graph.initializer:
            self.add_constant(tensor.name, tensor)

    def error(self, problem: str) -> UserError:
        return _refusal(self.where, problem)

    def add_constant(self, name: str, tensor: Any) -> None:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise self.error(f"tensor {name[:64]!r} lies in another file, which is never loaded; save the model as "
                             "one file")
        if name in self.constants:
            raise self.error(f"tensor {name[:64]!r} is defined twice")
        self.constants[name] = tensor

    def dimensions(self, node: _Node, place: int, count: int, what: str) -> list[int]:
        """Dimensions of a constant input."""
        name = node.inputs[place]
        if name not in self.constants:
            raise node.error(f"{what} {name[:64]!r} is no initializer; weights must be stored in the file")
        found = list(self.constants[name].dims)
        if len(found) != count or min(found, default=0) < 1:
            raise node.error(f"{what} has dimensions {found[:8]}; {count} above 0 are supported")
        return found

    def value(self, node: _Node, place: int = 0, *, stacked: bool = False) -> _Value:
        """An input that is the output of a layer."""
        name = node.inputs[place]
        if name not in self.values:
            raise node.error(f"input {name[:64]!r} is {'a constant' if name in self.constants else 'not defined'}; "
                             "it must come from another node or be the graph's input")
        found = self.values[name]
        if found.softmax:
            raise node.error("follows a Softmax, which is supported only at the end; move it or remove it")
        if found.stacked and not stacked:
            raise node.error("reads rows of an embedding that are not flattened; put a Flatten between")
        return found

    def add(self, node: _Node, kind: type[Layer], values: Sequence[_Value], **settings: Any) -> None:
        """A layer for a node; its output is the node's."""
        try:
            layer = kind(name=self.free_name(node.name), inputs=tuple(value.layer for value in values), **settings)
            shape = layer.output([value.shape for value in values])
        except ValueError as error:
            raise node.error(str(error)) from error
        self.layers[layer.name] = layer
        self.define(node, _Value(layer.name, shape, stacked=any(value.stacked for value in values)))

    def define(self, node: _Node, value: _Value) -> None:
        """Name the output of a node."""
        outputs = [name for name in node.proto.output if name]
        if len(outputs) != 1:
            raise node.error(f"has {len(outputs)} outputs; one is supported")
        self.values[outputs[0]] = value

    def free_name(self, wanted: str) -> str:
        """A free name for a layer, as like the one that is wanted as can be."""
        base = re.sub(r"[^A-Za-z0-9_.\-]+", "_", wanted.strip("/")).lstrip("_.-")[:56] or "layer"
        name, number = base, 1
        while name in self.layers or name == INPUT:
            number += 1
            name = f"{base}-{number}"
        return name


def _windows(node: _Node, kernel: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Stride and padding of a convolution or pool."""
    auto = node.attributes.get("auto_pad", b"NOTSET")
    if auto not in (b"NOTSET", b"VALID"):
        raise node.error(f"auto_pad {str(auto)[:40]} is not supported; export with pads written out")
    node.expect("dilations", [1, 1], node.integers("dilations", 2, 1), "dilated windows are not supported")
    top, left, bottom, right = node.integers("pads", 4, 0)
    if (top, left) != (bottom, right):
        raise node.error(f"padding is asymmetric, {top} above and {bottom} below, {left} left and {right} right; make "
                         "it equal on both sides")
    down, across = node.integers("strides", 2, 1)
    return {"kernel": (kernel[0], kernel[1]), "stride": (down, across), "padding": (top, left)}


def _convolution(graph: _Graph, node: _Node) -> None:
    value = graph.value(node)
    channels, source, *kernel = graph.dimensions(node, 1, 4, "the weights")
    node.expect("group", 1, node.attributes.get("group", 1), "grouped convolutions are not supported")
    node.expect("kernel_shape", kernel, node.attributes.get("kernel_shape", kernel), "the weights have that kernel")
    if not value.shape.flat and source != value.shape.channels:
        raise node.error(f"its weights take {source} channels, but layer {value.layer!r} gives {value.shape}; mend one")
    bias = len(node.inputs) > 2
    if bias:
        node.expect("dimensions of the bias", [channels], graph.dimensions(node, 2, 1, "the bias"), "mend the file")
    graph.add(node, Convolution, [value], channels=channels, bias=bias, **_windows(node, kernel))


def _dense(graph: _Graph, node: _Node, value: _Value, inputs: int, outputs: int, *, bias: bool) -> None:
    if value.shape.flat and inputs != value.shape.elements:
        raise node.error(f"its weights take {inputs} features, but layer {value.layer!r} gives {value.shape}; mend one")
    graph.add(node, Dense, [value], outputs=outputs, bias=bias)


def _gemm(graph: _Graph, node: _Node) -> None:
    for key, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
        node.expect(key, wanted, node.attributes.get(key, wanted), "other values are not supported")
    inputs, outputs = graph.dimensions(node, 1, 2, "the weights")
    if node.attributes.get("transB", 0):
        inputs, outputs = outputs, inputs
    bias = len(node.inputs) > 2
    if bias:
        _check_bias(graph, node, 2, outputs)
    _dense(graph, node, graph.value(node), inputs, outputs, bias=bias)


def _matmul(graph: _Graph, node: _Node) -> None:
    inputs, outputs = graph.dimensions(node, 1, 2, "the weights")
    _dense(graph, node, graph.value(node), inputs, outputs, bias=False)


def _check_bias(graph: _Graph, node: _Node, place: int, outputs: int) -> None:
    name = node.inputs[place]
    found = list(graph.constants[name].dims) if name in graph.constants else None
    if found not in ([outputs], [1, outputs]):
        raise node.error(f"a bias must be an initializer of {outputs} elements, as many as there are outputs, not "
                         f"{found if found is None else found[:8]}")


def _add(graph: _Graph, node: _Node) -> None:
    places = [place for place, name in enumerate(node.inputs) if name in graph.constants]
    if not places:
        _junction(graph, node, Add)
        return
    value = graph.value(node, 1 - places[0])
    layer = graph.layers.get(value.layer)
    name = node.inputs[1 - places[0]]
    if not isinstance(layer, Dense) or layer.bias or graph.readers[name] != 1:
        raise node.error("adds a constant to what is no MatMul of its own; only the bias of a MatMul is supported")
    _check_bias(graph, node, places[0], layer.outputs)
    graph.layers[layer.name] = replace(layer, bias=True)
    graph.define(node, value)


def _junction(graph: _Graph, node: _Node, kind: type[Layer]) -> None:
    graph.add(node, kind, [graph.value(node, place, stacked=True) for place in range(len(node.inputs))])


def _max_pool(graph: _Graph, node: _Node) -> None:
    node.expect("storage_order", 0, node.attributes.get("storage_order", 0), "export without indices")
    _pool(graph, node, MaxPool)


def _mean_pool(graph: _Graph, node: _Node) -> None:
    if any(node.integers("pads", 4, 0)):
        node.expect("count_include_pad", 0, node.attributes.get("count_include_pad", 0),
                    "means count what lies inside the map")
    _pool(graph, node, MeanPool)


def _pool(graph: _Graph, node: _Node, kind: type[Layer]) -> None:
    if "kernel_shape" not in node.attributes:
        raise node.error("has no kernel_shape; mend the file")
    graph.add(node, kind, [graph.value(node)], ceil=bool(node.attributes.get("ceil_mode", 0)),
              **_windows(node, node.integers("kernel_shape", 2, 0)))


def _global_pool(graph: _Graph, node: _Node) -> None:
    value = graph.value(node)
    if value.shape.flat:
        raise node.error(f"needs a map, but layer {value.layer!r} gives {value.shape} features")
    graph.add(node, MeanPool, [value], kernel=tuple(value.shape[1:]), stride=(1, 1))


def _activation(kind: type[Layer]) -> "Callable[[_Graph, _Node], None]":
    return lambda graph, node: graph.add(node, kind, [graph.value(node, stacked=True)])


def _flatten(graph: _Graph, node: _Node) -> None:
    node.expect("axis", 1, node.attributes.get("axis", 1), "the batch stays the first dimension")
    _to_features(graph, node, graph.value(node, stacked=True))


def _reshape(graph: _Graph, node: _Node) -> None:
    value = graph.value(node, stacked=True)
    tensor = graph.constants.get(node.inputs[1])
    if tensor is None:
        raise node.error("its shape is computed by the graph, so it is dynamic; export with fixed shapes")
    found = _small_integers(node, tensor)
    node.expect("allowzero", 0, node.attributes.get("allowzero", 0), "write the sizes out")
    if len(found) != 2 or found[1] not in (-1, value.shape.elements) or found[0] < -1:
        raise node.error(f"reshapes {value.shape} to {found}; only [batch, {value.shape.elements}] is supported")
    _to_features(graph, node, value)


def _small_integers(node: _Node, tensor: Any) -> list[int]:
    """Values of a shape."""
    if tensor.data_type != onnx.TensorProto.INT64 or len(tensor.dims) != 1 or not 0 < tensor.dims[0] <= 8:
        raise node.error("its shape must be one to eight integers")
    try:
        return [int(value) for value in np.asarray(onnx.numpy_helper.to_array(tensor))]
    except (ValueError, TypeError) as error:
        raise node.error("its shape is damaged; export the model again") from error


def _to_features(graph: _Graph, node: _Node, value: _Value) -> None:
    if value.shape.flat:
        graph.define(node, replace(value, stacked=False))
    else:
        graph.add(node, Flatten, [value])


def _gather(graph: _Graph, node: _Node) -> None:
    node.expect("axis", 0, node.attributes.get("axis", 0), "an embedding gathers along axis 0")
    rows, width = graph.dimensions(node, 0, 2, "the table")
    value = graph.value(node, 1)
    if value.layer != INPUT:
        raise node.error(f"its row numbers come from layer {value.layer!r}; they must be the graph's input")
    graph.add(node, Embedding, [value], rows=rows, width=width)
    name = node.proto.output[0]
    graph.values[name] = replace(graph.values[name], stacked=True)


def _constant(graph: _Graph, node: _Node) -> None:
    value = node.attributes.get("value")
    if not isinstance(value, onnx.TensorProto) or len(node.proto.output) != 1:
        raise node.error("only constants with a tensor as their value are supported")
    graph.add_constant(node.proto.output[0], value)


def _softmax(graph: _Graph, node: _Node) -> None:
    node.expect("axis", True, node.attributes.get("axis", -1) in (-1, 1), "softmax goes over the features")
    value = graph.value(node)
    if not value.shape.flat:
        raise node.error(f"needs features, but layer {value.layer!r} gives a map of {value.shape}; put a Flatten "
                         "between")
    graph.define(node, replace(value, softmax=True))


_WINDOW = frozenset({"auto_pad", "dilations", "kernel_shape", "pads", "strides"})
_NONE: frozenset[str] = frozenset()

_OPERATORS = {
    "Conv": _Operator((2, 3), _WINDOW | {"group"}, _convolution),
    "Gemm": _Operator((2, 3), frozenset({"alpha", "beta", "transA", "transB"}), _gemm),
    "MatMul": _Operator((2, 2), _NONE, _matmul),
    "MaxPool": _Operator((1, 1), _WINDOW | {"ceil_mode", "storage_order"}, _max_pool),
    "AveragePool": _Operator((1, 1), _WINDOW | {"ceil_mode", "count_include_pad"}, _mean_pool),
    "GlobalAveragePool": _Operator((1, 1), _NONE, _global_pool),
    "Relu": _Operator((1, 1), _NONE, _activation(Relu)),
    "Tanh": _Operator((1, 1), _NONE, _activation(Tanh)),
    "Sigmoid": _Operator((1, 1), _NONE, _activation(Sigmoid)),
    "Add": _Operator((2, 2), _NONE, _add),
    "Mean": _Operator((2, Join.arity[1]), _NONE, lambda graph, node: _junction(graph, node, Join)),
    "Flatten": _Operator((1, 1), frozenset({"axis"}), _flatten),
    "Reshape": _Operator((2, 2), frozenset({"allowzero"}), _reshape),
    "Gather": _Operator((2, 2), frozenset({"axis"}), _gather),
    "Softmax": _Operator((1, 1), frozenset({"axis"}), _softmax),
    "Constant": _Operator((0, 0), frozenset({"value"}), _constant),
}
#: Names of the operators that are read.
OPERATORS = tuple(_OPERATORS)


def _texts(graph: Any) -> Iterator[Any]:
    """Every name in a graph; protobuf gives bytes for one that is no UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for named in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        yield named.name


def _parse(content: bytes, where: str) -> Any:
    """The model, if its versions are known and it has a graph."""
    try:
        model = onnx.ModelProto.FromString(content)
    except (DecodeError, MemoryError, RecursionError) as error:
        raise UserError(f"{where}: not a whole ONNX file (truncated or damaged); export it again") from error
    if not model.HasField("graph") or not model.graph.node:
        raise UserError(f"{where}: holds no ONNX graph; export it again")
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise UserError(f"{where}: operator set {opset} is not supported; export with opset {OLDEST_OPSET} to {newest}")
    for what, count in (("nodes", len(model.graph.node)), ("initializers", len(model.graph.initializer))):
        if count > MAXIMUM_NODES:
            raise UserError(f"{where}: {count} {what}, more than {MAXIMUM_NODES}; the network is too large")
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise UserError(f"{where}: a name is no UTF-8 text (damaged); export it again")
    if model.graph.sparse_initializer:
        raise UserError(f"{where}: sparse initializers are not supported; export dense weights")
    return model


def _fixed(dimensions: Sequence[Any]) -> list[int | None]:
    """Sizes of dimensions; None for a dynamic one."""
    return [dimension.dim_value if dimension.HasField("dim_value") else None for dimension in dimensions]


def _input(graph: _Graph) -> Shape:
    """The shape of the one input, without the batch."""
    inputs = [value for value in graph.graph.input if value.name not in graph.constants]
    if len(inputs) != 1:
        raise graph.error(f"has {len(inputs)} inputs; networks with one are supported")
    value = inputs[0]
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not tensor.shape.dim:
        raise graph.error(f"input {value.name[:64]!r} has no shape; export with fixed shapes")
    sizes = _fixed(tensor.shape.dim)[1:] or [1]
    if None in sizes:
        raise graph.error(f"input {value.name[:64]!r} has a dynamic dimension; only the first, the batch, may be: "
                          "export with fixed shapes")
    if len(sizes) not in (1, 3) or not all(is_integer(size, 1, MAXIMUM_SIZE) for size in sizes):
        raise graph.error(f"input {value.name[:64]!r} has dimensions {sizes[:8]!s} behind the batch; supported are "
                          f"[features] and [channels, height, width], each from 1 to {MAXIMUM_SIZE}")
    shape = Shape(size for size in sizes if size is not None)
    graph.values[value.name] = _Value(INPUT, shape)
    return shape


def _sorted(graph: _Graph) -> list[_Node]:
    """The nodes, each behind those that feed it.

    Raises
    ------
    UserError
        If a tensor is defined twice or the graph has a cycle.
    """
    nodes = [_Node(graph.where, proto, number) for number, proto in enumerate(graph.graph.node, start=1)]
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.proto.output):
            if name in makers or name in graph.constants or name in graph.values:
                raise node.error(f"its output {name[:64]!r} is defined twice; mend the file")
            makers[name] = place
    missing = [len({makers[name] for name in node.inputs if name in makers}) for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for maker in {makers[name] for name in node.inputs if name in makers}:
            readers[maker].append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]
    found = []
    while ready:
        place = heapq.heappop(ready)
        found.append(nodes[place])
        for reader in readers[place]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader)
    if len(found) < len(nodes):
        stuck = next(node for place, node in enumerate(nodes) if missing[place])
        raise stuck.error("lies on a cycle or behind one; a network has no cycles")
    return found


def _check_stated(graph: _Graph) -> None:
    """Compare the shapes that the file states with those that follow."""
    for stated in (*graph.graph.value_info, *graph.graph.output):
        value = graph.values.get(stated.name)
        tensor = stated.type.tensor_type
        if value is None or value.stacked or not tensor.HasField("shape"):
            continue
        sizes = _fixed(tensor.shape.dim)[1:]
        follows = list(value.shape)
        if len(sizes) != len(follows) or any(size not in (None, follow)
                                             for size, follow in zip(sizes, follows, strict=True)):
            raise graph.error(f"tensor {stated.name[:64]!r} is stated as {sizes[:8]!s} behind the batch, but "
                              f"{follows} follows from layer {value.layer!r}; mend one of them")


def read_onnx(path: Path, loss: str | None = None) -> Network:
    """A network from an ONNX file.

    Parameters
    ----------
    path : Path
        The file.
    loss : str or None
        One of :data:`LOSSES`; None: softmax-cross-entropy, whether or not the graph ends in a Softmax.

    Raises
    ------
    UserError
        If the file cannot be read, is damaged or too large, or holds what is not supported; the node is named.
    """
    where = str(path)
    if loss is not None and loss not in LOSSES:
        raise UserError(f"loss {loss!r} is unknown; {nearest(loss, LOSSES)}")
    model = _parse(read_file(path, MAXIMUM_BYTES), where)
    graph = _Graph(where, model.graph)
    shape = _input(graph)
    for node in _sorted(graph):
        operator = _OPERATORS.get(node.operator)
        if operator is None:
            raise node.error(f"operator is not supported; supported are {', '.join(OPERATORS)}")
        low, high = operator.inputs
        if not low <= len(node.inputs) <= high or not all(node.inputs):
            raise node.error(f"has {len(node.inputs)} inputs; {low} to {high} are supported")
        node.read_attributes(operator.attributes)
        operator.read(graph, node)
    _check_stated(graph)
    outputs = [value.name for value in model.graph.output]
    if len(outputs) != 1 or outputs[0] not in graph.values:
        raise graph.error(f"has {len(outputs)} outputs that layers give; networks with one are supported")
    end = graph.values[outputs[0]]
    if end.softmax and loss not in (None, SoftmaxCrossEntropy.kind):
        raise graph.error(f"ends in Softmax, which loss {loss!r} cannot follow; export without it")
    final = KINDS[loss or SoftmaxCrossEntropy.kind](name=graph.free_name("loss"), inputs=(end.layer,))
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", path.stem).strip("-_.")[:64]
    try:
        return Network(name=name or "network", input=shape, layers=(*graph.layers.values(), final))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
