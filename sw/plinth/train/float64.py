"""Networks as the task-free float64 reference of the golden model takes them."""

from collections.abc import Iterator, Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import SPATIAL, Convolution, Layer, MaxPool, MeanPool, Sparse
from plinth.network.network import Network
from plinth.network.parameters import (
    LayerVectors,
    Parameters,
    Predictor,
    Reference,
    ReferenceStep,
    TermSizes,
    layer_vectors,
    named,
)
from plinth.network.sparse.matrices import entry_rows
from plinth_sim.golden import reference

#: Elements of a layer's windows that the reference computes at a time: 64 MiB in float64.
BATCH_ELEMENTS = 1 << 23


def reference_layers(network: Network) -> tuple[reference.ReferenceLayer, ...]:
    """A network as the float64 reference takes it."""
    def as_reference(layer: Layer) -> reference.ReferenceLayer:
        settings, kind = {key: getattr(layer, key) for key in layer.forms()}, layer.kind
        if isinstance(layer, Convolution) and (tile := layer.transform(network.shapes[layer.name].inputs)):
            settings, kind = settings | {"tile": tile}, kind if layer.weights == SPATIAL else "winograd"
        if isinstance(layer, Sparse):
            matrix = layer.pattern.matrix()
            settings = {"connections": (matrix.indices, entry_rows(matrix), matrix.shape[0])}
        return reference.ReferenceLayer(layer.name, kind, layer.inputs, **settings)

    return tuple(map(as_reference, network.layers))


def float64_reference(network: Network, rounding: float = reference.FP32_ROUNDING) -> Reference:
    """A step of a network by the task-free reference.

    Parameters
    ----------
    rounding : float
        What numbers of the computation that is checked may be off, of their size.
    """
    # Of sparse layers they hold all connections: they are made for who compares a step.
    layers, vectors = cache(lambda: reference_layers(network)), layer_vectors(network)

    def compute(weights: LayerVectors, x: NDArray[Any], targets: NDArray[Any],
                decided: Mapping[str, NDArray[np.float32]]) -> ReferenceStep:
        step = reference.gradients(layers(), named(network, weights), _samples(network, x), targets, decided, rounding)
        sizes = vars(step.scales) | {"gradients": [step.scales.gradients[vector.layer] for vector in vectors]}
        return ReferenceStep(step.predictions.reshape(len(x), -1), step.loss,
                             [vector.join(step.variables) for vector in vectors], TermSizes(**sizes), step.kinks,
                             step.kinked, step.kink_difference)
    return compute


def float64_predictor(network: Network) -> Predictor:
    """What the loss of a network reads, by the task-free reference, some samples at a time."""
    layers, batch = cache(lambda: reference_layers(network)), _batch_samples(network)

    def compute(parameters: Parameters, x: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        parameters = {name: values.astype(np.float64) for name, values in parameters.items()}
        for start in range(0, len(x), batch):
            part = x[start:start + batch]
            yield reference.prediction(layers(), parameters, _samples(network, part)).reshape(len(part), -1)
    return compute


def _batch_samples(network: Network) -> int:
    """Samples that the reference computes together: the windows of its widest layer, written out, stay within
    bounds."""
    widest = network.input.elements
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        taps = prod(layer.kernel) * shapes.inputs[0].channels * shapes.output.positions if (
            isinstance(layer, (Convolution, MaxPool, MeanPool))) else 0
        widest = max(widest, taps, shapes.output.elements)
    return max(1, BATCH_ELEMENTS // widest)


def _samples(network: Network, x: NDArray[Any]) -> NDArray[Any]:
    """Flat samples as ``[samples, rows, columns, channels]``, or features."""
    channels, *sides = network.input
    return x.reshape(len(x), *sides, channels)
