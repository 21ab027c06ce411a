"""Plain gradient descent::

    w -= rate g
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.update.law import Law, VectorOperations

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


class Sgd(Law):
    """Plain gradient descent: weights move along the gradient, and no state is kept."""

    kind = "sgd"
    stateful = False
    powers = {"rate": -1}
    optimised = True

    def next_state(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """Return ``state`` unchanged: the rule keeps none."""
        return state

    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The direction of a step, which is the gradient itself."""
        return gradient

    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program ``q = rate g``."""
        to.scale("q", "g", rule.rate)
