"""Rows of a table on their way from servers to clients, and their gradients on the way back.

::

    client   ask: how many rows, which --> server      values of rows --> client      gradients of rows --> server

Row numbers go once, with the question: a server remembers them. Every worker is a client, a server, or both; what it
asks of itself does not move. Messages have room for all rows of a server, and go as long as they need to be; receives
are posted when a step begins.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plinth.runtime.memory import Floats
from plinth.runtime.rings import Ends, Incoming, Outgoing

Rows = NDArray[np.int64]
#: Gives the values ``[rows, width]`` of some rows of the table.
Lookup = Callable[[Rows], Floats]


@dataclass
class SentWords:
    """What a worker has sent other workers.

    Attributes
    ----------
    values, indices : int
        Words of rows and gradients, and of row numbers.
    messages : int
    """

    values: int = 0
    indices: int = 0
    messages: int = 0

    def add(self, values: int, indices: int = 0) -> None:
        """Count a message."""
        self.values += values
        self.indices += indices
        self.messages += 1


@dataclass
class _ClientSide:
    """A client's messages to and from one server, and what it has asked of it."""

    question: Outgoing
    values: Incoming
    gradients: Outgoing


@dataclass
class _ServerSide:
    """A server's messages from and to one client, and the rows that this has asked for."""

    question: Incoming
    values: Outgoing
    gradients: Incoming
    #: What the client has asked for, once it has; it is answered at once.
    rows: Rows | None = None


