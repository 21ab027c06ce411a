"""RMSProp (Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012)::

    s = decay s + (1 - decay) g^2
    w -= rate g / (sqrt(s) + epsilon)

The lecture has no epsilon. It stands outside of the root, and the state starts at 0, as in PyTorch's documentation of
``torch.optim.RMSprop`` with ``momentum=0`` and ``centered=False``, whose ``alpha`` is the decay here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plinth.update.law import Law, VectorOperations, root

if TYPE_CHECKING:
    from plinth.update.rule import Doubles, UpdateRule


class RmsProp(Law):
    """RMSProp: the state is a decaying mean of squared gradients, by the root of which steps are divided."""

    kind = "rmsprop"
    numbers = ("epsilon", "decay")
    defaults = {"rate": 0.003, "epsilon": 1e-8}
    state_power = 2
    powers = {"epsilon": 1}
    keeps = "decay"
    amplifies = True

    def next_state(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The decayed mean with this gradient's square: ``decay s + (1 - decay) g^2``."""
        return rule.decay * state + (1 - rule.decay) * gradient**2

    def direction(self, rule: UpdateRule, gradient: Doubles, state: Doubles) -> Doubles:
        """The gradient over the root of the mean of squares: ``g / (sqrt(s) + epsilon)``."""
        return gradient / (root(state) + rule.epsilon)

    def program(self, to: VectorOperations, rule: UpdateRule) -> None:
        """Write the vector program of an update::

            s = s + ((1 - decay) ((g g) - s));  q = rate ((1 / (1 / (1 / sqrt(s)) + epsilon)) g)

        The mean goes towards the square, which rounds no more of it than its change however near the decay is to 1; of
        a state of 0 the inverse root is infinite, and its reciprocal 0 again.
        """
        to.multiply("q", "g", "g")
        to.subtract("q", "q", "s")
        to.scale("q", "q", 1 - rule.decay)
        to.add("s", "s", "q")
        to.inverse_root("q", "s")
        to.reciprocal("q", "q")
        to.shift("q", "q", rule.epsilon)
        to.reciprocal("q", "q")
        to.multiply("q", "q", "g")
        to.scale("q", "q", rule.rate)
