"""Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011), with epsilon under the root::

    s += g^2
    w -= rate g / sqrt(s + epsilon)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.update.law import Law, VectorOperations, root

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


class Adagrad(Law):
    """Adagrad: the state is the sum of squared gradients, by the root of which steps are divided."""

    kind = "adagrad"
    numbers = ("epsilon",)
    defaults = {"rate": 0.01}
    epochs = 24
    state_power = 2
    powers = {"epsilon": 2}
    optimised = True
    most_step = 1.0

    def next_state(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The sum of squares with that of this gradient: ``s + g^2``."""
        return state + gradient**2

    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The gradient over the root of the sum of squares: ``g / sqrt(s + epsilon)``."""
        return gradient / root(state + rule.epsilon)

    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program ``s = s + (g g);  q = rate ((1 / sqrt(s + epsilon)) g)``."""
        to.multiply("q", "g", "g")
        to.add("s", "s", "q")
        to.shift("q", "s", rule.epsilon)
        to.inverse_root("q", "q")
        to.multiply("q", "q", "g")
        to.scale("q", "q", rule.rate)
