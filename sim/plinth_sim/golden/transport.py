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
    """A message from one die to another, which it names by their numbers."""

    source: int
    destination: int


@dataclass(frozen=True)
class Tile(Message):
    """A tile that the destination stores, or adds, row by row; then its update counter ``arrival`` advances."""

    rows: Rows
    arrival: int | None


@dataclass(frozen=True)
class Advance(Message):
    """An update counter of the destination advances by one."""

    counter: int


@dataclass(frozen=True)
class RingChunks(Message):
    """Chunks of a collective on their way to the ring successor, in the order in which
    :func:`plinth_sim.golden.collective.member` yields them."""

    group: int
    message: int
    words: NDArray[np.uint32]


@dataclass(frozen=True)
class Failure(Message):
    """The source die has stopped with an error, for which the destination is to stop as well."""


@dataclass(frozen=True)
class Met(Message):
    """The source's process has come to a barrier of all processes, with a value that it tells the others; what it sends
    from now on belongs to what runs behind the barrier. Sent once to each process, between the first dies of both."""

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
            If that process has ended.
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
class PendingArrivals:
    """Messages that a die has received and that have not taken effect yet, in the order of each sender.

    Tiles that are stored, and advances, take effect as they come. Tiles that are added wait until the die needs what
    they advance, and then take effect in the order of the senders' numbers, whichever came first: so sums do not
    depend on when processes run. What a die has sent behind such a tile waits with it.
    """

    held: dict[int, deque[Tile | Advance]] = field(default_factory=dict)

    def take(self, message: Tile | Advance) -> bool:
        """Accept a message: True if it takes effect at once, else it is queued."""
        queue = self.held.get(message.source)
        if not queue and not (isinstance(message, Tile) and message.rows.adds):
            return True
        self.held.setdefault(message.source, deque()).append(message)
        return False

    def needed(self, missing: Mapping[int, int]) -> list[Tile | Advance]:
        """Take from the queues the messages that let update counters advance by ``missing``, in the order in which
        they take effect; none if not all counters can."""
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
        """Take all messages from the queues, in the order in which they take effect."""
        messages = [message for source in sorted(self.held) for message in self.held[source]]
        self.held.clear()
        return messages
