"""The interface of an update rule (optimiser): its formulas in float64, its hyperparameters, its vector program.

Nothing here loads numpy or what dies are made of: ``--help`` shows names and defaults of rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


@dataclass(frozen=True)
class RuleNumber:
    """A hyperparameter of update rules beside the learning rate, and its range: finite, from 0 to below ``below``.

    Parameters
    ----------
    what : str
        What rules do with it.
    default : float
        Of rules that have no default of their own.
    positive : bool
        Whether 0 is refused.
    below : float or None
        None: any finite number.
    """

    what: str
    default: float
    positive: bool
    below: float | None = None

    def check(self, name: str, value: float) -> None:
        """Refuse a value that the number may not have.

        Raises
        ------
        ValueError
            If it is out of the range, which the text says.
        """
        least = isinstance(value, Real) and (value > 0 if self.positive else value >= 0)
        if not (least and value < (float("inf") if self.below is None else self.below)):
            low = "above 0" if self.positive else "from 0"
            high = " and finite" if self.below is None else f" to below {self.below:g}"
            raise ValueError(f"{name} must be {low}{high}, not {value}")


#: Numbers of rules by name, fields of :class:`~plinth.update.rule.UpdateRule`.
NUMBERS: Mapping[str, RuleNumber] = MappingProxyType({
    "momentum": RuleNumber("what momentum keeps of its state", 0.9, positive=False, below=1),
    "epsilon": RuleNumber("what adagrad adds to its sum of squares, and rmsprop to the root of its mean of squares",
                          1e-6,
                          positive=True),
    "decay": RuleNumber("what rmsprop keeps of its mean of squares", 0.99, positive=False, below=1)})


class VectorOperations(Protocol):
    """Operations of the vector engine on regions ``w`` (weights), ``s`` (state), ``g`` (gradient) and ``q``.

    Each rounds its result.
    """

    def add(self, to: str, a: str, b: str) -> None:
        """``to = a + b``."""

    def subtract(self, to: str, a: str, b: str) -> None:
        """``to = a - b``."""

    def multiply(self, to: str, a: str, b: str) -> None:
        """``to = a b``."""

    def shift(self, to: str, a: str, number: float) -> None:
        """``to = a + number``."""

    def scale(self, to: str, a: str, number: float) -> None:
        """``to = number a``."""

    def reciprocal(self, to: str, a: str) -> None:
        """``to = 1 / a``, by a table."""

    def inverse_root(self, to: str, a: str) -> None:
        """``to = 1 / sqrt(a)``, by a table."""


class Law(ABC):
    """An update rule: how a gradient changes weights, and the state that is kept beside each of them, 0 at first."""

    #: The rule's name, of options and files.
    kind: ClassVar[str]
    #: Whether a state is kept.
    stateful: ClassVar[bool] = True
    #: Names of its numbers beside the rate, of :data:`NUMBERS`.
    numbers: ClassVar[tuple[str, ...]] = ()
    #: Defaults of numbers, the rate's as well; what is missing is the network's, or as :data:`NUMBERS` has it.
    defaults: ClassVar[Mapping[str, float]] = {}
    #: Epochs of a training run by default, at least.
    epochs: ClassVar[int] = 0
    #: With gradients c times as large, states are c to this power as large.
    state_power: ClassVar[int] = 1
    #: By which powers of c numbers have to grow then, so that weights change as they did.
    powers: ClassVar[Mapping[str, int]] = {}
    #: The number that the old state is multiplied by; empty: it is kept as it is.
    keeps: ClassVar[str] = ""
    #: Whether steps of small gradients, of which much is rounding, become as large as others'.
    amplifies: ClassVar[bool] = False
    #: Whether nothing but epsilon bounds the steps of small gradients.
    bounded_by_epsilon: ClassVar[bool] = False
    #: Whether the optimiser engine does it, of dies of fixed point.
    optimised: ClassVar[bool] = False
    #: The most that the optimiser engine multiplies by the rate; None: the largest number that there is.
    most_step: ClassVar[float | None] = None

    @abstractmethod
    def next_state(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """Compute the state after an update, of the gradient and of the state before it, element by element in
        float64."""

    @abstractmethod
    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """Compute what an update multiplies by the learning rate and subtracts from weights, of the gradient and of
        the state after the update, element by element in float64."""

    @abstractmethod
    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program of an update: it updates region ``s``, and leaves in region ``q`` what is
        subtracted from weights."""


def root(values: Doubles) -> Doubles:
    """The square root of each element."""
    import numpy as np

    return np.sqrt(values)
