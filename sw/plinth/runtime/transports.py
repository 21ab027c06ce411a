"""Transports between the processes that own the dies of a golden array: what all have in common, and queues.

A process enters its end of a transport, runs the host's code within, and leaves it: in order, or with an error, which
the other processes hear of instead of waiting. What carries letters from process to process is a subclass's: it has to
keep the order of those of one process, and to take each without waiting until the other reads it.
"""

import queue
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from plinth.errors import cause
from plinth_sim.golden.transport import Message, PeerLostError, RingChunks, Tile


@dataclass(frozen=True)
class Left:
    """The last letter of a process: that it has left, in order, or why not, in one line."""

    why: str | None = None


#: What comes from a process; ``Left("")`` also where it has broken off without a word.
Letter = Message | Left


class ProcessTransport(ABC):
    """One process's end of a transport (:class:`~plinth_sim.golden.transport.Transport`).

    Parameters
    ----------
    processes : sequence of sequences of int
        The dies of each process; they may have different numbers of them.
    own : int
        Which of the processes this one is.

    Attributes
    ----------
    words, messages : dict of int to int
        What this process has sent each other one in steps so far.
    """

    def __init__(self, processes: Sequence[Sequence[int]], own: int) -> None:
        self.words: dict[int, int] = defaultdict(int)
        self.messages: dict[int, int] = defaultdict(int)
        self.processes, self.own = processes, own
        self._process_of = {die: number for number, dies in enumerate(processes) for die in dies}
        #: Other processes that have left, by what they said of it.
        self._left: dict[int, Left] = {}

    @abstractmethod
    def _post(self, process: int, letter: Letter) -> None:
        """Hand over a letter to another process, without waiting for it; raises ``OSError`` if it is gone."""

    @abstractmethod
    def _take(self, seconds: float) -> tuple[int, Letter] | None:
        """The next letter and the process that it comes from; None if so many seconds pass without one."""

    def send(self, message: Message) -> None:
        """Hand over a message to the process that owns its destination.

        Raises
        ------
        PeerLostError
            If that process is gone.
        """
        process = self._process_of[message.destination]
        if isinstance(message, Tile | RingChunks):
            self.count(process, message.rows.words.size if isinstance(message, Tile) else message.words.size)
        try:
            self._post(process, message)
        except OSError as error:
            raise self._lost([process]) from error

    def count(self, process: int, words: int) -> None:
        """Count a message of a step to another process."""
        self.words[process] += words
        self.messages[process] += 1

    def receive(self, seconds: float) -> Message | None:
        """The next message for a die of this process; None if ``seconds`` pass without one, or all have left.

        Raises
        ------
        PeerLostError
            If nothing is there, and a process has left with an error or broken off.
        """
        while True:
            lost = [process for process, left in self._left.items() if left.why is not None]
            waits = seconds > 0 and not lost and len(self._left) < len(self.processes) - 1
            received = self._take(seconds if waits else 0)
            if received is None:
                if seconds > 0 and lost:
                    raise self._lost(lost)
                return None
            process, letter = received
            if not isinstance(letter, Left):
                return letter
            # Who has left in order may close its end, which then breaks off.
            self._left.setdefault(process, letter)

    def _lost(self, processes: Sequence[int]) -> PeerLostError:
        reasons = [left.why for process in processes if (left := self._left.get(process)) and left.why]
        return PeerLostError((die for process in processes for die in self.processes[process]), *reasons[:1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Leave: the others are told how."""
        why = None if error is None else cause(error)
        for process in range(len(self.processes)):
            if process != self.own:
                with suppress(OSError):
                    self._post(process, Left(why))


class QueueTransport(ProcessTransport):
    """A transport whose letters come by a queue, into which whoever carries them puts them, in a thread of its own."""

    def __init__(self, processes: Sequence[Sequence[int]], own: int) -> None:
        super().__init__(processes, own)
        self.letters: queue.SimpleQueue[tuple[int, Letter]] = queue.SimpleQueue()
        #: Of each other process what carries a letter there, or raises ``OSError`` if it is gone.
        self.carriers: dict[int, Callable[[Letter], None]] = {}

    def _post(self, process: int, letter: Letter) -> None:
        self.carriers[process](letter)

    def _take(self, seconds: float) -> tuple[int, Letter] | None:
        try:
            return self.letters.get(seconds > 0, seconds or None)
        except queue.Empty:
            return None
