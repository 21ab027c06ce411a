"""The samples that a kernel trains on, batch by batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Batches:
    """Batches of all samples in an order of this kernel's own: shuffled anew for each pass, what a batch leaves over is
    dropped. Kernels that start together read different batches.

    Parameters
    ----------
    x : array
        ``[samples, ...]``.
    targets : callable
        Of numbers of samples one-hot classes, or targets, ``[samples, outputs]``.
    batch : int
        At most as many as there are samples.
    seed, kernel : int
        What orders follow from.
    """

    def __init__(self, x: NDArray[Any], targets: Callable[[NDArray[np.int64]], NDArray[Any]], batch: int, seed: int,
                 kernel: int) -> None:
        self._x, self._targets, self._batch, self._seed, self._kernel = x, targets, batch, seed, kernel
        self._pass = 0
        self._order = np.zeros(0, np.int64)

    def next(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Samples and targets of the next batch."""
        if len(self._order) < self._batch:
            generator = np.random.default_rng([self._seed, 4, self._kernel, self._pass])
            self._order, self._pass = generator.permutation(len(self._x)), self._pass + 1
        numbers, self._order = self._order[:self._batch], self._order[self._batch:]
        return self._x[numbers], self._targets(numbers)
