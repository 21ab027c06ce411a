"""What a whole training batch takes, by what its operations take.

On the host operations follow each other; on a die several go on at once. A batch is a sum of a constant, of its layers,
and of the fitted seconds of its products, of its other operations and of its updates, each times a coefficient that
measured batches give: near 1 where nothing overlaps, less where it does. Of a device that does not tell its operations
the terms are multiply-adds, units and weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plinth.network.network import Network
from plinth.profile.batches import MeasuredBatch
from plinth.profile.costs import units
from plinth.profile.fits import KindFit, relative_least_squares
from plinth.profile.works import batch_works

#: Names of the two sets of terms.
OPERATIONS, AMOUNTS = "operations", "amounts"


def _of_operations(fits: Mapping[str, KindFit], network: Network, batch: int) -> list[float]:
    """Layers, and seconds of products, of other operations and of updates."""
    products = others = updates = 0.0
    for work in batch_works(network, batch):
        seconds = fits[work.kind].seconds(work.sizes)
        if work.kind.startswith(("product", "convolution")):
            products += seconds
        elif work.kind == "update":
            updates += seconds
        else:
            others += seconds
    return [float(len(network.weighted)), products, others, updates]


def _of_amounts(fits: Mapping[str, KindFit], network: Network, batch: int) -> list[float]:
    """Layers, multiply-adds, units and weights of a batch."""
    return [float(len(network.weighted)), float(batch * network.macs), float(batch * units(network)),
            float(network.parameters)]


_TERMS: dict[str, Callable[[Mapping[str, KindFit], Network, int], list[float]]] = {
    OPERATIONS: _of_operations, AMOUNTS: _of_amounts}
#: Coefficients of a fit: the constant and four terms.
COEFFICIENTS = 5


@dataclass(frozen=True)
class BatchFit:
    """What a training batch takes.

    Attributes
    ----------
    terms : str
        :data:`OPERATIONS` or :data:`AMOUNTS`.
    coefficients : tuple of float
        Of the constant, of layers, and of the three other terms.

    Raises
    ------
    ValueError
        If there are no such terms, or more or fewer coefficients.
    """

    terms: str
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.terms not in _TERMS or len(self.coefficients) != COEFFICIENTS:
            raise ValueError(f"the fit of batches must have {COEFFICIENTS} coefficients of {' or '.join(_TERMS)}")

    @property
    def needs_operations(self) -> bool:
        """Whether it is by the fits of single operations."""
        return self.terms == OPERATIONS

    def seconds(self, fits: Mapping[str, KindFit], network: Network, batch: int) -> float:
        """Seconds of a training batch of a network, by the fits of its operations.

        Raises
        ------
        UserError
            If the network has a layer that no micro-benchmark measures.
        KeyError
            If a kind of work has no fit.
        """
        return float(np.dot(self.coefficients, [1.0, *_TERMS[self.terms](fits, network, batch)]))


def batch_fit(fits: Mapping[str, KindFit], batches: Sequence[MeasuredBatch]) -> BatchFit:
    """The fit of batches; by their operations if all of them have told these.

    Raises
    ------
    UserError
        If times are not above 0.
    """
    terms = OPERATIONS if all(batch.operations for batch in batches) else AMOUNTS
    rows = np.array([[1.0, *_TERMS[terms](fits, batch.network, batch.batch)] for batch in batches])
    return BatchFit(terms, tuple(relative_least_squares(rows, np.array([batch.seconds for batch in batches])).tolist()))
