"""Operators over windows and whole maps, element by element, and what joins branches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plinth.errors import quoted
from plinth.network.layers import (
    TANH,
    Add,
    Concat,
    Gelu,
    Layer,
    LeakyRelu,
    MaxPool,
    MeanPool,
    Relu,
    Relu6,
    Shape,
    feeder,
)
from plinth.network.onnx.graph import OnnxGraph
from plinth.network.onnx.layout import CHANNEL, COLUMN, ROW, Value, value_of
from plinth.network.onnx.proto import OnnxNode, small_values
from plinth.network.onnx.sizes import axis
from plinth.network.onnx.terms import EXACT_GELU

Reader = Callable[[OnnxGraph, OnnxNode], None]


@dataclass(frozen=True)
class Windows:
    """Windows of a convolution or pool, in each of its one or two spatial dimensions."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    #: Elements of padding in front and behind.
    begin: tuple[int, ...]
    end: tuple[int, ...]
    ceil: bool

    def sizes(self, source: Sequence[int]) -> tuple[int, ...]:
        """The number of windows that a map has in each dimension; at least 1."""
        rooms = [size + begin + end - dilation * (kernel - 1) - 1 for size, begin, end, dilation, kernel in
                 zip(source, self.begin, self.end, self.dilation, self.kernel, strict=True)]
        return tuple(max((room + (stride - 1 if self.ceil else 0)) // max(stride, 1) + 1, 1)
                     for room, stride in zip(rooms, self.stride, strict=True))

    def outside(self, value: Value) -> bool:
        """Whether ``ceil`` makes a last window that lies wholly behind a map, in what a Pad has added there: it starts
        inside of what the pool reads."""
        counts = self.sizes(value.view[1:])
        return self.ceil and any(
            size <= (count - 1) * stride - begin < size + zeros
            for count, size, stride, begin, (_, zeros) in
            zip(counts, value.view[1:], self.stride, self.begin, value.zeros[1:], strict=False))

    def settings(self, axes: Sequence[int]) -> dict[str, Any]:
        """Kernel, stride and padding of a layer, of which each dimension is an axis."""
        def pair(values: Sequence[int], default: int) -> tuple[int, int]:
            by_axis = dict(zip(axes, values, strict=True))
            return by_axis.get(ROW, default), by_axis.get(COLUMN, default)

        return {"kernel": pair(self.kernel, 1), "stride": pair(self.stride, 1),
                "padding": (*pair(self.begin, 0), *pair(self.end, 0))}


def read_windows(graph: OnnxGraph, node: OnnxNode, kernel: Sequence[int]) -> tuple[Windows, Value, tuple[int, ...]]:
    """The windows of a convolution or pool, the map that they go over, and the axes of its spatial dimensions.

    Raises
    ------
    UserError
        If they are none.
    UnknownError
        If a node before is refused.
    """
    rank = len(kernel)
    stride, dilation = (tuple(node.integers(key, rank, 1)) for key in ("strides", "dilations"))
    if dilation != (1,) * rank:
        node.problems.append(f"is a dilated window, dilations {list(dilation)}; only dilations of 1 are supported: "
                             "export with dilation=1")
    auto = node.attributes.get("auto_pad", b"NOTSET")
    if auto not in (b"NOTSET", b"VALID", b"SAME_UPPER", b"SAME_LOWER"):
        raise node.error(f"auto_pad {str(auto)[:40]} is not supported; export with pads written out")
    pads = tuple(node.integers("pads", 2 * rank, 0))
    if auto != b"NOTSET" and any(pads):
        raise node.error(f"has both auto_pad {auto.decode()} and pads {list(pads)}; export with one of them")
    value, axes = graph.map(node, rank)
    if value.zeros and value.zeros[0] != (0, 0):
        raise node.error("reads what a Pad gives that pads channels; only height and width of a map are padded")
    zeros = value.zeros[1:] or ((0, 0),) * rank
    begin, end = (tuple(pads[side * rank + place] + zeros[place][side] for place in range(rank)) for side in (0, 1))
    if auto in (b"SAME_UPPER", b"SAME_LOWER") and min(stride) > 0:
        total = [max((-(-size // step) - 1) * step + spread * (taps - 1) + 1 - size, 0) for size, step, spread, taps in
                 zip(value.dimensions[1:], stride, dilation, kernel, strict=True)]
        least, most = (tuple(half(rim) for rim in total) for half in (lambda rim: rim // 2, lambda rim: rim - rim // 2))
        if auto == b"SAME_LOWER":
            least, most = most, least
        begin = tuple(map(sum, zip(begin, least, strict=True)))
        end = tuple(map(sum, zip(end, most, strict=True)))
    return Windows(tuple(kernel), stride, dilation, begin, end, bool(node.attributes.get("ceil_mode", 0))), value, axes


def window_layer(graph: OnnxGraph, node: OnnxNode, kind: type[Layer], windows: Windows, value: Value,
                 axes: tuple[int, ...],
                 outputs: int, **settings: Any) -> None:
    """The layer of a convolution or pool; of one that is refused, what it would give."""
    if not node.problems:
        output = graph.add(node, kind, [replace(value, zeros=(), least=False)], spatial=axes,
                           **windows.settings(axes), **settings)
        graph.define(node, output)
        return
    sizes = dict(zip(axes, windows.sizes(value.view[1:]), strict=True))
    node.stand_in = value_of(graph.free_name(node.name), Shape((outputs, sizes.get(ROW, 1), sizes.get(COLUMN, 1))),
                             axes)


def max_pool(graph: OnnxGraph, node: OnnxNode) -> None:
    """MaxPool, without indices."""
    node.expect("storage_order", 0, node.attributes.get("storage_order", 0), "export without indices")
    _pool(graph, node, MaxPool)


def mean_pool(graph: OnnxGraph, node: OnnxNode) -> None:
    """AveragePool over what lies inside the map."""
    _pool(graph, node, MeanPool)


def _pool(graph: OnnxGraph, node: OnnxNode, kind: type[Layer]) -> None:
    kernel = node.attributes.get("kernel_shape")
    if not isinstance(kernel, list):
        raise node.error("has no kernel_shape; mend the file")
    if len(kernel) not in (1, 2):
        raise node.error(f"is a pool over {len(kernel)} dimensions; pools over one and two are supported")
    windows, value, axes = read_windows(graph, node, node.integers("kernel_shape", len(kernel), 0))
    if kind is MeanPool and any((*windows.begin, *windows.end)):
        node.expect("count_include_pad", 0, node.attributes.get("count_include_pad", 0),
                    "means count what lies inside the map (count_include_pad=False)")
    if windows.outside(value):
        node.problems.append("rounds up to a last window that has nothing but what the Pad before it gives; export "
                             "with ceil_mode=False, or pad less")
    if not node.problems and windows.settings(axes) == {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0, 0, 0)}:
        graph.leave_out(node, "pool of one element")  # AdaptiveAvgPool2d to the size that a map has
        graph.define(node, value)
    else:
        window_layer(graph, node, kind, windows, value, axes, value.shape.channels, ceil=windows.ceil)


def global_pool(kind: type[Layer]) -> Reader:
    """GlobalAveragePool and GlobalMaxPool: a pool with one window."""
    def read(graph: OnnxGraph, node: OnnxNode) -> None:
        rank = len(graph.value(node).view) - 1
        if rank not in (1, 2):
            value = graph.operand(node)
            raise node.error(f"needs a map, but {feeder(value.layer)} gives {value.shape} under dimensions "
                             f"{list(value.view)} behind the batch; leave the pool out")
        value, axes = graph.map(node, rank)
        graph.define(node, graph.add(node, kind, [value], spatial=axes, kernel=tuple(value.shape[1:]), stride=(1, 1)))
    return read


def reduction(kind: type[Layer]) -> Reader:
    """ReduceMean and ReduceMax over the height and width of a map, or one of them: a pool with as large a window."""
    def read(graph: OnnxGraph, node: OnnxNode) -> None:
        value = graph.operand(node)
        rank = len(value.view) + 1
        axes = node.attributes.get("axes")
        if len(node.inputs) > 1:
            sizes = graph.known_sizes(node.inputs[1])
            axes = None if sizes is None else list(sizes.integers(node, "axes"))
        if not isinstance(axes, list) or not axes:
            raise node.error("has no axes that are known; write out those of height and width")
        places = {axis(node, number, rank) - 1 for number in axes}
        groups = value.groups()
        reduced = None if groups is None or value.shape.flat or -1 in places else {
            number for place in places for number in groups[place]}
        if reduced is None or CHANNEL in reduced:
            raise node.error(f"reduces axes {axes[:8]} of {list(value.view)} behind the batch, elements of layer "
                             f"{value.layer!r} ({value.shape}); only height and width of a map are supported")
        window = tuple(value.shape[1 + number] if number in reduced else 1 for number in (ROW, COLUMN))
        pooled = value if window == (1, 1) else graph.add(node, kind, [value], kernel=window, stride=(1, 1))
        kept = node.integer("keepdims", 1)
        view = tuple(1 if place in places else size for place, size in enumerate(value.view)
                     if kept or place not in places)
        order = tuple(entry for entry in value.order if entry[0] not in reduced)
        graph.regroup(node, replace(pooled, view=(), order=order), view, name=f"{node.name}-flatten")
    return read


def activation(kind: type[Layer], **settings: Any) -> Reader:
    """Relu, Tanh, Sigmoid and others: element by element, under any view."""
    def read(graph: OnnxGraph, node: OnnxNode) -> None:
        value = graph.operand(node)
        graph.define(node, replace(graph.add(node, kind, [value], **settings), view=value.view, order=value.order))
    return read


def leaky_relu(graph: OnnxGraph, node: OnnxNode) -> None:
    """LeakyRelu: its alpha becomes a slope in as few digits as tell it from other FP32 numbers."""
    alpha = node.attributes.get("alpha", 0.01)
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise node.error(f"its alpha is {str(alpha)[:60]}; only numbers above 0 and below 1 are supported, use one of "
                         "them, or ReLU")
    activation(LeakyRelu, slope=float(str(np.float32(alpha))))(graph, node)


def clip(graph: OnnxGraph, node: OnnxNode) -> None:
    """Clip from 0, or from 0 to 6."""
    bounds: list[float | None] = [None, None]
    for number, key in enumerate(("min", "max")):
        name = node.inputs[1 + number] if len(node.inputs) > 1 + number else ""
        if not name:
            continue
        constant = graph.constants.get(name)
        if constant is None or (values := small_values(constant.tensor)) is None or len(values) != 1:
            raise node.error(f"its {key} is no number that the file holds; write it out")
        else:
            bounds[number] = float(values[0])
    low, high = bounds
    kind = {None: Relu, 6.0: Relu6}.get(high) if low == 0 else None
    if kind is None:
        node.problems.append(f"clips its input to {'-inf' if low is None else low} .. {'inf' if high is None else high}"
                             "; only from 0 on (ReLU) and to 0 .. 6 (ReLU6) are supported, use one of them")
        node.stand_in = graph.operand(node)
    else:
        activation(kind)(graph, node)


def gelu(graph: OnnxGraph, node: OnnxNode) -> None:
    """Gelu by its tanh approximation; by default it is by the error function, which no layer computes."""
    approximate = node.attributes.get("approximate", b"none")
    if approximate == TANH.encode():
        activation(Gelu)(graph, node)
        return
    node.problems.append(EXACT_GELU if approximate == b"none" else
                         f"its approximate is {quoted(str(approximate)[:60])}; only {quoted(TANH)} is supported")
    node.stand_in = graph.operand(node)


def joiner(kind: type[Layer]) -> Reader:
    """Add, Sum and Mean of tensors with the same dimensions."""
    def read(graph: OnnxGraph, node: OnnxNode) -> None:
        values = [graph.operand(node, place) for place in range(len(node.inputs))]
        joined = graph.add(node, kind, values)
        first = values[0]
        if any(value.view != first.view for value in values):
            views = " and ".join(str(list(value.view)) for value in values[:4])
            raise node.error(f"needs equal dimensions, not {views} behind the batch; make them equal")
        if any(value.order != first.order and sorted(value.order) == sorted(first.order) for value in values):
            raise node.error(f"joins elements of {list(first.view)} behind the batch that lie in different orders, "
                             "channels first and last; transpose one of the inputs")
        graph.define(node, replace(joined, view=first.view, order=first.order))
    return read


def concat(graph: OnnxGraph, node: OnnxNode) -> None:
    """Concat of channels of maps in one layout, or of features."""
    values = [graph.operand(node, place) for place in range(len(node.inputs))]
    first = values[0]
    place = axis(node, node.integer("axis", 0), len(first.view) + 1) - 1
    if place < 0:
        raise node.error("concatenates along the batch (axis 0); only channels can be concatenated: export with axis 1 "
                         "(dim=1)")
    if any((value.view[:place], value.view[place + 1:]) != (first.view[:place], first.view[place + 1:])
           for value in values):
        views = " and ".join(str(list(value.view)) for value in values[:4])
        raise node.error(f"needs equal dimensions but along axis {place + 1}, not {views} behind the batch; make them "
                         "equal")
    order = _concatenated(values, place)
    if order is None:
        raise node.error(f"concatenates along axis {place + 1} of {list(first.view)} behind the batch, which are no "
                         "channels of maps in one layout, nor features of layers; concatenate channels, and flatten "
                         "behind it")
    if len(values) > 1:
        joined = graph.add(node, Concat, values)
        view = (*first.view[:place], sum(value.view[place] for value in values), *first.view[place + 1:])
        first = replace(joined, view=view, order=order)
    graph.define(node, first)


def _concatenated(values: Sequence[Value], place: int) -> tuple[tuple[int, int], ...] | None:
    """The order of tensors concatenated along a dimension of their views; None if that is not each one's channels, or
    features, and all else alike."""
    total = sum(value.view[place] for value in values)
    if all(value.shape.flat and len(value.order) < 2 and value.view[place] == value.shape.elements for value in values):
        return ((0, total),)
    groups = [value.groups() for value in values]
    several = [value for value in values if value.shape.channels > 1]
    if any(value.shape.flat for value in values) or not all(
            group is not None and group[place] == ((CHANNEL,) if value.shape.channels > 1 else ())
            for value, group in zip(values, groups, strict=True)):
        return None
    if len({tuple(entry for entry in value.order if entry[0] != CHANNEL) for value in values}) > 1:
        return None
    if not several:
        # Each has one channel: it must be the first dimension, as of other maps.
        return ((CHANNEL, total), *values[0].order) if place == 0 and values[0].spatial() is not None else None
    return tuple((dimension, total if dimension == CHANNEL else size) for dimension, size in several[0].order)


join = joiner(Add)
