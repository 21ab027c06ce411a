"""The workers that ``mpiexec`` has started, joined for as long as the program runs.

A loop that was written for one device does not leave anything: workers leave when their program ends, in order, or with
the error that ended it, which the others then raise.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Sequence
from functools import cache
from socket import gethostname
from types import TracebackType
from typing import Any, Protocol

from plinth.runtime.launcher import launched
from plinth.runtime.memory import Floats
from plinth.runtime.mpi import IDLE_SECONDS, MpiTransport, told_by_all, world
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_step import Alone
from plinth.workers.tables import Workers


class Group(Workers, Protocol):
    """The workers of a program, and what all of them say together."""

    def told(self, value: Any) -> list[Any]:
        """What each worker says. Collective."""
        ...

    def gathered(self, values: Floats, counts: Sequence[int]) -> Floats:
        """The numbers of all workers, one's behind those of the one before, ``counts`` of each. Collective."""
        ...

    def another(self) -> Group:
        """The same workers, with other messages in place of these. Collective."""
        ...


class Single(Alone):
    """The workers of a program that nobody has started beside others: itself."""

    own, size = 0, 1

    def told(self, value: Any) -> list[Any]:
        """What each worker says."""
        return [value]

    def gathered(self, values: Floats, counts: Sequence[int]) -> Floats:
        """The numbers of all workers, one behind the other."""
        return values

    def wait(self, done: Callable[[], bool]) -> None:
        """Return once something is done, which depends on nobody else."""
        while not done():
            pass

    def another(self) -> Single:
        """Itself: it sends nothing."""
        return self


class _Leaving:
    """How this program leaves the others: in order, unless an exception ends it."""

    def __init__(self, transport: MpiTransport) -> None:
        self._transport = transport
        self._error: BaseException | None = None
        #: What is to be called first, with whether an exception ends the program.
        self.first: list[Callable[[bool], object]] = []
        self._before = sys.excepthook
        sys.excepthook = self._failed
        atexit.register(self._leave)

    def _failed(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        self._error = error
        self._before(kind, error, traceback)

    def _leave(self) -> None:
        for call in self.first:
            try:
                call(self._error is not None)
            except Exception as failure:
                sys.excepthook(type(failure), failure, failure.__traceback__)
        error = self._error
        self._transport.__exit__(None if error is None else type(error), error, None)


#: Once this program is joined to others, how it leaves them.
_LEAVING: list[_Leaving] = []


def before_leaving(call: Callable[[bool], object]) -> None:
    """Have something called when the program ends, before the others are told; whether an exception ends it is what it
    is told. For programs that are joined to others."""
    _LEAVING[0].first.append(call)


@cache
def _transport() -> MpiTransport | None:
    """What joins this program to the others, the same each time; None: there are no others. Collective the first time.
    """
    if not launched():
        return None
    ranks = world()
    if ranks.size == 1:
        return None
    told_by_all(ranks, None)
    transport = MpiTransport(ranks.communicator, [(rank,) for rank in range(ranks.size)], nap_seconds=IDLE_SECONDS)
    transport.__enter__()
    _LEAVING.append(_Leaving(transport))
    return transport


def joined() -> Group:
    """The workers of this program, with messages of their own: all ranks that ``mpiexec`` has started, or this process
    alone. Collective.

    Raises
    ------
    UserError
        As :func:`plinth.runtime.mpi.world`.
    """
    transport = _transport()
    return Single() if transport is None else MpiMessages(transport)


def rank_and_size() -> tuple[int, int]:
    """The number of this worker, and how many there are. Collective the first time."""
    transport = _transport()
    return (0, 1) if transport is None else (transport.own, len(transport.processes))


def host_name() -> str:
    """The name of this host."""
    return gethostname()
