"""Layers of the float64 reference: what each kind makes of its inputs, and of its output's error.

A kind is a function of a :class:`Call` to an :class:`Output`; :data:`KINDS` has them all. What they compute, and what
they do at kinks, stands in :mod:`plinth_sim.golden.reference`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.winograd import Matrix, form

Array = NDArray[np.float64]
Pair = tuple[int, int]

#: What layers call the network's input.
INPUT = "input"
#: A ReLU input this many roundings (of the sum of its terms' magnitudes) or less from 0 may come out on either
#: side of the kink; likewise two taps of a max-pool this far from each other.
KINK_ROUNDINGS = 8
#: Rounding of FP32: what a number may be off, of its own size.
FP32_ROUNDING = 2.0**-24


#: Products of entries of a sparse layer that are computed together: 32 MiB.
_ENTRIES = 1 << 22
#: Settings that a layer need not have.
_DEFAULTS = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "ceil": False, "tile": 0}


class ReferenceLayer:
    """One layer: its kind, what feeds it, and its settings, which are attributes.

    Windows of convolutions and pools are ``kernel``, ``stride`` and ``padding`` as (vertical, horizontal), the last one
    as (top, left, bottom, right) where opposite sides differ; ``ceil``: a last window may hang over the far edge if it
    starts inside the map or its near padding. ``tile``: outputs of a Winograd tile, m each way. All others are as
    networks' files name them.
    """

    def __init__(self, name: str, kind: str, inputs: tuple[str, ...], **settings: Any) -> None:
        self.name, self.kind, self.inputs, self.settings = name, kind, inputs, _DEFAULTS | settings

    def __getattr__(self, key: str) -> Any:
        if key in self.__dict__.get("settings", ()):
            return self.settings[key]
        raise AttributeError(f"layer {self.__dict__.get('name')!r} has no {key!r}")


#: Arrays of a layer by the names of its variables: what it trains, or gradients of that.
Variables = dict[str, Array]
#: Error of the output -> errors of the inputs, gradients of what the layer trains.
_Backward = Callable[[Array], tuple[list[Array], Variables]]


@dataclass(frozen=True)
class Output:
    """A layer's output, how to go back through it, and how many of its kinks were taken on the other side."""

    value: Array
    #: Computes `scale`.
    terms: Callable[[], Array]
    backward: _Backward
    kinks: int = 0
    #: Elements that have a kink: ReLUs, windows of max-pools.
    kinked: int = 0
    #: The way back on the reference's own side of every kink; None: `backward` is that.
    undecided: _Backward | None = None
    #: Of a layer that trains something: magnitudes of the error -> its gradients' sums of magnitudes.
    magnitudes: Callable[[Array], Variables] | None = None
    #: Computes `carried`; None: nothing.
    carry: Callable[[], Array] | None = None

    @cached_property
    def carried(self) -> Array | float:
        """What roundings of Winograd layers before are relative to, as far as they come here: where the sum of a
        convolution is 0, that of a tile's terms is not."""
        return 0.0 if self.carry is None else self.carry()

    @cached_property
    def scale(self) -> Array:
        """Of each element, the sum of the magnitudes of the terms it is added up from: what rounding errors of
        FP32 are relative to. Products start anew, but for what is carried; everything else passes on what its inputs
        have."""
        return self.terms()


@dataclass(frozen=True)
class Call:
    """What a layer's function reads."""

    layer: ReferenceLayer
    inputs: list[Output]
    variables: Variables
    targets: NDArray[Any] | None
    decided: NDArray[Any] | None
    rounding: float

    @property
    def x(self) -> Array:
        """Value of the one input."""
        return self.inputs[0].value

    @property
    def sizes(self) -> Array:
        """Of the one input, what roundings of its products are relative to."""
        return np.abs(self.x) + self.inputs[0].carried

    def carried(self, through: Callable[[Array], Array]) -> Callable[[], Array] | None:
        """What the one input carries, through the layer."""
        before = self.inputs[0]
        return None if before.carry is None else lambda: through(np.asarray(before.carried))

    @property
    def weights(self) -> tuple[Array, Array | None]:
        """Weights, and the bias, if there is one."""
        if "weights" not in self.variables:
            raise ValueError(f"layer {self.layer.name!r} ({self.layer.kind}) is given no weights")
        return self.variables["weights"], self.variables.get("bias")


