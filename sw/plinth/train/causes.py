"""Why a step failed, by float64 from the weights and states that the dies had: what its remedy has to fit.

    samples, targets   float64 leaves the format with them, and not with the same divided by their largest
    divergence         the weights, or some further steps of float64 on the same samples, leave the format, or their
                       loss is several times that of the run's first step and of outputs of 0
    neither            the dies' step is wrong, or the network asks for more than operands of 16 bits
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import Predictor, Reference, named
from plinth.train.losses import loss_of
from plinth.update.rule import UpdateRule

Doubles = NDArray[np.float64]
Arrays = Sequence[NDArray[Any]]
#: Of layers without one None.
States = Sequence[Doubles | None]

#: The largest number of each ``DieParameters.number_format``: of its operands, and of a weight.
LARGEST = {"fp32": float(np.finfo(np.float32).max), "mixed": float(np.finfo(np.float16).max), "fixed": 8.0}
#: Samples that are all smaller than this may vanish in products, by the same.
SMALLEST = {"fp32": 2.0**-60, "mixed": 2.0**-10, "fixed": 2.0**-6}
#: Steps of float64 that are looked at, and how many times as large as at first the loss is where it diverges.
STEPS, RISE = 8, 4.0
#: Samples larger than this make gradients that ask for small rates.
LARGE_SAMPLE = 16.0


@dataclass(frozen=True)
class Causes:
    """Finds causes of a network's failures.

    Parameters
    ----------
    reference : callable
    predict : callable
    network : Network
    rule : UpdateRule
        How weights are updated.
    rates : sequence of array or None
        Of each layer the factor on the rate of each parameter; None, or nothing at all: 1.
    number_format : str
        Key of :data:`LARGEST`.
    """

    reference: Reference
    predict: Predictor
    network: Network
    rule: UpdateRule
    rates: Sequence[Doubles | None]
    number_format: str

    def of(self, weights: Arrays, states: States, x: NDArray[Any], targets: NDArray[Any],
           first_loss: float) -> str:
        """The cause of a failure, and what helps.

        Parameters
        ----------
        weights, states : sequence of array
            Of each layer, flat, before the step.
        x, targets : array
            The step's samples, and what they should give.
        first_loss : float
            That of the run's first step; 0 if it was not finite.
        """
        with np.errstate(all="ignore"):
            largest = float(np.abs(x).max()) if x.dtype.kind == "f" else 0.0
            most = 0.0 if isinstance(self.network.loss, SoftmaxCrossEntropy) else float(np.abs(targets).max())
            if max(largest, most) > 1 and not self._holds(weights, x, targets):
                for what, size, smaller in (("samples", largest, (x / max(1.0, largest), targets)),
                                            ("targets", most, (x, targets / max(1.0, most)))):
                    if size > 1 and self._holds(weights, *smaller):
                        return (f"{what} of up to {size:.2g} are too large for format {self.number_format}; scale them "
                                "to about 1, as by scale=auto")
            if self._diverges(weights, states, x, targets, first_loss):
                scale = (f"scale samples of up to {largest:.2g} to about 1 (scale=auto), or "
                         if largest > LARGE_SAMPLE else "")
                epsilon = " or a larger epsilon=" if self.rule.law.bounded_by_epsilon else ""
                return f"training diverges, in float64 as well; {scale}give a smaller rate={epsilon}"
        if 0 < largest < SMALLEST[self.number_format]:
            return (f"samples of up to {largest:.2g} are so small that their products vanish in format "
                    f"{self.number_format}; scale them to about 1, as by scale=auto")
        wrong = "float64 does not diverge from the same weights, so that the dies' step is wrong"
        return wrong if self.number_format == "fp32" else (
            f"{wrong}, unless the network asks for more than its 16 bits, which format=fp32 does not")

    def _loss(self, weights: Arrays, x: NDArray[Any], targets: NDArray[Any]) -> float:
        """Loss of float64; not finite where outputs leave the format. Those of fixed point saturate."""
        outputs = np.concatenate(list(self.predict(named(self.network, weights), x)))
        if self.number_format != "fixed" and not np.abs(outputs).max() <= LARGEST[self.number_format]:
            return float("inf")
        return loss_of(self.network, outputs, targets)

    def _step(self, weights: Arrays, states: States, x: NDArray[Any], targets: NDArray[Any]
              ) -> tuple[list[Doubles], list[Doubles | None]]:
        """Weights and states after a step of float64."""
        gradients = self.reference(list(weights), x, targets, {}).gradients
        slopes = [gradient if rate is None else rate * gradient
                  for gradient, rate in zip(gradients, self.rates or [None] * len(gradients), strict=True)]
        return ([self.rule.apply(own, slope, state) for own, slope, state in zip(weights, slopes, states, strict=True)],
                [None if state is None else self.rule.next_state(slope, state)
                 for slope, state in zip(slopes, states, strict=True)])

    def _holds(self, weights: Arrays, x: NDArray[Any], targets: NDArray[Any]) -> bool:
        """Whether a format holds what float64 makes of samples: loss, outputs and gradients."""
        if not np.isfinite(self._loss(weights, x, targets)):
            return False
        gradients = self.reference(list(weights), x, targets, {}).gradients
        return all(bool(np.abs(each).max() <= LARGEST[self.number_format]) for each in gradients)

    def _diverges(self, weights: Arrays, states: States, x: NDArray[Any], targets: NDArray[Any],
                  first_loss: float) -> bool:
        """Whether float64 does, or has done so."""
        zeros = np.zeros((len(x), self.network.output.elements))
        most = RISE * max(first_loss, loss_of(self.network, zeros, targets))
        for _ in range(STEPS + 1):
            if not self._loss(weights, x, targets) <= most or not all(
                    bool(np.abs(each).max() <= LARGEST[self.number_format]) for each in weights):
                return True
            weights, states = self._step(weights, states, x, targets)
        return False
