"""Every step against a float64 reference that knows no tasks: how far what the dies found is off, and may be.

The dies and their golden model run the same lowering, so that a step that is wrong in both is equal in both. Nothing
here comes from lowering but the numbers that are checked and by how much gradients in memory are scaled: the learning
rate is the job's, what follows from it and from samples and weights the reference's. Shared with lowering are the forms
of update rules (:mod:`plinth.update.rule`) and factors on the rates of tiles' elements
(:mod:`plinth.network.winograd`), each of which tests compare with something that shares nothing. Errors of a step,
with norms over all elements:

    prediction   |computed - p| / size of p                     p what the loss compares with its targets
    loss         |computed - loss| / size of the loss
    gradient     |computed - dW| / |dW|, largest of all layers  summed over dies
    update       |computed - W'| / |W' - W|, likewise, of the worst copy that a die holds, W' what the rule makes of W,
                 dW and the state that the dies had; what rounding accounts for is no error: of a weight in FP32 half of
                 its last place, of one in fixed point a whole one, as it may lie between two places; low halves count
    state        |computed - s'| / |s' - s|, likewise, s' what the rule makes of the state s that the dies had and of
                 the gradient that they found; or how far weights and states before a step are off those that the last
                 one left, over what it changed
    descent      the update's with the gradient that the dies found in place of dW, whose error is the gradient's own,
                 and the state that they stored; in state and descent rounding is that of :mod:`.stored`, and that of
                 sums over dies

Sizes are :class:`~plinth.network.parameters.TermSizes`. Gradients start from ``p - targets``, which nearly cancels
where a network predicts well, while its rounding stays; so bounds of gradients and updates are times that
cancellation, and, where the terms of a layer's sum over samples cancel to less than 1 / :data:`BATCH_CANCELLATION`,
times what is beyond that; those of updates, by rules that forget large gradients and then make large steps of small
ones, also times what this makes of roundings. Kinks (ReLUs, maxima) that the roundings of a format decide are taken as
the dies took them, and counted (:mod:`.kinks`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import Reference, ReferenceStep, TermSizes
from plinth.network.winograd import parameter_rates
from plinth.train.causes import Causes
from plinth.train.float64 import float64_predictor, float64_reference
from plinth.train.kinks import Kinks, bounded
from plinth.train.stored import FP32_STORAGE, NumberStorage, OwnUpdate, norm, storage
from plinth.train.unsaturated import (
    SAMPLE_STEPS,
    SAMPLES,
    UNSATURATED_BOUNDS,
    UnsaturatedSteps,
    bias_error,
    gain_error,
    sample_errors,
)
from plinth.update.rule import UpdateRule

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

#: A gradient is this much smaller than the magnitudes it is the sum of before it is thought to vanish.
BATCH_CANCELLATION = 100.0
#: Up to which a cancellation counts whole.
PLATEAU = 10.0
#: An update that is left out, or done twice, is 1 off, of its size. No factor of :func:`_amplification` takes its bound
#: beyond half of that, however small the gradients are that a rule makes steps of.
MOST_AMPLIFIED = 0.5
#: Steps from which on the median says more than each of them.
MEDIAN_STEPS = 8


class _LayerUpdate(NamedTuple):
    """Weights of a layer, with their low halves, and its state, before and after an update."""

    before: NDArray[Any]
    #: All copies that dies hold.
    copies_before: list[NDArray[Any]]
    copies: list[NDArray[Any]]
    state: Doubles | None
    state_after: Doubles | None


@dataclass(frozen=True)
class FoundStep:
    """Predictions, loss and gradients of a step as the dies computed them, with weights and states before and after."""

    predictions: Floats
    loss: float
    gradients: Sequence[Doubles]
    before: Sequence[Floats]
    #: States before the step, flat; of a rule without them None.
    states: Sequence[Doubles | None]
    #: Weights after the step, of each layer all copies that dies hold.
    after: Sequence[Sequence[Floats]]
    #: States after the step, as those before.
    states_after: Sequence[Doubles | None] = ()
    #: What low halves add to weights before and after the step; nothing at all, of weights that have none.
    low_before: Sequence[Doubles] = ()
    low_after: Sequence[Doubles] = ()
    #: Weights before the step, of each layer all copies; nothing at all: one, ``before``.
    copies_before: Sequence[Sequence[Floats]] = ()
    #: How much larger gradients are in memory.
    scale: float = 1.0
    #: Numbers beyond a fixed-point format, which became its ends.
    saturated: int = 0
    #: Of dies that round at random.
    generators: "Generators | None" = None
    #: How far the dies' own sums may be off ``gradients``, which are added in float64; nothing at all: they are not.
    roundings: Sequence[Doubles] = ()

    def own_gradients(self) -> Iterator[tuple[Doubles, Doubles | float]]:
        """The gradient of each layer, and how far the dies' own sum of it may be off."""
        nothing: list[Doubles | float] = [0.0] * len(self.gradients)
        return zip(self.gradients, self.roundings or nothing, strict=True)

    def own_updates(self) -> Iterator[_LayerUpdate]:
        """What updates of each layer read and left."""
        nothing: list[None] = [None] * len(self.before)
        low = zip(self.low_before, self.low_after, strict=True) if self.low_before else [(0.0, 0.0) for _ in nothing]
        for before, copies_before, copies, (low_before, low_after), state, state_after in zip(
                self.before, self.copies_before or [[weights] for weights in self.before], self.after, low, self.states,
                self.states_after or nothing, strict=True):
            yield _LayerUpdate(before + low_before, [copy + low_before for copy in copies_before],
                               [copy + low_after for copy in copies], state, state_after)

    def first_not_finite(self) -> str | None:
        """What has an infinity or NaN."""
        for name, arrays in (("loss", [self.loss]), ("predictions", [self.predictions]), ("gradients", self.gradients),
                             ("weights", [copy for copies in self.after for copy in copies])):
            if not all(np.isfinite(array).all() for array in arrays):
                return name
        return None