def _rims(padding: tuple[int, ...]) -> tuple[Pair, Pair]:
    """Padding (above, below) a map and (left, right) of it."""
    top, left, bottom, right = padding if len(padding) == 4 else (*padding, *padding)
    return (top, bottom), (left, right)


def _windows_along(size: int, kernel: int, stride: int, rim: Pair, ceil: bool) -> int:
    """Windows along one side of a map."""
    room = size + sum(rim) - kernel
    count = room // stride + 1
    return count + 1 if ceil and room % stride and count * stride < size + rim[0] else count


@dataclass(frozen=True)
class _Windows:
    """The windows of a layer over maps of one shape: taps out of a map, and back into it."""

    layer: ReferenceLayer
    shape: tuple[int, ...]

    @cached_property
    def counts(self) -> Pair:
        """Windows down and across."""
        layer = self.layer
        down, across = (_windows_along(size, kernel, stride, rim, layer.ceil) for size, kernel, stride, rim
                        in zip(self.shape[1:3], layer.kernel, layer.stride, _rims(layer.padding), strict=True))
        return down, across

    @cached_property
    def rims(self) -> list[Pair]:
        """What is put around each dimension of a map so that it holds all windows."""
        layer = self.layer
        sides = [(near, max(0, (count - 1) * stride + kernel - near - size)) for size, count, kernel, stride, (near, _)
                 in zip(self.shape[1:3], self.counts, layer.kernel, layer.stride, _rims(layer.padding), strict=True)]
        return [(0, 0), *sides, (0, 0)]

    def taps(self, x: Array, outside: float = 0.0) -> Array:
        """``[samples, windows down, across, taps, channels]`` of a map, taps by row and column."""
        (down, across), (kernel_rows, kernel_columns) = self.counts, self.layer.kernel
        padded = np.pad(x, self.rims, constant_values=outside)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.layer.kernel, axis=(1, 2))  # type: ignore
        windows = windows[:, ::self.layer.stride[0], ::self.layer.stride[1]][:, :down, :across]
        return windows.transpose(0, 1, 2, 4, 5, 3).reshape(len(x), down, across, kernel_rows * kernel_columns, -1)

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


def _gradient(weights: Array, bias: Array | None) -> Variables:
    """Gradients of weights and bias by the variables' names."""
    return {"weights": weights} if bias is None else {"weights": weights, "bias": bias}


def _dense(call: Call) -> Output:
    x, (weights, bias) = call.x, call.weights

    def gradient(x: Array, error: Array) -> Variables:
        return _gradient(x.T @ error, None if bias is None else error.sum(axis=0))

    return Output(_product(x, weights, bias),
                  lambda: _product(call.sizes, np.abs(weights), None if bias is None else np.abs(bias)),
                  lambda error: ([error @ weights.T], gradient(x, error)),
                  magnitudes=lambda error: gradient(np.abs(x), error),
                  carry=call.carried(lambda noise: noise @ np.abs(weights)))


