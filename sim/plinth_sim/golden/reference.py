"""Task-free float64 reference of a training step: what predictions, loss, gradients and new weights ought to be.

RTL and golden model run the same lowering, so their agreement cannot show that the lowering is right; this
module shares nothing with it. Its gradients are themselves checked by finite differences in the tests.

A network is a tuple of :class:`Layer`, each behind those that feed it, the last its loss. Maps are
``[samples, rows, columns, channels]``, features ``[samples, features]``. With ``mean`` over samples::

    dense                   Y = X W + b                          W [inputs, outputs]
    convolution             Y = windows(X) W + b                 W [kernel row, kernel column, channel in, out]
    embedding               Y = rows X of W, one behind the other    W [rows, width]; X holds row numbers
    max-pool, mean-pool     over those taps of a window that lie inside the map
    relu, tanh, sigmoid     element by element
    add, join               sum and mean of all inputs
    flatten                 row, column, channel
    softmax-cross-entropy   mean(-log softmax(X)[class])         targets [samples], class numbers
    mean-squared-error      mean((X - T)^2), over elements too   targets T, of as many elements as X

Where a function has a kink (a ReLU at 0, a max-pool with equal taps) there are several right subgradients.
The reference takes 0 and, of equal taps, the leftmost and of those the topmost, unless another computation
decided otherwise so near to the kink that its numbers cannot tell (:data:`KINK_ROUNDINGS`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Weights and bias (None if it has none) of each layer that has weights, in order.
Parameters = Sequence[tuple[Array, Array | None]]
Pair = tuple[int, int]

#: What layers call the network's input.
INPUT = "input"
#: Kinds of layers that have weights.
WEIGHTED = frozenset({"dense", "convolution", "embedding"})
#: A ReLU input this many roundings (of the sum of its terms' magnitudes) or less from 0 may come out on either
#: side of the kink; likewise two taps of a max-pool this far from each other.
KINK_ROUNDINGS = 8
#: Rounding of FP32: what a number may be off, of its own size.
FP32_ROUNDING = 2.0**-24


@dataclass(frozen=True)
class Layer:
    """One layer: its kind, what feeds it, and the window of a convolution or pool as (vertical, horizontal).

    ``ceil``: a last window may hang over the far edge if it starts inside the map or its near padding.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    ceil: bool = False


@dataclass(frozen=True)
class Scales:
    """What rounding errors are relative to: sizes of the terms that something is added up from."""

    #: Of predictions: a probability's is its own, that of a sum includes what it should be.
    predictions: float
    #: Of the loss: that of a logarithm near 1 is 1.
    loss: float
    #: Of ``predictions - targets``, from which all gradients start, over its size: from 1 on, and the larger the
    #: better a network predicts.
    cancellation: float


@dataclass(frozen=True)
class Gradients:
    """What a pass forwards and backwards finds."""

    #: Gradients of :func:`loss` by weights and bias of each layer that has weights, in order.
    layers: list[tuple[Array, Array | None]]
    #: How often another computation's side of a kink was taken instead of the reference's.
    kinks: int
    #: What the loss compares with its targets, ``[samples, ...]``: its input's softmax, or its input.
    predictions: Array
    #: Of a softmax from probabilities of at least FP32's least normal number, which is what can be read of them.
    loss: float
    scales: Scales


#: Error of the output -> errors of the inputs, gradients of weights and bias.
_Backward = Callable[[Array], tuple[list[Array], tuple[Array, Array | None] | None]]


@dataclass(frozen=True)
class _Output:
    """A layer's output, how to go back through it, and how many kinks were taken on the other side."""

    value: Array
    #: Computes `scale`.
    terms: Callable[[], Array]
    backward: _Backward
    kinks: int = 0

    @cached_property
    def scale(self) -> Array:
        """Of each element, the sum of the magnitudes of the terms it is added up from: what rounding errors of
        FP32 are relative to. Products start anew; everything else passes on what its inputs have."""
        return self.terms()


@dataclass(frozen=True)
class _Call:
    """What a layer's function reads."""

    layer: Layer
    inputs: list[_Output]
    parameters: tuple[Array, Array | None] | None
    targets: NDArray[Any] | None
    decided: NDArray[Any] | None
    rounding: float

    @property
    def x(self) -> Array:
        """Value of the one input."""
        return self.inputs[0].value

    @property
    def weights(self) -> tuple[Array, Array | None]:
        """Weights and bias."""
        assert self.parameters is not None
        return self.parameters


def _windows_along(size: int, kernel: int, stride: int, padding: int, ceil: bool) -> int:
    """Windows along one side of a map."""
    room = size + 2 * padding - kernel
    count = room // stride + 1
    return count + 1 if ceil and room % stride and count * stride < size + padding else count