@dataclass(frozen=True)
class Generators:
    """States of the dies' generators of random bits: as the host last wrote them or the last step left them, before
    the step, and after it."""

    last: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]

    def fault(self) -> str | None:
        """What is wrong with random bits, by states alone: each die's are its own, and they go on, but for those of a
        die that owns no weights."""
        for die, (last, before, after) in enumerate(zip(self.last, self.before, self.after, strict=True)):
            if before != last:
                return f"the generator of random bits of die {die} does not go on from the state that was left"
            for states, state in ((self.before, before), (self.after, after)):
                if state in states[:die]:
                    return f"die {die} has the random bits of die {list(states).index(state)}"
        return "no generator of random bits goes on" if list(self.before) == list(self.after) else None


@dataclass(frozen=True)
class Bound:
    """What an error may be: of any one step, and in the median of all steps."""

    largest: float
    median: float


@dataclass(frozen=True)
class Bounds:
    """What a number format may be off; gradients and updates times the cancellation. State and descent are FP32's
    wherever weights are."""

    #: What an operand may be off, of its size.
    rounding: float
    prediction: Bound
    loss: Bound
    gradient: Bound
    update: Bound
    descent: Bound = Bound(1e-4, 1e-5)
    state: Bound = Bound(1e-4, 1e-5)
    #: How much of a cancellation beyond :data:`PLATEAU` counts where predictions are a softmax's, and else. An error of
    #: a logit changes p - t by p (1 - p) times it, small where p - t is: what storing p rounds counts alone.
    carried: float = 1.0
    carried_else: float = 1.0


#: By ``DieParameters.number_format``: about five times the largest that was measured with 16 bits (docs/software.md),
#: ten times and more with FP32. Wrong steps are beyond: predictions times 0.9 are 0.1 off, of which the loss shows
#: 0.03; a rate 1.5 times too large 0.5 over the cancellation, which is 1.4 to 2 before a network has learned.
BOUNDS = {
    "fp32": Bounds(2.0**-24, prediction=Bound(1e-5, 2e-6), loss=Bound(1e-5, 2e-6), gradient=Bound(1e-4, 1e-5),
                   update=Bound(1e-4, 1e-5), carried=0.01, carried_else=0.01),
    "mixed": Bounds(2.0**-11, prediction=Bound(5e-3, 2.5e-3), loss=Bound(2e-3, 4e-4), gradient=Bound(0.03, 5e-3),
                    update=Bound(0.03, 5e-3), carried=1e-4),
    "fixed": Bounds(2.0**-11, prediction=Bound(0.5, 0.05), loss=Bound(0.15, 0.01),
                    gradient=Bound(0.5, 0.05), update=Bound(1.5, 0.25), descent=Bound(1e-5, 1e-6),
                    state=Bound(1e-5, 1e-6)),
}
#: Names of errors, as in the report.
ERRORS = tuple(each.name for each in fields(Bounds) if each.type is Bound)


@dataclass(frozen=True)
class StepError:
    """One error of one step."""

    name: str
    #: Layer, if it is one of a layer's.
    layer: str | None
    value: float
    #: Factor on bounds.
    scale: float


