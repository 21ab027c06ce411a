"""What a device is measured by: training batches of networks, of which each operation is timed by itself.

A device gives the seconds of a batch, and, where it can tell, those of forward propagation and of each operation. All
of them train by Adagrad, as Deep3 does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.network.network import Network
from plinth.profile.works import BatchWork, batch_works
from plinth.update.kinds import ADAGRAD
from plinth.update.rule import UpdateRule, rule_for
from plinth_hw.isa.parameters import DieParameters

Floats = NDArray[np.float32]
#: What follows a task's name: the number of its piece.
_PIECE = re.compile(r"\[[^\]]*\]|\.\d+")
#: Ends of operations' names, and what works call them.
_ENDS = {".all_reduce": ".update", ".backward.sum": ".backward", ".down": ".forward", ".across": ".forward",
         ".backward_down": ".backward", ".backward_across": ".backward"}


@dataclass(frozen=True)
class MeasuredBatch:
    """A training batch that a device was timed at.

    Attributes
    ----------
    network : Network
    batch : int
        Samples.
    seconds : float
        Of forward and backward propagation and update.
    forward_seconds : float or None
        Of forward propagation and loss alone; None: the device does not tell.
    operations : dict of str to float
        Seconds of each operation by the name that :class:`~plinth.profile.works.BatchWork` has of it; empty: the device
        does not tell.
    """

    network: Network
    batch: int
    seconds: float
    forward_seconds: float | None = None
    operations: dict[str, float] = field(default_factory=dict)

    def least(self, other: MeasuredBatch) -> MeasuredBatch:
        """The shorter of two measurements of one batch, time by time."""
        forward = [seconds for seconds in (self.forward_seconds, other.forward_seconds) if seconds is not None]
        return replace(self, seconds=min(self.seconds, other.seconds), forward_seconds=min(forward, default=None),
                       operations={name: min(seconds, other.operations.get(name, seconds))
                                   for name, seconds in self.operations.items()})

    def works(self) -> list[tuple[BatchWork, float]]:
        """The operations whose seconds are known, with these."""
        return [(work, self.operations[work.operation]) for work in batch_works(self.network, self.batch)
                if work.operation in self.operations]


@dataclass(frozen=True)
class TimedTransfer:
    """A transfer that was timed: its kind, of :data:`~plinth.profile.works.TRANSFERS`, words and seconds."""

    kind: str
    words: int
    seconds: float


class BenchDevice(Protocol):
    """Interface of a device that is profiled."""

    @property
    def name(self) -> str:
        """The device as the command line names it."""
        ...

    @property
    def rounds(self) -> int:
        """How often all batches are timed: times by the clock on the wall differ, cycles do not."""
        ...

    @property
    def channel_step(self) -> int:
        """What widths of hidden layers are multiples of."""
        ...

    @property
    def conditions(self) -> dict[str, str]:
        """What the measurement depends on, as reports say it: clock, preset, threads."""
        ...

    def holds(self, network: Network, batch: int) -> bool:
        """Whether training the network fits the device's memory.

        Raises
        ------
        UserError
            If the network cannot be trained on the device, whatever its memory.
        """
        ...

    def batch(self, network: Network, batch: int) -> MeasuredBatch:
        """Time a training batch.

        Raises
        ------
        UserError
            If the network does not fit the device, or cannot be trained on it.
        """
        ...

    def transfers(self, words: Iterable[int]) -> list[TimedTransfer]:
        """Time transfers to and from the device, each of so many words."""
        ...

    def memory_bytes(self, network: Network, batch: int) -> int:
        """Bytes of memory that training the network takes on the device, as lowering or numpy's executor has them.

        Raises
        ------
        UserError
            If the network cannot be trained on the device.
        """
        ...


def training_rule(parameters: DieParameters) -> UpdateRule:
    """Adagrad, as dies of some parameters do it best: the rule of all batches that are measured."""
    return rule_for(parameters, ADAGRAD)


def operation_of(name: str) -> str:
    """The operation, as works name it, of a task or an operation of a step: without numbers of pieces."""
    name = _PIECE.sub("", name)
    return next((name.removesuffix(end) + known for end, known in _ENDS.items() if name.endswith(end)), name)


def random_batch(network: Network, batch: int) -> tuple[Floats, Floats]:
    """Samples ``[batch, ...]`` and one-hot targets ``[batch, outputs]``, the same each time."""
    generator = np.random.default_rng(0)
    outputs = network.shapes[network.layers[-1].name].inputs[0].elements
    return generator.random((batch, *network.input), np.float32), np.eye(outputs, dtype=np.float32)[
        generator.integers(0, outputs, batch)]
