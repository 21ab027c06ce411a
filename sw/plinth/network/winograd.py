"""Convolutions of a network by Winograd tiles: which, and weights of kernels as those of tiles and back."""

from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import AUTO, OFF, SPATIAL, Convolution, Shape
from plinth.network.network import Network
from plinth_hw.isa.winograd import OUTPUTS, Form, Matrix, Transform, form

Floats = NDArray[np.floating]

#: Growth of errors up to which a transform is fit for products of FP16.
MOST_GROWTH = 2


def tiled(network: Network) -> bool:
    """Whether any layer is computed by Winograd tiles."""
    return any(isinstance(layer, Convolution) and layer.transform(network.shapes[layer.name].inputs) is not None
               for layer in network.layers)


def predicts(network: Network) -> bool:
    """Whether any layer's gathers are to be predicted."""
    return any(isinstance(layer, Convolution) and layer.rounds > 0 for layer in network.layers)


def with_tiles(network: Network, winograd: str | int | None, weights: str | None, predict: str | int | None = None,
               shares: tuple[float, ...] | None = None) -> Network:
    """The network with these settings of its convolutions: those that have no such transform are computed directly.
    None: as the network says; ``shares``: of layers that are predicted.

    Raises
    ------
    ValueError
        If no convolution has it, or tiles are trained, or predicted, of a network that has none, or shares are not
        those of so many rounds.
    """
    layers, any_tiles = [], False
    for layer in network.layers:
        if isinstance(layer, Convolution):
            rounds = layer.predict if predict is None else predict
            configured = replace(layer, winograd=layer.winograd if winograd is None else winograd,
                                 weights=layer.weights if weights is None else weights,
                                 predict=rounds,
                                 shares=() if not rounds else layer.shares if shares is None else shares)
            inputs = network.shapes[layer.name].inputs
            try:
                has = configured.transform(inputs) is not None
            except ValueError:
                if winograd is None and weights is None and predict is None:
                    raise
                has = False
            layer = configured if has or configured.winograd == AUTO else configured.direct
            any_tiles = any_tiles or has
        layers.append(layer)
    if not any_tiles and predict:
        raise ValueError(f"no layer of network {network.name!r} has Winograd tiles whose gathers could be predicted; "
                         "say winograd=auto, or leave predict= out")
    configured_network = replace(network, layers=tuple(layers))
    if shares and not predicts(configured_network):
        raise ValueError(f"no layer of network {network.name!r} is predicted, so shares= are of none; say predict="
                         "1, 2 or regions, or leave shares= out")
    if not any_tiles and (winograd not in (None, OFF, AUTO) or weights not in (None, SPATIAL)):
        what = "trains Winograd tiles" if winograd in (None, OFF) else f"has a Winograd transform of {winograd} outputs"
        raise ValueError(f"no layer of network {network.name!r} {what}; say winograd=off, or auto, and weights="
                         "spatial")
    return configured_network


def _floats(matrix: Matrix) -> NDArray[np.float64]:
    return np.array(matrix, dtype=np.float64)


def elements_of_kernel(tiles: Form, kernel: Floats) -> NDArray[np.float64]:
    """Elements of Winograd tiles ``[T, T', in, out]`` that do what a kernel ``[rows, columns, in, out]`` does: W = G w
    G^T."""
    down, across = (_floats(transform.g) for transform in tiles.transforms)
    return np.einsum("uk,vl,klio->uvio", down, across, kernel.astype(np.float64))


def kernel_of_elements(tiles: Form, elements: Floats) -> NDArray[np.float64]:
    """The kernel whose elements are nearest to some, by the sum of squares: of those of a kernel, that one."""
    down, across = (np.linalg.pinv(_floats(transform.g)) for transform in tiles.transforms)
    return np.einsum("ku,lv,uvio->klio", down, across, elements.astype(np.float64))


def distance(tiles: Form, elements: Floats) -> float:
    """How much of some elements those of the nearest kernel leave out, by roots of sums of squares; 0 if it is no more
    than FP32 rounds off of a kernel's."""
    left = elements - elements_of_kernel(tiles, kernel_of_elements(tiles, elements))
    left_out = float(np.linalg.norm(left) / (np.linalg.norm(elements) or 1))
    return left_out if left_out > 2 * np.finfo(np.float32).eps else 0.0


def growth(tiles: Form) -> float:
    """How many times larger errors are than those of direct convolution where operands are rounded alike: inputs and
    weights of fprop, errors and weights of bprop, inputs and errors of updateGrad. Of independent numbers of one size
    and independent roundings, in the root of the mean of squares; in all three it is, of both directions the product,

        sqrt(sum over u of |A_u|^2 |B^T_u|^2 |G_u|^2 / (m r))
    """
    return float(np.sqrt(prod(
        ((_floats(transform.a)**2).sum(axis=0) * (_floats(transform.b)**2).sum(axis=1)
         * (_floats(transform.g)**2).sum(axis=1)).sum()
        / (transform.outputs * transform.taps) for transform in tiles.transforms)))


