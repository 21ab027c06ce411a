"""A sparse network as a value: layers whose weights are made, read or kept somewhere, biases, activations, a loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array

from plinth.network.sparse.activations import Activation
from plinth.network.sparse.matrices import MAXIMUM_NEURONS, check_layer, checked, row_list, selected

#: Most layers of a network.
MAXIMUM_LAYERS = 1 << 16
#: The loss: mean of the squared differences to the targets, over outputs and samples.
MEAN_SQUARED_ERROR = "mean-squared-error"

#: The bias of a layer: a number for all rows, which is a constant of the network, or ``[rows]`` that are trained.
Bias = float | NDArray[np.float64]


class LayerSource(Protocol):
    """Where the weights of a network come from: drawn, read or kept, a layer and as many of its rows as asked for.

    A process that owns some rows of each layer asks for these, so that no process holds the network. Equal questions
    get equal answers, in every process.
    """

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of the input, then of each layer; layer k, from 0, is ``widths[k + 1] x widths[k]``."""

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        """Some rows of a layer's weights.

        Parameters
        ----------
        layer : int
            From 0.
        rows : array of int
            Which rows (outputs), in any order.

        Returns
        -------
        csr_array
            ``[len(rows), inputs]``, in the order of ``rows``; float32 or float64; columns ascend within a row, each
            at most once.

        Raises
        ------
        ValueError
            If the layer has no such row.
        UserError
            If it is read from a file that is not as it should be.
        """


@dataclass(frozen=True, eq=False)
class MatrixSource:
    """Weights that lie in memory.

    Parameters
    ----------
    matrices : sequence of csr_array
        Of each layer ``[outputs, inputs]``.

    Raises
    ------
    TypeError, ValueError
        If one is no such matrix (:func:`~plinth.network.sparse.matrices.checked`), or reads other inputs than the
        layer before has outputs.
    """

    matrices: Sequence[csr_array]

    def __post_init__(self) -> None:
        matrices = tuple(checked(matrix, f"layer {number}") for number, matrix in enumerate(self.matrices))
        check_chain([(f"layer {number}", *matrix.shape[::-1]) for number, matrix in enumerate(matrices)])
        object.__setattr__(self, "matrices", matrices)

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.matrices[0].shape[1], *(matrix.shape[0] for matrix in self.matrices))

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, len(self.matrices))
        return selected(self.matrices[layer], rows)


def check_chain(layers: Sequence[tuple[str, int, int]]) -> None:
    """Refuse layers, (name, inputs, outputs), of which one reads other inputs than that before gives (ValueError)."""
    if not layers:
        raise ValueError("a network needs at least one layer, not none")
    for (before, _, outputs), (name, inputs, _) in pairwise(layers):
        if inputs != outputs:
            raise ValueError(f"{name} reads {inputs} inputs, but {before} gives {outputs}; give layers that follow "
                             "each other")


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseNetwork:
    """A chain of sparse layers: ``x_k = f_k(W_k x_(k-1), b_k)``, and a loss of the last. Immutable.

    Parameters
    ----------
    name : str
        For messages and reports.
    source : LayerSource
        The weights.
    biases : sequence of float or array
        Of each layer: a number for all rows, which stays, or ``[rows]`` in float64, which are trained.
    activations : sequence of Activation
        Of each layer.
    loss : str
        ``"mean-squared-error"``.

    Raises
    ------
    ValueError
        If there are other numbers of biases or activations than of layers, a bias does not fit its layer or is not
        finite, a width or the number of layers is out of range, or the loss is unknown.
    """

    name: str
    source: LayerSource
    biases: Sequence[Bias]
    activations: Sequence[Activation]
    loss: str = MEAN_SQUARED_ERROR
    #: Neurons of the input, then of each layer.
    widths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        widths = tuple(self.source.widths)
        layers = len(widths) - 1
        if not 1 <= layers <= MAXIMUM_LAYERS or not all(1 <= width <= MAXIMUM_NEURONS for width in widths):
            raise ValueError(f"network {self.name!r} must have 1 to {MAXIMUM_LAYERS} layers of 1 to {MAXIMUM_NEURONS} "
                             f"neurons, not {layers} of {min(widths, default=0)} to {max(widths, default=0)}")
        for what, of in (("biases", self.biases), ("activations", self.activations)):
            if len(of) != layers:
                raise ValueError(f"network {self.name!r} has {layers} layers, but {len(of)} {what}; give one a layer")
        biases = tuple(_bias(bias, width, f"the bias of layer {number}")
                       for number, (bias, width) in enumerate(zip(self.biases, widths[1:], strict=True)))
        if self.loss != MEAN_SQUARED_ERROR:
            raise ValueError(f"loss must be {MEAN_SQUARED_ERROR!r}, not {self.loss!r}")
        for name, value in (("widths", widths), ("biases", biases), ("activations", tuple(self.activations))):
            object.__setattr__(self, name, value)

    @property
    def layers(self) -> int:
        """The number of layers that have weights."""
        return len(self.widths) - 1

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        """Some rows of a layer's weights, as :meth:`LayerSource.rows` gives them."""
        return self.source.rows(layer, rows)

    def matrix(self, layer: int) -> csr_array:
        """All weights of a layer, ``[outputs, inputs]``."""
        return self.source.rows(layer, np.arange(self.widths[layer + 1]))

    def bias(self, layer: int, rows: ArrayLike | None = None) -> Bias:
        """The bias of some rows of a layer, of all by default: one number, or an array if it is trained."""
        bias = self.biases[layer]
        if isinstance(bias, float) or rows is None:
            return bias
        return bias[row_list(rows, len(bias))]

    def loaded(self, dtype: DTypeLike = np.float64) -> "SparseNetwork":
        """The same network with all weights in memory, float32 or float64."""
        return replace_weights(self, [self.matrix(layer).astype(dtype) for layer in range(self.layers)], self.biases)


def replace_weights(network: SparseNetwork, matrices: Sequence[csr_array], biases: Sequence[Bias]) -> SparseNetwork:
    """A network with other weights and biases, which lie in memory."""
    return replace(network, source=MatrixSource(matrices), biases=biases)


def _bias(bias: Any, width: int, name: str) -> Bias:
    if not isinstance(bias, np.ndarray):
        bias = float(bias)
    elif bias.shape != (width,):
        raise ValueError(f"{name} must be a number or {width} of them, not {list(bias.shape)}")
    if not np.isfinite(bias).all():
        raise ValueError(f"{name} must be finite")
    return bias if isinstance(bias, float) else bias.astype(np.float64)