@dataclass(frozen=True)
class _Windows:
    """The windows of a layer over maps of one shape: taps out of a map, and back into it."""

    layer: Layer
    shape: tuple[int, ...]

    @cached_property
    def counts(self) -> Pair:
        """Windows down and across."""
        layer = self.layer
        down, across = (_windows_along(size, kernel, stride, padding, layer.ceil) for size, kernel, stride, padding
                        in zip(self.shape[1:3], layer.kernel, layer.stride, layer.padding, strict=True))
        return down, across

    @cached_property
    def rims(self) -> list[Pair]:
        """What is put around each dimension of a map so that it holds all windows."""
        layer = self.layer
        sides = [(near, max(0, (count - 1) * stride + kernel - near - size)) for size, count, kernel, stride, near
                 in zip(self.shape[1:3], self.counts, layer.kernel, layer.stride, layer.padding, strict=True)]
        return [(0, 0), *sides, (0, 0)]

    def taps(self, x: Array, outside: float = 0.0) -> Array:
        """``[samples, windows down, across, taps, channels]`` of a map, taps by row and column."""
        (down, across), (kernel_rows, kernel_columns) = self.counts, self.layer.kernel
        padded = np.pad(x, self.rims, constant_values=outside)
        found = np.lib.stride_tricks.sliding_window_view(padded, self.layer.kernel, axis=(1, 2))  # type: ignore
        found = found[:, ::self.layer.stride[0], ::self.layer.stride[1]][:, :down, :across]
        return found.transpose(0, 1, 2, 4, 5, 3).reshape(len(x), down, across, kernel_rows * kernel_columns, -1)

    def fold(self, taps: Array) -> Array:
        """The map in which each element is the sum of its taps: the transpose of :meth:`taps`."""
        (down, across), (kernel_rows, kernel_columns) = self.counts, self.layer.kernel
        padded = np.zeros([size + sum(rim) for size, rim in zip(self.shape, self.rims, strict=True)])
        for tap in range(kernel_rows * kernel_columns):
            rows, columns = (slice(start, start + stride * (count - 1) + 1, stride) for start, stride, count
                             in zip(divmod(tap, kernel_columns), self.layer.stride, (down, across), strict=True))
            padded[:, rows, columns] += taps[:, :, :, tap]
        inside = tuple(slice(near, near + size) for (near, _), size in zip(self.rims, self.shape, strict=True))
        return padded[inside]


def _product(x: Array, weights: Array, bias: Array | None) -> Array:
    y = x @ weights
    return y if bias is None else y + bias


def _dense(call: _Call) -> _Output:
    x, (weights, bias) = call.x, call.weights

    def backward(error: Array) -> Any:
        return [error @ weights.T], (x.T @ error, None if bias is None else error.sum(axis=0))

    return _Output(_product(x, weights, bias),
                   lambda: _product(np.abs(x), np.abs(weights), None if bias is None else np.abs(bias)), backward)


def _convolution(call: _Call) -> _Output:
    windows, (weights, bias) = _Windows(call.layer, call.x.shape), call.weights
    channels = weights.shape[-1]
    taps = windows.taps(call.x)
    taps = taps.reshape(*taps.shape[:3], -1)
    matrix = weights.reshape(-1, channels)

    def backward(error: Array) -> Any:
        rows = error.reshape(-1, channels)
        gradient = (taps.reshape(len(rows), -1).T @ rows).reshape(weights.shape)
        back = (error @ matrix.T).reshape(*error.shape[:3], -1, weights.shape[2])
        return [windows.fold(back)], (gradient, None if bias is None else rows.sum(axis=0))

    return _Output(_product(taps, matrix, bias),
                   lambda: _product(np.abs(taps), np.abs(matrix), None if bias is None else np.abs(bias)), backward)


def _embedding(call: _Call) -> _Output:
    table, _ = call.weights
    rows = call.x.astype(np.int64)
    value = table[rows].reshape(len(rows), -1)

    def backward(error: Array) -> Any:
        gradient = np.zeros_like(table)
        np.add.at(gradient, rows, error.reshape(*rows.shape, -1))
        return [np.zeros_like(call.x)], (gradient, None)

    return _Output(value, lambda: np.abs(value), backward)


def _near(call: _Call, distance: Array, scale: Array) -> NDArray[np.bool_]:
    """Whether rounded numbers may find that a difference has the other sign."""
    return np.abs(distance) <= KINK_ROUNDINGS * call.rounding * scale


def _relu(call: _Call) -> _Output:
    x = call.x
    passes, kinks = x > 0, 0
    if call.decided is not None:
        theirs = call.decided.reshape(x.shape) > 0
        other = (passes != theirs) & _near(call, x, call.inputs[0].scale)
        passes, kinks = passes ^ other, int(other.sum())
    return _Output(np.maximum(x, 0.0), lambda: call.inputs[0].scale, lambda error: ([error * passes], None), kinks)


