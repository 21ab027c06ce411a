"""Which directions are taken where samples need more than a limit allows: chosen on a small part of the samples.

A stream that takes the first samples that fail its test, and ends at a limit, has an error of 1.55 to 1.75 times that
of principal components, and more if samples come sorted. Choosing candidates by how much of the part they explain does
better; directions within the span of the dictionary do better than samples themselves (docs/projection.md).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plinth.projection.basis import Doubles, GrowingBasis
from plinth.projection.projection import Projection
from plinth.projection.samples import Floats

#: The leading directions of the dictionary's span, samples of the part chosen greedily, and the first of the stream.
DIRECTIONS, GREEDY, FIRST = "directions", "greedy", "first"
SELECTIONS = (DIRECTIONS, GREEDY, FIRST)
#: Share of the energy of the largest sample below which what is left of one is no direction.
_LEAST_ENERGY = 1e-10


def greedy_samples(samples: Floats, count: int) -> list[int]:
    """Numbers of samples ``[samples, features]`` onto whose span all of them are projected with a small error.

    Of the candidates that one is next whose residual direction q explains most of what is left of all samples,
    ``||E q||^2``. With ``G = E E^T`` of the residuals that is ``||G_j||^2 / G_jj``, and taking j leaves
    ``G - G_j G_j^T / G_jj`` (Farahat, Ghodsi and Kamel, 2011): ``samples^2 (features + count)`` operations. Fewer than
    ``count``, if others lie in the span of these.
    """
    values = samples.astype(np.float64)
    gram = values @ values.T
    least = _LEAST_ENERGY * gram.diagonal().max(initial=0)
    chosen: list[int] = []
    for _ in range(min(count, len(samples))):
        energies = gram.diagonal()
        candidates = energies > least
        candidates[chosen] = False
        if not candidates.any():
            break
        gains = np.where(candidates, np.einsum("ij,ij->j", gram, gram) / np.where(candidates, energies, 1), -1)
        best = int(gains.argmax())
        chosen.append(best)
        column = gram[:, best] / np.sqrt(energies[best])
        gram -= np.outer(column, column)
    return chosen


def leading_directions(span: Doubles, samples: Floats, count: int) -> Doubles:
    """Orthonormal rows ``[count, features]`` within the span of orthonormal rows, onto which samples are projected with
    the least error; those that explain most come first."""
    inside = samples.astype(np.float64) @ span.T
    _, directions = np.linalg.eigh(inside.T @ inside)
    return np.ascontiguousarray(directions.T[::-1][:count] @ span)


def selected(selection: str, whole: Projection, samples: Floats, limit: int) -> Callable[[int], Projection]:
    """What makes a projection of as many coordinates as are wanted, up to a limit, of a part of the samples.

    Parameters
    ----------
    selection : str
        :data:`DIRECTIONS` or :data:`GREEDY`.
    whole : Projection
        Of that part, without a limit.
    samples : FP32 ``[samples, features]``
        The part.
    """
    if selection == DIRECTIONS:
        # Rows of FP32 are orthonormal to its rounding; the directions are to be so beyond.
        span = np.linalg.qr(whole.basis.astype(np.float64).T)[0].T
        rows = leading_directions(span, samples, limit)
        return lambda size: Projection(rows[:size].astype(np.float32), whole.dictionary, whole.beta, whole.coordinates)
    chosen: NDArray[np.float64] = samples[greedy_samples(samples, limit)].astype(np.float64)
    units = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
    basis = GrowingBasis(samples.shape[1])
    for unit in units:
        basis.add(basis.residual(unit))
    return lambda size: Projection(basis.rows[:size].astype(np.float32), units[:size].astype(np.float32), whole.beta,
                                   whole.coordinates)