def _distance(computed: NDArray[Any], wanted: Doubles) -> float:
    return float(np.linalg.norm(computed - wanted))


def _update_distance(copy: NDArray[Any], wanted: Doubles, place: float | None) -> float:
    """How far new weights are off, beyond what rounding them accounts for."""
    rounding = np.spacing(np.abs(copy)).astype(np.float64) / 2 if place is None else place
    return float(np.linalg.norm(np.maximum(np.abs(copy - wanted) - rounding, 0.0)))


def _rate_factors(layers: Sequence[str], rates: Sequence[Doubles | None]) -> list[Any]:
    """Of each layer the factor on the rate of each parameter, or 1 for all."""
    return [1.0 if rate is None else rate for rate in rates] or [1.0] * len(layers)


def _scales(sizes: TermSizes, carried: float) -> Iterator[float]:
    """Factors on bounds of each layer's gradient.

    Parameters
    ----------
    sizes : Sizes
        The step's, of the reference.
    carried : float
        How much of a cancellation beyond :data:`PLATEAU` counts.
    """
    beyond = max(0.0, sizes.cancellation - PLATEAU)
    for terms in sizes.gradients:
        yield (sizes.cancellation - beyond + carried * beyond) * max(1.0, terms / BATCH_CANCELLATION)


def _amplification(rule: UpdateRule, gradient: Doubles, state: Doubles | None, allowed: float) -> float:
    """How much larger an update's error is than its gradient's, each over its size, if roundings of the gradient are
    alike in all of its elements but those that are 0; 1 of rules that do not amplify them, and at least; at most what
    takes the bound ``allowed`` to :data:`MOST_AMPLIFIED`."""
    some = gradient != 0
    if state is None or not rule.law.amplifies or not some.any():
        return 1.0
    slope = gradient[some]
    factors = rule.direction(np.ones_like(slope), rule.next_state(slope, state[some]))
    amplified = float(np.sqrt((factors**2).mean())) * norm(slope) / norm(factors * slope)
    return max(1.0, min(amplified, MOST_AMPLIFIED / allowed))


def step_errors(layers: Sequence[str], rule: UpdateRule, wanted: ReferenceStep, die_step: FoundStep,
                held: NumberStorage = FP32_STORAGE, rates: Sequence[Doubles | None] = (), carried: float = 1.0,
                bounds: Bounds = BOUNDS["fp32"]) -> Iterator[StepError]:
    """Errors of a step; of layers each one's.

    Parameters
    ----------
    layers : sequence of str
        Names of the layers with weights.
    rule : UpdateRule
        How weights are updated.
    held : Storage
        How weights and states are held.
    rates : sequence of array or None
        As :attr:`Checks.rates`.
    carried : float
        As :func:`_scales` has it.
    bounds : Bounds
        Of the dies' number format.
    """
    sizes = wanted.sizes
    yield StepError("prediction", None, _distance(die_step.predictions, wanted.predictions) / sizes.predictions, 1.0)
    yield StepError("loss", None, abs(die_step.loss - wanted.loss) / sizes.loss, 1.0)
    for name, update, (own, rounding), gradient, scale, rate in zip(
            layers, die_step.own_updates(), die_step.own_gradients(), wanted.gradients, _scales(sizes, carried),
            _rate_factors(layers, rates), strict=True):
        yield StepError("gradient", name, _distance(own, gradient) / norm(gradient), scale)
        target = held.clipped(rule.apply(update.before, rate * gradient, update.state))
        worst = max(_update_distance(copy, target, held.place) for copy in update.copies)
        yield StepError("update", name, worst / norm(target - update.before),
                        scale * _amplification(rule, rate * gradient, update.state, bounds.update.largest * scale))
        by_own = OwnUpdate(rule, held, die_step.scale, rate * own, rate * rounding)
        if update.state is not None and update.state_after is not None:
            yield StepError("state", name, by_own.state_error(update.state, update.state_after), 1.0)
        yield StepError("descent", name, by_own.weight_error(update.before, update.state_after, update.copies), 1.0)


