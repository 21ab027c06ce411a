"""Task-free float64 reference of a training step: what predictions, loss and gradients ought to be.

RTL and golden model run the same lowering, so their agreement cannot show that the lowering is right; this
module shares nothing with it. Its gradients are themselves checked by finite differences in the tests.

A network is a tuple of :class:`ReferenceLayer`, each behind those that feed it, the last its loss. Maps are
``[samples, rows, columns, channels]``, features ``[samples, features]``. With ``mean`` over samples::

    dense                   Y = X W + b                          W [inputs, outputs]
    sparse                  Y = X W + b                          W [entries], at their connections
    convolution             Y = windows(X) W + b                 W [kernel row, kernel column, channel in, out]
    winograd                Y = A^T [sum of W * (B^T d B)] A of windows d   W [row, column of a tile, channel in, out]
    affine                  Y = X W + b, channel by channel      W [channels]
    embedding               Y = rows X of W, one behind the other    W [rows, width]; X holds row numbers
    max-pool, mean-pool     over those taps of a window that lie inside the map
    relu, gelu, tanh, ...   element by element; gelu by its tanh approximation
    add, join               sum and mean of all inputs
    concat                  channels of all inputs, one behind the other
    flatten                 row, column, channel
    softmax-cross-entropy   mean(-log softmax(X)[class])         targets [samples], class numbers
    mean-squared-error      mean((X - T)^2), over elements too   targets T, of as many elements as X

Where a function has a kink (a ReLU at 0, a max-pool with equal taps) there are several right subgradients.
The reference takes 0 and, of equal taps, the leftmost and of those the topmost, unless another computation
decided otherwise so near to the kink that its numbers cannot tell (:data:`KINK_ROUNDINGS`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_sim.golden.reference_layers import (
    FP32_ROUNDING,
    INPUT,
    KINDS,
    KINK_ROUNDINGS,
    Array,
    Call,
    Output,
    ReferenceLayer,
    Variables,
    softmax,
)

__all__ = [
    "FP32_ROUNDING",
    "INPUT",
    "KINK_ROUNDINGS",
    "ROUNDINGS_OF_PREDICTIONS",
    "Gradients",
    "Parameters",
    "ReferenceLayer",
    "Scales",
    "forward",
    "gradients",
    "loss",
    "prediction",
]

#: What a network trains, by the names of layer and variable with a dot between: ``conv1.weights``, ``conv1.bias``.
Parameters = Mapping[str, NDArray[Any]]
#: Names of what a layer trains.
VARIABLES = ("weights", "bias")
#: How many roundings a prediction is thought to be off at most, of its size and its target's.
ROUNDINGS_OF_PREDICTIONS = 64
#: What divides in place of 0.
_LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Scales:
    """What rounding errors are relative to: sizes of the terms that something is added up from."""

    #: Of predictions: a probability's is its own, that of a sum includes what it should be.
    predictions: float
    #: Of the loss: that of a logarithm near 1 is 1; of squares what predictions that are a little off, of their sizes,
    #: change them by.
    loss: float
    #: Of ``predictions - targets``, from which all gradients start, over its size: from 1 on, and the larger the
    #: better a network predicts.
    cancellation: float
    #: Of the gradient of all variables of a layer, the sum over samples and positions of magnitudes, over its size, by
    #: the layer's name.
    gradients: dict[str, float]


@dataclass(frozen=True)
class Gradients:
    """What a pass forwards and backwards finds."""

    #: Gradients of :func:`loss` by each variable, named as those.
    variables: dict[str, Array]
    #: How often another computation's side of a kink was taken instead of the reference's.
    kinks: int
    #: Elements that have a kink, ReLUs and windows of max-pools.
    kinked: int
    #: Distance of a layer's gradient from that on the reference's own side of every kink, over the larger one's size;
    #: largest of all layers.
    kink_difference: float
    #: What the loss compares with its targets, ``[samples, ...]``: its input's softmax, or its input.
    predictions: Array
    #: Of a softmax from probabilities of at least FP32's least normal number, which is what can be read of them.
    loss: float
    scales: Scales


class _Walk:
    """The layers' outputs by name, as far as they were computed, from the network's input on."""

    def __init__(self, layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any],
                 targets: NDArray[Any] | None = None, decided: Mapping[str, NDArray[Any]] | None = None,
                 rounding: float = FP32_ROUNDING) -> None:
        self.own: dict[str, Variables] = {layer.name: {} for layer in layers}
        for name, values in parameters.items():
            layer, _, variable = name.rpartition(".")
            if layer not in self.own or variable not in VARIABLES:
                raise ValueError(f"parameter {name!r} is of no layer, or none of its {' and '.join(VARIABLES)}")
            self.own[layer][variable] = values.astype(np.float64, copy=False)
        start = np.asarray(x, dtype=np.float64)
        self.outputs = {INPUT: Output(start, lambda: np.abs(start), lambda error: ([], {}))}
        self.targets, self.decided, self.rounding = targets, decided or {}, rounding

    def step(self, layer: ReferenceLayer) -> Output:
        """A layer whose inputs were computed."""
        if layer.kind not in KINDS:
            raise ValueError(f"layer {layer.name!r} is of no known kind: {layer.kind!r}")
        self.outputs[layer.name] = KINDS[layer.kind](Call(
            layer, [self.outputs[name] for name in layer.inputs], self.own[layer.name], self.targets,
            self.decided.get(layer.name), self.rounding))
        return self.outputs[layer.name]


def _run(layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any] | None = None,
         decided: Mapping[str, NDArray[Any]] | None = None, rounding: float = FP32_ROUNDING) -> dict[str, Output]:
    """Outputs of the network's input and all layers by name."""
    walk = _Walk(layers, parameters, x, targets, decided, rounding)
    for layer in layers:
        walk.step(layer)
    return walk.outputs


