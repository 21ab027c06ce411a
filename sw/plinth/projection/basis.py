"""An orthonormal basis of the span of samples, which grows by one sample at a time (incremental QR)."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
#: Share of a sample's norm below which what a basis leaves of it is rounding: samples are FP32.
DEPENDENT = 1e-6


class GrowingBasis:
    """Orthonormal rows in float64, by Gram-Schmidt in two passes.

    One pass leaves rows that are orthogonal to ``2^-53`` over the share of the sample that was left; the second one
    makes up for it. Rows of FP32 would do at a tolerance of 10 % and not at tight ones (docs/projection.md).

    Parameters
    ----------
    features : int
        Elements of a row.
    """

    def __init__(self, features: int) -> None:
        self._rows: Doubles = np.empty((16, features))
        self.size = 0

    @property
    def rows(self) -> Doubles:
        """The rows so far, ``[size, features]``: a view, which the next row may replace by another."""
        return self._rows[:self.size]

    def residual(self, sample: Doubles) -> Doubles:
        """What the basis leaves of a sample ``[features]``, orthogonal to all rows."""
        rows = self.rows
        left = sample - rows.T @ (rows @ sample)
        return left - rows.T @ (rows @ left)

    def add(self, direction: Doubles) -> None:
        """Append a row: a direction ``[features]`` orthogonal to the others, of any norm but 0."""
        if self.size == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self.size] = direction / np.linalg.norm(direction)
        self.size += 1