def _sparse(call: Call) -> Output:
    """As a dense layer, of entries of W at ``connections``: the numbers of their inputs and outputs, and how many
    outputs there are."""
    from scipy.sparse import coo_array

    x, (weights, bias) = call.x, call.weights
    inputs, outputs, count = call.layer.connections

    def matrix(values: Array) -> Any:
        return coo_array((values, (inputs, outputs)), shape=(x.shape[1], count)).tocsr()

    def gradient(x: Array, error: Array) -> Variables:
        entries = [np.einsum("be,be->e", x[:, inputs[some]], error[:, outputs[some]])
                   for some in np.array_split(np.arange(len(inputs)), 1 + x.shape[0] * len(inputs) // _ENTRIES)]
        return _gradient(np.concatenate(entries), None if bias is None else error.sum(axis=0))

    def product(x: Array, weights: Array, bias: Array | None) -> Array:
        return np.asarray(x @ matrix(weights)) + (0.0 if bias is None else bias)

    return Output(product(x, weights, bias),
                  lambda: product(call.sizes, np.abs(weights), None if bias is None else np.abs(bias)),
                  lambda error: ([np.asarray(error @ matrix(weights).T)], gradient(x, error)),
                  magnitudes=lambda error: gradient(np.abs(x), error),
                  carry=call.carried(lambda noise: product(noise, np.abs(weights), None)))


def _convolution(call: Call) -> Output:
    windows, (weights, bias) = _Windows(call.layer, call.x.shape), call.weights
    channels = weights.shape[-1]

    def flat(x: Array) -> Array:
        taps = windows.taps(x)
        return taps.reshape(*taps.shape[:3], -1)

    taps = flat(call.x)
    matrix = weights.reshape(-1, channels)

    def gradient(taps: Array, error: Array) -> Variables:
        rows = error.reshape(-1, channels)
        return _gradient((taps.reshape(len(rows), -1).T @ rows).reshape(weights.shape),
                         None if bias is None else rows.sum(axis=0))

    def backward(error: Array) -> Any:
        back = (error @ matrix.T).reshape(*error.shape[:3], -1, weights.shape[2])
        return [windows.fold(back)], gradient(taps, error)

    def scale() -> Array:
        if call.layer.tile:
            tiles = _Tiles(call.layer, call.x.shape, channels)
            return tiles.scale(call.sizes, tiles.elements(weights), bias)
        return _product(flat(call.sizes), np.abs(matrix), None if bias is None else np.abs(bias))

    return Output(_product(taps, matrix, bias), scale, backward,
                  magnitudes=lambda error: gradient(np.abs(taps), error),
                  carry=scale if call.layer.tile else call.carried(lambda noise: flat(noise) @ np.abs(matrix)))


def _floats(matrix: Matrix) -> Array:
    return np.array([[float(value) for value in row] for row in matrix])


class _Tiles:
    """The Winograd tiles of a layer: a convolution that makes m x m outputs of windows of T x T, m apart, by kernels
    that follow from the tiles' elements. Element (u, v) has the share A^T(i, u) A^T(j, v) B^T(u, a) B^T(v, b) in that
    of tap (a, b) for output (i, j)."""

    def __init__(self, layer: ReferenceLayer, shape: tuple[int, ...], channels: int) -> None:
        self.down, self.across = form(layer.kernel, layer.tile).transforms
        self.tile, self.sizes = (self.down.outputs, self.across.outputs), (self.down.size, self.across.size)
        self.windows = _Windows(ReferenceLayer(layer.name, layer.kind, layer.inputs, kernel=self.sizes,
                                               stride=self.tile,
                                               padding=layer.padding, ceil=True), shape)
        self.rows, self.columns = (side + sum(rim) - taps + 1 for side, rim, taps
                                   in zip(shape[1:3], _rims(layer.padding), layer.kernel, strict=True))
        self.shares = [np.einsum("iu,ua->iua", _floats(transform.a), _floats(transform.b))
                       for transform in (self.down, self.across)]
        self.channels = channels

    def elements(self, kernel: Array) -> Array:
        """Those that do what a kernel does."""
        return np.einsum("uk,vl,klco->uvco", _floats(self.down.g), _floats(self.across.g), kernel)

    def kernels(self, shares: list[Array], weights: Array) -> Array:
        """``[taps, in, outputs of a tile, out]``."""
        kernels = np.einsum("iua,jvb,uvco->abcijo", *shares, weights, optimize=True)
        return kernels.reshape(self.sizes[0] * self.sizes[1], weights.shape[2], -1, self.channels)

    def untiled(self, tiles: Array) -> Array:
        """The map of outputs of tiles, ``[samples, down, across, outputs of a tile, out]``."""
        outputs = tiles.reshape(*tiles.shape[:3], *self.tile, self.channels).transpose(0, 1, 3, 2, 4, 5)
        return outputs.reshape(len(tiles), tiles.shape[1] * self.tile[0], -1, self.channels)[
            :, :self.rows, :self.columns]

    def tiled(self, error: Array) -> Array:
        """Transpose of :meth:`untiled`."""
        counts, tile = self.windows.counts, self.tile
        rims = [(0, count * step - side) for count, step, side in zip(counts, tile, error.shape[1:3], strict=True)]
        tiles = np.pad(error, [(0, 0), *rims, (0, 0)]).reshape(len(error), counts[0], tile[0], counts[1], tile[1], -1)
        return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(len(error), *counts, tile[0] * tile[1], self.channels)

    def product(self, x: Array, kernels: Array, bias: Array | None) -> Array:
        """The outputs."""
        y = self.untiled(np.einsum("nxytc,tcko->nxyko", self.windows.taps(x), kernels, optimize=True))
        return y if bias is None else y + bias

    def scale(self, sizes: Array, weights: Array, bias: Array | None) -> Array:
        """What roundings of outputs are relative to, by sizes of inputs."""
        return self.product(sizes, self.kernels([np.abs(share) for share in self.shares], np.abs(weights)),
                            None if bias is None else np.abs(bias))

    def gradient(self, x: Array, shares: list[Array], error: Array) -> Array:
        """Of the elements."""
        kernel_gradient = np.einsum("nxytc,nxyko->tcko", self.windows.taps(x), self.tiled(error), optimize=True)
        kernel_gradient = kernel_gradient.reshape(*self.sizes, x.shape[-1], *self.tile, self.channels)
        return np.einsum("iua,jvb,abcijo->uvco", *shares, kernel_gradient, optimize=True)


def _winograd(call: Call) -> Output:
    (weights, bias), x = call.weights, call.x
    tiles = _Tiles(call.layer, x.shape, weights.shape[-1])

    def gradient(x: Array, shares: list[Array], error: Array) -> Variables:
        return _gradient(tiles.gradient(x, shares, error), None if bias is None else error.sum(axis=(0, 1, 2)))

    def backward(error: Array) -> Any:
        back = np.einsum("nxyko,tcko->nxytc", tiles.tiled(error), tiles.kernels(tiles.shares, weights), optimize=True)
        return [tiles.windows.fold(back)], gradient(x, tiles.shares, error)

    def scale() -> Array:
        return tiles.scale(call.sizes, weights, bias)

    return Output(tiles.product(x, tiles.kernels(tiles.shares, weights), bias), scale, backward,
                  magnitudes=lambda error: gradient(np.abs(x), [np.abs(share) for share in tiles.shares], error),
                  carry=scale)


def _affine(call: Call) -> Output:
    x, (scale, bias) = call.x, call.weights
    over = tuple(range(x.ndim - 1))

    def gradient(x: Array, error: Array) -> Variables:
        return _gradient((x * error).sum(axis=over), None if bias is None else error.sum(axis=over))

    def sum_of(x: Array, scale: Array, bias: Array | None) -> Array:
        return x * scale if bias is None else x * scale + bias

    return Output(sum_of(x, scale, bias),
                  lambda: sum_of(call.inputs[0].scale, np.abs(scale), None if bias is None else np.abs(bias)),
                  lambda error: ([error * scale], gradient(x, error)),
                  magnitudes=lambda error: gradient(np.abs(x), error),
                  carry=call.carried(lambda noise: noise * np.abs(scale)))


def _embedding(call: Call) -> Output:
    table, _ = call.weights
    rows = call.x.astype(np.int64)
    value = table[rows].reshape(len(rows), -1)

    def gradient(error: Array) -> Variables:
        sums = np.zeros_like(table)
        np.add.at(sums, rows, error.reshape(*rows.shape, -1))
        return {"weights": sums}

    return Output(value, lambda: np.abs(value), lambda error: ([np.zeros_like(call.x)], gradient(error)),
                  magnitudes=gradient)


def _near(call: Call, distance: Array, scale: Array) -> NDArray[np.bool_]:
    """Whether rounded numbers may find that a difference has the other sign."""
    return np.abs(distance) <= KINK_ROUNDINGS * call.rounding * scale


def _rectified(call: Call, value: Array, passes: Callable[[Array], NDArray[np.bool_]], distance: Array,
               slope: float = 0.0) -> Output:
    """What passes some elements as they are, which its input and output tell, and others times a slope."""
    own = passes(call.x)
    taken, kinks = own, 0
    if call.decided is not None:
        theirs = passes(call.decided.reshape(own.shape))
        other = (own != theirs) & _near(call, distance, call.inputs[0].scale)
        taken, kinks = own ^ other, int(other.sum())

    def back(taken: NDArray[np.bool_]) -> _Backward:
        return lambda error: ([error * np.where(taken, 1.0, slope)], {})

    return Output(value, lambda: call.inputs[0].scale, back(taken), kinks, own.size, back(own) if kinks else None,
                  carry=call.carried(lambda noise: noise))


def _relu(call: Call) -> Output:
    return _rectified(call, np.maximum(call.x, 0.0), lambda x: x > 0, call.x)


def _leaky_relu(call: Call) -> Output:
    return _rectified(call, np.maximum(call.x, call.layer.slope * call.x), lambda x: x > 0, call.x, call.layer.slope)


def _relu6(call: Call) -> Output:
    return _rectified(call, np.clip(call.x, 0.0, 6.0), lambda x: (x > 0) & (x < 6),
                      np.minimum(np.abs(call.x), np.abs(call.x - 6.0)))


def _max_pool(call: Call) -> Output:
    windows = _Windows(call.layer, call.x.shape)
    taps = windows.taps(call.x, -np.inf)
    by_column = np.arange(taps.shape[3]).reshape(call.layer.kernel).T.ravel()

    def first_largest(values: Array) -> NDArray[np.intp]:
        return by_column[values[:, :, :, by_column].argmax(axis=3, keepdims=True)]

    def at(values: Array, tap: NDArray[np.intp]) -> Array:
        return np.take_along_axis(values, tap, axis=3)

    own = first_largest(taps)
    winner, kinks = own, 0
    if call.decided is not None:
        theirs = first_largest(windows.taps(call.decided.reshape(call.x.shape), -np.inf))
        scale = windows.taps(call.inputs[0].scale)
        other = (own != theirs) & _near(call, at(taps, own) - at(taps, theirs), at(scale, own) + at(scale, theirs))
        winner, kinks = np.where(other, theirs, own), int(other.sum())

    def back(winner: NDArray[np.intp]) -> _Backward:
        def backward(error: Array) -> tuple[list[Array], Variables]:
            errors = np.zeros_like(taps)
            np.put_along_axis(errors, winner, error[:, :, :, None], axis=3)
            return [windows.fold(errors)], {}
        return backward

    return Output(taps.max(axis=3), lambda: windows.taps(call.inputs[0].scale).max(axis=3), back(winner), kinks,
                  own.size, back(own) if kinks else None,
                  carry=call.carried(lambda noise: windows.taps(noise).max(axis=3)))


def _mean_pool(call: Call) -> Output:
    windows = _Windows(call.layer, call.x.shape)
    inside = windows.taps(np.ones_like(call.x[:1]))
    share = inside / inside.sum(axis=3, keepdims=True)
    return Output((windows.taps(call.x) * share).sum(axis=3),
                  lambda: (windows.taps(call.inputs[0].scale) * share).sum(axis=3),
                  lambda error: ([windows.fold(error[:, :, :, None] * share)], {}),
                  carry=call.carried(lambda noise: (windows.taps(noise) * share).sum(axis=3)))


def _smooth(call: Call, value: Array, slope: Array, terms: Array | None = None) -> Output:
    """An activation without kinks; ``terms`` are the magnitudes that it is added up from, if they are not its own."""
    size = np.abs(value if terms is None else terms)
    return Output(value, lambda: call.inputs[0].scale * np.abs(slope) + size, lambda error: ([error * slope], {}),
                  carry=call.carried(lambda noise: noise * np.abs(slope)))


def _gelu(call: Call) -> Output:
    x, inner, cubic = call.x, np.sqrt(2.0 / np.pi), 0.044715
    t = np.tanh(inner * (x + cubic * x**3))
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * inner * (1.0 + 3.0 * cubic * x**2)
    return _smooth(call, 0.5 * x * (1.0 + t), slope, x)


def _tanh(call: Call) -> Output:
    value = np.tanh(call.x)
    return _smooth(call, value, 1.0 - value * value)


def _sigmoid(call: Call) -> Output:
    value = 0.5 * (1.0 + np.tanh(0.5 * call.x))
    return _smooth(call, value, value * (1.0 - value))


def _sum(call: Call, factor: float) -> Output:
    inputs = call.inputs
    return Output(factor * np.sum([summand.value for summand in inputs], axis=0),
                  lambda: factor * np.sum([summand.scale for summand in inputs], axis=0),
                  lambda error: ([factor * error] * len(inputs), {}),
                  carry=None if all(summand.carry is None for summand in inputs) else lambda: factor * np.sum(
                      [np.broadcast_to(summand.carried, summand.value.shape) for summand in inputs], axis=0))


def _concat(call: Call) -> Output:
    inputs = call.inputs
    bounds = np.cumsum([part.value.shape[-1] for part in inputs])[:-1]
    return Output(np.concatenate([part.value for part in inputs], axis=-1),
                  lambda: np.concatenate([part.scale for part in inputs], axis=-1),
                  lambda error: (np.split(error, bounds, axis=-1), {}),
                  carry=None if all(part.carry is None for part in inputs) else lambda: np.concatenate(
                      [np.broadcast_to(part.carried, part.value.shape) for part in inputs], axis=-1))


def _flatten(call: Call) -> Output:
    x = call.x
    return Output(x.reshape(len(x), -1), lambda: call.inputs[0].scale.reshape(len(x), -1),
                  lambda error: ([error.reshape(x.shape)], {}),
                  carry=call.carried(lambda noise: noise.reshape(len(x), -1)))


def _loss(value: float, gradient: Array) -> Output:
    return Output(np.array(value), lambda: np.array(abs(value)), lambda error: ([error * gradient], {}))


def softmax(x: Array) -> Array:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _softmax_cross_entropy(call: Call) -> Output:
    assert call.targets is not None
    z = call.x - call.x.max(axis=1, keepdims=True)
    picked = np.arange(len(z)), call.targets
    value = (np.log(np.exp(z).sum(axis=1)) - z[picked]).mean()
    error = softmax(z)
    error[picked] -= 1.0
    return _loss(value, error / len(z))


def _mean_squared_error(call: Call) -> Output:
    assert call.targets is not None
    difference = call.x - call.targets.reshape(call.x.shape)
    return _loss((difference**2).mean(), 2.0 * difference / difference.size)


KINDS: dict[str, Callable[[Call], Output]] = {
    "dense": _dense, "sparse": _sparse, "convolution": _convolution, "winograd": _winograd, "affine": _affine,
    "embedding": _embedding,
    "max-pool": _max_pool, "mean-pool": _mean_pool, "relu": _relu,
    "leaky-relu": _leaky_relu, "relu6": _relu6, "gelu": _gelu, "tanh": _tanh, "sigmoid": _sigmoid,
    "add": lambda call: _sum(call, 1.0), "join": lambda call: _sum(call, 1.0 / len(call.inputs)),
    "concat": _concat, "flatten": _flatten,
    "softmax-cross-entropy": _softmax_cross_entropy, "mean-squared-error": _mean_squared_error,
}
