"""A table of rows by number, whose copies workers keep equal: by servers, by gathered rows, or around a ring.

A step pulls the rows that a worker's samples touch, and pushes their gradients: *aggregated* they are sums over all
workers, machine by machine where workers are merged on theirs, in the order of workers each. Who *owns* rows has their
sums then, and updates them; of gathered rows, and around a ring, all workers do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from plinth.errors import UserError
from plinth.names import GATHERED_ROWS, RINGS, SERVERS
from plinth.runtime.memory import Floats
from plinth.runtime.rings import Ends, Incoming, Outgoing
from plinth.workers.channel import Lookup, RowChannel, Rows, SentWords, summed
from plinth.workers.machines import Machines
from plinth.workers.sums import DenseSum


class Workers(Ends, Protocol):
    """The workers of a run: their messages, and this one among them."""

    own: int
    size: int

    def begin(self) -> None:
        """Begin a step: what was sent is gone, and all messages may come."""
        ...

    def wait(self, done: Callable[[], bool]) -> None:
        """Return once something is done, which is asked again and again, and goes on meanwhile.

        Raises
        ------
        UserError
            If another worker has ended, or nothing comes for too long.
        """
        ...


class SharedTable(ABC):
    """A table that workers share.

    Parameters
    ----------
    name : str
    shape : (int, int)
        Rows, and words of each.
    sent : mapping of int to SentWords
        Counts what this worker sends each other one.
    """

    way: str
    #: Whether each worker has, and updates, all rows.
    replicated = True

    def __init__(self, name: str, shape: tuple[int, int], sent: Mapping[int, SentWords]) -> None:
        self.name, self.shape, self.sent = name, shape, sent
        self._pulled: Rows | None = None

    @property
    def pulled(self) -> bool:
        """Whether this worker has asked for rows in this step."""
        return self._pulled is not None

    def pull(self, rows: Rows) -> None:
        """Ask for the rows that this worker touches in this step, ascending, each once; possibly none.

        Raises
        ------
        UserError
            If it has asked in this step.
        """
        if self._pulled is not None:
            raise UserError(f"table {self.name!r} is looked up twice in a step; look up all of its rows at once")
        self._pulled = rows

    @abstractmethod
    def serve(self) -> None:
        """Answer other workers as far as that goes without waiting."""

    def ready(self) -> bool:
        """Whether the rows that were asked for are there."""
        return True

    def values(self) -> Floats | None:
        """The values ``[rows, width]`` of the rows that were asked for; None: this worker's copy has them."""
        return None

    def push(self, rows: Rows, gradients: Floats) -> None:
        """Begin to send the gradients of the rows that were pulled.

        Raises
        ------
        UserError
            If they are of other rows.
        """
        if self._pulled is None or not np.array_equal(rows, self._pulled):
            raise UserError(f"table {self.name!r}: gradients are of other rows than those that the step has looked up")
        self._send(rows, gradients)

    @abstractmethod
    def _send(self, rows: Rows, gradients: Floats) -> None:
        """Begin to send gradients."""

    @abstractmethod
    def advance(self) -> bool:
        """Go on as far as that goes without waiting; whether what :meth:`push` has begun is done."""

    @abstractmethod
    def aggregated(self) -> tuple[Rows, Floats]:
        """The rows that this worker owns and any worker has touched, and the sums of their gradients, once these are
        there."""

    def end(self) -> None:
        """End the step."""
        self._pulled = None

    def owned(self) -> Rows:
        """The rows that this worker updates, ascending."""
        return np.arange(self.shape[0])


