"""Messages of a step, one by one: what Table 3 sums up in formulas, counted.

Workers are numbered machine by machine; servers share machines with workers, and what stays on a machine is no message.
Nothing here knows a formula.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class CountedMessage(NamedTuple):
    """Words from a worker or its machine's server to another."""

    sender: int
    receiver: int
    words: float


def ring(workers: int, words: float) -> Iterator[CountedMessage]:
    """An all-reduce: chunks of equal size go round, first to be summed, then as sums."""
    for _step in range(2 * (workers - 1)):
        for worker in range(workers):
            yield CountedMessage(worker, (worker + 1) % workers, words / workers)


def gathered(workers: int, words: float) -> Iterator[CountedMessage]:
    """An AllGatherv: the rows of each worker, ``words`` of them, go once round the ring."""
    for _step in range(workers - 1):
        for worker in range(workers):
            yield CountedMessage(worker, (worker + 1) % workers, words)


def served(askers: Sequence[int], servers: Sequence[int], words: float) -> Iterator[CountedMessage]:
    """Variables, one a server, of which each asker pulls ``words`` and pushes as many."""
    for server in servers:
        for asker in askers:
            yield CountedMessage(server, asker, words)
            yield CountedMessage(asker, server, words)


def machine_words(messages: Iterator[CountedMessage], machines: int, workers: int = 1) -> list[float]:
    """Words that each machine sends to others and receives from them, together."""
    words = [0.0] * machines
    for message in messages:
        sender, receiver = message.sender // workers, message.receiver // workers
        if sender != receiver:
            words[sender] += message.words
            words[receiver] += message.words
    return words
