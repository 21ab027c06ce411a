"""Operators that change no number in evaluation: they regroup, rename, or stand for nothing."""

from dataclasses import replace
from math import prod

import onnx

from plinth.errors import quoted
from plinth.files.forms import MAXIMUM_SIZE
from plinth.network.layers import feeder
from plinth.network.network import INPUT
from plinth.network.onnx.graph import OnnxGraph
from plinth.network.onnx.proto import INTEGERS, OnnxNode, small_values
from plinth.network.onnx.sizes import BATCH, Size, SizeList, axis

#: The least finite number of FP32, as some exporters write -inf.
_LEAST = -(2.0 - 2.0**-23) * 2.0**127


def flatten(graph: OnnxGraph, node: OnnxNode) -> None:
    """Flatten behind the batch."""
    value = graph.value(node)
    number = node.integer("axis", 1)
    if number not in (1, -len(value.view)):
        raise node.error(f"axis must be 1, not {number}; the batch stays the first dimension")
    graph.regroup(node, value, (prod(value.view),))


def reshape(graph: OnnxGraph, node: OnnxNode) -> None:
    """Reshape that keeps the batch the first dimension."""
    value = graph.value(node)
    target = graph.known_sizes(node.inputs[1])
    if target is None or target.columns:
        raise node.error("its shape is no list of integers that the file holds or computes from known sizes, so it is "
                         "dynamic; export with fixed shapes")
    if node.integer("allowzero", 0) and 0 in target.values:
        raise node.error(f"reshapes to {target} with allowzero, so to no elements; write the sizes out")
    whole = (graph.batch, *value.view)
    sizes: list[Size] = [whole[place] if size == 0 and place < len(whole) else size
                         for place, size in enumerate(target.values)]
    if graph.batch == BATCH and sizes and isinstance(sizes[0], int) and sizes[0] > 0:
        graph.batch = sizes[0]  # x.reshape(len(x), -1): tracing made a number of the batch
    view = _behind_batch(graph.batch, sizes, prod(value.view))
    if target.scalar or view is None:
        raise node.error(f"reshapes {list(value.view)} behind the batch to {target}; the batch must stay the first "
                         f"dimension, as in [{graph.batch}, {prod(value.view)}]")
    graph.regroup(node, value, view)