def _max_pool(call: _Call) -> _Output:
    windows = _Windows(call.layer, call.x.shape)
    taps = windows.taps(call.x, -np.inf)
    by_column = np.arange(taps.shape[3]).reshape(call.layer.kernel).T.ravel()

    def first_largest(values: Array) -> NDArray[np.intp]:
        return by_column[values[:, :, :, by_column].argmax(axis=3, keepdims=True)]

    def at(values: Array, tap: NDArray[np.intp]) -> Array:
        return np.take_along_axis(values, tap, axis=3)

    winner, kinks = first_largest(taps), 0
    if call.decided is not None:
        theirs = first_largest(windows.taps(call.decided.reshape(call.x.shape), -np.inf))
        scale = windows.taps(call.inputs[0].scale)
        other = (winner != theirs) & _near(call, at(taps, winner) - at(taps, theirs),
                                           at(scale, winner) + at(scale, theirs))
        winner, kinks = np.where(other, theirs, winner), int(other.sum())

    def backward(error: Array) -> Any:
        back = np.zeros_like(taps)
        np.put_along_axis(back, winner, error[:, :, :, None], axis=3)
        return [windows.fold(back)], None

    return _Output(taps.max(axis=3), lambda: windows.taps(call.inputs[0].scale).max(axis=3), backward, kinks)


def _mean_pool(call: _Call) -> _Output:
    windows = _Windows(call.layer, call.x.shape)
    inside = windows.taps(np.ones_like(call.x[:1]))
    share = inside / inside.sum(axis=3, keepdims=True)
    return _Output((windows.taps(call.x) * share).sum(axis=3),
                   lambda: (windows.taps(call.inputs[0].scale) * share).sum(axis=3),
                   lambda error: ([windows.fold(error[:, :, :, None] * share)], None))


def _smooth(call: _Call, value: Array, slope: Array) -> _Output:
    return _Output(value, lambda: call.inputs[0].scale * slope + np.abs(value), lambda error: ([error * slope], None))


def _tanh(call: _Call) -> _Output:
    value = np.tanh(call.x)
    return _smooth(call, value, 1.0 - value * value)


def _sigmoid(call: _Call) -> _Output:
    value = 0.5 * (1.0 + np.tanh(0.5 * call.x))
    return _smooth(call, value, value * (1.0 - value))


def _sum(call: _Call, factor: float) -> _Output:
    inputs = call.inputs
    return _Output(factor * np.sum([one.value for one in inputs], axis=0),
                   lambda: factor * np.sum([one.scale for one in inputs], axis=0),
                   lambda error: ([factor * error] * len(inputs), None))


def _flatten(call: _Call) -> _Output:
    x = call.x
    return _Output(x.reshape(len(x), -1), lambda: call.inputs[0].scale.reshape(len(x), -1),
                   lambda error: ([error.reshape(x.shape)], None))


def _loss(value: float, gradient: Array) -> _Output:
    return _Output(np.array(value), lambda: np.array(abs(value)), lambda error: ([error * gradient], None))


def _softmax(x: Array) -> Array:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _softmax_cross_entropy(call: _Call) -> _Output:
    assert call.targets is not None
    z = call.x - call.x.max(axis=1, keepdims=True)
    picked = np.arange(len(z)), call.targets
    value = (np.log(np.exp(z).sum(axis=1)) - z[picked]).mean()
    error = _softmax(z)
    error[picked] -= 1.0
    return _loss(value, error / len(z))


def _mean_squared_error(call: _Call) -> _Output:
    assert call.targets is not None
    difference = call.x - call.targets.reshape(call.x.shape)
    return _loss((difference**2).mean(), 2.0 * difference / difference.size)


_KINDS: dict[str, Callable[[_Call], _Output]] = {
    "dense": _dense, "convolution": _convolution, "embedding": _embedding,
    "max-pool": _max_pool, "mean-pool": _mean_pool, "relu": _relu, "tanh": _tanh, "sigmoid": _sigmoid,
    "add": lambda call: _sum(call, 1.0), "join": lambda call: _sum(call, 1.0 / len(call.inputs)),
    "flatten": _flatten,
    "softmax-cross-entropy": _softmax_cross_entropy, "mean-squared-error": _mean_squared_error,
}


