"""How dies hold weights and states in memory, and how far what they stored is off beyond what storing accounts for.

All values are those of memory: gradients times the program's scale, states times a power of it. What the dies found
themselves, gradients in memory and the state before, decides what they ought to store, but for

    FP32         half of the last place of each number, and of what a state keeps of the one before a rounded factor
                 and product
    fixed point  half of the format's last place where it is rounded to nearest, a whole one at random, and a place of
                 what is wide; beside that what factors and the table of inverse roots may be off. A number that is off
                 by more counts in full.

and in either what the gradient's sum over dies may be off, which dies round, or saturate, add by add: where dies' parts
cancel, that is more than the last place of what is stored.

Random rounding leaves each number within a whole place, yet means of many are sharp. Within :data:`DEVIATIONS` standard
deviations are the sum of what all numbers are off, its projection on the update, and how many are not the nearest ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Q3_12

Doubles = NDArray[np.float64]

#: What a factor, such as a rate, may be off, of its size, and what is looked up in the table of inverse roots besides.
FACTOR_ROUNDING, ROOT_ROUNDING = 2.0**-16, 2.0**-13
#: What a product with a factor is off in FP32, of its size: factor and product round to nearest.
FP32_FACTOR_ROUNDING = 2.0**-23
#: Standard deviations that a sum of numbers which were rounded at random may be off.
DEVIATIONS = 6.0
#: Last places of fixed-point numbers of 16 bits and of 32, and how large one may be.
NARROW_PLACE, WIDE_PLACE = 2.0**-Q3_12.fraction_bits, 2.0**-28
_LEAST = Q3_12.least * NARROW_PLACE
_MOST, _MOST_WIDE = Q3_12.most * NARROW_PLACE, -_LEAST - NARROW_PLACE / 2 - WIDE_PLACE
#: What the optimiser engine multiplies by the rate is at most that large (``docs/optimiser.md``).
_MOST_QUOTIENT = 16.0


@dataclass(frozen=True)
class NumberStorage:
    """How numbers of a kind are held.

    Parameters
    ----------
    place : float or None
        Last place, if it is the same for all; None: they are FP32.
    places : float
        How many last places a number may be off that was rounded once.
    random : bool
        Whether it is rounded at random.
    least, most : float
        What is beyond is stored as these.
    """

    place: float | None = None
    places: float = 0.5
    random: bool = False
    least: float = -np.inf
    most: float = np.inf

    def clipped(self, values: NDArray[Any]) -> Doubles:
        """What is stored of numbers that may be beyond."""
        return np.clip(values, self.least, self.most)

    def beyond(self, values: NDArray[Any]) -> int:
        """How many numbers dies count as saturated: those outside of the range from ``least`` to -``least``, before
        they are rounded."""
        return int(np.count_nonzero((values < self.least) | (values >= -self.least)))

    def distance(self, stored: NDArray[Any], wanted: Doubles, change: Doubles, inexact: Doubles) -> float:
        """How far numbers are off, beyond what storing them accounts for: the norm over all of them.

        Parameters
        ----------
        stored, wanted : array
            What was stored, and what ought to be before it is rounded.
        change : array
            How ``wanted`` differs from what was stored before.
        inexact : array
            What ``wanted`` may be off by factors and sums in it.
        """
        off = stored - wanted
        if self.place is None:
            rounding = np.spacing(np.abs(stored).astype(np.float32)).astype(np.float64) / 2
            return float(np.linalg.norm(np.maximum(np.abs(off) - rounding - inexact, 0.0)))
        beyond = np.where(np.abs(off) > self.places * self.place * (1 + FACTOR_ROUNDING) + inexact, off, 0.0)
        if not self.random:
            return float(np.linalg.norm(beyond))
        share = wanted / self.place % 1.0
        return max(float(np.linalg.norm(beyond)), self._nearest(off, share, inexact),
                   *(self._drift(off, share, along, inexact) for along in (change, np.ones_like(change))))

    def _drift(self, off: Doubles, share: Doubles, along: Doubles, inexact: Doubles) -> float:
        """How far numbers that are rounded at random, up with probability ``share``, are off along a direction, beyond
        chance."""
        assert self.place is not None
        length = float(np.linalg.norm(along))
        if not length:
            return 0.0
        chance = DEVIATIONS * self.place * float(np.sqrt((along**2 * share * (1 - share)).sum()))
        return max(0.0, abs(float((off * along).sum())) - chance - float((inexact * np.abs(along)).sum())) / length

    def _nearest(self, off: Doubles, share: Doubles, inexact: Doubles) -> float:
        """How far off it is that more numbers, or fewer, than by chance are the nearest ones."""
        assert self.place is not None
        # Of numbers in the middle either one is the nearest.
        apart = np.abs(share - 0.5) > FACTOR_ROUNDING + inexact / self.place
        other = np.minimum(share, 1 - share)[apart]
        count = np.count_nonzero(np.abs(off[apart]) > self.place / 2)
        chance = DEVIATIONS * float(np.sqrt((other * (1 - other)).sum())) + float(inexact[apart].sum()) / self.place
        return self.place * float(np.sqrt(max(0.0, abs(count - float(other.sum())) - chance)))


#: In FP32.
FP32_STORAGE = NumberStorage()


def storage(number_format: str, rule: UpdateRule) -> NumberStorage:
    """How dies of a format hold weights, and states beside them, that a rule updates."""
    if number_format != "fixed":
        return FP32_STORAGE
    if rule.wide:
        return NumberStorage(WIDE_PLACE, 1.0, least=_LEAST, most=_MOST_WIDE)
    return NumberStorage(NARROW_PLACE, 1.0 if rule.stochastic else 0.5, rule.stochastic, _LEAST, _MOST)


@dataclass(frozen=True)
class OwnUpdate:
    """An update of a layer by the gradient that the dies found themselves.

    Parameters
    ----------
    rule : UpdateRule
        For gradients as the loss has them.
    held : Storage
        How weights and states are held.
    scale : float
        How much larger gradients are in memory.
    gradient : array
        The loss's own, as the dies found it.
    rounding : array or float
        How far the dies' sum of it may be off.
    """

    rule: UpdateRule
    held: NumberStorage
    scale: float
    gradient: Doubles
    rounding: Doubles | float = 0.0

    def _in_memory(self) -> tuple[UpdateRule, Doubles]:
        """Rule and gradient; the sum over dies saturates."""
        gradient = self.gradient * self.scale
        return self.rule.scaled(self.scale), gradient if self.held.place is None else np.clip(gradient, _LEAST, _MOST)

    def _new_state(self, before: Doubles) -> Doubles:
        """What the state in memory ought to become, before it is rounded or saturates."""
        rule, gradient = self._in_memory()
        return rule.next_state(gradient, before * rule.state_scale(self.scale))

    def _new_weights(self, before: NDArray[Any], state: Doubles | None) -> tuple[Doubles, Doubles]:
        """What weights ought to become, before they are rounded or saturate, and what is taken from them; ``state`` is
        that after the update."""
        rule, gradient = self._in_memory()
        direction = rule.direction(gradient, None if state is None else state * rule.state_scale(self.scale))
        if rule.squares and self.held.place is not None:
            direction = np.clip(direction, -_MOST_QUOTIENT, _MOST_QUOTIENT)
        taken = rule.rate * direction
        return before - taken, taken

    def _summing(self, value: Callable[["OwnUpdate"], Doubles]) -> Doubles:
        """How far a value may be off since the dies' sum of the gradient may be: states and what is taken from weights
        are convex in the gradient, so that they are furthest off where that is."""
        ends = (replace(self, gradient=self.gradient + sign * self.rounding) for sign in (-1, 1))
        return np.asarray(np.max([np.abs(value(end) - value(self)) for end in ends], axis=0))

    def state_error(self, before: Doubles, after: Doubles) -> float:
        """How far the state after the update is off what the rule makes of that before, over its change; both are
        those of the loss's own gradients."""
        size = self.rule.state_scale(self.scale)
        wanted = self._new_state(before)
        inexact = self._summing(lambda update: update._new_state(before))
        if self.rule.law.keeps:
            inexact += (FP32_FACTOR_ROUNDING if self.held.place is None else FACTOR_ROUNDING) * np.abs(before * size)
        wanted = self.held.clipped(wanted)
        change = wanted - before * size
        return self.held.distance(after * size, wanted, change, inexact) / norm(change)

    def weight_error(self, before: NDArray[Any], state: Doubles | None, copies: Sequence[NDArray[Any]]) -> float:
        """How far the worst copy of the weights is off what the rule makes of the state as it was stored, over their
        change; ``state`` is that of the loss's own gradients, None with sgd."""
        wanted, taken = self._new_weights(before, state)
        inexact = self._summing(lambda update: update._new_weights(before, state)[1])
        if self.held.place is not None:
            inexact += (ROOT_ROUNDING if self.rule.squares else FACTOR_ROUNDING) * np.abs(taken)
        wanted = self.held.clipped(wanted)
        change = wanted - before
        return max(self.held.distance(copy, wanted, change, inexact) for copy in copies) / norm(change)

    def saturated(self, before: NDArray[Any], state: Doubles | None, state_after: Doubles | None) -> int:
        """How many states and weights dies count as saturated."""
        beyond = self.held.beyond(self._new_weights(before, state_after)[0])
        return beyond + (0 if state is None else self.held.beyond(self._new_state(state)))


def norm(values: NDArray[Any]) -> float:
    """Square root of the sum of squares, which FP32 might not hold, but at least FP32's least normal number."""
    return max(float(np.linalg.norm(values.astype(np.float64))), float(np.finfo(np.float32).tiny))
