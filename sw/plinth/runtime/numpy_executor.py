"""A step in numpy as the host runs it: beside dies and their driver, another executor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.lower.places import HostView, host_view
from plinth.runtime.memory import Floats
from plinth.runtime.numpy_step import NumpyStep
from plinth.step.step import Step


class NumpyExecutor:
    """Runs a step in numpy, in this process (:class:`~plinth.driver.executor.Executor`).

    Parameters
    ----------
    step : Step

    Raises
    ------
    UserError
        As :class:`~plinth.runtime.numpy_step.NumpyStep`.
    """

    def __init__(self, step: Step) -> None:
        self._made = NumpyStep(step)
        self.cycles, self.counts = 0, False
        #: Where the host reads and writes.
        self.view = HostView(**host_view(step))

    def step(self, place: int = 0) -> int:
        """One step, of the inputs and targets that lie in memory."""
        self._made.run()
        return 0

    def read(self, die: int, buffer: Buffer) -> NDArray[np.uint32]:
        """Words ``[rows, columns]``."""
        return self.read_floats(die, buffer).view(np.uint32)

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Words, as they are."""
        self._made.memories[die].view(buffer).view(np.uint32)[...] = values

    def read_floats(self, die: int, buffer: Buffer) -> Floats:
        """Numbers ``[rows, columns]``."""
        return self._made.memories[die].view(buffer).copy()

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Numbers, in FP32."""
        self._made.memories[die].view(buffer)[...] = values

    def saturations(self, die: int) -> None:
        """None: it is no fixed-point die."""
