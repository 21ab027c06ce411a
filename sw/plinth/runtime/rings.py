"""Sums over rings of dies in numpy: chunks of a message are added in the order of the golden model's rings, whichever
processes have the dies, so that equal gradients give equal bits in any number of processes.

Chunk c of a message belongs to member c mod N, its *owner*, and its sum starts at the member after the owner
(:class:`plinth.sharding.Ring`). In each of N - 1 steps of a reduce-scatter member i hands what it has of the chunks of
owner i - 1 - step on to member i + 1; an all-gather goes round likewise, from each owner on.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from plinth.runtime.memory import Floats
from plinth.step.tasks import Phase

#: Words of gradients that an update scales at a time: they stay in a cache, where those of a large layer would go
#: through memory that is new each step.
UPDATE_WORDS = 1 << 16


class Incoming(Protocol):
    """The receiving end of a message from another process, which comes once a step."""

    #: Its words, once it has come.
    words: Floats

    def arrived(self) -> bool:
        """Whether the message has come."""
        ...


class Outgoing(Protocol):
    """The sending end of a message to another process, once a step."""

    #: What is sent; they may be written until then.
    words: Floats

    def send(self, words: int | None = None) -> None:
        """Send the words, or the first few, without waiting for the other process."""
        ...


class Ends(Protocol):
    """Makes ends of messages between processes, for each step the same, in the same order in both processes."""

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> Incoming:
        """The end of a message from a process; of those of a tag they come in their order. ``place``: where its words
        come, at any time of a step; else they come to a place of their own."""
        ...

    def outgoing(self, rank: int, tag: int, words: int) -> Outgoing:
        """The end of a message to a process."""
        ...


class AllReduce(Incoming, Protocol):
    """A sum over processes by their library, once a step: of ``words``, where the sums come to."""

    def start(self) -> None:
        """Start the sum."""
        ...


class MemberRows(NamedTuple):
    """A member's words of a message: what is summed, and what takes the sums, ``[words]`` each."""

    source: Floats
    target: Floats


class OwnerChunks:
    """The chunks of a message, by their owners.

    Parameters
    ----------
    words, chunk, members : int
        Of the message; of a chunk; of the ring.
    """

    def __init__(self, words: int, chunk: int, members: int) -> None:
        self._chunk, self._members = (chunk, members) if members > 1 else (max(1, words), 1)
        self._rounds, rest = divmod(words, self._chunk * self._members)
        self._rest = [min(max(0, rest - owner * self._chunk), self._chunk) for owner in range(self._members)]

    def words(self, owner: int) -> int:
        """The number of words of a member's chunks."""
        return self._rounds * self._chunk + self._rest[owner]

    def of(self, row: Floats, owner: int) -> list[Floats]:
        """Views of a member's chunks in a row of the message: the whole rounds ``[round, word]``, and what is behind
        them ``[word]``."""
        whole = self._rounds * self._members * self._chunk
        first = whole + owner * self._chunk
        return [row[:whole].reshape(self._rounds, self._members, self._chunk)[:, owner],
                row[first:first + self._rest[owner]]]

    def dense(self, words: Floats) -> list[Floats]:
        """Views of a member's chunks that lie one behind the other, of the same shapes."""
        whole = self._rounds * self._chunk
        return [words[:whole].reshape(self._rounds, self._chunk), words[whole:]]


#: A pass of a ring, begun: it yields what it has to wait for, and goes on once that has come.
Pass = Iterator[Incoming]