def fit(tiles: Form) -> bool:
    """Whether tiles may be rounded to operands of FP16: those of F(2,3), whose numbers are at most four times those of
    maps; those of others are up to 225 times as large, and their errors grow more than ten times."""
    return growth(tiles) <= MOST_GROWTH


def with_fit(network: Network) -> Network:
    """The network with layers that may choose their transform by what is fit for FP16, or directly."""
    layers = []
    for layer in network.layers:
        if isinstance(layer, Convolution) and layer.winograd == AUTO:
            outputs = layer.fewest(network.shapes[layer.name].inputs, [
                tile_outputs for tile_outputs in OUTPUTS.get(layer.kernel, ())
                if fit(form(layer.kernel, tile_outputs))])
            layer = replace(layer, winograd=outputs) if outputs else layer.direct
        layers.append(layer)
    return replace(network, layers=tuple(layers))


def element_rates(tiles: Form) -> tuple[float, ...]:
    """Learning rates of trained elements, row by row, times that of kernels; none where one rate fits all.

    Rows and columns have r_u = m / (|A_u|^2 |B^T_u|^2) each: by it a step changes outputs as one of a kernel does, by
    the gains of element u's way from inputs and to outputs. Up to T = 4 these are so near each other that 1 does.
    """
    if max(tiles.sides) <= 4:
        return ()
    down, across = (_rates(transform) for transform in tiles.transforms)
    return tuple(float(np.float32(row_rate * column_rate)) for row_rate in down for column_rate in across)


def _rates(transform: Transform) -> list[float]:
    """r_u of a direction."""
    out, into = (_floats(transform.a) ** 2).sum(axis=0), (_floats(transform.b) ** 2).sum(axis=1)
    return list(map(float, transform.outputs / (out * into)))


def parameter_rates(network: Network) -> list[NDArray[np.float64] | None]:
    """The factor on the learning rate of each parameter of each layer with weights; None: 1."""
    factors: list[NDArray[np.float64] | None] = []
    for layer in network.weighted:
        outputs = layer.trained_tiles(network.shapes[layer.name].inputs) if isinstance(layer, Convolution) else None
        rates = element_rates(form(layer.kernel, outputs)) if isinstance(layer, Convolution) and outputs else ()
        weights = network.layer_weights(layer.name)
        bias = network.layer_parameters(layer.name) - weights
        factors.append(np.concatenate([np.repeat(rates, weights // len(rates)), np.ones(bias)]) if rates else None)
    return factors


def _forms(layer: Convolution) -> list[Form | None]:
    """What weights of a layer may be: the kernel's, or those of tiles."""
    return [None, *(form(layer.kernel, outputs) for outputs in OUTPUTS.get(layer.kernel, ()))]


def _shape(layer: Convolution, tiles: Form | None, inputs: Shape) -> Shape:
    taps = layer.kernel if tiles is None else tiles.sides
    return Shape((*taps, inputs.channels, layer.channels))


def other_forms(network: Network, name: str) -> dict[Shape, Form | None]:
    """The forms, by shape, that a layer's weights may have beside the network's; None: the kernel's."""
    layer, shapes = network.layer(name), network.shapes[name]
    if not isinstance(layer, Convolution):
        return {}
    forms = {_shape(layer, tiles, shapes.inputs[0]): tiles for tiles in _forms(layer)}
    forms.pop(shapes.variables[0].shape, None)
    return forms


def setting(tiles: Form | None) -> str:
    """Options of commands by which a network trains kernels, or such tiles."""
    if tiles is None:
        return "weights=spatial"
    return f"winograd={max(transform.outputs for transform in tiles.transforms)} weights=winograd"


def converted(network: Network, name: str, weights: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Weights of a layer, of one of its :func:`other_forms`, as the network has them, and their :func:`distance`: exact
    but for rounding to FP32, unless these are tiles that follow from no kernel; what the network has is of the nearest
    one then.

    Raises
    ------
    KeyError
        If no form has their shape.
    """
    layer = network.layer(name)
    assert isinstance(layer, Convolution)
    tiles = other_forms(network, name)[Shape(weights.shape)]
    kernel, left = (weights, 0.0) if tiles is None else (
        kernel_of_elements(tiles, weights), distance(tiles, weights.astype(np.float64)))
    outputs = layer.trained_tiles(network.shapes[name].inputs)
    trained = kernel if outputs is None else elements_of_kernel(form(layer.kernel, outputs), kernel)
    return trained.astype(np.float32), left
