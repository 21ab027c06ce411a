"""The coefficients of Deep3's Table 2 by relative least squares, of measured or predicted batches.

A batch of ``b`` samples of a network with ``W`` multiply-adds and ``n`` units gives up to two equations::

    b (3 W flop + n (act + err)) + batch = T          whole
    b (W flop + n act)                   = T_FP       forward alone, where it is known

The first gives all but how activations and errors share what they take together; the second, by what multiply-adds
and the constant's share leave of it, that share, which is a half where no batch tells its forward time. The form is
linear in a batch's multiply-adds: where rates differ by sizes, it holds for the sizes that it was fitted to, about.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from plinth.network.network import Network
from plinth.profile.batches import MeasuredBatch
from plinth.profile.costs import KernelCosts, units
from plinth.profile.fits import relative_least_squares


def _row(network: Network, batch: int) -> tuple[float, float]:
    return float(batch * network.macs), float(batch * units(network))


def table_costs(batches: Sequence[MeasuredBatch], *, net_seconds: float, word_seconds: float) -> KernelCosts:
    """The coefficients that come nearest to the times of batches, and those of a message.

    Raises
    ------
    UserError
        If times are not above 0.
    """
    macs, unit = (np.array(column) for column in zip(*(_row(batch.network, batch.batch) for batch in batches),
                                                     strict=True))
    seconds = np.array([batch.seconds for batch in batches])
    flop, both, constant = relative_least_squares(np.stack([3 * macs, unit, np.ones_like(unit)], axis=1),
                                                  seconds).tolist()
    known = [number for number, batch in enumerate(batches) if batch.forward_seconds is not None]
    act = both / 2
    if known:
        forward = np.array([batch.forward_seconds for batch in batches if batch.forward_seconds is not None])
        left = np.maximum(forward - flop * macs[known] - constant * forward / seconds[known], 0.0)
        # Least squares of one coefficient, relative to the forward times.
        shares = unit[known] / forward
        act = float(min(both, (shares * left / forward).sum() / (shares**2).sum()))
    return KernelCosts(flop_seconds=flop, act_seconds=act, err_seconds=both - act, batch_seconds=constant,
                       net_seconds=net_seconds, word_seconds=word_seconds)


def table_error(costs: KernelCosts, batches: Iterable[MeasuredBatch]) -> float | None:
    """Median relative error of Table 2's times of whole batches; None: there are no batches."""
    errors = [abs(costs.batch(batch.network, batch.batch) / batch.seconds - 1) for batch in batches]
    return float(np.median(errors)) if errors else None
