"""A network: a directed graph of layers from the input to one loss, as plain data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from plinth.errors import UserError, one_line
from plinth.files.documents import nearest
from plinth.files.forms import MAXIMUM_SIZE, NAME_PATTERN, described, is_integer
from plinth.network.layers import (
    MAXIMUM_ELEMENTS,
    Dense,
    Embedding,
    Layer,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
    feeder,
)
from plinth.network.variables import Variable

#: Most layers of a network.
MAXIMUM_LAYERS = 4096
#: What layers call the network's input.
INPUT = "input"


@dataclass(frozen=True)
class LayerShapes:
    """Shapes of one layer, per sample, derived.

    Forward it reads ``inputs`` and gives ``output``; errors are shaped as what they are errors of, and gradients as the
    ``variables``.
    """

    inputs: tuple[Shape, ...]
    output: Shape
    #: What it trains.
    variables: tuple[Variable, ...]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Layers in an order in which each stands behind those that feed it; the last is the loss.

    Parameters
    ----------
    name : str
        As in lists and reports.
    input : Shape
        ``(channels, height, width)`` or ``(features,)`` of one sample.
    layers : tuple of Layer
        A layer without ``inputs`` is fed by the one before it (the first by the network's input).
    notes : tuple of str
        What whoever uses it should know of how it was made of a file, a line each; no part of what it is.

    Raises
    ------
    ValueError
        If a name is unknown or taken, shapes do not follow, an output is not read, or the last layer is not
        the one loss. Messages name the layers and the shapes.
    """

    name: str
    input: Shape
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"a network's name must be 1 to 64 letters, digits, '_', '-' or '.', not "
                             f"{described(self.name)}")
        if not isinstance(self.input, (tuple, list)) or len(self.input) not in (1, 3) or not all(
                is_integer(size, 1, MAXIMUM_SIZE) for size in self.input):
            raise ValueError(f"input must be [features] or [channels, height, width], each from 1 to "
                             f"{MAXIMUM_SIZE}, not {described(self.input)}")
        object.__setattr__(self, "input", Shape(self.input))
        if not isinstance(self.layers, (tuple, list)) or not all(isinstance(layer, Layer) for layer in self.layers):
            raise ValueError(f"layers must be a tuple of layers, not {one_line(repr(self.layers), 60)}")
        if not 1 <= len(self.layers) <= MAXIMUM_LAYERS:
            raise ValueError(f"a network must have 1 to {MAXIMUM_LAYERS} layers, not {len(self.layers)}")
        object.__setattr__(self, "layers", self._resolved())
        self._check_graph()
        for layer in self.layers:
            self._check_size(layer)

    def _resolved(self) -> tuple[Layer, ...]:
        """The layers with inputs filled in, each named once and behind its inputs."""
        names = {layer.name for layer in self.layers}
        seen = {INPUT}
        before = INPUT
        resolved_layers = []
        for layer in self.layers:
            if layer.name in seen:
                raise ValueError(f"two layers are called {layer.name!r}; give each its own name" if
                                 layer.name != INPUT else "no layer may be called 'input'; rename it")
            resolved = layer if layer.inputs else replace(layer, inputs=(before,))
            low, high = resolved.arity
            if not low <= len(resolved.inputs) <= high:
                raise resolved.refuse(f"takes {low if low == high else f'{low} to {high}'} inputs, not "
                                      f"{len(resolved.inputs)}; list that many layers as its inputs")
            for name in resolved.inputs:
                if name == resolved.name:
                    raise resolved.refuse("reads its own output; a network has no cycles")
                if name not in seen:
                    raise resolved.refuse(f"reads {described(name)}, which stands behind it; a network has no "
                                          "cycles, put layers behind those that feed them" if name in names else
                                          f"reads {described(name)}, which is no layer; check the name")
            resolved_layers.append(resolved)
            seen.add(layer.name)
            before = layer.name
        return tuple(resolved_layers)

    def _check_graph(self) -> None:
        """One loss, at the end; every output read; row numbers only for embeddings; something to train."""
        for layer in self.layers[:-1]:
            if layer.is_loss:
                raise layer.refuse("is a loss but not the last layer; a network has one loss, at its end")
            if not self.consumers(layer.name):
                raise layer.refuse("is read by no layer; remove it or name it as an input")
        if not self.layers[-1].is_loss:
            raise self.layers[-1].refuse("is the last layer but no loss; end in softmax-cross-entropy or "
                                         "mean-squared-error")
        if not self.weighted:
            raise ValueError("no layer is trained; add one with weights, such as dense or convolution")
        readers = [self.layer(name) for name in self.consumers(INPUT)]
        odd = [reader for reader in readers if not isinstance(reader, Embedding)]
        if odd and len(odd) < len(readers):
            raise odd[0].refuse("reads the network's input, which holds row numbers of an embedding; feed it "
                                "from another layer")

    def _check_size(self, layer: Layer) -> None:
        shapes = self.shapes[layer.name]
        if layer.shape is not None and layer.shape != shapes.output:
            names = " and ".join(f"{feeder(name)} gives {shape}"
                                 for name, shape in zip(layer.inputs, shapes.inputs, strict=True))
            raise layer.refuse(f"states shape {layer.shape}, but {names}, from which {shapes.output} follows; "
                               "mend one of them")
        for what, shape in (("output", shapes.output),
                            *((variable.name, variable.shape) for variable in shapes.variables)):
            if shape.elements > MAXIMUM_ELEMENTS or (what == "output" and max(shape) > MAXIMUM_ELEMENTS):
                raise layer.refuse(f"has {shape.elements} elements in its {what}, more than "
                                   f"{MAXIMUM_ELEMENTS}; choose smaller sizes")

    @cached_property
    def shapes(self) -> Mapping[str, LayerShapes]:
        """Shapes of every layer by its name."""
        outputs = {INPUT: self.input}
        shapes = {}
        for layer in self.layers:
            inputs = tuple(outputs[name] for name in layer.inputs)
            outputs[layer.name] = layer.output(inputs)
            shapes[layer.name] = LayerShapes(
                inputs=inputs, output=outputs[layer.name],
                variables=layer.variables(inputs))
        return shapes

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def _consumers(self) -> dict[str, tuple[str, ...]]:
        consumers: dict[str, list[str]] = {INPUT: [], **{layer.name: [] for layer in self.layers}}
        for layer in self.layers:
            for name in layer.inputs:
                consumers[name].append(layer.name)
        return {name: tuple(readers) for name, readers in consumers.items()}

    def layer(self, name: str) -> Layer:
        """The layer of that name.

        Raises
        ------
        UserError
            If there is none; the nearest name is suggested.
        """
        if not isinstance(name, str) or name not in self._by_name:
            raise UserError(f"network {self.name!r} has no layer {one_line(repr(name), 60)}; "
                            f"{nearest(str(name), self._by_name)}")
        return self._by_name[name]

    def consumers(self, name: str) -> tuple[str, ...]:
        """Names of the layers that a layer, or ``"input"``, feeds, in order; twice if it is read twice.

        Raises
        ------
        UserError
            If there is no such layer.
        """
        return self._consumers[name if name == INPUT else self.layer(name).name]

    def output_shape(self, name: str) -> Shape:
        """Shape that a layer, or ``"input"``, gives.

        Raises
        ------
        UserError
            If there is no such layer.
        """
        return self.input if name == INPUT else self.shapes[self.layer(name).name].output

    @property
    def loss(self) -> Layer:
        """The last layer."""
        return self.layers[-1]

    @property
    def output(self) -> Shape:
        """The shape that the loss reads: classes of softmax, or the prediction."""
        return self.shapes[self.loss.name].inputs[0]

    @cached_property
    def weighted(self) -> tuple[Layer, ...]:
        """The layers that have variables."""
        return tuple(layer for layer in self.layers if self.shapes[layer.name].variables)

    @cached_property
    def variables(self) -> Mapping[str, Variable]:
        """What all layers train, by name: that of the layer and of the variable, such as ``conv1.weights``."""
        return {variable.qualified(layer.name): variable
                for layer in self.layers for variable in self.shapes[layer.name].variables}

    def layer_weights(self, name: str) -> int:
        """Elements of what a layer trains, without its bias; an error as of :meth:`layer`."""
        return sum(variable.elements for variable in self.shapes[self.layer(name).name].variables
                   if not variable.added)

    def layer_parameters(self, name: str) -> int:
        """Elements of all variables of a layer; an error as of :meth:`layer`."""
        return sum(variable.elements for variable in self.shapes[self.layer(name).name].variables)

    def layer_macs(self, name: str) -> int:
        """Multiply-adds of a layer's fprop for one sample."""
        layer = self.layer(name)
        return layer.macs(self.shapes[layer.name].inputs)

    @property
    def weights(self) -> int:
        """Weights of all layers, without biases."""
        return sum(self.layer_weights(layer.name) for layer in self.weighted)

    @property
    def parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum(self.layer_parameters(layer.name) for layer in self.weighted)

    @property
    def macs(self) -> int:
        """Multiply-adds of fprop for one sample."""
        return sum(self.layer_macs(layer.name) for layer in self.weighted)


def perceptron(name: str, widths: tuple[int, ...], activation: type[Layer] = Relu) -> Network:
    """A multi-layer perceptron with the given widths, input first: an activation between, softmax at the end.

    Raises
    ------
    ValueError
        If a width is out of range, or there are fewer than two.
    """
    if not isinstance(widths, (tuple, list)) or len(widths) < 2:
        raise ValueError(f"a perceptron needs a tuple of at least two widths, not {described(widths)}")
    layers: list[Layer] = []
    for number, (_, outputs) in enumerate(pairwise(widths), start=1):
        if number > 1:
            layers.append(activation(name=f"{activation.kind}{number - 1}"))
        layers.append(Dense(name=f"fc{number}", outputs=outputs))
    return Network(name=name, input=Shape(widths[:1]), layers=(*layers, SoftmaxCrossEntropy(name="loss")))