class ServedTable(SharedTable):
    """A table whose rows servers own, cut in pieces.

    Parameters
    ----------
    lookup : callable
        Values of rows that this worker owns.
    servers : sequence of int
        For each piece, of rows r mod P, the worker that owns it.
    tag : int
        The first of 3 (P + 1).
    """

    way = SERVERS
    replicated = False

    def __init__(self, name: str, shape: tuple[int, int], sent: Mapping[int, SentWords], workers: Workers,
                 machines: Machines, lookup: Lookup, servers: Sequence[int], tag: int) -> None:
        super().__init__(name, shape, sent)
        self._lookup, own = lookup, workers.own
        machine, merged = machines.members[machines.machine_of[own]], machines.merged
        #: Between workers of a machine, if they are merged, and their chief; and between machines.
        self._inner = RowChannel(workers, own, machine, machine[:1], shape, tag, sent) if merged and len(
            machine) > 1 else None
        clients = list(machines.chiefs) if merged else [worker for one in machines.members for worker in one]
        self._outer = RowChannel(workers, own, clients, servers, shape, tag + 3, sent)
        self._chief = own in clients
        self.end()

    def end(self) -> None:
        super().end()
        for channel in (self._inner, self._outer):
            if channel is not None:
                channel.end()
        #: The rows of its machine that a chief has asked for, and their values; whether it has answered, its clients
        #: and its machine; and whether gradients have gone to servers.
        self._union: Rows | None = None
        self._whole: Floats | None = None
        self._answered = self._told = self._merged = False

    def pull(self, rows: Rows) -> None:
        super().pull(rows)
        if self._inner is not None:
            self._inner.ask(rows)
        else:
            self._union = rows
            self._outer.ask(rows)
        self.serve()

    def serve(self) -> None:
        inner, outer = self._inner, self._outer
        if self._chief and inner is not None and self._union is None and self.pulled and inner.asked():
            self._union = np.unique(np.concatenate(list(inner.questions().values())))
            outer.ask(self._union)
        if outer.serves and not self._answered:
            self._answered = outer.answer(self._lookup)
        if self._chief and self._union is not None and self._whole is None and outer.answered():
            self._whole = outer.values(self._union, self._lookup)
        if inner is not None and self._chief and self._whole is not None and not self._told:
            self._told = inner.answer(self._of_union)

    def _of_union(self, rows: Rows) -> Floats:
        assert self._union is not None and self._whole is not None
        values: Floats = self._whole[np.searchsorted(self._union, rows)]
        return values

    def ready(self) -> bool:
        self.serve()
        if self._chief:
            return self._whole is not None
        return self._inner is not None and self._inner.answered()

    def values(self) -> Floats:
        assert self._pulled is not None
        if self._chief:
            return self._of_union(self._pulled)
        assert self._inner is not None
        return self._inner.values(self._pulled, self._of_union)

    def _send(self, rows: Rows, gradients: Floats) -> None:
        self._merged = self._inner is None
        (self._outer if self._inner is None else self._inner).give(rows, gradients)

    def advance(self) -> bool:
        self.serve()
        if not self._merged and self._inner is not None:
            if self._chief:
                if not self._inner.given():
                    return False
                self._outer.give(*self._inner.sums())
            self._merged = True
        # Who owns rows has answered all before it can have all gradients.
        return not self._outer.serves or (self._answered and self._outer.given())

    def aggregated(self) -> tuple[Rows, Floats]:
        return self._outer.sums() if self._outer.serves else (np.zeros(0, np.int64), np.zeros(
            (0, self.shape[1]), np.float32))

    def owned(self) -> Rows:
        return self._outer.numbers() if self._outer.serves else np.zeros(0, np.int64)


class ReplicatedTable(SharedTable):
    """A table of which each worker has all rows."""

    def serve(self) -> None:
        """Nobody asks for rows that it has."""


class GatheredTable(ReplicatedTable):
    """A table of which each worker has all rows, and gets the gradients of all workers' rows (AllGatherv)."""

    way = GATHERED_ROWS

    def __init__(self, name: str, shape: tuple[int, int], sent: Mapping[int, SentWords], workers: Workers, tag: int
                 ) -> None:
        super().__init__(name, shape, sent)
        self._workers = workers
        rows, width = shape
        others = [other for other in range(workers.size) if other != workers.own]
        self._going: dict[int, tuple[Outgoing, Outgoing]] = {}
        self._coming: dict[int, tuple[Incoming, Incoming]] = {}
        for other in others:
            self._going[other] = (workers.outgoing(other, tag, 1 + rows),
                                  workers.outgoing(other, tag + 1, rows * width))
            self._coming[other] = (workers.incoming(other, tag, 1 + rows),
                                   workers.incoming(other, tag + 1, rows * width))
        self._own: tuple[Rows, Floats] | None = None

    def _send(self, rows: Rows, gradients: Floats) -> None:
        self._own, count = (rows, gradients), len(rows)
        for other, (numbers, values) in self._going.items():
            words = numbers.words.view(np.uint32)
            words[0], words[1:1 + count] = count, rows
            numbers.send(1 + count)
            self.sent[other].add(0, 1 + count)
            values.words[:gradients.size] = gradients.reshape(-1)
            values.send(gradients.size)
            self.sent[other].add(gradients.size)

    def advance(self) -> bool:
        return all(numbers.arrived() and values.arrived() for numbers, values in self._coming.values())

    def aggregated(self) -> tuple[Rows, Floats]:
        assert self._own is not None
        parts = []
        for worker in range(self._workers.size):
            if worker == self._workers.own:
                parts.append(self._own)
                continue
            numbers, values = self._coming[worker]
            words = numbers.words.view(np.uint32)
            count = int(words[0])
            parts.append((words[1:1 + count].astype(np.int64),
                          values.words[:count * self.shape[1]].reshape(count, self.shape[1])))
        return summed(parts, self.shape[1])


class RingTable(ReplicatedTable):
    """A table of which each worker has all rows, whose whole gradient goes round a ring."""

    way = RINGS

    def __init__(self, name: str, shape: tuple[int, int], sent: Mapping[int, SentWords], workers: Workers,
                 order: Sequence[int], tag: int) -> None:
        super().__init__(name, shape, sent)
        self._sum = DenseSum(workers, workers.own, order, shape[0] * shape[1], tag, sent)

    def _send(self, rows: Rows, gradients: Floats) -> None:
        whole = self._sum.own.reshape(self.shape)
        whole[:] = 0
        whole[rows] = gradients
        self._sum.begin()

    def advance(self) -> bool:
        return self._sum.advance()

    def aggregated(self) -> tuple[Rows, Floats]:
        return np.arange(self.shape[0]), self._sum.total.reshape(self.shape)
