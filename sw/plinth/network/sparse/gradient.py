"""One step of stochastic gradient descent of a sparse network in float64, on one processor, without partitions.

With y the outputs, t the targets, S samples and N outputs, the loss and the step are::

    J = sum (y - t)^2 / (S N)
    delta_L = 2 (y - t) / (S N) * f'          f' the slope of the layer's activation, sample by sample
    delta_k-1 = (W_k^T delta_k) * f'          W_k as it was before the step
    dW_k[i, j] = sum over samples of delta_k[i] x_k-1[j], where W_k has an entry alone
    db_k[i] = sum over samples of delta_k[i], of biases that are trained
    W_k <- W_k - rate dW_k, b_k <- b_k - rate db_k

A mini-batch goes back as a whole, sample by sample in columns: deltas that are averaged over samples before the
products would give another gradient.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plinth.network.sparse.inference import as_columns, layer_outputs
from plinth.network.sparse.matrices import entry_rows
from plinth.network.sparse.network import SparseNetwork, replace_weights

#: Numbers of each operand that are gathered at a time for the products of deltas and inputs, 8 MiB.
_GATHERED = 1 << 20


@dataclass(frozen=True)
class SparseGradients:
    """Outputs, loss and gradients of a batch."""

    #: ``[samples, outputs]``.
    outputs: NDArray[np.float64]
    loss: float
    #: Of each layer, in the order of the entries of its matrix: ``[entries]``.
    weights: tuple[NDArray[np.float64], ...]
    #: Of each layer ``[rows]``, or None where the bias is a constant.
    biases: tuple[NDArray[np.float64] | None, ...]


def mean_squared_error(outputs: NDArray[Any], targets: NDArray[Any]) -> float:
    """The loss: mean of the squared differences over samples and outputs."""
    return float(np.mean((outputs - targets) ** 2))


def sampled_product(pattern: csr_array, deltas: NDArray[Any], inputs: NDArray[Any]) -> NDArray[Any]:
    """The product ``deltas inputs^T`` at the entries of a pattern alone, ``[entries]``: no dense matrix is made.

    Parameters
    ----------
    pattern : csr_array
        ``[rows, columns]``.
    deltas, inputs : array
        ``[rows, samples]`` and ``[columns, samples]``.
    """
    rows = entry_rows(pattern)
    products = np.empty(len(rows), deltas.dtype)
    step = max(1, _GATHERED // max(1, deltas.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        np.einsum("es,es->e", deltas[rows[part]], inputs[pattern.indices[part]], out=products[part])
    return products


def gradients(network: SparseNetwork, samples: Any, targets: NDArray[Any]) -> SparseGradients:
    """Gradients of the loss of a batch, by all weights and by the biases that are trained.

    Parameters
    ----------
    samples : array or csr_array
        ``[samples, inputs]``.
    targets : array
        ``[samples, outputs]``.

    Raises
    ------
    ValueError
        If samples or targets do not fit, or the loss or a gradient is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = _gradients(network, samples, targets)
    of_layers = [array for arrays in (found.weights, found.biases) for array in arrays if array is not None]
    if not np.isfinite(found.loss) or not all(np.isfinite(array).all() for array in of_layers):
        raise ValueError(f"gradients of network {network.name!r} are not finite; give finite samples and targets, "
                         "scaled to about 1")
    return found


def _gradients(network: SparseNetwork, samples: Any, targets: NDArray[Any]) -> SparseGradients:
    values = [as_columns(network, samples, np.float64)]
    matrices = [network.matrix(layer).astype(np.float64, copy=False) for layer in range(network.layers)]
    for layer, matrix in enumerate(matrices):
        values.append(layer_outputs(network, layer, matrix, values[-1]))
    outputs = values[-1]
    wanted = np.asarray(targets, np.float64)
    if wanted.shape != outputs.shape[::-1] or not outputs.size:
        raise ValueError(f"targets must be [samples, outputs] {list(outputs.shape[::-1])}, of at least one sample, not "
                         f"{list(wanted.shape)}")
    of_weights: list[NDArray[np.float64]] = []
    of_biases: list[NDArray[np.float64] | None] = []
    error = 2 * (outputs - wanted.T) / outputs.size
    for layer in reversed(range(network.layers)):
        deltas = error * network.activations[layer].slope(values[layer + 1])
        if layer:  # nothing is trained before the first
            error = matrices[layer].T @ deltas
        of_weights.append(sampled_product(matrices[layer], deltas, values[layer]))
        of_biases.append(None if isinstance(network.bias(layer), float) else deltas.sum(axis=1))
    return SparseGradients(np.ascontiguousarray(outputs.T), mean_squared_error(outputs, wanted.T),
                           tuple(reversed(of_weights)), tuple(reversed(of_biases)))


def sgd_step(network: SparseNetwork, samples: Any, targets: NDArray[Any],
             rate: float) -> tuple[SparseNetwork, SparseGradients]:
    """One step: the network with its new weights, in float64 and in memory, and the gradients that led to them.

    Parameters
    ----------
    samples, targets : array
        ``[samples, inputs]`` and ``[samples, outputs]``.
    rate : float
        Learning rate.

    Raises
    ------
    ValueError
        If samples or targets do not fit, or the loss, a gradient or what the step makes of weights is not finite.
    """
    found = gradients(network, samples, targets)
    matrices = []
    with np.errstate(over="ignore", invalid="ignore"):
        for layer, gradient in enumerate(found.weights):
            matrix = network.matrix(layer).astype(np.float64)
            matrix.data -= rate * gradient
            matrices.append(matrix)
        biases = [bias if isinstance(bias, float) or gradient is None else bias - rate * gradient
                  for bias, gradient in zip(network.biases, found.biases, strict=True)]
    if not all(np.isfinite(array).all() for array in (*(matrix.data for matrix in matrices), *biases)):
        raise ValueError(f"weights of network {network.name!r} are not finite after a step of rate {rate:g}; give a "
                         "smaller rate")
    return replace_weights(network, matrices, biases), found
