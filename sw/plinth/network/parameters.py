"""A network's parameters as arrays by name, and the float64 figures of them that training compares with.

Checks and places in memory take all variables of a layer as one vector, concatenated (:class:`LayerVector`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.files.documents import nearest
from plinth.network.network import Network
from plinth.network.variables import ConstantValue, Normal, PatternValues, Variable
from plinth.network.winograd import elements_of_kernel
from plinth_hw.isa.winograd import form

#: What a network trains, by the names of :attr:`~plinth.network.network.Network.variables`, in their shapes.
Parameters = Mapping[str, NDArray[np.float32]]
#: What updates keep beside a variable, by its name and that of the vector, in its shape.
KeptVectors = Mapping[str, Mapping[str, NDArray[np.float32]]]
#: (parameters, samples) -> what the loss reads, float64 ``[samples, outputs]``, of some samples after the other,
#: computed on the host.
Predictor = Callable[[Mapping[str, NDArray[Any]], NDArray[Any]], Iterator[NDArray[np.float64]]]


@dataclass(frozen=True)
class TermSizes:
    """What errors are relative to: sizes of the terms that something is added up from."""

    predictions: float
    loss: float
    #: Of ``predictions - targets``, over its own size: at least 1, larger the better a network predicts.
    cancellation: float
    #: Of each layer's gradient, the sum over samples of magnitudes, over its own size.
    gradients: Sequence[float]


@dataclass(frozen=True)
class ReferenceStep:
    """The correct results of a step in float64; of each layer that trains something, in order, a
    :class:`LayerVector`."""

    #: ``[samples, outputs]``.
    predictions: NDArray[np.float64]
    loss: float
    gradients: Sequence[NDArray[np.float64]]
    sizes: TermSizes
    #: Kinks at which the given maps decided.
    kinks: int
    #: ReLUs and windows of max-pools.
    kinked: int = 0
    #: What a layer's gradient differs by if the given maps decide nowhere, relative, largest of all layers.
    kink_difference: float = 0.0


#: Of each layer that trains something, in order, what its :class:`LayerVector` makes of arrays.
LayerVectors = Sequence[NDArray[Any]]
#: (weights before the step, samples, targets, outputs of ReLUs and inputs of max-pools by layer name) -> the step.
Reference = Callable[[LayerVectors, NDArray[Any], NDArray[Any], Mapping[str, NDArray[np.float32]]], ReferenceStep]


@dataclass(frozen=True)
class LayerVector:
    """The variables of one layer as one vector: concatenated, in the order in which they lie in memory.

    Parameters
    ----------
    layer : str
    variables : sequence of Variable
    """

    layer: str
    variables: Sequence[Variable]

    @property
    def names(self) -> list[str]:
        """The names of the layer's variables in a network."""
        return [variable.qualified(self.layer) for variable in self.variables]

    @property
    def elements(self) -> int:
        """The number of elements of all its variables."""
        return sum(variable.elements for variable in self.variables)

    def join(self, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Concatenate those of some arrays, given by name, that are the layer's, in the order of its variables."""
        return np.concatenate([np.asarray(arrays[variable.qualified(self.layer)]).ravel()
                               for variable in self.variables])

    def split(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Split a flat array into those of the layer's variables, by name and in their shapes."""
        ends = np.cumsum([variable.elements for variable in self.variables])
        return {variable.qualified(self.layer): values.reshape(variable.shape)
                for variable, values in zip(self.variables, np.split(flat, ends[:-1]), strict=True)}


def layer_vectors(network: Network) -> list[LayerVector]:
    """List the variables of each layer that trains something as one vector a layer, in the network's order."""
    return [LayerVector(layer.name, network.shapes[layer.name].variables) for layer in network.weighted]


def check_arrays(arrays: Mapping[str, Any], vectors: Iterable[LayerVector]) -> None:
    """Refuse arrays by name that are not those of all variables of some layers, in their shapes.

    Raises
    ------
    UserError
        With the first variable that there is not, that is missing, or that has another shape.
    """
    shapes = {name: tuple(variable.shape) for vector in vectors
              for name, variable in zip(vector.names, vector.variables, strict=True)}
    # Each once: first values may be read from files.
    for name in dict.fromkeys((*arrays, *shapes)):
        if name not in shapes:
            raise UserError(f"there is no variable {quoted(str(name))}; {nearest(str(name), shapes)}")
        if name not in arrays or np.shape(arrays[name]) != shapes[name]:
            there = f"of shape {list(np.shape(arrays[name]))}" if name in arrays else "missing"
            raise UserError(f"variable {name!r} is {there}; give an array of shape {list(shapes[name])}")


def named(network: Network, arrays: LayerVectors) -> dict[str, NDArray[Any]]:
    """Variables by name, of those of each layer as one."""
    return {name: array for vector, flat in zip(layer_vectors(network), arrays, strict=True)
            for name, array in vector.split(flat).items()}


class FirstParameters(Mapping[str, NDArray[np.float32]]):
    """First values of all variables, as :func:`initial_parameters` has them; those that patterns say are read each time
    that they are asked for, and not held.

    Parameters
    ----------
    network : Network
    seed : int
    """

    def __init__(self, network: Network, seed: int) -> None:
        self._variables = network.variables
        generator = np.random.default_rng([seed, 0])
        self._drawn = {name: _drawn(variable, generator).astype(np.float32)
                       for name, variable in self._variables.items() if not isinstance(variable.initial, PatternValues)}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        initial = self._variables[name].initial
        return initial.pattern.first_values() if isinstance(initial, PatternValues) else self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def initial_parameters(network: Network, seed: int) -> dict[str, NDArray[np.float32]]:
    """First values of all variables, as they say; equal seeds give equal bits."""
    return dict(FirstParameters(network, seed))


def _drawn(variable: Variable, generator: np.random.Generator) -> NDArray[np.float64]:
    first = variable.initial
    if isinstance(first, ConstantValue):
        return np.full(variable.shape, first.value)
    if isinstance(first, Normal):
        return generator.standard_normal(variable.shape) * first.deviation
    assert not isinstance(first, PatternValues)
    kernel = generator.standard_normal((*first.kernel, *variable.shape[-2:])) * first.deviation
    return elements_of_kernel(form(first.kernel, first.outputs), kernel)
