"""What runs a step for the host, whatever is behind it: dies and their driver, or numpy."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer


class Executor(Protocol):
    """Runs one step again and again, and lets the host read and write between.

    Pieces of places are those of the step's :class:`~plinth.lower.places.HostView`; ``place`` is that of a batch among
    those that lie in memory at once, of inputs and targets.
    """

    #: Cycles of all steps; 0 of what counts none.
    cycles: int
    #: Whether it counts cycles and words.
    counts: bool

    def read(self, die: int, buffer: Buffer) -> NDArray[Any]:
        """Words ``[rows, columns]``."""
        ...

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Words, as they are."""
        ...

    def read_floats(self, die: int, buffer: Buffer) -> NDArray[np.float32]:
        """Numbers ``[rows, columns]``."""
        ...

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Numbers, rounded to those of the dies."""
        ...

    def step(self, place: int) -> int:
        """One step, of a batch; its cycles."""
        ...

    def saturations(self, die: int) -> dict[str, int] | None:
        """Numbers that were beyond a fixed-point format so far; None of other formats."""
        ...
