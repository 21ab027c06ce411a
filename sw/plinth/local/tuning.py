"""How many more batches rarer answers cost: n0, fitted on a share of the training samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from plinth.errors import UserError
from plinth.local.coordinator import Ending, Point
from plinth.local.push import fitted_n0
from plinth.local.training import LocalTraining, sampled

#: Numbers of batches that are tried.
TRIED = (5, 20, 60)
#: Share of the training samples, but at least so many batches of them.
SHARE, LEAST_BATCHES = 0.05, 5
#: Batches of each trial, of all kernels together.
TRIAL_BATCHES = 480


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What was found.

    Attributes
    ----------
    n0 : float
    batches : mapping of int to float
        By n_push those to the same loss.
    """

    n0: float
    batches: dict[int, float]


def batches_to(curve: Sequence[Point], loss: float) -> float:
    """Batches until the smallest loss so far is no more than so much, between validations on a line; infinite if it
    never is."""
    before, least = 0.0, None
    for point in curve:
        if point.loss <= loss:
            if least is None or least <= point.loss:
                return float(point.batches)
            return before + (point.batches - before) * (least - loss) / (least - point.loss)
        if least is None or point.loss < least:
            before, least = float(point.batches), point.loss
    return float("inf")


def tune(training: LocalTraining, progress: Callable[[int, int], object] = lambda done, total: None) -> Tuned:
    """Fit n0 by training on a share of the samples in numpy, all kernels at one pace, with different n_push.

    Raises
    ------
    UserError
        If numpy cannot run a local network.
    """
    few = sampled(training.dataset, SHARE, LEAST_BATCHES * training.batch, training.seed)
    trial = replace(training, dataset=few).in_numpy()
    curves = {}
    for done, push in enumerate(TRIED):
        progress(done, len(TRIED))
        run = trial.run_virtually(push=push, ending=Ending(batches=TRIAL_BATCHES),
                                  validate_every=max(1, round(40 / push)))
        curves[push] = [point for point in run.curve if isfinite(point.loss)]
        if not curves[push]:
            raise UserError(f"no loss is finite where n_push is tuned, with {push} batches a set; give a smaller "
                            "rate=, or a number push=")
    level = max(min(point.loss for point in curve) for curve in curves.values())
    batches = {push: batches_to(curve, level) for push, curve in curves.items()}
    return Tuned(n0=fitted_n0(list(batches), list(batches.values())), batches=batches)
