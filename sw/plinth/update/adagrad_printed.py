"""Adagrad as section 4.2 of Deep3 prints it, without the root of what it cites (``docs/decisions.md``)::

    s += g^2
    w -= rate g / (s + epsilon)

A step is rate / (2 sqrt(epsilon)) at most, where it is the gradient's size: as large as weights with Adagrad's epsilon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.update.adagrad import Adagrad
from plinth.update.law import VectorOperations

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


class AdagradPrinted(Adagrad):
    """Adagrad without the root: the state is the sum of squared gradients, by which steps are divided."""

    kind = "adagrad-printed"
    defaults = {"rate": 0.005, "epsilon": 0.01}
    powers = {"rate": 1, "epsilon": 2}
    bounded_by_epsilon = True
    most_step = 16.0

    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The gradient over the sum of squares: ``g / (s + epsilon)``."""
        return gradient / (state + rule.epsilon)

    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program ``s = s + (g g);  q = rate ((1 / (s + epsilon)) g)``."""
        to.multiply("q", "g", "g")
        to.add("s", "s", "q")
        to.shift("q", "s", rule.epsilon)
        to.reciprocal("q", "q")
        to.multiply("q", "q", "g")
        to.scale("q", "q", rule.rate)
