"""A rank of an MPI program as a device: messages between two ranks, and the numpy of a host beside them.

The messages are those of :class:`~plinth.runtime.mpi_messages.MpiMessages`, as steps in numpy send them, to and fro
between two ranks that are started for it. Batches are timed in this process.
"""

import json
import time
from collections.abc import Iterable

from plinth.errors import UserError
from plinth.output import json_text
from plinth.profile.batches import TimedTransfer
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.works import MESSAGE
from plinth.runtime.launcher import launched, printed
from plinth.runtime.mpi import MpiTransport, world
from plinth.runtime.mpi_messages import MpiMessages

#: Times that a message goes to and fro, and those of which the least time does not count: what comes first is slower.
TURNS, WARM = 40, 5


class RankDevice(NumpyDevice):
    """A rank of numpy (:class:`~plinth.profile.batches.BenchDevice`).

    Raises
    ------
    UserError
        If this process is one of several that a launcher has started: it starts the two ranks itself.
    """

    name = "mpi"

    def __init__(self) -> None:
        if launched():
            raise UserError("device mpi starts two ranks itself, and is one of several processes here; leave mpiexec "
                            "out")

    def transfers(self, words: Iterable[int]) -> list[TimedTransfer]:
        """Time messages one way between two ranks.

        Raises
        ------
        UserError
            If there is no launcher of MPI, or its ranks fail.
        """
        sizes = list(words)
        text = printed(2, ["-c", f"from plinth.profile.ranks import print_messages; print_messages({sizes!r})"])
        return [TimedTransfer(MESSAGE, size, seconds) for size, seconds in zip(sizes, json.loads(text), strict=True)]


def print_messages(sizes: list[int]) -> None:
    """Run a rank's part: a message of each size goes to and fro, and the first rank prints the shortest seconds of one
    way. Collective."""
    ranks = world()
    found = []
    with MpiTransport(ranks.communicator, [(rank,) for rank in range(ranks.size)], nap_seconds=1.0) as transport:
        for size in sizes:
            messages = MpiMessages(transport)
            incoming, outgoing = (end(1 - ranks.rank, 0, size) for end in (messages.incoming, messages.outgoing))
            found.append(min([_turn(ranks.rank, messages, incoming, outgoing) for _ in range(TURNS)][WARM:]))
    if ranks.rank == 0:
        print(json_text(found))


def _turn(rank: int, messages: MpiMessages, incoming: object, outgoing: object) -> float:
    """Seconds of one way, of a message that goes to the other rank and comes back."""
    messages.begin()
    messages.told(None)
    started = time.perf_counter()
    if rank == 0:
        outgoing.send()  # type: ignore[attr-defined]
    messages.wait(incoming.arrived)  # type: ignore[attr-defined]
    if rank:
        outgoing.send()  # type: ignore[attr-defined]
    return (time.perf_counter() - started) / 2
