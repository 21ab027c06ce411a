"""Outputs of a sparse network on one processor: what distributed inference is compared with.

All samples go through a layer together, as columns of one matrix: a product of a sparse matrix and a dense one. The sum
of an output starts from 0 and takes its columns ascending, each product rounded to the number type and added.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from plinth.network.sparse.network import SparseNetwork


def layer_outputs(network: SparseNetwork, layer: int, matrix: csr_array, inputs: NDArray[Any]) -> NDArray[Any]:
    """Outputs of one layer, ``[outputs, samples]``.

    Parameters
    ----------
    matrix : csr_array
        Its weights, in the number type of the inputs.
    inputs : array
        ``[inputs, samples]``, float32 or float64.
    """
    bias = network.bias(layer)
    if not isinstance(bias, float):
        bias = bias.astype(inputs.dtype)[:, None]
    return network.activations[layer].outputs(matrix @ inputs, bias)


def as_columns(network: SparseNetwork, samples: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Samples, dense or sparse ``[samples, neurons]``, as the columns of a dense array.

    Raises
    ------
    ValueError
        If they do not have the network's number of inputs.
    """
    if samples.ndim != 2 or samples.shape[1] != network.widths[0]:
        raise ValueError(f"samples must be [samples, {network.widths[0]}], as network {network.name!r} reads them, not "
                         f"{list(samples.shape)}")
    dense = samples if isinstance(samples, np.ndarray) else samples.toarray()
    return np.ascontiguousarray(dense.T, dtype=dtype)


def forward(network: SparseNetwork, samples: Any, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Outputs of a network, ``[samples, outputs]``.

    Parameters
    ----------
    samples : array or csr_array
        ``[samples, inputs]``. Take as many at a time as their maps have room in memory: two of a layer are kept.
    dtype : dtype
        What is computed in, float64 or float32.

    Raises
    ------
    ValueError
        If the samples do not fit.
    """
    values = as_columns(network, samples, dtype)
    for layer in range(network.layers):
        values = layer_outputs(network, layer, network.matrix(layer).astype(dtype, copy=False), values)
    return np.ascontiguousarray(values.T)


def categories(outputs: NDArray[Any]) -> NDArray[np.int64]:
    """The Graph Challenge's answer: the samples, from 0, of which an output of the last layer is above 0."""
    return np.flatnonzero((outputs > 0).any(axis=1))
