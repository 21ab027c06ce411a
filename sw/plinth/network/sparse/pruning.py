"""Magnitude pruning: of a dense network the largest weights are kept, and layers become sparse matrices.

Fully connected layers and convolutions are pruned. A convolution's matrix is its Toeplitz form: a row for each element
of its output map, a column for each of its input map, channels innermost as maps lie in memory; each kept element of
the kernel stands there once for every window in which it meets the map, none where it meets padding. Shares count
weights that are trained, so elements of kernels, not entries of matrices. Biases, and what other kinds of layers train,
are kept whole and are not in the result; pools and activations have no weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plinth.network.layers import SPATIAL, Convolution, Dense
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.network.sparse.matrices import check_layer, check_size, csr, row_list, segments, selected, starts_of
from plinth.network.sparse.network import check_chain


@dataclass(frozen=True, eq=False)
class PrunedLayer(ABC):
    """A layer of which some weights are kept."""

    name: str
    #: Elements of the maps, or features, that it reads and gives.
    inputs: int
    outputs: int
    #: Weights that are kept, and that there were.
    kept: int
    weights: int
    #: Of each row, in float64; 0 where the layer has none.
    bias: NDArray[np.float64]

    @property
    @abstractmethod
    def entries(self) -> int:
        """Entries of the matrix, at most: of convolutions those that padding would meet are counted too."""

    @abstractmethod
    def rows(self, rows: ArrayLike) -> csr_array:
        """Some rows of the matrix, float32 ``[len(rows), inputs]``, in the order of ``rows`` (ValueError if there are
        no such rows)."""

    def matrix(self) -> csr_array:
        """The whole matrix, float32 ``[outputs, inputs]``.

        Raises
        ------
        ValueError
            If it has more entries than :data:`~plinth.network.sparse.matrices.MAXIMUM_ENTRIES`.
        """
        check_size((self.outputs, self.inputs), self.entries, f"the matrix of layer {self.name!r}")
        return self.rows(np.arange(self.outputs))


@dataclass(frozen=True, eq=False)
class PrunedDense(PrunedLayer):
    """A fully connected layer, whose matrix lies in memory."""

    kept_weights: csr_array

    @property
    def entries(self) -> int:
        return int(self.kept_weights.nnz)

    def rows(self, rows: ArrayLike) -> csr_array:
        return selected(self.kept_weights, rows)


@dataclass(frozen=True, eq=False)
class PrunedConvolution(PrunedLayer):
    """A convolution, whose rows are made when they are asked for."""

    layer: Convolution
    input_map: Shape
    output_map: Shape
    #: ``[output channels, kernel rows x kernel columns x input channels]``.
    kept_kernel: csr_array

    @property
    def entries(self) -> int:
        return int(self.kept_kernel.nnz) * self.output_map.positions

    def rows(self, rows: ArrayLike) -> csr_array:
        outputs = row_list(rows, self.outputs)
        channels, (_, height, width) = self.output_map.channels, self.input_map
        positions, channel = np.divmod(outputs, channels)
        tops = positions // self.output_map[2] * self.layer.stride[0] - self.layer.padding[0]
        lefts = positions % self.output_map[2] * self.layer.stride[1] - self.layer.padding[1]
        # Kept elements of each row's channel, one row behind the other.
        firsts = self.kept_kernel.indptr.astype(np.int64)[channel]
        counts = np.diff(self.kept_kernel.indptr)[channel]
        row = np.repeat(np.arange(len(outputs)), counts)
        entry = segments(firsts, counts)
        tap, input_channel = np.divmod(self.kept_kernel.indices[entry].astype(np.int64), self.input_map.channels)
        y, x = tops[row] + tap // self.layer.kernel[1], lefts[row] + tap % self.layer.kernel[1]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        columns = ((y * width + x) * self.input_map.channels + input_channel)[inside]
        starts = starts_of(np.bincount(row[inside], minlength=len(outputs)))
        return csr(self.kept_kernel.data[entry[inside]], columns, starts, (len(outputs), self.inputs))


def prune(network: Network, parameters: Mapping[str, NDArray[Any]], share: float,
          per_layer: bool = False) -> list[PrunedLayer]:
    """Keep the largest weights of a network's fully connected layers and convolutions, in order.

    Of equal magnitudes those are kept that come first: by layer, then by their place in the parameters' arrays.

    Parameters
    ----------
    network : Network
    parameters : mapping
        Arrays by the variables' names, such as those of :func:`~plinth.network.parameters.initial_parameters`.
    share : float
        How many are kept, above 0 and up to 1, rounded to the nearest number and at least one.
    per_layer : bool
        Whether each layer keeps this share of its own weights; otherwise all layers together keep it, and a layer of
        small weights may lose more than others.

    Raises
    ------
    ValueError
        If the share is out of range, an array is missing, of another shape or not finite, there is no layer to prune,
        or a convolution trains Winograd tiles.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and up to 1, not {share!r}")
    layers = [layer for layer in network.layers if isinstance(layer, (Dense, Convolution))]
    if not layers:
        raise ValueError(f"network {network.name!r} has no fully connected layer and no convolution to prune")
    for layer in layers:
        if isinstance(layer, Convolution) and layer.weights != SPATIAL:
            raise layer.refuse("trains Winograd tiles, which are not pruned; say weights: spatial")
    arrays = [_array(network, parameters, f"{layer.name}.weights") for layer in layers]
    groups = [[array] for array in arrays] if per_layer else [arrays]
    masks = [mask for group in groups for mask in _largest(group, share)]
    return [_pruned(network, layer, array, mask, parameters)
            for layer, array, mask in zip(layers, arrays, masks, strict=True)]


