"""n_push: after how many batches a kernel answers.

Deep3 (equation 2) has, of N kernels, ``T = n sum T_comp + (2 / n) sum T_comm``, which is smallest at::

    n = sqrt(2 sum T_comm / sum T_comp)                 printed

As a cost of time that does not hold: a batch costs ``T_comp + 2 T_comm / n``, which falls with n for ever. What ends it
is convergence: the more batches a kernel trains on weights that others do not see, the more batches are needed, as
``1 + n / n0``. The product of both is smallest at::

    n = sqrt(2 n0 sum T_comm / sum T_comp)              corrected

with an n0 that is fitted on a share of the data (:mod:`plinth.local.tuning`). *Measured* is that of the numbers of
batches tried there which would have taken the least time.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

#: Ways to choose n_push, by name.
CORRECTED, PRINTED, MEASURED = PUSHES = "corrected", "printed", "measured"
#: Between what n_push is chosen: beyond, batches needed have not been seen to grow as said.
LEAST_PUSH, MOST_PUSH = 5, 40
#: Between what n0 is fitted.
LEAST_N0, MOST_N0 = 5.0, 500.0


def printed_push(computing: Sequence[float], message: Sequence[float]) -> float:
    """The paper's optimum.

    Parameters
    ----------
    computing : sequence of float
        Of each kernel seconds of a batch.
    message : sequence of float
        Of each kernel seconds of a message one way.
    """
    return sqrt(2 * sum(message) / sum(computing))


def corrected_push(computing: Sequence[float], message: Sequence[float], n0: float) -> float:
    """The optimum with the batches that convergence takes; arguments as of :func:`printed_push`."""
    return sqrt(n0) * printed_push(computing, message)


def whole_push(value: float, way: str) -> int:
    """A number of batches, at least one, and of the corrected optimum between :data:`LEAST_PUSH` and
    :data:`MOST_PUSH`."""
    return min(max(round(value), LEAST_PUSH), MOST_PUSH) if way == CORRECTED else max(round(value), 1)


def measured_push(computing: Sequence[float], message: Sequence[float], batches: Mapping[int, float]) -> int:
    """The number of batches of least time, of those with measured batches to the same loss; the first two arguments as
    of :func:`printed_push`."""
    return min(batches, key=lambda push: batches[push] * (sum(computing) + 2 * sum(message) / push))


def batches_factor(push: float, n0: float) -> float:
    """How many times as many batches are needed as if kernels answered after each."""
    return 1 + push / n0


def fitted_n0(pushes: Sequence[float], batches: Sequence[float]) -> float:
    """n0 of measured batches to the same loss, by least squares of ``b = a (1 + n / n0)``, between :data:`LEAST_N0` and
    :data:`MOST_N0`; the latter where they do not grow."""
    mean_push, mean_batches = sum(pushes) / len(pushes), sum(batches) / len(batches)
    spread = sum((push - mean_push)**2 for push in pushes)
    slope = sum((push - mean_push) * count for push, count in zip(pushes, batches, strict=True)) / spread
    first = mean_batches - slope * mean_push
    if slope <= 0:
        return MOST_N0
    return min(max(first / slope, LEAST_N0), MOST_N0)
