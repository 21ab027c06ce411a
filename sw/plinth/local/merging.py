"""The weights of the global network, and how what local networks have learnt is merged into them.

A kernel answers a set of weights with the difference that training has made. It is *added*, as Deep3 prints it
(Algorithm 1), or *divided* by the number of kernels that hold the weight at that time, the answering one among them.
Sums of differences are too large a step once many kernels hold a weight: sixteen kernels of half the units then do not
learn. So each variable has its own way, by the number of kernels that are expected to hold one of its elements, the sum
of their shares of it: up to :data:`MOST_ADDED` are added.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.local import LocalPart
from plinth.network.parameters import Parameters
from plinth.runtime.memory import Floats

#: Ways of merging; ``auto``: by expected holders.
ADD, DIVIDE, AUTO = MERGES = "add", "divide", "auto"
#: Kernels that may be expected to hold a weight whose differences are added.
MOST_ADDED = 2.0


def expected_holders(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How many kernels hold an element of each variable, on average, of the shares that each kernel has of them."""
    return {name: sum(share[name] for share in shares) for name in shares[0]} if shares else {}


def divided_variables(way: str, holders: Mapping[str, float]) -> frozenset[str]:
    """The variables whose differences are divided, by a way of :data:`MERGES` and the kernels expected to hold them."""
    return frozenset(name for name, count in holders.items() if way == DIVIDE or (way == AUTO and count > MOST_ADDED))


class GlobalModel:
    """The weights of the global network. One thread reads and merges: no set has a part of a merge.

    Parameters
    ----------
    parameters : Parameters
        First values of all variables, by name.
    divided : collection of str
        Variables whose differences are divided by the kernels that hold a weight.
    """

    def __init__(self, parameters: Parameters, divided: frozenset[str] = frozenset()) -> None:
        self._values = {name: np.array(values, np.float32) for name, values in parameters.items()}
        self._holders = {name: np.zeros(values.shape, np.int16) for name, values in self._values.items()
                         if name in divided}

    def held(self, parts: Mapping[str, LocalPart]) -> dict[str, Floats]:
        """The weights of a local network, times their factors, by name, each in the shape of its part; a kernel holds
        them from now on."""
        for name, counts in self._holders.items():
            counts[parts[name].place] += 1
        return {name: np.ascontiguousarray(part.cut(self._values[name]) * np.float32(part.factor))
                for name, part in parts.items()}

    def merge(self, parts: Mapping[str, LocalPart], differences: Mapping[str, NDArray[Any]], power: float = -1.0
              ) -> None:
        """Merge the differences that a kernel has found, which holds these parts no longer.

        Parameters
        ----------
        parts, differences : mapping of str
            By name; differences are of weights times the parts' factors, in the shapes of the parts.
        power : float
            Of its factor, by which a part's differences are multiplied: -1 for differences of the weights that were
            held.
        """
        for name, part in parts.items():
            place = part.place
            change: NDArray[Any] = differences[name] * np.float32(part.factor**power)
            if name in self._holders:
                change = change / self._holders[name][place]
                self._holders[name][place] -= 1
            self._values[name][place] += change

    def release(self, parts: Mapping[str, LocalPart]) -> None:
        """Note that a kernel holds these parts no longer, and has no differences of them."""
        for name, counts in self._holders.items():
            counts[parts[name].place] -= 1

    def values(self) -> dict[str, Floats]:
        """A copy of all weights, by name."""
        return {name: values.copy() for name, values in self._values.items()}
