"""A projection: directions onto which samples are projected, and the samples that they were made of."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from plinth.errors import UserError
from plinth.files.documents import check_choice
from plinth.projection.basis import DEPENDENT, GrowingBasis
from plinth.projection.samples import Floats, check_fraction, checked

#: What coordinates are: products with the orthonormal basis, or weights of the dictionary's samples (``D^+ a``).
BASIS, DICTIONARY = "basis", "dictionary"
COORDINATES = (BASIS, DICTIONARY)
#: Samples whose coordinates are computed together.
BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Projection:
    """Directions onto which samples are projected.

    Parameters
    ----------
    basis : FP32 ``[size, features]``
        Orthonormal rows.
    dictionary : FP32 ``[samples, features]``
        Samples of norm 1 whose span has the basis; as many as it has rows, or more.
    beta : float
        The share of a sample's norm that may be left of it: the tolerance that the dictionary was made with.
    coordinates : str
        :data:`BASIS`: ``Q a``. :data:`DICTIONARY`: ``D^+ a``, as the paper prints it: weights of the dictionary's
        samples, by the triangular factor; badly conditioned (:attr:`condition`).
    """

    basis: Floats
    dictionary: Floats
    beta: float
    coordinates: str = BASIS

    @property
    def size(self) -> int:
        """Coordinates of a sample: ``l``."""
        return len(self.basis)

    @property
    def features(self) -> int:
        """Values of a sample before it is projected."""
        return int(self.basis.shape[1])

    @cached_property
    def triangle(self) -> NDArray[np.float64]:
        """The products ``[dictionary, size]`` of the dictionary's samples and the basis: of a dictionary that grew by a
        sample at a time the triangular factor."""
        return self.dictionary.astype(np.float64) @ self.basis.astype(np.float64).T

    @cached_property
    def condition(self) -> float:
        """By how much errors of coordinates ``D^+ a`` may be larger than those of ``Q a``: the condition of the
        dictionary."""
        return float(np.linalg.cond(self.triangle)) if self.size else 1.0

    @cached_property
    def matrix(self) -> Floats:
        """What samples ``[samples, features]`` are multiplied by, ``[features, size]``."""
        if self.coordinates == BASIS or not self.size:
            return np.ascontiguousarray(self.basis.T)
        # The dictionary is triangle x basis: weights w of its samples with w x triangle = q.
        solved = solve_triangular(self.triangle.T, self.basis.astype(np.float64))
        return np.ascontiguousarray(solved.T.astype(np.float32))

    def project(self, x: Any) -> Floats:
        """Coordinates of samples: FP32 ``[samples, size]``. A sample of zeros has zeros.

        Parameters
        ----------
        x : array_like ``[samples, features]``

        Raises
        ------
        UserError
            If they are no real numbers of that width, or one is not finite; by its number.
        """
        x = checked(x, self.features)
        return products(x, self.matrix)

    def restored(self, coordinates: Any) -> Floats:
        """Samples of given coordinates, ``[samples, features]``: those nearest to what was projected.

        Raises
        ------
        UserError
            If there are more or fewer coordinates a sample than :attr:`size`.
        """
        rows = self.basis if self.coordinates == BASIS else self.dictionary
        return products(checked(coordinates, self.size), rows)

    def residuals(self, x: Any) -> NDArray[np.float64]:
        """V of each sample, ``[samples]``: the norm of what the basis leaves of it, over its own; 0 of zeros.

        Raises
        ------
        UserError
            As :meth:`project`.
        """
        left, whole = self._norms(checked(x, self.features))
        return np.sqrt(left / np.where(whole > 0, whole, 1))

    def error(self, x: Any) -> float:
        """The Frobenius norm of what the basis leaves of samples, over theirs; 0 of none.

        Raises
        ------
        UserError
            As :meth:`project`.
        """
        left, whole = (float(squares.sum()) for squares in self._norms(checked(x, self.features)))
        return (left / whole) ** 0.5 if whole else 0.0

    def _norms(self, x: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squares of the norms of what is left of each sample, and of the samples, in float64."""
        left, whole = np.empty(len(x)), np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            rest = x[part] - (x[part] @ self.basis.T) @ self.basis
            left[part] = np.einsum("ij,ij->i", rest, rest, dtype=np.float64)
            whole[part] = np.einsum("ij,ij->i", x[part], x[part], dtype=np.float64)
        return left, whole

    def to_file(self, path: str | Path) -> None:
        """Write the projection to an ``.npz`` file, from which :meth:`load` reads it.

        Raises
        ------
        UserError
            If the file cannot be written.
        """
        from plinth.projection.file import save

        save(Path(path), self)

    @staticmethod
    def load(path: str | Path) -> "Projection":
        """Read the projection of a file that :meth:`to_file` wrote; the file is not trusted.

        Raises
        ------
        UserError
            If it cannot be read, or holds no projection.
        """
        from plinth.projection.file import load

        return load(Path(path))


def products(x: Floats, matrix: Floats) -> Floats:
    """Products of samples and a matrix, some samples at a time."""
    out = np.empty((len(x), matrix.shape[1]), np.float32)
    for start in range(0, len(x), BLOCK):
        np.matmul(x[start:start + BLOCK], matrix, out=out[start:start + BLOCK])
    return out


def padded(coordinates: Floats, size: int) -> Floats:
    """Coordinates ``[samples, l]`` of a smaller basis as those of one that has grown from it to ``size``: zeros in the
    new columns, as Deep3 pads them.

    Raises
    ------
    UserError
        If there are more columns.
    """
    if coordinates.ndim != 2 or coordinates.shape[1] > size:
        raise UserError(f"coordinates of shape {list(coordinates.shape)} cannot be padded to {size} columns; give "
                        "those of a smaller basis")
    return np.pad(coordinates, ((0, 0), (0, size - coordinates.shape[1])))


def of_dictionary(samples: Any, *, beta: float = 0.10, coordinates: str = BASIS) -> Projection:
    """Make the projection onto samples that are given, whatever their errors.

    Parameters
    ----------
    samples : array_like ``[samples, features]``

    Raises
    ------
    UserError
        If they are no such numbers, or one is constant or lies in the span of those before it; by its number. If a
        setting is out of its range.
    """
    beta = check_fraction("beta", beta, "it is the share of a sample's norm that may be left of it")
    coordinates = check_choice(coordinates, COORDINATES, "projection", "kind of coordinates")
    rows = checked(samples, constant=False).astype(np.float64)
    basis, units = GrowingBasis(rows.shape[1]), []
    for number, row in enumerate(rows):
        unit = row / (np.linalg.norm(row) or 1.0)
        left = basis.residual(unit)
        if np.linalg.norm(left) <= DEPENDENT:
            raise UserError(f"sample {number}: lies in the span of the {number} before it, so that the dictionary has "
                            "not full rank; leave it out")
        basis.add(left)
        units.append(unit)
    return Projection(basis.rows.astype(np.float32), np.array(units).reshape(rows.shape).astype(np.float32), beta,
                      coordinates)
