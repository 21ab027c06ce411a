"""Workers that train at their own pace: servers apply each worker's update as it comes, within a bound of staleness.

Each worker is a server as well, in a thread of its own on a communicator of its own: it has a share of all variables,
rows of tables in turn and dense variables one by one, and answers whoever asks while its worker computes. The first one
also keeps the clocks of all, and holds back who is too far ahead (:mod:`plinth.workers.clocks`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, cause
from plinth.runtime.memory import Floats
from plinth.runtime.mpi_messages import MpiMessages
from plinth.workers.channel import Rows
from plinth.workers.clocks import Clocks

#: Tags of what servers are asked, and of what they answer.
ASKED, ANSWERED = 1, 2
#: Seconds between two looks of a server that is not asked.
NAP_SECONDS = 2e-4
#: Of some variables the rows, None of dense ones.
Wanted = Mapping[str, Rows | None]
#: And values, or gradients, of these rows.
Values = Mapping[str, tuple[Rows | None, Floats]]


class ServerShare(Protocol):
    """What a server has of all variables."""

    def values(self, name: str, rows: Rows | None) -> Floats:
        """Values of a dense variable, or of rows of a table."""
        ...

    def apply(self, gradients: Values) -> None:
        """Update by the gradients of one worker."""
        ...


def _words(values: Values) -> Counter[str]:
    """Words of a message of values."""
    return Counter(values=sum(own.size for _, own in values.values()),
                   indices=sum(len(rows) for rows, _ in values.values() if rows is not None), messages=1)


class _Outbox:
    """Messages of one tag to other workers, and to this one's own server, which go while it does other things.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
    tag : int

    Attributes
    ----------
    sent : Counter of str
        Words of values and of row numbers, and messages of such, that have gone to others.
    """

    def __init__(self, communicator: Any, tag: int) -> None:
        self._communicator, self._tag = communicator, tag
        self._requests: list[Any] = []
        self.sent: Counter[str] = Counter()

    def send(self, worker: int, content: Any, words: Mapping[str, int] | None = None) -> None:
        """Send a message; ``words``: what counts of it, if it goes to another worker."""
        self.gone()
        self._requests.append(self._communicator.isend(content, worker, self._tag))
        if words is not None and worker != self._communicator.Get_rank():
            self.sent.update(words)

    def gone(self) -> bool:
        """Forget the messages that have gone; whether all have."""
        self._requests = [request for request in self._requests if not request.Test()]
        return not self._requests


class _Server(threading.Thread):
    """Answers until all workers have left, or it is stopped.

    Messages are ``(kind, content)``. An answer may be a UserError, which the worker raises.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
    share : ServerShare
    clocks : Clocks or None
        Of the first worker's server, which holds back who is too far ahead.

    Attributes
    ----------
    outbox : _Outbox
        Answers.
    staleness : list of int
        Of each update that was applied here, how many of others were since its worker's pull.
    error : str or None
        What has ended it.
    """

    def __init__(self, communicator: Any, share: ServerShare, clocks: Clocks | None) -> None:
        super().__init__(daemon=True, name="server")
        self._communicator, self._share, self._clocks = communicator, share, clocks
        self.outbox = _Outbox(communicator, ANSWERED)
        self.staleness: list[int] = []
        self.error: str | None = None
        self.stopped = False
        #: Workers that wait to begin a step, those that wait for all others to settle, and those that have left, the
        #: first one first.
        self._held: list[int] = []
        self._settling: list[int] = []
        self._left: list[int] = []

    @property
    def applied(self) -> int:
        """Updates that were applied here."""
        return len(self.staleness)

    def run(self) -> None:
        """Answer."""
        from mpi4py.MPI import Status

        status, size = Status(), self._communicator.Get_size()
        try:
            while len(self._left) < size and not self.stopped:
                message = self._communicator.improbe(tag=ASKED, status=status)
                if message is None:
                    time.sleep(NAP_SECONDS)
                    continue
                worker = status.Get_source()
                kind, content = message.recv()
                HANDLED[kind](self, worker, content)
            while not self.outbox.gone() and not self.stopped:
                time.sleep(NAP_SECONDS)
        except Exception as error:
            self.error = cause(error)

    def _pull(self, worker: int, wanted: Wanted) -> None:
        values = {name: self._share.values(name, rows) for name, rows in wanted.items()}
        self.outbox.send(worker, (self.applied, values), _words({name: (None, own) for name, own in values.items()}))

    def _push(self, worker: int, content: tuple[int, Values]) -> None:
        pulled, gradients = content
        self._share.apply(gradients)
        self.staleness.append(self.applied - pulled)

    def _begin(self, worker: int, content: None) -> None:
        self._held.append(worker)
        self._release()

    def _end(self, worker: int, content: None) -> None:
        assert self._clocks is not None
        self._clocks.end(worker)
        self._release()

    def _settle(self, worker: int, content: None) -> None:
        self._settling.append(worker)
        self._meet()

    def _leave(self, worker: int, content: None) -> None:
        self._left.append(worker)
        if self._clocks is not None:
            self._clocks.leave(worker)
        self._meet()

    def _meet(self) -> None:
        """Answer those that settle once all do, or one has left before."""
        refusal = UserError(f"worker {self._left[0]} has ended, with no error, before this refresh(); all workers have "
                            "to call it as often") if self._left else None
        if refusal is not None or len(self._settling) == self._communicator.Get_size():
            for worker in self._settling:
                self.outbox.send(worker, refusal)
            self._settling = []
        if self._clocks is not None:
            self._release()

    def _release(self) -> None:
        """Answer those that may begin a step now, and those that never may."""
        assert self._clocks is not None
        held, self._held = self._held, []
        for worker in held:
            awaited = self._clocks.awaited(worker)
            # Who settles waits for all others, and does no step before.
            late = next((other for other in awaited if other in self._settling), None)
            if not awaited:
                self.outbox.send(worker, None)
            elif late is None:
                self._held.append(worker)
            else:
                done = self._clocks.done
                self.outbox.send(worker, UserError(
                    f"worker {late} has called refresh() after {done[late]} steps, and worker {worker} has done "
                    f"{done[worker]}, too far ahead to go on; all workers have to do as many steps"))


#: What a server does with each kind of message.
HANDLED: dict[str, Callable[[_Server, int, Any], None]] = {
    "pull": _Server._pull, "push": _Server._push, "begin": _Server._begin, "end": _Server._end,
    "settle": _Server._settle, "leave": _Server._leave}


class AsynchronousExchange:
    """One worker's side, and its server.

    All that waits raises UserError if this worker's server has failed, another worker has ended with an error, or
    nothing comes for too long.

    Parameters
    ----------
    workers : MpiMessages
        All workers. Collective.
    share : ServerShare
        What this worker's server has.
    dense : sequence of str
        Dense variables, of which server i mod N has the i-th; of tables server r mod N has row r.
    bound : int or None
        Steps that a worker may be ahead of another one; None: any.
    """

    def __init__(self, workers: MpiMessages, share: ServerShare, dense: Sequence[str], bound: int | None) -> None:
        self._workers, self._communicator = workers, workers.duplicate()
        self.own, self.size = workers.own, workers.size
        self._owner = {name: number % self.size for number, name in enumerate(dense)}
        clocks = Clocks(self.size, bound) if self.own == 0 else None
        self._server = _Server(self._communicator, share, clocks)
        self._server.start()
        self._outbox = _Outbox(self._communicator, ASKED)
        #: Updates that each server had applied when this worker last pulled from it.
        self._pulled: dict[int, int] = {}
        self._open = True

    @property
    def staleness(self) -> list[int]:
        """How many updates of others were applied since its worker's pull, of each that this server has applied."""
        return list(self._server.staleness)

    def sent(self) -> dict[str, int]:
        """Words of values and of row numbers, and messages, that this worker and its server have sent others."""
        total = self._outbox.sent + self._server.outbox.sent
        return {name: total[name] for name in ("values", "indices", "messages")}

    def _ask(self, server: int, kind: str, content: Any = None, words: Mapping[str, int] | None = None) -> None:
        self._outbox.send(server, (kind, content), words)

    def _answers(self, servers: Sequence[int]) -> dict[int, Any]:
        """What each of some servers answers; raise what one refuses with."""
        answers: dict[int, Any] = {}

        def answered() -> bool:
            for server in servers:
                message = None if server in answers else self._communicator.improbe(server, ANSWERED)
                if message is not None:
                    answers[server] = message.recv()
            self._check_server()
            return len(answers) == len(servers)

        self._workers.wait(answered)
        for answer in answers.values():
            if isinstance(answer, UserError):
                raise answer
        return answers

    def _check_server(self) -> None:
        if self._server.error is not None:
            raise UserError(f"the server of worker {self.own} has failed: {self._server.error}")

    def _served(self, rows: Rows, server: int) -> NDArray[np.bool_]:
        """Which of some rows a server has."""
        return rows % self.size == server

    def _shares(self, wanted: Wanted) -> dict[int, dict[str, Rows | None]]:
        """Of each server what is its own of some variables."""
        shares: dict[int, dict[str, Rows | None]] = {}
        for name, rows in wanted.items():
            if rows is None:
                shares.setdefault(self._owner[name], {})[name] = None
                continue
            for server in range(self.size):
                if len(own := rows[self._served(rows, server)]):
                    shares.setdefault(server, {})[name] = own
        return shares

    def begin(self) -> None:
        """Wait until this worker may begin its next step.

        Raises
        ------
        UserError
            If it waits for a worker that settles, which waits for this one.
        """
        self._ask(0, "begin")
        self._answers([0])

    def pull(self, wanted: Wanted) -> dict[str, Floats]:
        """The values of dense variables, and of rows of tables, ascending, as servers have them now; of no rows
        ``[0, 0]``."""
        shares = self._shares(wanted)
        for server, share in shares.items():
            indices = sum(len(rows) for rows in share.values() if rows is not None)
            self._ask(server, "pull", share, {"indices": indices, "messages": 1})
        parts: dict[str, dict[int, Floats]] = {}
        for server, (version, values) in self._answers(list(shares)).items():
            self._pulled[server] = version
            for name, own in values.items():
                parts.setdefault(name, {})[server] = own
        found = {}
        for name, rows in wanted.items():
            if rows is None:
                (found[name],) = parts[name].values()
                continue
            width = next(iter(parts[name].values())).shape[1:] if name in parts else (0,)
            found[name] = np.empty((len(rows), *width), np.float32)
            for server, own in parts.get(name, {}).items():
                found[name][self._served(rows, server)] = own
        return found

    def push(self, gradients: Values) -> None:
        """Send gradients of what was pulled, without waiting; the step ends.

        Raises
        ------
        UserError
            If one is not finite.
        """
        odd = next((name for name, (_, values) in gradients.items() if not np.isfinite(values).all()), None)
        if odd is not None:
            raise UserError(f"the gradient of {odd!r} of worker {self.own} is not finite; give a smaller rate, or look "
                            "at the samples")
        for server, share in self._shares({name: rows for name, (rows, _) in gradients.items()}).items():
            own: dict[str, tuple[Rows | None, Floats]] = {}
            for name, rows in share.items():
                every, values = gradients[name]
                own[name] = (None, values) if every is None or rows is None else (
                    rows, values[self._served(every, server)])
            self._ask(server, "push", (self._pulled.get(server, 0), own), _words(own))
        self._ask(0, "end")

    def settle(self) -> None:
        """Return once all workers have called this, and all that they have pushed before is applied. Collective.

        Raises
        ------
        UserError
            If a worker has left.
        """
        everybody = range(self.size)
        # A server does what a worker asks in its order.
        for server in everybody:
            self._ask(server, "settle")
        self._answers(everybody)

    def leave(self) -> None:
        """End: this worker begins no more steps, and its server has nobody left to answer. Collective."""
        if not self._open:
            return
        self._open = False
        try:
            self._leave()
        except BaseException:
            self.stop()
            raise

    def _leave(self) -> None:
        for server in range(self.size):
            self._ask(server, "leave")
        while self._server.is_alive():
            applied = self._server.applied

            def moved(applied: int = applied) -> bool:
                self._check_server()
                return not self._server.is_alive() or self._server.applied != applied

            self._workers.wait(moved)
        self._workers.wait(self._outbox.gone)

    def stop(self) -> None:
        """End at once, as this worker, or another one, has failed: the server answers nobody any more."""
        self._open, self._server.stopped = False, True
        self._server.join()
