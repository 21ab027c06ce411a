"""Gradient descent with momentum::

    s = momentum s + g
    w -= rate s
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.update.law import Law, VectorOperations

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


class Momentum(Law):
    """Gradient descent with momentum: the state is a decaying sum of gradients, along which weights move."""

    kind = "momentum"
    numbers = ("momentum",)
    powers = {"rate": -1}
    keeps = "momentum"
    optimised = True

    def next_state(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The decayed sum with this gradient: ``momentum s + g``."""
        return rule.momentum * state + gradient

    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The direction of a step, which is the state itself."""
        return state

    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program ``s = (momentum s) + g;  q = rate s``."""
        to.scale("s", "s", rule.momentum)
        to.add("s", "s", "g")
        to.scale("q", "s", rule.rate)
