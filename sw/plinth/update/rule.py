"""An update rule (optimiser) with its hyperparameters, as steps, references and checkpoints have it.

Formulas stand in the file of each rule. Dies compute with gradients that are larger by the scale of errors:
:meth:`UpdateRule.scaled`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.update.kinds import ADAGRAD, KINDS, LAWS, SGD
from plinth.update.law import NUMBERS, Law
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

Doubles = NDArray[np.float64]

#: Bits of a half of a wide number.
HALF_BITS = 16
#: Vectors beside weights, by name: low halves of weights, states, and low halves of these.
WEIGHTS_LOW, STATE, STATE_LOW = VECTORS = "weights_low", "state", "state_low"


@dataclass(frozen=True)
class UpdateRule:
    """An update rule with its learning rate and other hyperparameters.

    Parameters
    ----------
    kind : str
        One of :data:`~plinth.update.kinds.KINDS`.
    rate : float
        Learning rate.
    momentum, epsilon, decay : float
        As :data:`~plinth.update.law.NUMBERS` has them; of a rule that has no such number they mean nothing.
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
    momentum: float = NUMBERS["momentum"].default
    epsilon: float = NUMBERS["epsilon"].default
    wide: bool = False
    stochastic: bool = False
    decay: float = NUMBERS["decay"].default

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(f"update must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if not isinstance(self.rate, Real) or not 0 < self.rate < float("inf"):
            raise ValueError(f"rate must be above 0 and finite, not {self.rate}")
        for name, number in NUMBERS.items():
            number.check(name, getattr(self, name))

    @property
    def law(self) -> Law:
        """The rule's formulas, defaults and vector program."""
        return LAWS[self.kind]

    @property
    def numbers(self) -> Mapping[str, float]:
        """The rule's hyperparameters beside the learning rate, by name."""
        return {name: getattr(self, name) for name in self.law.numbers}

    @property
    def plain(self) -> bool:
        """Whether the update reads and writes weights alone, so that a reduction does it on its way."""
        return not self.law.stateful and not (self.wide or self.stochastic)

    @property
    def form(self) -> "UpdateRule":
        """The same rule with default hyperparameters, on which neither a step's tasks nor their cycles depend."""
        return UpdateRule(self.kind, wide=self.wide, stochastic=self.stochastic)

    @property
    def title(self) -> str:
        """The rule in words, as plans and reports have it: ``adagrad wide``."""
        return f"{self.kind}{' wide' if self.wide else ''}{' stochastic' if self.stochastic else ''}"

    @property
    def squares(self) -> bool:
        """Whether the state is made of squared gradients, by which steps are divided."""
        return self.law.state_power == 2

    @property
    def vectors(self) -> tuple[str, ...]:
        """The names of vectors kept beside weights: low halves of wide weights, states, low halves of these."""
        state = () if not self.law.stateful else (STATE, STATE_LOW) if self.wide else (STATE,)
        return ((WEIGHTS_LOW,) if self.wide else ()) + state

    @property
    def kept(self) -> str:
        """The name of the state that checkpoints hold beside weights; empty if the rule keeps none."""
        return f"{self.kind}{' wide' if self.wide else ''}" if self.vectors else ""

    def state_scale(self, scale: float) -> float:
        """The factor by which states are larger where gradients are ``scale`` times as large."""
        return float(scale**self.law.state_power)

    def scaled(self, scale: float) -> "UpdateRule":
        """The rule that changes weights in the same way where gradients are ``scale`` times as large."""
        factors: dict[str, Any] = {name: getattr(self, name) * scale**power for name, power in self.law.powers.items()}
        return replace(self, **factors)

    def next_state(self, gradient: NDArray[Any], state: NDArray[Any]) -> Doubles:
        """Compute the state after an update in float64, of the gradient and of the state before it."""
        return self.law.next_state(self, gradient.astype(np.float64), np.asarray(state, np.float64))

    def direction(self, gradient: NDArray[Any], state: NDArray[Any] | None) -> Doubles:
        """Compute what an update multiplies by the rate, in float64; ``state`` is that *after* it, None with sgd."""
        kept = np.zeros(0) if state is None else np.asarray(state, np.float64)
        return self.law.direction(self, gradient.astype(np.float64), kept)

    def apply(self, weights: NDArray[Any], gradient: NDArray[Any], state: NDArray[Any] | None) -> Doubles:
        """Compute the weights after an update in float64; ``state`` is that before it, None with sgd."""
        after = None if state is None else self.next_state(gradient, state)
        return weights - self.rate * self.direction(gradient, after)


#: Gradient descent, whatever the rate.
PLAIN = UpdateRule()
#: Forms of rules by title.
FORMS = {rule.title: rule for kind, law in LAWS.items() for wide in (False, True) for stochastic in (False, True)
         if law.optimised or not (wide or stochastic) for rule in (UpdateRule(kind, wide=wide, stochastic=stochastic),)}


def rule_for(parameters: DieParameters, kind: str | None = None, *, wide: bool | None = None, stochastic: bool = False,
           **numbers: float) -> UpdateRule:
    """Choose an update rule for dies: an argument that is left out is as they do best, which is wide Adagrad with an
    optimiser engine, and gradient descent without.

    Raises
    ------
    ValueError
        If a number is out of its range, or the kind unknown.
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
        if not rule.law.optimised:
            raise UserError(f"dies of preset {parameters.name!r} compute in Q3.12, where no engine has update "
                            f"{rule.kind!r}; choose another update=, or dies of FP32, such as preset ndp-demo")
        if not rule.plain and Engine.OPTIMISER not in parameters.engines:
            raise UserError(f"dies of preset {parameters.name!r} have no optimiser engine for update {rule.kind!r}; "
                            "choose update=sgd of 16 bits, or a preset that has one, such as fpga-demo")
    elif rule.wide or rule.stochastic:
        what, remedy = ("wide weights", "give wide=False") if rule.wide else (
            "stochastic rounding", "leave stochastic= out")
        raise UserError(f"dies of preset {parameters.name!r} compute in {parameters.number_format}, without {what}; "
                        f"{remedy}, or choose dies of fixed point, such as preset fpga-demo")
