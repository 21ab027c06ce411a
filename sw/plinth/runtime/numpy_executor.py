"""A step in numpy as the host runs it: beside dies and their driver, another executor."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Piece
from plinth.driver.statistics import DieStatistics
from plinth.lower.places import HostView, host_view
from plinth.runtime.memory import Floats
from plinth.runtime.numpy_step import NumpyStep
from plinth.step.step import Step


class NumpyExecutor:
    """Runs a step in numpy, in this process (:class:`~plinth.driver.executor.Executor`). It counts nothing.

    Parameters
    ----------
    step : Step

    Raises
    ------
    UserError
        As :class:`~plinth.runtime.numpy_step.NumpyStep`.
    """

    def __init__(self, step: Step) -> None:
        self._step = NumpyStep(step)
        self.cycles = 0
        #: All dies.
        self.numbers: Sequence[int] = range(step.dies)
        #: Where the host reads and writes.
        self.view = HostView(**host_view(step))

    def start(self, *, place: int = 0) -> None:
        """Nothing yet: the step runs while it is awaited."""

    def wait(self) -> int:
        """One step, of the inputs and targets that lie in memory."""
        self._step.run()
        return 0

    def step(self, place: int = 0) -> int:
        """As :meth:`wait`."""
        return self.wait()

    def agree(self, what: str, settings: Mapping[str, str]) -> None:
        """Nothing: all dies live in this process."""

    def collect(self, pieces: Sequence[Piece]) -> list[NDArray[np.uint32]]:
        """Words ``[rows, columns]`` of each piece."""
        return [values.view(np.uint32) for values in self.collect_floats(pieces)]

    def collect_floats(self, pieces: Sequence[Piece]) -> list[Floats]:
        """Numbers ``[rows, columns]`` of each piece."""
        return [self._step.memories[die].view(buffer).copy() for die, buffer in pieces]

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Words, as they are."""
        self._step.memories[die].view(buffer).view(np.uint32)[...] = values

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Numbers, in FP32."""
        self._step.memories[die].view(buffer)[...] = values

    def rewrite(self, number: int, task: int, word: int, value: int) -> None:
        """Nothing: there are no descriptors."""

    def statistics(self) -> list[DieStatistics]:
        """None."""
        return []

    def saturated(self) -> None:
        """None: it is no fixed-point die."""

    def clear_counters(self) -> None:
        """Nothing: there are none."""
