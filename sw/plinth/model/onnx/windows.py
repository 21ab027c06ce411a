"""Operators over windows and whole maps, element by element, and what joins branches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from plinth.model.layers import Add, Layer, MaxPool, MeanPool, Shape, feeder
from plinth.model.onnx.graph import Graph, Value
from plinth.model.onnx.proto import Node
from plinth.model.onnx.sizes import axis

Reader = Callable[[Graph, Node], None]


def settings(node: Node, kernel: Sequence[int], source: Shape) -> dict[str, Any]:
    """Kernel, stride and padding of a convolution or pool over a map."""
    node.expect("dilations", [1, 1], node.integers("dilations", 2, 1), "dilated windows are not supported")
    strides = node.integers("strides", 2, 1)
    auto = node.attributes.get("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER") and not source.flat and min(strides) > 0:
        total = [max((-(-size // stride) - 1) * stride + taps - size, 0)
                 for size, stride, taps in zip(source[1:], strides, kernel, strict=True)]
        top, left, bottom, right = (*(rim // 2 for rim in total), *(rim - rim // 2 for rim in total))
        if auto == b"SAME_LOWER":
            top, left, bottom, right = bottom, right, top, left
    elif auto in (b"NOTSET", b"VALID"):
        top, left, bottom, right = node.integers("pads", 4, 0)
    else:
        raise node.error(f"auto_pad {str(auto)[:40]} is not supported; export with pads written out")
    if (top, left) != (bottom, right):
        raise node.error(f"padding is asymmetric, {top} above and {bottom} below, {left} left and {right} right; make "
                         "it equal on both sides")
    return {"kernel": (kernel[0], kernel[1]), "stride": (strides[0], strides[1]), "padding": (top, left)}


def max_pool(graph: Graph, node: Node) -> None:
    """MaxPool, without indices."""
    node.expect("storage_order", 0, node.attributes.get("storage_order", 0), "export without indices")
    _pool(graph, node, MaxPool)


def mean_pool(graph: Graph, node: Node) -> None:
    """AveragePool over what lies inside the map."""
    _pool(graph, node, MeanPool)


def _pool(graph: Graph, node: Node, kind: type[Layer]) -> None:
    if "kernel_shape" not in node.attributes:
        raise node.error("has no kernel_shape; mend the file")
    value = graph.value(node)
    found = settings(node, node.integers("kernel_shape", 2, 0), value.shape)
    if any(found["padding"]):
        node.expect("count_include_pad", 0, node.attributes.get("count_include_pad", 0),
                    "means count what lies inside the map")
    if not value.shape.flat and found == {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0)}:
        graph.define(node, value)  # AdaptiveAvgPool2d to the size that a map has
    else:
        graph.define(node, graph.add(node, kind, [value], ceil=bool(node.attributes.get("ceil_mode", 0)), **found))


def global_pool(kind: type[Layer]) -> Reader:
    """GlobalAveragePool and GlobalMaxPool: a pool with one window."""
    def read(graph: Graph, node: Node) -> None:
        value = graph.value(node)
        if value.shape.flat:
            raise node.error(f"needs a map, but {feeder(value.layer)} gives {value.shape} features")
        graph.define(node, graph.add(node, kind, [value], kernel=tuple(value.shape[1:]), stride=(1, 1)))
    return read


def reduction(kind: type[Layer]) -> Reader:
    """ReduceMean and ReduceMax over the height and width of a map, or one of them: a pool with as large a window."""
    def read(graph: Graph, node: Node) -> None:
        value = graph.value(node, regrouped=True)
        rank = len(value.view) + 1
        axes = node.attributes.get("axes")
        if len(node.inputs) > 1:
            sizes = graph.sizes.get(node.inputs[1])
            axes = None if sizes is None else list(sizes.integers(node, "axes"))
        if not isinstance(axes, list) or not axes:
            raise node.error("has no axes that are known; write out those of height and width")
        places = {axis(node, number, rank) - 1 for number in axes}
        window = _window(value, places)
        if window is None:
            raise node.error(f"reduces axes {axes[:8]} of {list(value.view)} behind the batch, elements of layer "
                             f"{value.layer!r} ({value.shape}); only height and width of a map are supported")
        made = value if window == (1, 1) else graph.add(node, kind, [value], kernel=window, stride=(1, 1))
        kept = node.integer("keepdims", 1)
        view = tuple(1 if place in places else size for place, size in enumerate(value.view)
                     if kept or place not in places)
        graph.regroup(node, made, view, name=f"{node.name}-flatten")
    return read


def _window(value: Value, places: set[int]) -> tuple[int, int] | None:
    """The window that is reduced, if the places in the view are a map's height, width or both."""
    if value.shape.flat:
        return None
    channels, height, width = value.shape
    if value.view == (channels, height, width) and places <= {1, 2}:
        return height if 1 in places else 1, width if 2 in places else 1
    if value.view == (channels, height * width) and places == {1}:
        return height, width
    return None


def activation(kind: type[Layer]) -> Reader:
    """Relu, Tanh, Sigmoid: element by element, under any view."""
    def read(graph: Graph, node: Node) -> None:
        value = graph.value(node, regrouped=True)
        graph.define(node, replace(graph.add(node, kind, [value]), view=value.view))
    return read


def joiner(kind: type[Layer]) -> Reader:
    """Add, Sum and Mean of tensors with the same dimensions."""
    def read(graph: Graph, node: Node) -> None:
        values = [graph.value(node, place, regrouped=True) for place in range(len(node.inputs))]
        made = graph.add(node, kind, values)
        if any(value.view != values[0].view for value in values):
            views = " and ".join(str(list(value.view)) for value in values[:4])
            raise node.error(f"needs equal dimensions, not {views} behind the batch; make them equal")
        graph.define(node, replace(made, view=values[0].view))
    return read


join = joiner(Add)