def _array(network: Network, parameters: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    shape = network.variables[name].shape
    if name not in parameters:
        raise ValueError(f"parameters of network {network.name!r} have no {name!r}; give {shape}")
    array = np.asarray(parameters[name], np.float32)
    if array.shape != tuple(shape) or not np.isfinite(array).all():
        raise ValueError(f"{name!r} must be finite numbers {list(shape)}, not {list(array.shape)}"
                         f"{'' if np.isfinite(array).all() else ' of which some are not'}")
    return array


def _largest(arrays: Sequence[NDArray[np.float32]], share: float) -> list[NDArray[np.bool_]]:
    """Masks of the largest magnitudes of some arrays together."""
    magnitudes = np.concatenate([np.abs(array).ravel() for array in arrays])
    count = max(1, round(share * len(magnitudes)))
    least = np.partition(magnitudes, len(magnitudes) - count)[len(magnitudes) - count]
    mask = magnitudes > least
    mask[np.flatnonzero(magnitudes == least)[:count - np.count_nonzero(mask)]] = True
    ends = np.cumsum([array.size for array in arrays])
    return [part.reshape(array.shape) for part, array in zip(np.split(mask, ends[:-1]), arrays, strict=True)]


def _pruned(network: Network, layer: Dense | Convolution, array: NDArray[np.float32], mask: NDArray[np.bool_],
            parameters: Mapping[str, NDArray[Any]]) -> PrunedLayer:
    shapes = network.shapes[layer.name]
    # Variables end in what a layer reads and what it gives: columns and rows of the matrix.
    wanted, values = mask.reshape(-1, array.shape[-1]).T, array.reshape(-1, array.shape[-1]).T
    columns = np.flatnonzero(wanted) % wanted.shape[1]
    matrix = csr(values[wanted], columns, starts_of(np.count_nonzero(wanted, axis=1)), wanted.shape)
    name = f"{layer.name}.bias"
    channels = np.zeros(array.shape[-1])
    if layer.bias:
        channels = _array(network, parameters, name).astype(np.float64)
    sizes = (layer.name, shapes.inputs[0].elements, shapes.output.elements, int(matrix.nnz), array.size,
             np.tile(channels, shapes.output.positions))
    if isinstance(layer, Dense):
        return PrunedDense(*sizes, matrix)
    return PrunedConvolution(*sizes, layer, shapes.inputs[0], shapes.output, matrix)


@dataclass(frozen=True, eq=False)
class PrunedChain:
    """Pruned layers that follow each other, as those of a perceptron do: a :class:`~.network.LayerSource`.

    Parameters
    ----------
    layers : sequence of PrunedLayer

    Raises
    ------
    ValueError
        If a layer reads other numbers of elements than the one before gives, as behind a pool.
    """

    layers: Sequence[PrunedLayer]
    #: Neurons of the input, then of each layer.
    widths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_chain([(f"layer {layer.name!r}", layer.inputs, layer.outputs) for layer in self.layers])
        object.__setattr__(self, "widths", (self.layers[0].inputs, *(layer.outputs for layer in self.layers)))

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, len(self.layers))
        return self.layers[layer].rows(rows)
