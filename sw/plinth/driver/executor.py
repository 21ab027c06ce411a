"""The interface by which the host runs training steps: dies behind a driver, in any number of processes, or numpy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.statistics import DieStatistics
from plinth.errors import UserError

#: The number of a die, and a region of its memory.
Piece = tuple[int, Buffer]


def check_digests(digests: Sequence[str]) -> None:
    """Refuse processes that run different programs, whose digests these are.

    Raises
    ------
    UserError
        With the digests.
    """
    if len(set(digests)) > 1:
        raise UserError(f"processes run different programs, of digests {', '.join(digests)}; start all of them with "
                        "the same network, plan and options, of the same version")


def check_dies(dies: Iterable[int], count: int) -> None:
    """Refuse numbers of dies that an array of ``count`` dies does not have.

    Raises
    ------
    UserError
        With the first of them.
    """
    for die in dies:
        if not 0 <= die < count:
            raise UserError(f"there is no die {die} in an array of {count}; give one from 0 to {count - 1}")


def check_piece(die: int, buffer: Buffer, values: NDArray[Any], what: str) -> None:
    """Refuse values ("words" or "numbers" by ``what``) that do not fit the piece of a die's memory they are written to.

    Raises
    ------
    UserError
        If the values are no real numbers, or not ``[rows, row words]`` or ``[rows, columns]``.
    """
    shape = [buffer.rows, buffer.row_words if what == "words" else buffer.columns]
    if list(np.shape(values)) != shape or np.asarray(values).dtype.kind not in "biuf":
        raise UserError(f"{what} of die {die} must be {shape}, as its piece of {buffer.place!r}, not "
                        f"{np.asarray(values).dtype} {list(np.shape(values))}")


def check_settings(what: str, told: Sequence[Mapping[str, str]]) -> None:
    """Refuse processes of different settings, which are texts by name.

    Raises
    ------
    UserError
        With the first that differs.
    """
    for key in dict.fromkeys(key for own in told for key in own):
        texts = dict.fromkeys(own.get(key, "nothing") for own in told)
        if len(texts) > 1:
            raise UserError(f"processes have different {what}: {', '.join(texts)}; start all of them with the same "
                            "options and files")


class Executor(Protocol):
    """Runs a training step any number of times, and reads and writes die memories between steps.

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

    def told(self, point: str, value: Any = None) -> list[Any]:
        """What each process says at a point of the host's code that all come to: texts, numbers, and lists and mappings
        of those. Collective."""
        ...

    def collect(self, pieces: Sequence[Piece]) -> list[NDArray[Any]]:
        """Read the words ``[rows, columns]`` of pieces of any dies' memories. Collective.

        Raises
        ------
        UserError
            If there is no such die.
        """
        ...

    def collect_floats(self, pieces: Sequence[Piece]) -> list[NDArray[np.float32]]:
        """Read the numbers ``[rows, columns]`` of pieces of any dies' memories. Collective."""
        ...

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Write words ``[rows, row words]`` into the memory of a die of this process, bit for bit.

        Raises
        ------
        UserError
            If there is no such die, or the words do not fit the piece.
        """
        ...

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Write numbers ``[rows, columns]`` into the memory of a die of this process, rounded to the dies' format.

        Raises
        ------
        UserError
            If there is no such die, or the numbers do not fit the piece.
        """
        ...

    def rewrite(self, number: int, task: int, word: int, value: int) -> None:
        """Replace a word of a task's descriptor, on a die of this process; of an executor without descriptors nothing
        happens."""
        ...

    def start(self, *, place: int = 0) -> None:
        """Start a training step on the dies of this process, which :meth:`wait` awaits."""
        ...

    def wait(self) -> int:
        """Await the end of the started step in all processes; the cycles that it took. Collective."""
        ...

    def step(self, place: int) -> int:
        """Run one training step on a batch in memory; the cycles that it took. Collective."""
        ...

    def statistics(self) -> list[DieStatistics]:
        """Read the counters of each die, since :meth:`clear_counters`; an empty list where none are. Collective."""
        ...

    def saturated(self) -> list[dict[str, int]] | None:
        """Count the numbers that each fixed-point die has saturated so far, by what they were; None of other formats.
        Collective."""
        ...

    def clear_counters(self) -> None:
        """Set the counters of all dies that live in this process to 0."""
        ...
