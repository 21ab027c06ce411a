"""What coordinator and kernels send each other: sets of weights, and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plinth.network.local import Units
from plinth.runtime.memory import Floats


@dataclass(frozen=True, kw_only=True)
class LocalSet:
    """The weights of a local network, which a kernel is to train.

    Attributes
    ----------
    number : int
        How many sets the kernel was sent before.
    units : Units
        Those that the local network has, by layer.
    weights : mapping of str to array
        Of the local network, by name.
    batches : int
        Batches to train on before the kernel answers, n_push.
    """

    number: int
    units: Units
    weights: Mapping[str, Floats]
    batches: int

    @property
    def words(self) -> int:
        """Words that are sent: weights, and numbers of units."""
        return sum(values.size for values in self.weights.values()) + sum(len(units) for units in self.units.values())


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a kernel has made of a set.

    Attributes
    ----------
    number : int
        That of the set.
    differences : mapping of str to array
        Weights after training, less those that the device made of what it was sent, by name.
    seconds : float
        That training took by the kernel's own clock.
    counted : dict
        Counters of the device, by name, such as cycles.
    """

    number: int
    differences: Mapping[str, Floats]
    seconds: float = 0.0
    counted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> int:
        """Words that are sent."""
        return sum(values.size for values in self.differences.values())


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The last word of a kernel that trains no more.

    Attributes
    ----------
    why : str
        In one line.
    different : bool
        Its bits were not the golden model's.
    """

    why: str
    different: bool = False
