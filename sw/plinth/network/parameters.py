"""A network's parameters as arrays, and the float64 figures of them that training compares with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Weights, then bias, of each layer, flat.
Parameters = list[NDArray[np.float32]]
#: What updates keep beside the weights, by layer and name, flat.
KeptVectors = Mapping[str, Mapping[str, NDArray[np.float32]]]
#: (parameters, samples) -> what the loss reads, float64 ``[samples, outputs]``, of some samples after the other,
#: computed on the host.
Predictor = Callable[[Parameters, NDArray[Any]], Iterator[NDArray[np.float64]]]


@dataclass(frozen=True)
class Sizes:
    """What errors are relative to: sizes of the terms that something is added up from."""

    predictions: float
    loss: float
    #: Of ``predictions - targets``, over its own size: at least 1, larger the better a network predicts.
    cancellation: float
    #: Of each layer's gradient, the sum over samples of magnitudes, over its own size.
    gradients: Sequence[float]


@dataclass(frozen=True)
class ReferenceStep:
    """What a step ought to find; of layers with weights in order, weights then bias, flat."""

    #: ``[samples, outputs]``.
    predictions: NDArray[np.float64]
    loss: float
    gradients: Sequence[NDArray[np.float64]]
    sizes: Sizes
    #: Kinks at which the given maps decided.
    kinks: int
    #: ReLUs and windows of max-pools.
    kinked: int = 0
    #: What a layer's gradient differs by if the given maps decide nowhere, relative, largest of all layers.
    kink_difference: float = 0.0


#: (weights before the step, samples, targets, outputs of ReLUs and inputs of max-pools by layer name) -> the step.
Reference = Callable[[Parameters, NDArray[Any], NDArray[Any], Mapping[str, NDArray[np.float32]]], ReferenceStep]
