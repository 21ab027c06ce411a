"""Losses and accuracies of a network's outputs, computed on the host in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.network import Network


def accuracy(predictions: NDArray[np.floating], y: NDArray[np.int64]) -> float:
    """The share of samples whose largest prediction is that of their class."""
    return float((predictions.argmax(axis=1) == y).mean())


def loss_of(network: Network, outputs: NDArray[np.floating], y: NDArray[Any]) -> float:
    """The mean loss over samples of what the network's last layer reads, in float64: softmax cross-entropy, or
    mean-squared-error."""
    values = outputs.astype(np.float64)
    if isinstance(network.loss, SoftmaxCrossEntropy):
        values = values - values.max(axis=1, keepdims=True)
        return float(np.mean(np.log(np.exp(values).sum(axis=1)) - values[np.arange(len(y)), y]))
    return float(np.mean((values - y) ** 2))
