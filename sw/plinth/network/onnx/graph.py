"""The network under construction: layers made so far, what each tensor of the graph is, who owns each initializer."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from plinth.errors import UserError, quoted
from plinth.files.forms import MAXIMUM_SIZE, is_integer
from plinth.network.layers import Flatten, Layer, Shape, feeder
from plinth.network.network import INPUT
from plinth.network.onnx.layout import CHANNEL, COLUMN, ROW, Value, value_of
from plinth.network.onnx.proto import OnnxNode, fixed, is_uniform
from plinth.network.onnx.sizes import BATCH, Size, SizeList, of_constant

#: Longest name of a layer.
_LONGEST = 64


class UnknownError(Exception):
    """A node reads what a refused node gives, so that nothing more can be said of it."""


@dataclass(frozen=True)
class HeldTensor:
    """A tensor that the file holds; its values are read only where they are sizes."""

    #: The initializer or Constant that holds the numbers, whatever other names lead to it.
    source: str
    dimensions: tuple[int, ...]
    tensor: Any


@dataclass(frozen=True)
class Operator:
    """How a node is read: inputs at least and at most, attributes that are looked at, and what it makes.

    ``read`` makes layers and values; ``fold`` computes sizes where all inputs are sizes. One of them may be missing.
    """

    inputs: tuple[int, int]
    attributes: frozenset[str] = frozenset()
    read: "Callable[[OnnxGraph, OnnxNode], None] | None" = None
    fold: Callable[[OnnxNode, list[SizeList]], SizeList] | None = None
    #: What it becomes, and which forms of it are supported, for the list in docs/networks.md.
    becomes: str = ""
    supported: str = ""


class OnnxGraph:
    """Layers made from nodes so far.

    Parameters
    ----------
    where : str
        The file, for messages.
    proto : onnx.GraphProto
        The graph.
    """

    def __init__(self, where: str, proto: Any) -> None:
        self.where, self.proto = where, proto
        self.layers: dict[str, Layer] = {}
        self.values: dict[str, Value] = {}
        self.constants: dict[str, HeldTensor] = {}
        self.sizes: dict[str, SizeList] = {}
        #: Tensors of which nothing is known, since a node before them is refused.
        self.unknown: set[str] = set()
        #: Those of them that are no sizes or parameters.
        self.activations: set[str] = set()
        #: The size of the batch, if the input or a Reshape fixes it.
        self.batch: Size = BATCH
        #: Dimensions of the input behind the batch, and its name.
        self.input_view: tuple[int, ...] = ()
        self.input_name = ""
        #: Whether it is known what the dimensions of the input are: the first node that makes a layer says so.
        self.settled = False
        #: Initializers by the node that trains them.
        self.owners: dict[str, str] = {}
        #: Layers whose outputs are scaled by a Mul, to which a constant may be added though they have a bias.
        self.scaled: set[str] = set()
        #: Names of nodes that leave no layer, by what became of them.
        self.left_out: dict[tuple[str, str], list[str]] = {}
        #: How often each tensor is read; who takes the graph's output is a reader too.
        self.readers: Counter[str] = Counter()
        for tensor in proto.initializer:
            self.add_constant(tensor.name, tensor)

    def error(self, problem: str) -> UserError:
        """An error of the whole graph."""
        return UserError(f"{self.where}: {problem}")

    def count_readers(self, nodes: Sequence[OnnxNode]) -> None:
        """Count the readers of each tensor among the nodes that are read."""
        self.readers.update(name for node in nodes for name in node.inputs)
        self.readers.update(value.name for value in self.proto.output)

    def stands_in(self, value: Value) -> bool:
        """Whether it is what a refused node would have given."""
        return value.layer != INPUT and value.layer not in self.layers

    def leave_out(self, node: OnnxNode, what: str, became: str = "") -> None:
        """Keep, for the notes, that a node leaves no layer, or what it ``became``."""
        self.left_out.setdefault((what, became), []).append(node.name)

    # The input.

    def read_input(self) -> None:
        """Define the one input.

        Raises
        ------
        UserError
            If there is not one input, or its shape is no sample's.
        """
        inputs = [value for value in self.proto.input if value.name not in self.constants]
        if len(inputs) != 1:
            raise self.error(f"has {len(inputs)} inputs; networks with one are supported: export it with one, x")
        name, tensor = inputs[0].name, inputs[0].type.tensor_type
        if not name:
            raise self.error("its input has no name; mend the file")
        if not tensor.HasField("shape") or not tensor.shape.dim:
            raise self.error(f"input {quoted(name)} has no shape; export with fixed shapes")
        batch, *sizes = fixed(tensor.shape.dim)
        if None in sizes:
            raise self.error(f"input {quoted(name)} has a dynamic dimension; only the first, the batch, may be: "
                             "export with fixed shapes")
        if len(sizes) > 7 or not all(is_integer(size, 1, MAXIMUM_SIZE) for size in sizes):
            raise self.error(f"input {quoted(name)} has dimensions {sizes[:8]!s} behind the batch; supported are at "
                             f"most 7, each from 1 to {MAXIMUM_SIZE}")
        if is_integer(batch, 1, 1 << 62):
            self.batch = batch or BATCH
        view = tuple(size for size in sizes if size is not None)
        self.input_name, self.input_view = name, view
        order = tuple((place, size) for place, size in enumerate(view) if size > 1)
        self.values[name] = Value(INPUT, Shape((prod(view),)), view, order)

    def hide_inputs(self) -> None:
        """Make inputs unknown of which there is not one, or whose dimensions are no sample's."""
        names = {value.name for value in self.proto.input if value.name} - set(self.constants)
        self.unknown |= names
        self.activations |= names

    def settle(self, value: Value, *, rank: int | None = None) -> None:
        """Fix what the dimensions of the input are, by the first layer that reads it.

        Parameters
        ----------
        value : Value
            What that layer reads; another layer's output says nothing.
        rank : int or None
            Spatial dimensions of a map that the layer reads; 0: it reads features; None: any.
        """
        if self.settled or value.layer != INPUT:
            return
        self.settled = True
        views = {name: other for name, other in self.values.items() if other.layer == INPUT}
        if rank is None and len(self.input_view) in (2, 3):
            # A Transpose of it says more than the file's own dimensions.
            value = next((other for other in views.values() if not other.ascending), views[self.input_name])
            rank = len(value.view) - 1
        groups = value.groups()
        whole = groups is not None and all(len(group) < 2 for group in groups)
        turned = [name for name, other in views.items() if not other.ascending]
        if rank not in (1, 2) or len(value.view) != rank + 1 or (turned and not whole):
            return  # as features, in the order in which the file has them
        spatial = (ROW, COLUMN)[2 - rank:]
        shape = Shape((value.view[0], *(1,) * (2 - rank), *value.view[1:]))
        roles = {group[0]: axis for group, axis in zip(groups or (), (CHANNEL, *spatial), strict=False) if group}
        for name, other in views.items():
            # What lies as in the file has the order of the map's own dimensions, if the map does.
            order = (value_of(INPUT, shape, spatial).order if value.ascending and other.ascending else
                     tuple((roles[axis], size) for axis, size in other.order))
            self.values[name] = replace(other, shape=shape, order=order)

    def input_shape(self) -> Shape:
        """The shape of the input, as the layers that read it have fixed it."""
        return self.values[self.input_name].shape

    # Tensors.

    def add_constant(self, name: str, tensor: Any) -> None:
        """A tensor that the file holds."""
        if name in self.constants:
            raise self.error(f"tensor {quoted(name)} is defined twice")
        self.constants[name] = HeldTensor(name, tuple(tensor.dims), tensor)
        sizes = of_constant(tensor)
        if sizes is not None:
            self.sizes[name] = sizes

    def known_sizes(self, name: str) -> SizeList | None:
        """The sizes that a tensor holds; None if it holds none (UnknownError if a node before it is refused)."""
        if name in self.unknown:
            raise UnknownError
        return self.sizes.get(name)

    def value(self, node: OnnxNode, place: int = 0, *, padded: bool = False) -> Value:
        """An input that is the output of a layer, under any view; ``padded``: also behind a Pad.

        Raises
        ------
        UserError
            If it is none.
        UnknownError
            If a node before it is refused.
        """
        name = node.inputs[place]
        if name in self.unknown:
            raise UnknownError
        if name not in self.values:
            raise node.error(f"input {quoted(name)} is "
                             f"{'a constant' if name in self.constants or name in self.sizes else 'not defined'}; "
                             "it must come from another node or be the graph's input")
        value = self.values[name]
        if value.softmax:
            raise node.error("follows a Softmax, which is supported only at the end; move it or remove it")
        if value.zeros and not padded:
            raise node.error(f"reads what a Pad gives, which only a {value.padder} may; give convolutions and pools "
                             "their own padding")
        return value

    def operand(self, node: OnnxNode, place: int = 0) -> Value:
        """An input of a layer that takes any view."""
        self.settle(self.value(node, place))
        return self.value(node, place)

    def map(self, node: OnnxNode, rank: int) -> tuple[Value, tuple[int, ...]]:
        """The first input as a map, channels first, with the axis of each of ``rank`` spatial dimensions.

        Raises
        ------
        UserError
            If it is no such map.
        """
        source = self.value(node, padded=True)
        self.settle(source, rank=rank)
        value = self.value(node, padded=node.operator == source.padder)
        axes = value.spatial()
        if axes is None or len(axes) != rank:
            wanted = "[channels, length]" if rank == 1 else "[channels, height, width]"
            if value.shape.flat and tuple(value.view) == tuple(value.shape):
                raise node.error(f"needs {wanted} behind the batch, but {feeder(value.layer)} gives {value.shape} "
                                 "features; give the network a map or use a dense layer")
            if value.shape.flat and value.layer != INPUT:
                raise node.error(f"needs {wanted} behind the batch, but reads {value.shape} features of "
                                 f"{feeder(value.layer)} regrouped to {list(value.view)}; no layer makes a map of "
                                 "features: give the network the map as its input, or use dense layers")
            raise node.error(f"reads dimensions {list(value.view)} behind the batch, elements of {feeder(value.layer)} "
                             f"({value.shape}), which are not {wanted}; put the channels first and keep the map's "
                             "height and width")
        return value, axes

    def features(self, node: OnnxNode) -> Value:
        """The first input as features, in whatever order: the layer's own weights are trained from fresh ones."""
        self.settle(self.value(node), rank=0 if len(self.value(node).view) == 1 else None)
        value = self.value(node)
        if len(value.view) > 1 and node.operator == "MatMul":
            raise node.error(f"is a dense layer at each of {list(value.view[:-1])} positions, elements of "
                             f"{feeder(value.layer)} ({value.shape}) that are not flattened; put a Flatten between, or "
                             "use a convolution with a kernel of 1 over [channels, positions]")
        if len(value.view) == 1 and not value.shape.flat:  # the input, which another layer reads as a map
            return replace(self.add(node, Flatten, [value], name=f"{node.name}-flatten"), order=value.order)
        if value.view != tuple(value.shape) and value.view:
            raise node.error(f"reads dimensions {list(value.view)} behind the batch, elements of "
                             f"{feeder(value.layer)} ({value.shape}) that are not flattened; put a Flatten between")
        return value

    def add(self, node: OnnxNode, kind: type[Layer], values: Sequence[Value], *, name: str = "",
            spatial: Sequence[int] = (ROW, COLUMN), **settings: Any) -> Value:
        """A layer for a node; what it gives."""
        try:
            layer = kind(name=self.free_name(name or node.name), inputs=tuple(value.layer for value in values),
                         **settings)
            shape = layer.output([value.shape for value in values])
        except ValueError as error:
            raise node.error(str(error)) from error
        self.layers[layer.name] = layer
        return value_of(layer.name, shape, spatial)

    def define(self, node: OnnxNode, value: Value) -> None:
        """Name the output of a node; other outputs must not be read."""
        name = node.output
        for other in node.proto.output[1:]:
            if other and self.readers[other]:
                raise node.error(f"its output {quoted(other)} is read; only the first output of a node may be")
        self.values[name] = replace(value, sole=value.sole and self.readers[name] == 1)

    def regroup(self, node: OnnxNode, value: Value, view: tuple[int, ...], *, name: str = "") -> None:
        """Name the output of a node that gives the same elements in other dimensions; a map is flattened to one."""
        if len(view) == 1 and value.layer == INPUT and not self.settled and len(self.input_view) == 3:
            self.settle(value)
            value = replace(self.values[node.inputs[0]], sole=value.sole)
        if len(view) == 1 and not value.shape.flat:
            sole, order = value.sole, value.order
            value = replace(self.add(node, Flatten, [value], name=name), sole=sole, order=order)
        self.define(node, replace(value, view=view))

    @cached_property
    def _stated(self) -> dict[str, Any]:
        """Types that the file states, by tensor."""
        return {value.name: value.type.tensor_type for value in (*self.proto.value_info, *self.proto.output)}

    def hide(self, node: OnnxNode) -> None:
        """Make the outputs of a node unknown that have no value."""
        activation = node.operator != "Shape" and any(
            name in self.values or name in self.activations for name in node.inputs)
        outputs = {str(name) for name in node.proto.output if name and name not in self.values}
        self.unknown |= outputs
        self.activations |= outputs if activation else set()

    def stand_in(self, node: OnnxNode) -> None:
        """Give the outputs of a refused node what they would have been, as far as it is known, so that the nodes behind
        it can be checked."""
        for name in filter(None, node.proto.output):
            if name in self.values:
                continue
            value = node.stand_in if name == node.proto.output[0] else None
            if value is None and name in self._stated and self._stated[name].HasField("shape"):
                batch, *sizes = fixed(self._stated[name].shape.dim) or [0]
                known = tuple(size for size in sizes if is_integer(size, 1, MAXIMUM_SIZE) and size is not None)
                if len(known) == len(sizes) and 0 < len(known) < 4 and batch in (None, self.batch):
                    shape = Shape((known[0], *(1,) * (3 - len(known)), *known[1:]) if len(known) > 1 else known)
                    value = value_of(self.free_name(node.name), shape, (ROW, COLUMN)[3 - len(known):], sole=False)
            if value is not None:
                self.values[name] = replace(value, sole=False, softmax=False)
        self.hide(node)

    def free_name(self, wanted: str) -> str:
        """The name of a node if a layer may have it and none has; else the nearest that one may have.

        Other characters than letters, digits, ``_``, ``-`` and ``.`` become ``_``, what stands before the first letter
        or digit goes, of a longer name the end is kept, and a name that is taken gets a number.
        """
        base = re.sub(r"[^A-Za-z0-9_.\-]+", "_", wanted.strip("/")).lstrip("_.-")
        base = base[-_LONGEST:].lstrip("_.-") or "layer"
        name, number = base, 1
        while name in self.layers or name == INPUT:
            number += 1
            name = f"{base[:_LONGEST - len(str(number)) - 1]}-{number}"
        return name

    # Parameters.

    def weights(self, node: OnnxNode, place: int, counts: Sequence[int], what: str) -> list[int]:
        """Dimensions of an input that is an initializer of one of some ``counts`` of dimensions, which this node
        trains."""
        name = node.inputs[place]
        if name in self.unknown:
            raise UnknownError
        if name not in self.constants:
            raise node.error(f"{what} {quoted(name)} is no initializer; weights must be stored in the file")
        dimensions = list(self.constants[name].dimensions)
        if len(dimensions) not in counts or min(dimensions, default=0) < 1:
            raise node.error(f"{what} has dimensions {dimensions[:8]}; {' or '.join(map(str, counts))} above 0 are "
                             "supported")
        self._own(node, self.constants[name], what)
        return dimensions

    def vector(self, node: OnnxNode, place: int, allowed: Sequence[list[int]], what: str) -> None:
        """Check an input that is an initializer of an element for each output or channel, which this node trains.

        One value throughout may be read by several nodes: exporters merge tensors that are equal, and initialisers
        set biases to 0 and scales to 1.
        """
        if node.inputs[place] in self.unknown:
            raise UnknownError
        constant = self.constants.get(node.inputs[place])
        dimensions = list(constant.dimensions) if constant is not None else None
        if constant is None or dimensions not in allowed:
            raise node.error(f"{what} must be an initializer of {max(allowed[0])} elements, as many as there are "
                             f"outputs, not {dimensions if dimensions is None else dimensions[:8]}; mend the model")
        if constant.source not in self.owners or not is_uniform(constant.tensor):
            self._own(node, constant, what)

    def _own(self, node: OnnxNode, constant: HeldTensor, what: str) -> None:
        """Refuse parameters that are read twice: each reader would get its own and train it alone."""
        owner = self.owners.get(constant.source)
        if owner is not None:
            raise node.error(f"has {what} {quoted(constant.source)} in common with node {quoted(owner)}; tied "
                             "parameters are not supported: give each node its own")
        self.owners[constant.source] = node.name
