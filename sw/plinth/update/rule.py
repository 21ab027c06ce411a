"""Rules by which weights are updated, with the vectors that they keep from step to step.

With g the gradient of a weight w, s its state, and float64 arithmetic::

    sgd              w -= rate g
    momentum         s = momentum s + g;   w -= rate s
    adagrad          s += g^2;             w -= rate g / sqrt(s + epsilon)
    adagrad-printed  s += g^2;             w -= rate g / (s + epsilon)

The last is what Deep3 prints in section 4.2, the one before what it cites (``docs/decisions.md``). Dies compute with
gradients that are larger by the scale of errors: :meth:`UpdateRule.scaled`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

Doubles = NDArray[np.float64]

SGD, MOMENTUM, ADAGRAD, ADAGRAD_PRINTED = KINDS = ("sgd", "momentum", "adagrad", "adagrad-printed")
#: Bits of a half of a wide number.
HALF_BITS = 16
#: Vectors beside weights, by name: low halves of weights, states, and low halves of these.
WEIGHTS_LOW, STATE, STATE_LOW = VECTORS = "weights_low", "state", "state_low"


@dataclass(frozen=True)
class UpdateRule:
    """A rule and its numbers.

    Parameters
    ----------
    kind : str
        One of :data:`KINDS`.
    rate : float
        Learning rate.
    momentum : float
        What is kept of the state, with momentum.
    epsilon : float
        What Adagrad adds to its state.
    wide : bool
        Weights and states have 32 bits; of fixed-point dies only.
    stochastic : bool
        What is not wide is rounded at random; of fixed-point dies only.

    Raises
    ------
    ValueError
        If a number is out of its range, or the kind unknown.
    """

    kind: str = SGD
    rate: float = 0.1
    momentum: float = 0.9
    epsilon: float = 1e-6
    wide: bool = False
    stochastic: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"update must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"rate must be above 0 and finite, not {self.rate}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be from 0 to below 1, not {self.momentum}")
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon must be above 0 and finite, not {self.epsilon}")

    @property
    def plain(self) -> bool:
        """Whether a weight is all that it reads and writes: what a reduction does on its way."""
        return self.kind == SGD and not (self.wide or self.stochastic)

    @property
    def form(self) -> "UpdateRule":
        """The rule without its numbers: what a step does, and how long it takes, does not depend on them."""
        return UpdateRule(self.kind, wide=self.wide, stochastic=self.stochastic)

    @property
    def title(self) -> str:
        """The form in words, as plans have it."""
        return f"{self.kind}{' wide' if self.wide else ''}{' stochastic' if self.stochastic else ''}"

    @property
    def squares(self) -> bool:
        """Whether states are sums of squares."""
        return self.kind in (ADAGRAD, ADAGRAD_PRINTED)

    @property
    def vectors(self) -> tuple[str, ...]:
        """What is kept beside weights, by name."""
        state = () if self.kind == SGD else (STATE, STATE_LOW) if self.wide else (STATE,)
        return ((WEIGHTS_LOW,) if self.wide else ()) + state

    @property
    def kept(self) -> str:
        """What the vectors are the state of, in a word; empty if there are none."""
        return f"{self.kind}{' wide' if self.wide else ''}" if self.vectors else ""

    def state_scale(self, scale: float) -> float:
        """How much larger states are with gradients that are ``scale`` times as large."""
        return scale ** (2 if self.squares else 1)

    def scaled(self, scale: float) -> "UpdateRule":
        """The rule that does the same with gradients that are ``scale`` times as large."""
        power = {ADAGRAD: 0, ADAGRAD_PRINTED: 1}.get(self.kind, -1)
        return replace(self, rate=self.rate * scale**power, epsilon=self.epsilon * self.state_scale(scale)
                       if self.squares else self.epsilon)

    def next_state(self, gradient: NDArray[Any], state: NDArray[Any]) -> Doubles:
        """The state after an update in float64; ``state`` is that before it."""
        g = gradient.astype(np.float64)
        return self.momentum * state + g if self.kind == MOMENTUM else state + g**2

    def direction(self, gradient: NDArray[Any], state: NDArray[Any] | None) -> Doubles:
        """What an update multiplies by the rate, in float64; ``state`` is that *after* it, None with sgd."""
        g = gradient.astype(np.float64)
        if state is None:
            return g
        if self.kind == MOMENTUM:
            return np.asarray(state, np.float64)
        return g / (np.sqrt(state + self.epsilon) if self.kind == ADAGRAD else state + self.epsilon)

    def apply(self, weights: NDArray[Any], gradient: NDArray[Any], state: NDArray[Any] | None) -> Doubles:
        """Weights after an update in float64; ``state`` is that before it, None with sgd."""
        after = None if state is None else self.next_state(gradient, state)
        return weights - self.rate * self.direction(gradient, after)


#: Gradient descent, whatever the rate.
PLAIN = UpdateRule()
#: Forms of rules by title.
FORMS = {rule.title: rule for kind in KINDS for wide in (False, True) for stochastic in (False, True)
         for rule in (UpdateRule(kind, wide=wide, stochastic=stochastic),)}


def rule_for(parameters: DieParameters, kind: str | None = None, *, wide: bool | None = None, stochastic: bool = False,
           **numbers: float) -> UpdateRule:
    """The rule of dies, what is left out as they do it best: Adagrad, wide, with an optimiser engine, else gradient
    descent.

    Raises
    ------
    ValueError
        As :class:`UpdateRule`.
    """
    optimises = Engine.OPTIMISER in parameters.engines
    kind = kind or (ADAGRAD if optimises else SGD)
    if wide is None:
        wide = optimises and kind == ADAGRAD and not stochastic
    return UpdateRule(kind, wide=wide, stochastic=stochastic, **numbers)


def check_engines(rule: UpdateRule, parameters: DieParameters) -> None:
    """Refuse a rule that dies have no engine for.

    Raises
    ------
    UserError
        With a rule or dies to choose.
    """
    if parameters.number_format == "fixed":
        if not rule.plain and Engine.OPTIMISER not in parameters.engines:
            raise UserError(f"dies of preset {parameters.name!r} have no optimiser engine for update {rule.kind!r}; "
                            "choose --update sgd of 16 bits, or a preset that has one, such as fpga-demo")
    elif rule.wide or rule.stochastic:
        what, remedy = ("wide weights", "give --narrow") if rule.wide else (
            "stochastic rounding", "leave --stochastic out")
        raise UserError(f"dies of preset {parameters.name!r} compute in {parameters.number_format}, without {what}; "
                        f"{remedy}, or choose dies of fixed point, such as preset fpga-demo")