def between_steps(layers: Sequence[str], last: FoundStep, now: FoundStep) -> Iterator[StepError]:
    """Whether weights and states are what the last step left: 1, or more where they have changed by more than it
    changed them, or 0 where nothing has changed."""
    for name, left, update in zip(layers, last.own_updates(), now.own_updates(), strict=True):
        pairs = [(copy, after, left.before) for copy, after in zip(update.copies_before, left.copies, strict=False)]
        if left.state is not None and left.state_after is not None and update.state is not None:
            pairs.append((update.state, left.state_after, left.state))
        changes = [_distance(here, after) / norm(after - before) for here, after, before in pairs]
        yield StepError("state", name, max((max(1.0, change) for change in changes if change), default=0.0), 1.0)


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
    #: Of each layer how many of its parameters are its bias; nothing at all: none.
    biases: Sequence[int] = ()
    #: How much of a cancellation beyond :data:`PLATEAU` counts.
    carried: float = 1.0
    #: Errors of steps in which nothing saturates, if the format has bounds of them.
    unsaturated: UnsaturatedSteps | None = None
    kinks: Kinks = field(default_factory=Kinks)
    #: Finds what a failing step comes from.
    causes: Causes | None = None
    #: What broke which bound at which step.
    failure: str | None = None
    #: Whether the last step was not compared.
    skipped: bool = False
    #: Steps so far.
    _steps: int = 0
    _first_loss: float | None = None
    _last: FoundStep | None = field(default=None, init=False)

    @property
    def bounds(self) -> Bounds:
        """What errors the number format is allowed."""
        return BOUNDS[self.number_format]

    @property
    def held(self) -> NumberStorage:
        """How weights and states are held."""
        return storage(self.number_format, self.rule)

    @property
    def verdict_steps(self) -> int:
        """How many steps a run needs for all its bounds to count: where single steps of 16 bits may be far off, medians
        decide."""
        return MEDIAN_STEPS if self.unsaturated is not None else 1

    def forget(self) -> None:
        """Weights or states have been set: the next step does not go on from the last one's."""
        self._last = None

    @property
    def compared_steps(self) -> int:
        """How many steps were compared with the reference."""
        return len(self.scaled["loss"])

    def skip(self) -> None:
        """A step is not compared: the next one does not go on from what is known."""
        self._steps += 1
        self._last, self.skipped = None, True

    def start(self, fault: str | None) -> None:
        """Say what is wrong, if anything is, with what the dies hold before a step that goes on from loaded weights."""
        if fault is not None:
            self.fail(f"before step {self._steps + 1}: {fault}")

    def step(self, die_step: FoundStep, x: NDArray[Any], targets: NDArray[Any], decided: Mapping[str, Floats]) -> None:
        """Compare a step with the reference; what a failure says ends with its cause."""
        failed = self.failure
        wanted = self._judge(die_step, x, targets, decided)
        if self._first_loss is None:
            self._first_loss = wanted.loss if wanted else 0.0
        if self.failure is not None and self.failure != failed and self.causes is not None:
            self.failure += "; " + self.causes.of(die_step.before, die_step.states, x, targets, self._first_loss)
        too_many = self.kinks.count(wanted) if wanted else None
        if too_many is not None:
            self.fail(f"step {self._steps}: {too_many}")

    def _judge(self, die_step: FoundStep, x: NDArray[Any], targets: NDArray[Any], decided: Mapping[str, Floats]
               ) -> ReferenceStep | None:
        """Compare a step with the reference, and return what that has; None if the step is not finite."""
        self._steps += 1
        self.skipped = False
        odd = die_step.first_not_finite()
        if odd is not None:
            self.fail(f"step {self._steps}: {odd} not finite")
            return None
        wanted = self.reference(die_step.before, x, targets, decided)
        fault = die_step.generators.fault() if die_step.generators else None
        if fault is not None:
            self.fail(f"step {self._steps}: {fault}")
        last, self._last = self._last, die_step
        between = between_steps(self.layers, last, die_step) if last else ()
        errors = [*between, *step_errors(self.layers, self.rule, wanted, die_step, self.held, self.rates,
                                         self.carried, self.bounds)]
        step = dict.fromkeys(ERRORS, 0.0)
        for error in errors:
            self.largest[error.name] = max(self.largest[error.name], error.value)
            step[error.name] = max(step[error.name], error.value / error.scale)
            self._compare(error, getattr(self.bounds, error.name).largest, "")
        for name, value in step.items():
            self.scaled[name].append(value)
        unsaturated = self.unsaturated
        if unsaturated is not None and die_step.saturated <= self._saturating(die_step):
            unsaturated.judged += 1
            for error in (*errors, *self._unsaturated_errors(unsaturated, wanted, die_step, x, targets, decided)):
                allowed = unsaturated.allowed(error.name)
                if allowed is not None:
                    unsaturated.largest[error.name] = max(unsaturated.largest[error.name], error.value / error.scale)
                    self._compare(error, allowed, "unsaturated steps of ")
        return wanted

    def _saturating(self, die_step: FoundStep) -> int:
        """How many weights and states saturate by the rule, which makes nothing else inexact."""
        if self.held.place is None:
            return 0
        factors = _rate_factors(self.layers, self.rates)
        return sum(OwnUpdate(self.rule, self.held, die_step.scale, factor * own).saturated(
            update.before, update.state, update.state_after)
            for factor, own, update in zip(factors, die_step.gradients, die_step.own_updates(), strict=True))

    def _compare(self, error: StepError, allowed: float, steps: str) -> None:
        """Fail if an error is beyond what it may be over its factor."""
        if not error.value <= allowed * error.scale:
            where = "" if error.layer is None else f" of layer {error.layer!r}"
            self.fail(f"step {self._steps}: {error.name} error{where} {error.value:.2g}, beyond the "
                       f"{allowed * error.scale:.2g} of {steps}format {self.number_format}")

    def _unsaturated_errors(self, unsaturated: UnsaturatedSteps, wanted: ReferenceStep, die_step: FoundStep,
                            x: NDArray[Any], targets: NDArray[Any], decided: Mapping[str, Floats]
                            ) -> Iterator[StepError]:
        """Errors that only unsaturated steps are asked for."""
        for name, size, own, gradient, scale in zip(self.layers, self.biases, die_step.gradients, wanted.gradients,
                                                    _scales(wanted.sizes, self.carried), strict=True):
            yield StepError("bias", name, bias_error(own, gradient, size), scale)
            yield StepError("gain", name, gain_error(own, gradient), scale)
        if unsaturated.bounds.sample is not None and self._steps <= SAMPLE_STEPS and 1 < len(x) <= SAMPLES:
            parts = (self.reference(die_step.before, x[sample:sample + 1], targets[sample:sample + 1],
                                    {name: tensor[sample:sample + 1] for name, tensor in decided.items()})
                     for sample in range(len(x)))
            shares = ([gradient / len(x) for gradient in part.gradients] for part in parts)
            for name, value in zip(self.layers, sample_errors(die_step.gradients, wanted.gradients, shares),
                                   strict=True):
                yield StepError("sample", name, value, 1.0)

    def finish(self) -> None:
        """Compare the medians of all steps."""
        for name, values in self.scaled.items():
            allowed, median = getattr(self.bounds, name).median, self.median(name)
            if len(values) >= MEDIAN_STEPS and not median <= allowed:
                self.fail(f"median of {len(values)} steps up to step {self._steps}: {name} error {median:.2g}, beyond "
                           f"the {allowed:.2g} of format {self.number_format}{self._remedy()}")

    def median(self, name: str) -> float:
        """The median over all steps so far of an error over its factor; 0 before the first."""
        return float(np.median(self.scaled[name])) if self.scaled[name] else 0.0

    def _remedy(self) -> str:
        return "" if self.number_format == "fp32" else ("; if the network asks for more than its 16 bits, "
                                                        "format=fp32 does not")

    def fail(self, text: str) -> None:
        """Note what is wrong with a step, unless something was before."""
        self.failure = self.failure or text

    def to_data(self) -> dict[str, dict[str, float]]:
        """For each error its largest and its median over its factor, and the bounds of both."""
        return {name: {"largest": max(values, default=0.0), "median": self.median(name),
                       "largest_allowed": getattr(self.bounds, name).largest,
                       "median_allowed": getattr(self.bounds, name).median}
                for name, values in self.scaled.items()}


def against_float64(network: Network, rule: UpdateRule, number_format: str, *, kinks: float | None = None
                    ) -> Checks:
    """Checks of a network's steps.

    Parameters
    ----------
    network : Network
    rule : UpdateRule
        How weights are updated.
    number_format : str
        The dies' ``DieParameters.number_format``.
    kinks : float or None
        Largest share of a step's kinks that the dies may decide; None: as the number format asks for.
    """
    bounds, closer = BOUNDS[number_format], UNSATURATED_BOUNDS.get(number_format)
    reference = float64_reference(network, bounds.rounding)
    rates = () if rule.squares else parameter_rates(network)
    return Checks(
        reference, rule, [layer.name for layer in network.weighted], number_format, rates,
        biases=[network.layer_parameters(layer.name) - network.layer_weights(layer.name) for layer in network.weighted],
        carried=bounds.carried if isinstance(network.loss, SoftmaxCrossEntropy) else bounds.carried_else,
        unsaturated=UnsaturatedSteps(closer) if closer else None, kinks=bounded(number_format, kinks),
        causes=Causes(reference, float64_predictor(network), network, rule, rates, number_format))
