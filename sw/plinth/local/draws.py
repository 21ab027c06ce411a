"""Which units a set of a local network has: drawn anew for each set that is sent (Deep3, section 5.1).

The paper says no law. *Uniform*: without replacement within a set, and each set without regard to those before.
*Balanced*: units of a layer are dealt like cards, and shuffled anew once all have been dealt, so that within a round
each unit is in as many sets as any other; of a set that takes the last cards of a round and the first of the next one
no unit is twice.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from plinth.network.local import Integers, Units

#: Ways of drawing, by name.
UNIFORM, BALANCED = DRAWS = "uniform", "balanced"


class Draw(Protocol):
    """Draws sets of units."""

    def draw(self) -> Units:
        """The units of the next set, ascending, by layer."""
        ...


class UniformDraw:
    """Units without replacement within a set, and anew for each.

    Parameters
    ----------
    hidden : mapping of str to (int, int)
        Of each layer how many units a set has, and of how many.
    generator : Generator
    """

    def __init__(self, hidden: Mapping[str, tuple[int, int]], generator: np.random.Generator) -> None:
        self._hidden, self._generator = hidden, generator

    def draw(self) -> Units:
        """The units of the next set, ascending, by layer."""
        return {layer: np.sort(self._generator.choice(whole, width, replace=False))
                for layer, (width, whole) in self._hidden.items()}


class BalancedDraw:
    """Units dealt in rounds, in each of which all come as often.

    Parameters
    ----------
    hidden, generator
        As of :class:`UniformDraw`.
    """

    def __init__(self, hidden: Mapping[str, tuple[int, int]], generator: np.random.Generator) -> None:
        self._hidden, self._generator = hidden, generator
        self._left: dict[str, Integers] = {layer: np.zeros(0, np.int64) for layer in hidden}

    def draw(self) -> Units:
        """The units of the next set, ascending, by layer."""
        return {layer: np.sort(self._dealt(layer, width, whole)) for layer, (width, whole) in self._hidden.items()}

    def _dealt(self, layer: str, width: int, whole: int) -> Integers:
        left = self._left[layer]
        dealt, self._left[layer] = left[:width], left[width:]
        if len(dealt) < width:
            fresh = self._generator.permutation(whole)
            # What this set has already waits in the new round.
            waits = np.isin(fresh, dealt)
            fresh = np.concatenate([fresh[~waits], fresh[waits]])
            missing = width - len(dealt)
            dealt, self._left[layer] = np.concatenate([dealt, fresh[:missing]]), fresh[missing:]
        return dealt


def draw_of(name: str, hidden: Mapping[str, tuple[int, int]], seed: Sequence[int]) -> Draw:
    """What draws units by a way of :data:`DRAWS`; equal seeds give equal sets."""
    generator = np.random.default_rng(seed)
    return BalancedDraw(hidden, generator) if name == BALANCED else UniformDraw(hidden, generator)