class RingPasses:
    """A message of a ring, of the members that live in this process, which take part in one pass each step.

    Parameters
    ----------
    phase : Phase
        UPDATE: ``target -= rate * sum``, then all members get the owners' targets; SUM: the owner's target gets the
        sum; GATHER: all get the owners' targets.
    rate : float
    blocks : OwnerChunks
    rows : sequence of MemberRows or None
        Of each member of the ring, in their order; None: it lives in another process.
    ranks : sequence of int
        The process of each member.
    ends : Ends
        Of messages to other processes; not asked for if there are none.
    tag : int
        Messages to member i have tag + i.
    """

    def __init__(self, phase: Phase, rate: float, blocks: OwnerChunks, rows: Sequence[MemberRows | None],
                 ranks: Sequence[int], ends: Ends, tag: int) -> None:
        self._phase, self._rate, self._blocks = phase, np.float32(rate), blocks
        self._rows = {number: row for number, row in enumerate(rows) if row is not None}
        self._size = len(rows)
        self._incoming: dict[tuple[int, str, int], Incoming] = {}
        self._outgoing: dict[tuple[int, str, int], Outgoing] = {}
        for turn, owner_of in self._turns():
            for step in range(self._size - 1):
                for number in self._rows:
                    before, behind = (number - 1) % self._size, (number + 1) % self._size
                    comes, goes = (blocks.words(owner_of(member, step)) for member in (before, number))
                    if before not in self._rows and comes:
                        self._incoming[number, turn, step] = ends.incoming(ranks[before], tag + number, comes)
                    if behind not in self._rows and goes:
                        self._outgoing[number, turn, step] = ends.outgoing(ranks[behind], tag + behind, goes)
        #: Sums on their way within this process, by member, as long as the longest.
        longest = max(map(blocks.words, range(self._size)))
        self._held = {number: (np.empty(longest, np.float32), np.empty(longest, np.float32))
                      for number in self._rows if phase is not Phase.GATHER and self._size > 1}

    def _turns(self) -> Iterator[tuple[str, Callable[[int, int], int]]]:
        """The turns of a pass, and whose chunks a member hands on in a step."""
        if self._phase is not Phase.GATHER:
            yield "sum", self._summed
        if self._phase is not Phase.SUM:
            yield "gather", self._gathered

    def _summed(self, member: int, step: int) -> int:
        return (member - 1 - step) % self._size

    def _gathered(self, member: int, step: int) -> int:
        return (member - step) % self._size

    def begin(self) -> Pass:
        """Begin a pass: words are read and written while it is gone through."""
        if self._phase is not Phase.GATHER:
            yield from self._sum()
        if self._phase is not Phase.SUM:
            yield from self._gather()

    def _sum(self) -> Pass:
        """Reduce-scatter; then each member does with the sum of its own chunks what the phase says."""
        before: Mapping[int, list[Floats]] = {}
        for step in range(self._size):
            sums = {}
            for number, row in self._rows.items():
                owner, last = self._summed(number, step), step == self._size - 1
                own = self._blocks.of(row.source, owner)
                if step:
                    held = yield from self._come(number, "sum", step - 1, before)
                    out = self._blocks.dense(self._held[number][step % 2][:self._blocks.words(owner)])
                    for place, one, other in zip(out, held, own, strict=True):
                        np.add(one, other, out=place)
                    own = out
                if last:
                    self._take(self._blocks.of(row.target, owner), own)
                else:
                    self._send(number, "sum", step, own)
                sums[number] = own
            before = sums

    def _take(self, targets: Sequence[Floats], sums: Sequence[Floats]) -> None:
        for target, total in zip(targets, sums, strict=True):
            if self._phase is Phase.UPDATE:
                self._update(target, total)
            else:
                np.copyto(target, total)

    def _update(self, target: Floats, total: Floats) -> None:
        """``target -= rate * total``, some words at a time."""
        if target.ndim > 1 and len(target) == 1:
            target, total = target[0], total[0]
        some = max(1, UPDATE_WORDS // max(1, target[:1].size))
        for start in range(0, len(target), some):
            target[start:start + some] -= self._rate * total[start:start + some]

    def _gather(self) -> Pass:
        """All-gather of the owners' targets."""
        for step in range(self._size - 1):
            given = {number: self._blocks.of(row.target, self._gathered(number, step))
                     for number, row in self._rows.items()}
            for number, own in given.items():
                self._send(number, "gather", step, own)
            for number, row in self._rows.items():
                come = yield from self._come(number, "gather", step, given)
                owner = self._gathered((number - 1) % self._size, step)
                for target, words in zip(self._blocks.of(row.target, owner), come, strict=True):
                    np.copyto(target, words)

    def _come(self, number: int, turn: str, step: int, given: Mapping[int, list[Floats]]
              ) -> Generator[Incoming, None, list[Floats]]:
        """What a member gets from the one before it in a step."""
        before, incoming = (number - 1) % self._size, self._incoming.get((number, turn, step))
        if before in self._rows:
            return given[before]
        if incoming is None:
            # Of chunks that there are not.
            return self._blocks.dense(np.empty(0, np.float32))
        yield incoming
        return self._blocks.dense(incoming.words)

    def _send(self, number: int, turn: str, step: int, words: Sequence[Floats]) -> None:
        """Send what a member gives to the one behind it, if that lives in another process."""
        outgoing = self._outgoing.get((number, turn, step))
        if outgoing is not None:
            for place, some in zip(self._blocks.dense(outgoing.words), words, strict=True):
                np.copyto(place, some)
            outgoing.send()


class LibraryPasses:
    """A message of a ring whose sums the library makes, in an order of its own; of the members of this process.

    Parameters
    ----------
    update : bool
        ``target -= rate * sum``, else the target gets the sum.
    rate : float
    rows : sequence of MemberRows
        Of the members that live in this process.
    reduction : AllReduce
        Of the words of a row.
    """

    def __init__(self, update: bool, rate: float, rows: Sequence[MemberRows], reduction: AllReduce) -> None:
        self._update, self._rate, self._rows, self._reduction = update, np.float32(rate), rows, reduction

    def begin(self) -> Pass:
        """Begin a pass: words are read and written while it is gone through."""
        total = self._reduction.words
        np.copyto(total, self._rows[0].source)
        for row in self._rows[1:]:
            total += row.source
        self._reduction.start()
        yield self._reduction
        if self._update:
            total *= self._rate
        for row in self._rows:
            if self._update:
                np.subtract(row.target, total, out=row.target)
            else:
                np.copyto(row.target, total)
