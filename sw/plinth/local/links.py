"""What joins a coordinator to its kernels: threads of this process, or a virtual clock.

Ranks of an MPI program are another kind (:mod:`plinth.local.ranks`). All of them keep the order of a kernel's answers,
and none waits for a kernel but :meth:`KernelLinks.next`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from plinth.errors import cause
from plinth.local.kernels import DifferentBitsError, Kernel
from plinth.local.sets import Answer, LocalSet, Lost

#: What comes from a kernel, and its number.
Letter = tuple[int, Answer | Lost]


class KernelLinks(Protocol):
    """Carries sets to kernels, and answers back."""

    def send(self, kernel: int, given: LocalSet) -> None:
        """Hand a kernel a set, without waiting."""
        ...

    def next(self, seconds: float) -> Letter | None:
        """The next answer of any kernel; None if none comes for so long."""
        ...

    def now(self) -> float:
        """Seconds since training began."""
        ...

    def close(self) -> None:
        """End: kernels that still train are not waited for."""
        ...


def answered(kernel: Kernel, given: LocalSet) -> Answer | Lost:
    """What a kernel makes of a set; whatever ends it is its last word."""
    try:
        return kernel.train(given)
    except Exception as error:
        return Lost(why=cause(error), different=isinstance(error, DifferentBitsError))


class ThreadLinks:
    """Kernels in threads of this process, each at its own pace.

    Parameters
    ----------
    kernels : sequence of Kernel
    slower : sequence of float
        How many times as long as its training each kernel takes: it rests meanwhile.
    """

    def __init__(self, kernels: Sequence[Kernel], slower: Sequence[float] | None = None) -> None:
        self._slower = list(slower or [1.0] * len(kernels))
        self._sets: list[queue.SimpleQueue[LocalSet | None]] = [queue.SimpleQueue() for _ in kernels]
        self._answers: queue.SimpleQueue[Letter] = queue.SimpleQueue()
        self._started = time.perf_counter()
        for number, kernel in enumerate(kernels):
            threading.Thread(target=self._serve, args=(number, kernel), daemon=True, name=f"kernel {number}").start()

    def _serve(self, number: int, kernel: Kernel) -> None:
        while (given := self._sets[number].get()) is not None:
            started = time.perf_counter()
            answer = answered(kernel, given)
            time.sleep((self._slower[number] - 1) * (time.perf_counter() - started))
            self._answers.put((number, answer))
        kernel.close()

    def send(self, kernel: int, given: LocalSet) -> None:
        """Hand a kernel a set, without waiting."""
        self._sets[kernel].put(given)

    def next(self, seconds: float) -> Letter | None:
        """The next answer of any kernel; None if none comes for so long."""
        try:
            return self._answers.get(timeout=max(seconds, 0))
        except queue.Empty:
            return None

    def now(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self._started

    def close(self) -> None:
        """End: kernels that still train are not waited for."""
        for sets in self._sets:
            sets.put(None)


class VirtualLinks:
    """Kernels in virtual time: they train one after the other, when their sets are sent, and their answers come when
    it is said that they would. The order of answers, and so all bits, follow from what is sent.

    Parameters
    ----------
    kernels : sequence of Kernel
    seconds : callable
        Of a kernel's number, its set and its answer, how long after the set was sent the answer comes.
    """

    def __init__(self, kernels: Sequence[Kernel], seconds: Callable[[int, LocalSet, Answer], float]) -> None:
        self._kernels, self._seconds = kernels, seconds
        self._now, self._sent = 0.0, 0
        self._coming: list[tuple[float, int, Letter]] = []

    def send(self, kernel: int, given: LocalSet) -> None:
        """Hand a kernel a set, which it trains at once."""
        answer = answered(self._kernels[kernel], given)
        took = self._seconds(kernel, given, answer) if isinstance(answer, Answer) else 0.0
        # Of answers of one time that of the set which was sent first comes first.
        heappush(self._coming, (self._now + took, self._sent, (kernel, answer)))
        self._sent += 1

    def next(self, seconds: float) -> Letter | None:
        """The next answer of any kernel; None if none is under way. The clock goes on to its time."""
        if not self._coming:
            return None
        self._now, _, letter = heappop(self._coming)
        return letter

    def now(self) -> float:
        """Virtual seconds since training began."""
        return self._now

    def close(self) -> None:
        """End."""
        for kernel in self._kernels:
            kernel.close()