def forward(layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any]) -> dict[str, Array]:
    """Outputs of all layers but the loss, by name.

    Parameters
    ----------
    layers : sequence of Layer
    parameters : mapping of name to array
        What the layers train, see :data:`Parameters`, shaped as above.
    x : ``[samples, rows, columns, channels]`` or ``[samples, features]``

    Raises
    ------
    ValueError
        If a kind is unknown, a parameter is of no layer, a layer's weights are missing, or shapes do not fit.
    """
    return {name: output.value for name, output in _run(layers[:-1], parameters, x).items() if name != INPUT}


def prediction(layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any]) -> Array:
    """What the loss reads, as :func:`forward` gives it, in the memory of the widest layer: of every other layer only
    the output is kept, and only until it has been read."""
    walk = _Walk(layers[:-1], parameters, x)
    last = {name: layer for layer in layers for name in layer.inputs}
    for layer in layers[:-1]:
        value = walk.step(layer).value
        walk.outputs[layer.name] = Output(value, lambda: np.zeros(0), lambda error: ([], {}))
        for name in set(layer.inputs):
            if last[name] is layer:
                del walk.outputs[name]
    return walk.outputs[layers[-1].inputs[0]].value


def loss(layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any]) -> float:
    """The network's loss; parameters as in :func:`gradients`."""
    return float(_run(layers, parameters, x, targets)[layers[-1].name].value)


def gradients(layers: Sequence[ReferenceLayer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any],
              decided: Mapping[str, NDArray[Any]] | None = None, rounding: float = FP32_ROUNDING) -> Gradients:
    """Gradients in float64.

    Parameters
    ----------
    layers, parameters, x
        As in :func:`forward`.
    targets : array
        Class numbers ``[samples]``, or what the prediction should be.
    decided : mapping of layer name to array, optional
        What another computation found, in any shape of as many elements: of a ReLU its *output*, which shows
        what passed; of a max-pool its *input*, whose largest taps won. It counts only at kinks.
    rounding : float
        What its numbers may be off, of their size.

    Raises
    ------
    ValueError
        As :func:`forward`.
    """
    outputs = _run(layers, parameters, x, targets, decided, rounding)
    last = layers[-1]
    predictions, value, scales = _predicted(last, outputs[last.inputs[0]].value, targets, rounding)
    by_layer = {}
    for name, gradient, error in _way_back(layers, outputs):
        magnitudes = outputs[name].magnitudes
        assert magnitudes is not None
        by_layer[name] = gradient
        scales.gradients[name] = _norm(magnitudes(np.abs(error))) / max(_norm(gradient), _LEAST)
    kinks = sum(output.kinks for output in outputs.values())
    difference = max((_difference(by_layer[name], own) for name, own, _ in
                      _way_back(layers, outputs, undecided=True)), default=0.0) if kinks else 0.0
    named = {f"{layer.name}.{variable}": values for layer in layers for variable, values in
             by_layer.get(layer.name, {}).items()}
    return Gradients(named, kinks, sum(output.kinked for output in outputs.values()), difference, predictions,
                     value, scales)


def _way_back(layers: Sequence[ReferenceLayer], outputs: Mapping[str, Output], *, undecided: bool = False
              ) -> Iterator[tuple[str, Variables, Array]]:
    """Of each layer that trains something, from the last one on: its name, its gradient, and the error of its output.

    Parameters
    ----------
    undecided : bool
        Kinks are taken on the reference's own side, whatever another computation found.
    """
    errors: dict[str, Array] = {layers[-1].name: np.array(1.0)}
    for layer in reversed(layers):
        output, error = outputs[layer.name], errors.pop(layer.name)
        back, gradient = (output.undecided if undecided and output.undecided else output.backward)(error)
        for name, further in zip(layer.inputs, back, strict=True):
            errors[name] = errors[name] + further if name in errors else further
        if gradient:
            yield layer.name, gradient, error


def _difference(first: Variables, second: Variables) -> float:
    """Distance of two gradients, over the larger one's size."""
    apart = {name: values - second[name] for name, values in first.items()}
    return _norm(apart) / max(_norm(first), _norm(second), _LEAST)


def _predicted(layer: ReferenceLayer, x: Array, targets: NDArray[Any], rounding: float) -> tuple[Array, float, Scales]:
    """What a loss compares with its targets, its value as it can be read of that, and the sizes of their terms."""
    if layer.kind == "softmax-cross-entropy":
        predictions, wanted, picked = softmax(x), np.zeros(x.shape), (np.arange(len(x)), targets)
        wanted[picked] = 1.0
        value = -np.log(np.maximum(predictions[picked], np.finfo(np.float32).tiny)).mean()
        own, terms = np.linalg.norm(predictions), 1.0 + value
    else:
        predictions, wanted = x, targets.reshape(x.shape).astype(np.float64)
        apart, sizes = np.abs(predictions - wanted), np.abs(x) + np.abs(wanted)
        # Where x is off by e sizes, the square is by 2 e apart sizes + (e sizes)^2, as much again for each e.
        value, own = (apart**2).mean(), np.linalg.norm(x) + np.linalg.norm(wanted)
        terms = (2 * apart * sizes + ROUNDINGS_OF_PREDICTIONS * rounding * sizes**2).mean()
    size = np.linalg.norm(predictions) + np.linalg.norm(wanted)
    difference = max(float(np.linalg.norm(predictions - wanted)), _LEAST)
    return predictions, float(value), Scales(float(own), float(terms), float(size) / difference, {})


def _norm(variables: Variables) -> float:
    """Square root of the sum of squares of all variables."""
    return float(np.sqrt(sum((each**2).sum() for each in variables.values())))
