"""The network under construction: layers made so far, what each tensor of the graph is, who owns each initializer."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plinth.errors import UserError, quoted
from plinth.model.forms import MAXIMUM_SIZE, is_integer
from plinth.model.layers import Flatten, Layer, Shape, feeder
from plinth.model.network import INPUT
from plinth.model.onnx.proto import Node, fixed, is_uniform
from plinth.model.onnx.sizes import BATCH, Size, Sizes, of_constant


@dataclass(frozen=True)
class Value:
    """What a tensor of the graph is: the output of a layer, per sample."""

    layer: str
    shape: Shape
    #: Its dimensions in ONNX, behind the batch: the layer's elements, perhaps in other groups.
    view: tuple[int, ...]
    #: Read by one node only, back to its layer, and no output of the graph: the layer may still change.
    sole: bool = False
    #: Behind the Softmax that ends the graph.
    softmax: bool = False


@dataclass(frozen=True)
class Constant:
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
    read: "Callable[[Graph, Node], None] | None" = None
    fold: Callable[[Node, list[Sizes]], Sizes] | None = None


class Graph:
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
        self.constants: dict[str, Constant] = {}
        self.sizes: dict[str, Sizes] = {}
        #: The size of the batch, if the input or a Reshape fixes it.
        self.batch: Size = BATCH
        #: Initializers by the node that trains them.
        self.owners: dict[str, str] = {}
        #: How often each tensor is read; who takes the graph's output is a reader too.
        self.readers = Counter(name for node in proto.node for name in node.input)
        self.readers.update(value.name for value in proto.output)
        for tensor in proto.initializer:
            self.add_constant(tensor.name, tensor)

    def error(self, problem: str) -> UserError:
        """An error of the whole graph."""
        return UserError(f"{self.where}: {problem}")

    # Tensors.

    def read_input(self) -> Shape:
        """The shape of the one input, without the batch.

        Raises
        ------
        UserError
            If there is not one input, or its shape is no sample's.
        """
        inputs = [value for value in self.proto.input if value.name not in self.constants]
        if len(inputs) != 1:
            raise self.error(f"has {len(inputs)} inputs; networks with one are supported")
        name, tensor = inputs[0].name, inputs[0].type.tensor_type
        if not name:
            raise self.error("its input has no name; mend the file")
        if not tensor.HasField("shape") or not tensor.shape.dim:
            raise self.error(f"input {quoted(name)} has no shape; export with fixed shapes")
        batch, *sizes = fixed(tensor.shape.dim)
        if None in sizes:
            raise self.error(f"input {quoted(name)} has a dynamic dimension; only the first, the batch, may be: "
                             "export with fixed shapes")
        if len(sizes) not in (0, 1, 3) or not all(is_integer(size, 1, MAXIMUM_SIZE) for size in sizes):
            raise self.error(f"input {quoted(name)} has dimensions {sizes[:8]!s} behind the batch; supported are "
                             f"[features] and [channels, height, width], each from 1 to {MAXIMUM_SIZE}")
        if is_integer(batch, 1, 1 << 62):
            self.batch = batch or BATCH
        view = tuple(size for size in sizes if size is not None)
        shape = Shape(view or (1,))
        self.values[name] = Value(INPUT, shape, view)
        return shape

    def add_constant(self, name: str, tensor: Any) -> None:
        """A tensor that the file holds."""
        if name in self.constants:
            raise self.error(f"tensor {quoted(name)} is defined twice")
        self.constants[name] = Constant(name, tuple(tensor.dims), tensor)
        found = of_constant(tensor)
        if found is not None:
            self.sizes[name] = found

    def value(self, node: Node, place: int = 0, *, regrouped: bool = False) -> Value:
        """An input that is the output of a layer, in the layer's own dimensions unless it may be ``regrouped``."""
        name = node.inputs[place]
        if name not in self.values:
            raise node.error(f"input {quoted(name)} is "
                             f"{'a constant' if name in self.constants or name in self.sizes else 'not defined'}; "
                             "it must come from another node or be the graph's input")
        found = self.values[name]
        if found.softmax:
            raise node.error("follows a Softmax, which is supported only at the end; move it or remove it")
        if not regrouped and found.view != tuple(found.shape):
            raise node.error(f"reads dimensions {list(found.view)} behind the batch, elements of "
                             f"{feeder(found.layer)} ({found.shape}) that are not flattened; put a Flatten between")
        return found

    def add(self, node: Node, kind: type[Layer], values: Sequence[Value], *, name: str = "",
            **settings: Any) -> Value:
        """A layer for a node; what it gives."""
        try:
            layer = kind(name=self.free_name(name or node.name), inputs=tuple(value.layer for value in values),
                         **settings)
            shape = layer.output([value.shape for value in values])
        except ValueError as error:
            raise node.error(str(error)) from error
        self.layers[layer.name] = layer
        return Value(layer.name, shape, tuple(shape), sole=True)

    def define(self, node: Node, value: Value) -> None:
        """Name the output of a node; other outputs must not be read."""
        name = node.output
        for other in node.proto.output[1:]:
            if other and self.readers[other]:
                raise node.error(f"its output {quoted(other)} is read; only the first output of a node may be")
        self.values[name] = replace(value, sole=value.sole and self.readers[name] == 1)

    def regroup(self, node: Node, value: Value, view: tuple[int, ...], *, name: str = "") -> None:
        """Name the output of a node that gives the same elements in other dimensions; a map is flattened to one."""
        if len(view) == 1 and not value.shape.flat:
            sole = value.sole
            value = replace(self.add(node, Flatten, [value], name=name), sole=sole)
        self.define(node, replace(value, view=view))

    def free_name(self, wanted: str) -> str:
        """A free name for a layer, as like the one that is wanted as can be."""
        base = re.sub(r"[^A-Za-z0-9_.\-]+", "_", wanted.strip("/")).lstrip("_.-")[:56] or "layer"
        name, number = base, 1
        while name in self.layers or name == INPUT:
            number += 1
            name = f"{base}-{number}"
        return name

    # Parameters.

    def weights(self, node: Node, place: int, count: int, what: str) -> list[int]:
        """Dimensions of an input that is an initializer of ``count`` dimensions, which this node trains."""
        name = node.inputs[place]
        if name not in self.constants:
            raise node.error(f"{what} {quoted(name)} is no initializer; weights must be stored in the file")
        found = list(self.constants[name].dimensions)
        if len(found) != count or min(found, default=0) < 1:
            raise node.error(f"{what} has dimensions {found[:8]}; {count} above 0 are supported")
        self._own(node, self.constants[name], what)
        return found

    def vector(self, node: Node, place: int, allowed: Sequence[list[int]], what: str) -> None:
        """Check an input that is an initializer of an element for each output or channel, which this node trains.

        One value throughout may be read by several nodes: exporters merge tensors that are equal, and initialisers
        set biases to 0 and scales to 1.
        """
        constant = self.constants.get(node.inputs[place])
        found = list(constant.dimensions) if constant is not None else None
        if constant is None or found not in allowed:
            raise node.error(f"{what} must be an initializer of {max(allowed[0])} elements, as many as there are "
                             f"outputs, not {found if found is None else found[:8]}")
        if constant.source not in self.owners or not is_uniform(constant.tensor):
            self._own(node, constant, what)

    def _own(self, node: Node, constant: Constant, what: str) -> None:
        """Refuse parameters that are read twice: each reader would get its own and train it alone."""
        owner = self.owners.get(constant.source)
        if owner is not None:
            raise node.error(f"has {what} {quoted(constant.source)} in common with node {quoted(owner)}; tied "
                             "parameters are not supported: give each node its own")
        self.owners[constant.source] = node.name