class _Walk:
    """The layers' outputs by name, as far as they were computed, from the network's input on."""

    def __init__(self, layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any],
                 targets: NDArray[Any] | None = None, decided: Mapping[str, NDArray[Any]] | None = None,
                 rounding: float = FP32_ROUNDING) -> None:
        weighted = [layer.name for layer in layers if layer.kind in WEIGHTED]
        self.own = {name: (weights.astype(np.float64, copy=False),
                           None if bias is None else bias.astype(np.float64, copy=False))
                    for name, (weights, bias) in zip(weighted, parameters, strict=True)}
        start = np.asarray(x, dtype=np.float64)
        self.found = {INPUT: _Output(start, lambda: np.abs(start), lambda error: ([], None))}
        self.targets, self.decided, self.rounding = targets, decided or {}, rounding

    def step(self, layer: Layer) -> _Output:
        """A layer whose inputs were computed."""
        if layer.kind not in _KINDS:
            raise ValueError(f"layer {layer.name!r} is of no known kind: {layer.kind!r}")
        self.found[layer.name] = _KINDS[layer.kind](_Call(
            layer, [self.found[name] for name in layer.inputs], self.own.get(layer.name), self.targets,
            self.decided.get(layer.name), self.rounding))
        return self.found[layer.name]


def _run(layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any] | None = None,
         decided: Mapping[str, NDArray[Any]] | None = None, rounding: float = FP32_ROUNDING) -> dict[str, _Output]:
    """Outputs of the network's input and all layers by name."""
    walk = _Walk(layers, parameters, x, targets, decided, rounding)
    for layer in layers:
        walk.step(layer)
    return walk.found


def forward(layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any]) -> dict[str, Array]:
    """Outputs of all layers but the loss, by name.

    Parameters
    ----------
    layers : sequence of Layer
    parameters : sequence of (weights, bias)
        Of each layer that has weights, in order; the bias is None if there is none.
    x : ``[samples, rows, columns, channels]`` or ``[samples, features]``

    Raises
    ------
    ValueError
        If a kind is unknown, there are more or fewer parameters than layers with weights, or shapes do not fit.
    """
    return {name: output.value for name, output in _run(layers[:-1], parameters, x).items() if name != INPUT}


def prediction(layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any]) -> Array:
    """What the loss reads, as :func:`forward` gives it, in the memory of the widest layer: of every other layer only
    the output is kept, and only until it has been read."""
    walk = _Walk(layers[:-1], parameters, x)
    last = {name: layer for layer in layers for name in layer.inputs}
    for layer in layers[:-1]:
        value = walk.step(layer).value
        walk.found[layer.name] = _Output(value, lambda: np.zeros(0), lambda error: ([], None))
        for name in set(layer.inputs):
            if last[name] is layer:
                del walk.found[name]
    return walk.found[layers[-1].inputs[0]].value


def loss(layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any]) -> float:
    """The network's loss; parameters as in :func:`gradients`."""
    return float(_run(layers, parameters, x, targets)[layers[-1].name].value)


def gradients(layers: Sequence[Layer], parameters: Parameters, x: NDArray[Any], targets: NDArray[Any],
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
    predictions, value, scales = _predicted(last, outputs[last.inputs[0]].value, targets)
    errors: dict[str, Array] = {last.name: np.array(1.0)}
    found = []
    for layer in reversed(layers):
        back, gradient = outputs[layer.name].backward(errors.pop(layer.name))
        for name, error in zip(layer.inputs, back, strict=True):
            errors[name] = errors[name] + error if name in errors else error
        if gradient is not None:
            found.append(gradient)
    return Gradients(found[::-1], sum(output.kinks for output in outputs.values()), predictions, value, scales)


def _predicted(layer: Layer, x: Array, targets: NDArray[Any]) -> tuple[Array, float, Scales]:
    """What a loss compares with its targets, its value as it can be read of that, and the sizes of their terms."""
    if layer.kind == "softmax-cross-entropy":
        predictions, wanted, picked = _softmax(x), np.zeros(x.shape), (np.arange(len(x)), targets)
        wanted[picked] = 1.0
        value = -np.log(np.maximum(predictions[picked], np.finfo(np.float32).tiny)).mean()
        own, terms = np.linalg.norm(predictions), 1.0 + value
    else:
        predictions, wanted = x, targets.reshape(x.shape).astype(np.float64)
        value = ((predictions - wanted)**2).mean()
        own, terms = np.linalg.norm(x) + np.linalg.norm(wanted), ((np.abs(x) + np.abs(wanted))**2).mean()
    size = np.linalg.norm(predictions) + np.linalg.norm(wanted)
    difference = max(float(np.linalg.norm(predictions - wanted)), np.finfo(np.float64).tiny)
    return predictions, float(value), Scales(float(own), float(terms), float(size) / difference)


def descend(parameters: Parameters, gradients: Parameters, rate: float) -> list[tuple[Array, Array | None]]:
    """Weights and bias after a step of plain gradient descent: ``W - rate dW``, ``b - rate db``."""
    return [(weights - rate * by_weights, None if bias is None or by_bias is None else bias - rate * by_bias)
            for (weights, bias), (by_weights, by_bias) in zip(parameters, gradients, strict=True)]
