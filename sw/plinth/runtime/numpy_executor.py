"""A step in numpy as the host runs it: beside dies and their driver, another executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Piece, check_dies, check_digests, check_piece
from plinth.driver.statistics import DieStatistics
from plinth.errors import UserError
from plinth.host import free_memory
from plinth.lower.places import HostView, host_view
from plinth.runtime.memory import Floats
from plinth.runtime.numpy_step import NumpyStep
from plinth.runtime.overlay import Overlay
from plinth.step.operations import Operation
from plinth.step.step import Step
from plinth.units import size

if TYPE_CHECKING:
    from plinth.runtime.mpi_messages import MpiMessages

#: Bytes of a word in numpy: FP32.
WORD_BYTES = 4

class NumpyExecutor:
    """Runs a step in numpy (:class:`~plinth.driver.executor.Executor`), of all dies or of those of one rank of an MPI
    program. It counts nothing on dies.

    Parameters
    ----------
    step : Step
    messages : MpiMessages or None
        To and from other ranks, each of which makes an executor of the same step. Collective.

    Raises
    ------
    UserError
        If dies compute in another format than FP32, or keep states in 16 bits; if the machine has too little memory; if
        ranks have different steps; and of all that is collective if another rank has ended.
    """

    def __init__(self, step: Step, messages: MpiMessages | None = None) -> None:
        self._messages = messages
        #: What it runs.
        self.built = step
        self._ranks, own = ([0] * step.dies, 0) if messages is None else (messages.ranks, messages.own)
        dies = [die for die, rank in enumerate(self._ranks) if rank == own]
        overlay = Overlay(step, dies)
        _check_memory(overlay, len(dies), 1 if messages is None else messages.neighbours)
        if messages is not None:
            check_digests([digest[:16] for digest in messages.told(step.digest())])
        self._step = NumpyStep(step, overlay, self._ranks, own, messages)
        self.cycles = 0
        #: All dies of this process.
        self.numbers: Sequence[int] = sorted(self._step.memories)
        #: Where the host reads and writes.
        self.view = HostView(**host_view(step, lists=False))

    def start(self, *, place: int = 0) -> None:
        """Start a step: nothing happens before it is awaited."""

    def wait(self) -> int:
        """Run one step on the inputs and targets that lie in memory; 0 cycles."""
        self._step.run()
        return 0

    def timed(self) -> list[tuple[Operation, float]]:
        """Run one step on the inputs and targets that lie in memory: its operations in their order, and the seconds of
        each (:meth:`~plinth.runtime.numpy_step.NumpyStep.timed`)."""
        return self._step.timed()

    def predict(self) -> None:
        """Run fprop and loss alone, of the inputs that lie in memory; collective."""
        self._step.predict()

    def predictions(self, x: NDArray[Any]) -> Iterator[Floats]:
        """What the network predicts of samples ``[samples, ...]`` by the weights in memory, a batch of the step at a
        time: ``[samples, outputs]``. The inputs in memory are others then; collective.

        Raises
        ------
        UserError
            If the samples are no real numbers of the shape of the network's input.
        """
        batch = self.view.predictions.samples
        for first in range(0, len(x), batch):
            samples = x[first:first + batch]
            # What is left of the last batch is predicted, too, and dropped.
            whole = np.concatenate([samples, np.zeros((batch - len(samples), *samples.shape[1:]), samples.dtype)])
            for tensor in self.view.inputs:
                tensor.spread(whole, self)
            self.predict()
            yield self.view.predictions.gather(self).reshape(batch, -1)[:len(samples)]

    def step(self, place: int = 0) -> int:
        """Run one step, as :meth:`wait` does; 0 cycles."""
        return self.wait()

    def told(self, point: str, value: Any = None) -> list[Any]:
        """What each process says at a point of the host's code that all come to. Collective."""
        return [value] if self._messages is None else self._messages.told(value)

    def collect(self, pieces: Sequence[Piece]) -> list[NDArray[np.uint32]]:
        """Read the words ``[rows, columns]`` of each piece. Collective."""
        return [values.view(np.uint32) for values in self.collect_floats(pieces)]

    def collect_floats(self, pieces: Sequence[Piece]) -> list[Floats]:
        """Read the numbers ``[rows, columns]`` of each piece. Collective."""
        check_dies((die for die, _ in pieces), len(self._ranks))
        own = {place: self._step.memories[die].view(buffer).copy() for place, (die, buffer) in enumerate(pieces)
               if die in self._step.memories}
        if self._messages is None:
            return list(own.values())
        sizes = [buffer.rows * buffer.columns for _, buffer in pieces]
        counts = [0] * self._messages.size
        for (die, _), words in zip(pieces, sizes, strict=True):
            counts[self._ranks[die]] += words
        flat = np.concatenate([values.ravel() for values in own.values()] or [np.empty(0, np.float32)])
        ends = np.cumsum([0, *counts])
        together = self._messages.gathered(flat, counts)
        left = [together[first:end] for first, end in pairwise(ends)]
        whole = []
        for (die, buffer), words in zip(pieces, sizes, strict=True):
            rank = self._ranks[die]
            whole.append(left[rank][:words].reshape(buffer.rows, buffer.columns))
            left[rank] = left[rank][words:]
        return whole

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Write words ``[rows, columns]`` of a die, bit for bit.

        Raises
        ------
        UserError
            If there is no such die, or the words do not fit the buffer.
        """
        check_dies((die,), len(self._ranks))
        check_piece(die, buffer, values, "words")
        self._step.memories[die].view(buffer).view(np.uint32)[...] = values

    def write_floats(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        """Write numbers ``[rows, columns]`` of a die, in FP32.

        Raises
        ------
        UserError
            If there is no such die, or the numbers do not fit the buffer.
        """
        check_dies((die,), len(self._ranks))
        check_piece(die, buffer, values, "numbers")
        self._step.memories[die].view(buffer)[...] = values

    def rewrite(self, number: int, task: int, word: int, value: int) -> None:
        """Ignore a word of a descriptor, since there are no descriptors."""

    def statistics(self) -> list[DieStatistics]:
        """An empty list, since nothing is counted on dies."""
        return []

    def saturated(self) -> None:
        """None, since numbers are not of fixed point."""

    def clear_counters(self) -> None:
        """Do nothing, since there are no counters."""


def step_bytes(overlay: Overlay, dies: int) -> int:
    """Bytes of memory that numpy writes in a step of so many dies of a process."""
    return WORD_BYTES * overlay.words() * dies


def _check_memory(overlay: Overlay, dies: int, sharing: int) -> None:
    """Refuse to run so many dies where their places do not fit the memory, which so many processes share."""
    needed, free = step_bytes(overlay, dies), free_memory()
    if free is not None and needed > free // sharing:
        share = f", of which this process has 1/{sharing}" if sharing > 1 else ""
        raise UserError(f"{dies} {'die takes' if dies == 1 else 'dies take'} {size(needed)} in numpy, and "
                        f"{size(free)} are free{share}; give a smaller batch, or share more dies among more hosts "
                        "(plinth run)")
