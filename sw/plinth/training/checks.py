"""Every step against a float64 reference that knows no tasks: how far what the dies found is off, and may be.

The dies and their golden model run the same lowering, so that a step that is wrong in both is equal in both. Nothing
here comes from lowering but the numbers that are checked: the learning rate is the job's, what follows from it and
from samples and weights the reference's. Errors of a step, with norms over all elements:

    prediction   |found - p| / size of p                        p what the loss compares with its targets
    loss         |found - loss| / size of the loss
    gradient     |found - dW| / |dW|, largest of all layers     summed over dies
    update       |found - W'| / |W' - W|, likewise, of the worst copy that a die holds, W' what the rule makes of W, dW
                 and the state that the dies had; what rounding accounts for is no error: of a weight in FP32 half of
                 its last place, of one in fixed point a whole one, as it may lie between two places
    descent      the same with the gradient that the dies found in place of dW, whose error is the gradient's own

Sizes are :class:`~plinth.model.parameters.Sizes`. Gradients start from ``p - targets``, which nearly cancels where a
network predicts well, while its rounding stays; so bounds of gradients and updates are times that cancellation, and,
where the terms of a layer's sum over samples cancel to less than 1 / :data:`BATCH_CANCELLATION`, times what is beyond
that. Kinks (ReLUs, maxima) that the roundings of a format decide are taken as the dies took them,
and counted (:mod:`.kinks`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth import backends
from plinth.model.network import Network
from plinth.model.parameters import Parameters, Reference, ReferenceStep
from plinth.model.update import UpdateRule
from plinth.model.winograd import parameter_rates
from plinth.training.causes import Causes
from plinth.training.kinks import Kinks

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

#: A gradient is this much smaller than the magnitudes it is the sum of before it is thought to vanish.
BATCH_CANCELLATION = 100.0
#: Steps from which on the median says more than each of them.
MEDIAN_STEPS = 8


@dataclass(frozen=True)
class FoundStep:
    """What the dies found of a step, as :class:`ReferenceStep`."""

    predictions: Floats
    loss: float
    gradients: Sequence[Doubles]
    before: Parameters
    #: States before the step, flat; of a rule without them None.
    states: Sequence[Doubles | None]
    #: Weights after the step, of each layer all copies that dies hold.
    after: Sequence[Sequence[Floats]]

    def first_not_finite(self) -> str | None:
        """What has an infinity or NaN."""
        for name, arrays in (("loss", [self.loss]), ("predictions", [self.predictions]), ("gradients", self.gradients),
                             ("weights", [copy for copies in self.after for copy in copies])):
            if not all(np.isfinite(array).all() for array in arrays):
                return name
        return None


@dataclass(frozen=True)
class Bound:
    """Of a step's error, and of the median of all steps."""

    largest: float
    median: float


@dataclass(frozen=True)
class Bounds:
    """What a number format may be off; gradients and updates times the cancellation. Descent is FP32's in all."""

    #: What an operand may be off, of its size.
    rounding: float
    #: The last place of a weight, if it is the same for all.
    place: float | None
    prediction: Bound
    loss: Bound
    gradient: Bound
    update: Bound
    descent: Bound = Bound(1e-4, 1e-5)


#: By ``DieParameters.number_format``: about five times the largest that was measured with 16 bits (docs/software.md),
#: ten times and more with FP32. Wrong steps are beyond: predictions times 0.9 are 0.1 off, of which the loss shows
#: 0.03; a rate 1.5 times too large 0.5 over the cancellation, which is 1.4 to 2 before a network has learned.
BOUNDS = {
    "fp32": Bounds(2.0**-24, None, prediction=Bound(1e-5, 2e-6), loss=Bound(1e-5, 2e-6), gradient=Bound(1e-4, 1e-5),
                   update=Bound(1e-4, 1e-5)),
    "mixed": Bounds(2.0**-11, None, prediction=Bound(5e-3, 2.5e-3), loss=Bound(2e-3, 4e-4), gradient=Bound(0.03, 5e-3),
                    update=Bound(0.03, 5e-3)),
    "fixed": Bounds(2.0**-11, 2.0**-12, prediction=Bound(0.5, 0.05), loss=Bound(0.15, 0.01),
                    gradient=Bound(0.5, 0.05), update=Bound(0.5, 0.05), descent=Bound(0.25, 0.02)),
}
#: Names of errors, as in the report.
ERRORS = tuple(each.name for each in fields(Bounds) if each.name not in ("rounding", "place"))


@dataclass(frozen=True)
class StepError:
    """One error of one step."""

    name: str
    #: Layer, if it is one of a layer's.
    layer: str | None
    value: float
    #: Factor on bounds.
    scale: float


def _norm(values: NDArray[Any]) -> float:
    """Its square root of the sum of squares, but at least FP32's least normal number."""
    return max(float(np.linalg.norm(values)), float(np.finfo(np.float32).tiny))


def _distance(found: NDArray[Any], wanted: Doubles) -> float:
    return float(np.linalg.norm(found - wanted))


def _update_distance(copy: Floats, wanted: Doubles, place: float | None) -> float:
    """How far new weights are off, beyond what rounding them accounts for."""
    rounding = np.spacing(np.abs(copy)).astype(np.float64) / 2 if place is None else place
    return float(np.linalg.norm(np.maximum(np.abs(copy - wanted) - rounding, 0.0)))


