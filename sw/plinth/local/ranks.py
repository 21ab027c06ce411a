"""Kernels on the ranks of an MPI program: rank 0 coordinates, the others have the kernels in turn.

A rank trains each of its kernels in a thread of its own, and carries sets and answers meanwhile, so that one whose
device hangs still hears that training has ended. A rank that is killed is a matter of the launcher, which ends all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from plinth.errors import UserError
from plinth.local.kernels import DeviceKernel
from plinth.local.links import Letter, ThreadLinks
from plinth.local.sets import LocalSet
from plinth.local.training import LocalTraining

#: Tags of what the coordinator sends, and of what kernels do.
SETS, ANSWERS = 1, 2
#: Seconds between two looks for messages, and for which ranks are awaited at the end.
NAP_SECONDS, CLOSE_SECONDS = 2e-4, 5.0


def rank_of(kernel: int, ranks: int) -> int:
    """The rank of a kernel among so many ranks, of which the first one coordinates."""
    return 1 + kernel % (ranks - 1)


def _check_size(communicator: Any) -> None:
    if communicator.Get_size() < 2:
        raise UserError("there is one rank, which coordinates, and none for kernels; start at least 2")


class MpiLinks:
    """The coordinator's end.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
        Of this program's ranks, for messages of these links alone. Rank 0.

    Raises
    ------
    UserError
        If there is one rank alone.

    Attributes
    ----------
    abandoned : bool
        Whether, once these are closed, a rank has not taken what it was sent: it has ended before.
    """

    def __init__(self, communicator: Any) -> None:
        _check_size(communicator)
        self._communicator, self._ranks = communicator, communicator.Get_size()
        self._requests: list[Any] = []
        self._began = time.perf_counter()
        self._open = True
        self.abandoned = False

    def await_ready(self, kernels: int, progress: Callable[[int, int], object]) -> None:
        """Wait until all kernels are ready; then time begins.

        Raises
        ------
        UserError
            If one does not start.
        """
        for ready in range(kernels):
            progress(ready, kernels)
            while (fault := self._received()) is None:
                time.sleep(NAP_SECONDS)
            if fault:
                raise UserError(fault)
        self._began = time.perf_counter()

    def _received(self) -> Any:
        message = self._communicator.improbe(tag=ANSWERS)
        return None if message is None else message.recv()

    def _send(self, rank: int, content: Any) -> None:
        self._requests = [request for request in self._requests if not request.Test()]
        self._requests.append(self._communicator.isend(content, rank, SETS))

    def send(self, kernel: int, given: LocalSet) -> None:
        """Hand a kernel a set, without waiting."""
        self._send(rank_of(kernel, self._ranks), (kernel, given))

    def next(self, seconds: float) -> Letter | None:
        """The next answer of any kernel; None if none comes for so long."""
        until = time.perf_counter() + seconds
        while True:
            letter: Letter | None = self._received()
            if letter is not None or time.perf_counter() >= until:
                return letter
            time.sleep(NAP_SECONDS)

    def now(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self._began

    def close(self) -> None:
        """End all ranks."""
        if not self._open:
            return
        self._open = False
        for rank in range(1, self._ranks):
            self._send(rank, None)
        until = time.perf_counter() + CLOSE_SECONDS
        while any(not request.Test() for request in self._requests) and time.perf_counter() < until:
            time.sleep(NAP_SECONDS)
        # A rank that has ended before takes nothing more.
        self.abandoned = any(not request.Test() for request in self._requests)


def serve(communicator: Any, training: LocalTraining) -> None:
    """Train what the coordinator sends the kernels of this rank, until it ends: at once, if one does not start.

    Parameters
    ----------
    communicator : mpi4py.MPI.Intracomm
        As of :class:`MpiLinks`; another rank than 0.
    training : LocalTraining
        The same in all ranks.
    """
    own = [kernel for kernel in range(len(training.kernels))
           if rank_of(kernel, communicator.Get_size()) == communicator.Get_rank()]
    kernels: list[DeviceKernel] = []
    requests = []
    try:
        for number in own:
            kernels += training.opened([number])
            requests.append(communicator.isend("", 0, ANSWERS))
    except UserError as error:
        requests.append(communicator.isend(str(error), 0, ANSWERS))
    links = ThreadLinks(kernels, [training.kernels[number].device.slower for number in own[:len(kernels)]])
    while True:
        message = communicator.improbe(source=0, tag=SETS)
        if message is not None:
            content = message.recv()
            if content is None:
                break
            number, given = content
            links.send(own.index(number), given)
        answer = links.next(NAP_SECONDS)
        if answer is not None:
            requests = [request for request in requests if not request.Test()]
            requests.append(communicator.isend((own[answer[0]], answer[1]), 0, ANSWERS))
    links.close()
    # The coordinator takes nothing more.
    for request in requests:
        if not request.Test():
            request.Cancel()
            request.Wait()
