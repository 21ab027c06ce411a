"""What a network's outputs are worth, on the host in float64: their loss, and the share of classes that are right."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.network import Network


def accuracy(predictions: NDArray[np.floating], y: NDArray[np.int64]) -> float:
    """Share of samples whose class is predicted right."""
    return float((predictions.argmax(axis=1) == y).mean())


def loss_of(network: Network, outputs: NDArray[np.floating], y: NDArray[Any]) -> float:
    """The network's loss, mean over samples, of what it reads; on the host in float64."""
    values = outputs.astype(np.float64)
    if isinstance(network.loss, SoftmaxCrossEntropy):
        values = values - values.max(axis=1, keepdims=True)
        return float(np.mean(np.log(np.exp(values).sum(axis=1)) - values[np.arange(len(y)), y]))
    return float(np.mean((values - y) ** 2))
