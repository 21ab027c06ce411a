"""What dies of the golden model send to each other, and how it comes to dies of other processes.

A process owns some dies of an array (:class:`plinth_sim.golden.array.GoldenArray`). What its dies send to each other
is delivered on the spot; what they send to dies of other processes goes through a :class:`Transport`: tiles, advances
of counters, ring chunks and failures. Processes themselves meet by it, and tell each other what their hosts have read.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth_sim.golden.transfer import Rows


@dataclass(frozen=True)
class Message:
    """From a die to a die, by their numbers."""

    source: int
    destination: int


@dataclass(frozen=True)
class Tile(Message):
    """Rows of words to store, or to add; then ``arrival``, a counter of the destination, advances."""

    rows: Rows
    arrival: int | None


@dataclass(frozen=True)
class Advance(Message):
    """One more in a counter of the destination."""

    counter: int


@dataclass(frozen=True)
class RingChunks(Message):
    """To the next member of a ring: what :func:`plinth_sim.golden.collective.member` gives, in its order."""

    group: int
    message: int
    words: NDArray[np.uint32]


@dataclass(frozen=True)
class Failure(Message):
    """The source has stopped with an error; the destination is to stop as well."""


@dataclass(frozen=True)
class Met(Message):
    """The source's process has come to a meeting of all, where it tells something; what it sends from now on belongs
    to what is run after the meeting. Sent once from process to process, between the first die of each."""

    told: Any = None


class Transport(Protocol):
    """Carries messages between the processes that own the dies of an array.

    Members
    -------
    processes : sequence of sequences of int
        The dies of each process, in the order of the processes: each die of the array once, each process at least one.
    own : int
        Which of the processes this one is.
    """

    @property
    def processes(self) -> Sequence[Sequence[int]]:
        """The dies of each process."""

    @property
    def own(self) -> int:
        """Number of this process."""

    def send(self, message: Message) -> None:
        """Hand over a message to the process that owns its destination; does not wait until that process takes it.

        What one process sends to another arrives in order, whichever of its dies is the source.

        Raises
        ------
        PeerLostError
            As :meth:`receive`.
        """

    def receive(self, seconds: float) -> Message | None:
        """The next message for a die of this process; None if ``seconds`` pass without one, or no process is left that
        could send one.

        Raises
        ------
        PeerLostError
            If nothing is there, and a process has ended without leaving the transport in order.
        """


class PeerLostError(ConnectionError):
    """The process of some dies is gone; ``why`` says what it told of that, in one line, if anything."""

    def __init__(self, dies: Iterable[int], why: str = ""):
        numbers = sorted(dies)
        super().__init__(f"{'die' if len(numbers) == 1 else 'dies'} {', '.join(map(str, numbers))} lost: their "
                         f"process has ended{f' with an error: {why}' if why else ''}")


@dataclass
class Arrivals:
    """What other dies have sent to one die and waits to take effect, in the order of each sender.

    Tiles that are stored, and advances, take effect as they come. Tiles that are added wait until the die needs what
    they advance, and then take effect in the order of the senders' numbers, whichever came first: so sums do not
    depend on when processes run. What a die has sent behind such a tile waits with it.
    """

    held: dict[int, deque[Tile | Advance]] = field(default_factory=dict)

    def take(self, message: Tile | Advance) -> bool:
        """Whether a message takes effect at once; it is kept otherwise."""
        queue = self.held.get(message.source)
        if not queue and not (isinstance(message, Tile) and message.rows.adds):
            return True
        self.held.setdefault(message.source, deque()).append(message)
        return False

    def needed(self, missing: Mapping[int, int]) -> list[Tile | Advance]:
        """What lets counters advance so often, in the order in which it is to take effect; nothing if not all can."""
        left = dict(missing)
        lengths: dict[int, int] = {}
        for source in sorted(self.held):
            for place, message in enumerate(self.held[source], start=1):
                counter = message.arrival if isinstance(message, Tile) else message.counter
                if counter is not None and left.get(counter, 0) > 0:
                    left[counter] -= 1
                    lengths[source] = place
        if any(left.values()):
            return []
        return [self.held[source].popleft() for source, length in lengths.items() for _ in range(length)]

    def rest(self) -> list[Tile | Advance]:
        """All that is still kept, in the order in which it is to take effect."""
        found = [message for source in sorted(self.held) for message in self.held[source]]
        self.held.clear()
        return found
