"""What is done with a layer's sums ``z = W x``: the bias is added, and a function applied to each element.

Slopes are told from outputs alone, so that training keeps no sums. At a kink the slope is 0.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class Activation(ABC):
    """A function of each output, with its slope. Immutable."""

    #: Its name in messages and reports.
    kind: ClassVar[str]

    @abstractmethod
    def outputs(self, sums: NDArray[Any], bias: float | NDArray[Any]) -> NDArray[Any]:
        """Outputs of a layer, in the number type of the sums.

        Parameters
        ----------
        sums : array
            z, ``[rows, samples]``.
        bias : float or array
            One for all, or ``[rows, 1]``, in the number type of the sums.
        """

    @abstractmethod
    def slope(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """The derivative of each output by its sum, and by its bias."""


@dataclass(frozen=True)
class SparseRelu(Activation):
    """``max(z + b, 0)``."""

    kind = "relu"

    def outputs(self, sums: NDArray[Any], bias: float | NDArray[Any]) -> NDArray[Any]:
        return np.maximum(sums + bias, 0)

    def slope(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return (outputs > 0).astype(outputs.dtype)


@dataclass(frozen=True)
class ClippedRelu(Activation):
    """The Graph Challenge's: ``min(max(z + b, 0), ceiling)`` where z is not 0, and 0 where it is.

    Parameters
    ----------
    ceiling : float
        Above 0.

    Raises
    ------
    ValueError
        If it is not.
    """

    kind = "clipped-relu"

    ceiling: float = 32.0

    def __post_init__(self) -> None:
        if not 0 < self.ceiling < np.inf:
            raise ValueError(f"ceiling must be a positive number, not {self.ceiling!r}")

    def outputs(self, sums: NDArray[Any], bias: float | NDArray[Any]) -> NDArray[Any]:
        return np.clip(sums + (sums != 0) * bias, 0, self.ceiling).astype(sums.dtype, copy=False)

    def slope(self, outputs: NDArray[Any]) -> NDArray[Any]:
        # Where z is 0 the output is 0, and so is the slope by the bias, which is not added there.
        return ((outputs > 0) & (outputs < self.ceiling)).astype(outputs.dtype)


@dataclass(frozen=True)
class SparseSigmoid(Activation):
    """``1 / (1 + exp(-(z + b)))``."""

    kind = "sigmoid"

    def outputs(self, sums: NDArray[Any], bias: float | NDArray[Any]) -> NDArray[Any]:
        with np.errstate(over="ignore"):  # exp is infinite, and the output the 0 that it ought to be
            return 1 / (1 + np.exp(-(sums + bias)))

    def slope(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs * (1 - outputs)
