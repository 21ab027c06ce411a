"""What runs a step for the host, whatever is behind it: dies and their driver, in one process or several, or numpy."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.statistics import DieStatistics

#: A die, and a piece of one of its places.
Piece = tuple[int, Buffer]


class Executor(Protocol):
    """Runs one step again and again, and lets the host read and write between.

    Dies may live in several processes, each with an executor of its own. All these processes run the same host code on
    the same samples: each writes the words of its own dies, and whatever is read, of any dies, comes to all. So reads,
    statistics and waits are *collective*: every process calls them, in the same order, with the same arguments. An
    error of one process ends such a call in all.

    Pieces of places are those of the step's :class:`~plinth.lower.places.HostView`, which knows tensors and variables
    by name; ``place`` is that of a batch among those that lie in memory at once, of inputs and targets.
    """

    #: Cycles of all steps; 0 of what counts none.
    cycles: int

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies that live in this process."""
        ...

    def collect(self, pieces: Sequence[Piece]) -> list[NDArray[Any]]:
        """Words ``[rows, columns]`` of each piece; collective."""
        ...

    def collect_floats(self, pieces: Sequence[Piece]) -> list[NDArray[np.float32]]:
        """Numbers ``[rows, columns]`` of each piece; collective."""
        ...

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Words of a die of this process, as they are."""
        ...

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Numbers of a die of this process, rounded to those of the dies."""
        ...

    def rewrite(self, number: int, task: int, word: int, value: int) -> None:
        """Another value in a word of a descriptor: of a task of a die of this process; nothing where there are no
        descriptors."""
        ...

    def start(self, *, place: int = 0) -> None:
        """Start one step, of a batch, on the dies of this process; see :meth:`wait`."""
        ...

    def wait(self) -> int:
        """Await the step that was started, of all processes; its cycles. Collective."""
        ...

    def step(self, place: int) -> int:
        """One step, of a batch, from its start to its end; its cycles. Collective."""
        ...

    def statistics(self) -> list[DieStatistics]:
        """What each die has counted since :meth:`clear_counters`; nothing at all of what counts nothing. Collective."""
        ...

    def saturated(self) -> list[dict[str, int]] | None:
        """Of each fixed-point die, how many numbers were beyond the format so far, by what they were; None of other
        formats. Collective."""
        ...

    def clear_counters(self) -> None:
        """Count anew from here."""
        ...