def step_errors(layers: Sequence[str], rule: UpdateRule, wanted: ReferenceStep, found: FoundStep,
                place: float | None = None, rates: Sequence[Doubles | None] = ()) -> Iterator[StepError]:
    """Errors of a step; of layers each one's.

    Parameters
    ----------
    layers : sequence of str
        Names of the layers with weights.
    rule : UpdateRule
        How weights are updated.
    place : float or None
        As :attr:`Bounds.place`.
    rates : sequence of array or None
        As :attr:`Checks.rates`.
    """
    sizes = wanted.sizes
    factors = [1.0 if one is None else one for one in rates] or [1.0] * len(layers)
    yield StepError("prediction", None, _distance(found.predictions, wanted.predictions) / sizes.predictions, 1.0)
    yield StepError("loss", None, abs(found.loss - wanted.loss) / sizes.loss, 1.0)
    for name, before, state, copies, own, gradient, terms, rate in zip(
            layers, found.before, found.states, found.after, found.gradients, wanted.gradients, sizes.gradients,
            factors, strict=True):
        scale = sizes.cancellation * max(1.0, terms / BATCH_CANCELLATION)
        yield StepError("gradient", name, _distance(own, gradient) / _norm(gradient), scale)
        for error, slope, factor in (("update", gradient, scale), ("descent", own, 1.0)):
            target = rule.apply(before, rate * slope, state)
            worst = max(_update_distance(copy, target, place) for copy in copies)
            yield StepError(error, name, worst / _norm(target - before), factor)


@dataclass
class Checks:
    """Errors of all steps of a run, and the first that breaks a bound.

    Parameters
    ----------
    reference : callable
    rule : UpdateRule
        How weights are updated.
    layers : sequence of str
        Names of the layers with weights.
    number_format : str
        Key of :data:`BOUNDS`.
    """

    reference: Reference
    rule: UpdateRule
    layers: Sequence[str]
    number_format: str
    #: Of each layer the factor on the rate of each parameter, weights then bias; None, or nothing at all: 1.
    rates: Sequence[Doubles | None] = ()
    #: Largest error so far, by name.
    largest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ERRORS, 0.0))
    #: Largest error over its factor, by name, of each step.
    scaled: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in ERRORS})
    kinks: Kinks = field(default_factory=Kinks)
    #: Finds what a failing step comes from.
    causes: Causes | None = None
    #: What broke which bound at which step.
    failure: str | None = None
    _steps: int = 0
    _first_loss: float | None = None

    @property
    def bounds(self) -> Bounds:
        """Of the format."""
        return BOUNDS[self.number_format]

    def step(self, found: FoundStep, x: NDArray[Any], targets: NDArray[Any], decided: Mapping[str, Floats]) -> None:
        """Compare a step with the reference; what a failure says ends with its cause."""
        failed = self.failure
        wanted = self._judge(found, x, targets, decided)
        if self._first_loss is None:
            self._first_loss = wanted.loss if wanted else 0.0
        if self.failure is not None and self.failure != failed and self.causes is not None:
            self.failure += "; " + self.causes.of(found.before, found.states, x, targets, self._first_loss)
        too_many = self.kinks.count(wanted) if wanted else None
        if too_many is not None:
            self._fail(f"step {self._steps}: {too_many}")

    def _judge(self, found: FoundStep, x: NDArray[Any], targets: NDArray[Any], decided: Mapping[str, Floats]
               ) -> ReferenceStep | None:
        """Compare a step with the reference, and return what that has; None if the step is not finite."""
        self._steps += 1
        odd = found.first_not_finite()
        if odd is not None:
            self._fail(f"step {self._steps}: {odd} not finite")
            return None
        wanted = self.reference(found.before, x, targets, decided)
        step = dict.fromkeys(ERRORS, 0.0)
        for error in step_errors(self.layers, self.rule, wanted, found, self.bounds.place, self.rates):
            self.largest[error.name] = max(self.largest[error.name], error.value)
            step[error.name] = max(step[error.name], error.value / error.scale)
            allowed = getattr(self.bounds, error.name).largest * error.scale
            if not error.value <= allowed:
                where = "" if error.layer is None else f" of layer {error.layer!r}"
                self._fail(f"step {self._steps}: {error.name} error{where} {error.value:.2g}, beyond the "
                           f"{allowed:.2g} of format {self.number_format}")
        for name, value in step.items():
            self.scaled[name].append(value)
        return wanted

    def finish(self) -> None:
        """Compare the medians of all steps."""
        for name, values in self.scaled.items():
            allowed, found = getattr(self.bounds, name).median, self.median(name)
            if len(values) >= MEDIAN_STEPS and not found <= allowed:
                self._fail(f"median of {len(values)} steps up to step {self._steps}: {name} error {found:.2g}, beyond "
                           f"the {allowed:.2g} of format {self.number_format}{self._remedy()}")

    def median(self, name: str) -> float:
        """Of all steps so far."""
        return float(np.median(self.scaled[name])) if self.scaled[name] else 0.0

    def _remedy(self) -> str:
        return "" if self.number_format == "fp32" else ("; if the network asks for more than its 16 bits, "
                                                        "--format fp32 does not")

    def _fail(self, text: str) -> None:
        self.failure = self.failure or text

    def to_data(self) -> dict[str, dict[str, float]]:
        """For each error its largest and its median over its factor, and the bounds of both."""
        return {name: {"largest": max(values, default=0.0), "median": self.median(name),
                       "largest_allowed": getattr(self.bounds, name).largest,
                       "median_allowed": getattr(self.bounds, name).median}
                for name, values in self.scaled.items()}


def against_float64(network: Network, rule: UpdateRule, number_format: str) -> Checks:
    """Checks of a network's steps by a rule, in a number format."""
    reference = backends.float64_reference(network, BOUNDS[number_format].rounding)
    rates = () if rule.squares else parameter_rates(network)
    return Checks(reference, rule, [layer.name for layer in network.weighted], number_format, rates, causes=Causes(
        reference, backends.float64_predictor(network), network, rule, rates, number_format))