def _behind_batch(batch: Size, sizes: list[Size], elements: int) -> tuple[int, ...] | None:
    """Dimensions behind the batch that a Reshape gives; None if it does not keep the batch apart."""
    rest = [size for size in sizes[1:] if isinstance(size, int)]
    if not sizes or len(rest) < len(sizes) - 1 or len(rest) > 8 or any(size < -1 for size in rest):
        return None
    if sizes[0] in (batch, BATCH) and rest.count(-1) == 1:
        known = prod(size for size in rest if size != -1)
        if known == 0:
            return None
        rest = [elements // known if size == -1 else size for size in rest]
    elif sizes[0] not in (batch, BATCH, -1):
        return None
    return tuple(rest) if prod(rest) == elements and min(rest, default=1) > 0 else None


def squeeze(graph: OnnxGraph, node: OnnxNode) -> None:
    """Squeeze of dimensions of one element."""
    value = graph.value(node)
    rank = len(value.view) + 1
    if len(node.inputs) > 1:
        places = {axis(node, number, rank) for number in _axes(graph, node)}
    else:
        places = {place for place, size in enumerate((graph.batch, *value.view)) if size == 1}
    if 0 in places or any(value.view[place - 1] != 1 for place in places):
        raise node.error(f"squeezes axes {sorted(places)[:8]} of [{graph.batch}, {str(list(value.view))[1:]}; only "
                         "dimensions of 1 behind the batch can go")
    graph.regroup(node, value, tuple(size for place, size in enumerate(value.view, start=1) if place not in places))


def unsqueeze(graph: OnnxGraph, node: OnnxNode) -> None:
    """Unsqueeze behind the batch."""
    value = graph.value(node)
    axes = _axes(graph, node)
    rank = len(value.view) + 1 + len(axes)
    places = {axis(node, number, rank) for number in axes}
    if 0 in places or len(places) < len(axes) or rank > 8:
        raise node.error(f"makes dimensions at {list(axes)[:8]}; the batch must stay the first of at most 8")
    rest = iter(value.view)
    graph.regroup(node, value, tuple(1 if place in places else next(rest) for place in range(1, rank)))


def _axes(graph: OnnxGraph, node: OnnxNode) -> tuple[int, ...]:
    axes = graph.known_sizes(node.inputs[1])
    if axes is None:
        raise node.error("its axes are no integers that the file holds; write them out")
    return axes.integers(node, "axes")


def select(graph: OnnxGraph, node: OnnxNode) -> None:
    """Gather of the only element along an axis, ``x[:, :, 0]``: the axis goes."""
    value = graph.value(node)
    place = axis(node, node.integer("axis", 0), len(value.view) + 1)
    index = graph.known_sizes(node.inputs[1])
    first = index is not None and index.scalar and index.values in ((0,), (-1,))
    if place == 0 or value.view[place - 1] != 1 or not first:
        raise node.error(f"takes elements out of {list(value.view)} behind the batch; only rows of an embedding, and "
                         "the only element along an axis, are supported: flatten all of them, or take their mean")
    graph.regroup(node, value, value.view[:place - 1] + value.view[place:])


def slice_(graph: OnnxGraph, node: OnnxNode) -> None:
    """Slice of all there is, ``x[:, :]``: nothing."""
    value = graph.value(node)
    operand_sizes = [graph.known_sizes(name) for name in node.inputs[1:]]
    bounds = [sizes.values for sizes in operand_sizes if sizes is not None]
    whole = (graph.batch, *value.view)
    axes = bounds[2] if len(bounds) > 2 else tuple(range(len(bounds[0]) if bounds else 0))
    kept = len(bounds) == len(operand_sizes) and len(bounds[0]) == len(bounds[1]) == len(axes) and all(
        start == 0 and isinstance(number, int) and _reaches(end, whole[axis(node, number, len(whole))])
        for start, end, number in zip(*bounds[:2], axes, strict=True))
    if not kept or any(step != 1 for sizes in bounds[3:] for step in sizes):
        raise node.error(f"takes a part of {list(value.view)} behind the batch; only slices of all are "
                         "supported: cut the samples, or use all of it")
    graph.define(node, value)


def _reaches(end: Size, size: Size) -> bool:
    """Whether a slice that ends there has the last element; the batch has fewer than 2^31."""
    return end == size or (isinstance(end, int) and end >= (size if isinstance(size, int) else (1 << 31) - 1))


def identity(graph: OnnxGraph, node: OnnxNode) -> None:
    """Identity, of a tensor or of an initializer, which exporters write where two initializers were equal."""
    if node.inputs[0] in graph.constants:
        graph.constants[node.output] = graph.constants[node.inputs[0]]
    else:
        graph.define(node, graph.value(node, padded=True))
        graph.leave_out(node, "Identity")


def dropout(graph: OnnxGraph, node: OnnxNode) -> None:
    """Dropout in evaluation form: nothing."""
    training = node.inputs[2] if len(node.inputs) > 2 else ""
    if training:
        constant = graph.constants.get(training)
        if constant is None or small_values(constant.tensor) != [False]:
            if node.inputs[0] in graph.values:
                node.stand_in = graph.value(node)
            raise node.error("drops elements (training form), which no layer does; export in evaluation mode")
    graph.define(node, graph.value(node, padded=True))
    graph.leave_out(node, "Dropout")


def cast(graph: OnnxGraph, node: OnnxNode) -> None:
    """Cast of row numbers to integers."""
    value = graph.value(node)
    if value.layer != INPUT or node.integer("to", 0) not in INTEGERS:
        node.stand_in = value
        raise node.error("only row numbers of an embedding, the graph's input, are cast; export in one format")
    graph.define(node, value)
    graph.leave_out(node, "Cast")


def shape(graph: OnnxGraph, node: OnnxNode) -> None:
    """Shape: sizes that the nodes behind it compute with."""
    constant = graph.constants.get(node.inputs[0])
    if constant is not None:
        sizes: tuple[Size, ...] = constant.dimensions
    else:
        sizes = (graph.batch, *graph.value(node).view)
    start, end = node.integer("start", 0), node.integer("end", len(sizes))
    graph.sizes[node.output] = SizeList(sizes[start:end])


def constant(graph: OnnxGraph, node: OnnxNode) -> None:
    """Constant: a tensor, or integers."""
    value = node.attributes.get("value")
    numbers = node.attributes.get("value_ints", node.attributes.get("value_int"))
    if value is None and isinstance(numbers, int | list):
        count = [len(numbers)] if isinstance(numbers, list) else []
        value = onnx.TensorProto(data_type=onnx.TensorProto.INT64, dims=count,
                                 int64_data=numbers if isinstance(numbers, list) else [numbers])
    if not isinstance(value, onnx.TensorProto):
        raise node.error("only constants with a tensor or integers as their value are supported")
    graph.add_constant(node.output, value)


def softmax(graph: OnnxGraph, node: OnnxNode) -> None:
    """Softmax and LogSoftmax at the end: part of the loss."""
    rank = len(graph.value(node).view) + 1
    number = axis(node, node.integer("axis", -1), rank)
    if number == 0:
        raise node.error("goes over the samples of the batch (axis 0); a softmax goes over the features: export with "
                         "axis 1 (dim=1)")
    value = graph.operand(node)
    if not value.shape.flat:
        raise node.error(f"needs features, but {feeder(value.layer)} gives a map of {value.shape}; put a Flatten "
                         "between")
    if rank != 2:
        raise node.error(f"goes over axis {number} of {list(value.view)} behind the batch, as in attention; only a "
                         "softmax of all features at the end is supported")
    graph.define(node, replace(value, softmax=True))


def pad(graph: OnnxGraph, node: OnnxNode) -> None:
    """Pad with zeros in front of a Conv, or with the least number in front of a MaxPool: padding of that layer, if
    nothing else reads it."""
    value = graph.value(node, padded=True)
    mode = node.attributes.get("mode", b"constant")
    if mode != b"constant":
        name = mode.decode("ascii", "replace") if isinstance(mode, bytes) else str(mode)
        node.problems.append(f"pads in mode {quoted(name)}; pad with zeros (padding_mode='zeros')")
    fill_name, least = node.inputs[2] if len(node.inputs) > 2 else "", False
    if fill_name:
        fill = graph.constants.get(fill_name)
        numbers = None if fill is None else small_values(fill.tensor)
        least = numbers is not None and len(numbers) == 1 and numbers[0] <= _LEAST
        if not least and numbers not in ([0], [0.0]):
            node.problems.append("pads with another number than 0; pad with zeros, or in front of a MaxPool with -inf")
    if value.zeros and least != value.least and not node.problems:
        node.problems.append("pads with another number than the Pad before it; pad once")
    rank = len(value.view) + 1
    sizes = graph.known_sizes(node.inputs[1])
    if sizes is None:
        raise node.error("its pads are no integers that the file holds; write them out")
    pads = sizes.integers(node, "pads")
    axes = tuple(range(rank))
    if len(node.inputs) > 3:
        listed = graph.known_sizes(node.inputs[3])
        axes = () if listed is None else tuple(axis(node, number, rank) for number in listed.integers(node, "axes"))
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes) or not all(
            0 <= size <= MAXIMUM_SIZE for size in pads):
        raise node.error(f"its pads {list(pads)[:8]} are not two integers from 0 to {MAXIMUM_SIZE} for each of "
                         f"{len(axes)} dimensions; cut the samples instead of the maps, or mend the file")
    zeros = [*((0, 0), *value.zeros)] if value.zeros else [(0, 0)] * rank
    for place, number in enumerate(axes):
        zeros[number] = (zeros[number][0] + pads[place], zeros[number][1] + pads[place + len(axes)])
    padded = replace(value, zeros=tuple(zeros[1:]), least=least)
    if node.problems:
        node.stand_in = None if value.shape.flat else padded
    elif zeros[0] != (0, 0):
        raise node.error("pads the batch; only height and width of a map are padded")
    else:
        graph.define(node, padded if any(map(any, padded.zeros)) else value)
        graph.leave_out(node, "Pad")