class RowChannel:
    """One worker's end of a channel. Row r is of piece r mod P, by the number r div P there; each piece has a server,
    and messages of its own.

    Parameters
    ----------
    ends : Ends
        Of messages between workers.
    own : int
        This worker.
    clients : sequence of int
        Workers, in the order in which gradients are added.
    servers : sequence of int
        For each piece the worker that owns it.
    shape : (int, int)
        Rows of the table, and words of each.
    tag : int
        The first of three a piece.
    sent : mapping of int to SentWords
        Counts what this worker sends each other one.
    """

    def __init__(self, ends: Ends, own: int, clients: Sequence[int], servers: Sequence[int], shape: tuple[int, int],
                 tag: int, sent: Mapping[int, SentWords]) -> None:
        self.own, self.clients, self.servers, (self.rows, self.width) = own, list(clients), list(servers), shape
        self._sent = sent
        self._client: dict[int, _ClientSide] = {}
        #: By piece and client.
        self._server: dict[tuple[int, int], _ServerSide] = {}
        #: By piece of this worker's own, the rows that it asks itself for; and gradients that it gives itself.
        self._asked: dict[int, Rows] = {}
        self._own: dict[int, Floats] = {}
        # In the same order at both ends of each pair.
        for client in self.clients:
            for piece, server in enumerate(self.servers):
                most, first = self.owned(piece), tag + 3 * piece
                if client == server or not most or own not in (client, server):
                    continue
                if own == client:
                    self._client[piece] = _ClientSide(
                        ends.outgoing(server, first, 1 + most), ends.incoming(server, first + 1, most * self.width),
                        ends.outgoing(server, first + 2, most * self.width))
                else:
                    self._server[piece, client] = _ServerSide(
                        ends.incoming(client, first, 1 + most), ends.outgoing(client, first + 1, most * self.width),
                        ends.incoming(client, first + 2, most * self.width))

    @property
    def serves(self) -> bool:
        """Whether this worker owns rows."""
        return self.own in self.servers

    @property
    def _pieces(self) -> list[int]:
        """The pieces that this worker owns."""
        return [piece for piece, server in enumerate(self.servers) if server == self.own]

    def owned(self, piece: int) -> int:
        """Rows of a piece."""
        return len(range(piece, self.rows, len(self.servers)))

    def numbers(self) -> Rows:
        """The rows of the table that this worker owns, ascending."""
        return np.sort(np.concatenate([np.arange(piece, self.rows, len(self.servers)) for piece in self._pieces]))

    def ask(self, rows: Rows) -> None:
        """Ask the servers of some rows, each once, for their values.

        Raises
        ------
        IndexError
            If this worker is no client.
        """
        if self.own not in self.clients:
            raise IndexError(f"worker {self.own} is no client of the channel")
        for piece in range(len(self.servers)):
            asked, side = rows[rows % len(self.servers) == piece] // len(self.servers), self._client.get(piece)
            if side is None:
                self._asked[piece] = asked
                continue
            count, words = len(asked), side.question.words.view(np.uint32)
            words[0], words[1:1 + count] = count, asked
            side.question.send(1 + count)
            self._sent[self.servers[piece]].add(0, 1 + count)

    def asked(self) -> bool:
        """Whether all clients have asked this server."""
        return all(side.question.arrived() for side in self._server.values())

    def questions(self) -> dict[int, Rows]:
        """The rows of this server's that each client asks for, by their numbers in the table, once all have asked."""
        return {client: np.concatenate([np.zeros(0, np.int64), *(
            self._of(piece, client) * len(self.servers) + piece for piece in self._pieces)]) for client in self.clients}

    def _of(self, piece: int, client: int) -> Rows:
        side = self._server.get((piece, client))
        if side is not None:
            return _asked(side)
        return self._asked.get(piece, np.zeros(0, np.int64)) if client == self.own else np.zeros(0, np.int64)

    def answer(self, lookup: Lookup) -> bool:
        """Send the clients that have asked since, whether others have or not, the values of the rows that they have
        asked for; whether all have been answered."""
        for (piece, client), side in self._server.items():
            if side.rows is None and side.question.arrived():
                side.rows = _asked(side)
                size = len(side.rows) * self.width
                side.values.words[:size] = lookup(side.rows * len(self.servers) + piece).reshape(-1)
                side.values.send(size)
                self._sent[client].add(size)
        return all(side.rows is not None for side in self._server.values())

    def end(self) -> None:
        """End the step: nobody has asked for anything."""
        for side in self._server.values():
            side.rows = None

    def answered(self) -> bool:
        """Whether all servers have sent what this client has asked for."""
        return all(side.values.arrived() for side in self._client.values())

    def values(self, rows: Rows, lookup: Lookup) -> Floats:
        """The values ``[rows, width]`` of the rows that were asked for, of this worker's own ones by ``lookup``."""
        values = np.empty((len(rows), self.width), np.float32)
        for piece in range(len(self.servers)):
            of, side = rows % len(self.servers) == piece, self._client.get(piece)
            count = int(np.count_nonzero(of))
            values[of] = lookup(rows[of]) if side is None else side.values.words[:count * self.width].reshape(
                count, self.width)
        return values

    def give(self, rows: Rows, gradients: Floats) -> None:
        """Send the servers the gradients ``[rows, width]`` of the rows that were asked for."""
        for piece in range(len(self.servers)):
            some, side = gradients[rows % len(self.servers) == piece], self._client.get(piece)
            if side is None:
                self._own[piece] = some
                continue
            side.gradients.words[:some.size] = some.reshape(-1)
            side.gradients.send(some.size)
            self._sent[self.servers[piece]].add(some.size)

    def given(self) -> bool:
        """Whether the gradients of all clients have come."""
        return all(side.gradients.arrived() for side in self._server.values())

    def sums(self) -> tuple[Rows, Floats]:
        """The rows of the table that clients have sent gradients of, ascending, and the sums of these, in the order of
        clients, once all have come."""
        parts = []
        for client, rows in self.questions().items():
            gradients = [self._gradients(piece, client) for piece in self._pieces]
            order = np.argsort(rows)
            parts.append((rows[order], np.concatenate(gradients or [np.zeros((0, self.width), np.float32)])[order]))
        return summed(parts, self.width)

    def _gradients(self, piece: int, client: int) -> Floats:
        side = self._server.get((piece, client))
        if side is not None:
            return side.gradients.words[:len(_asked(side)) * self.width].reshape(-1, self.width)
        none = np.zeros((0, self.width), np.float32)
        return self._own.get(piece, none) if client == self.own else none


def _asked(side: _ServerSide) -> Rows:
    """The rows of a piece that a client has asked for."""
    words = side.question.words.view(np.uint32)
    return words[1:1 + int(words[0])].astype(np.int64)


def summed(parts: Sequence[tuple[Rows, Floats]], width: int) -> tuple[Rows, Floats]:
    """Rows that some parts have, each part each once, ascending, and the sums of their values ``[rows, width]``, from 0
    on, in the order of parts."""
    union = np.unique(np.concatenate([rows for rows, _ in parts] or [np.zeros(0, np.int64)]))
    sums = np.zeros((len(union), width), np.float32)
    for rows, values in parts:
        sums[np.searchsorted(union, rows)] += values
    return union, sums
