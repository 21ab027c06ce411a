"""What dies of the golden model send to each other, and how it comes to dies of other processes.

A process owns some dies of an array (:class:`plinth_sim.golden.array.GoldenArray`). What its dies send to each other
is delivered on the spot; what they send to dies of other processes goes through a :class:`Transport`: tiles, advances
of counters, ring chunks, failures, and that they have come to a meeting of all processes.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
    """The source has ended what it ran; what it sends from now on belongs to what is run after the meeting."""


class Transport(Protocol):
    """Carries messages to and from dies that other arrays own."""

    def send(self, message: Message) -> None:
        """Hand over a message to the array that owns its destination; does not wait until that array takes it.

        What one array sends to another arrives in order.

        Raises
        ------
        PeerLostError
            As :meth:`receive`.
        """

    def receive(self, seconds: float) -> Message | None:
        """The next message for a die of this array; None if ``seconds`` pass without one, or no array is left that
        could send one.

        Raises
        ------
        PeerLostError
            If nothing is there, and a process has ended without leaving the transport in order.
        """


class PeerLostError(ConnectionError):
    """The process of some dies is gone."""

    def __init__(self, dies: Iterable[int]):
        numbers = sorted(dies)
        super().__init__(f"{'die' if len(numbers) == 1 else 'dies'} {', '.join(map(str, numbers))} lost: their "
                         "process has ended")


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
