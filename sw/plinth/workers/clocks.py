"""Bounded staleness: how far workers may be ahead of each other, and training by it in virtual time.

A worker that has done c steps may begin its next one if no other has done fewer than c - k. With k = 0 all do each step
together. Each pulls what servers have then, computes, and pushes its gradient, which is applied at once: the
*staleness* of an update is how many of others were applied since its worker's pull. In virtual time with k = 0 all
gradients of a step are of the same values, and their updates by plain descent are that of their sum.

In *virtual time* steps take as long as is said, and messages none: so that what a bound gains by slow spells, and what
it costs in loss, is the same on any machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeVar

Pulled = TypeVar("Pulled")


class Clocks:
    """The steps that workers have done.

    Parameters
    ----------
    workers : int
    bound : int or None
        k; None: there is none.
    """

    def __init__(self, workers: int, bound: int | None) -> None:
        self.done, self.bound = [0] * workers, bound
        self._left: set[int] = set()

    def awaited(self, worker: int) -> list[int]:
        """The workers that have to do more steps before a worker may begin its next one."""
        return [] if self.bound is None else [other for other, steps in enumerate(self.done) if (
            other not in self._left and self.done[worker] - steps > self.bound)]

    def may_begin(self, worker: int) -> bool:
        """Whether a worker may begin its next step."""
        return not self.awaited(worker)

    def end(self, worker: int) -> None:
        """Note that a worker has done a step."""
        self.done[worker] += 1

    def leave(self, worker: int) -> None:
        """Note that a worker begins no more steps: nobody waits for it."""
        self._left.add(worker)


@dataclass(frozen=True)
class VirtualRun:
    """A run in virtual time.

    Parameters
    ----------
    seconds : list of float
        When each update was applied.
    losses : list of float
        Of the step of each.
    staleness : list of int
        Updates of others since its worker's pull.
    """

    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)


def virtual_run(workers: int, steps: int, bound: int | None, duration: Callable[[int, int], float],
                pull: Callable[[int, int], Pulled],
                compute: Callable[[int, int, Pulled], tuple[float, Callable[[], object]]]) -> VirtualRun:
    """Train in virtual time.

    Parameters
    ----------
    workers, steps : int
        So many steps each.
    bound : int or None
        Steps that a worker may be ahead of another one; None: any number.
    duration : callable
        Given a worker and its step, how long it takes.
    pull : callable
        Given a worker and its step, what it computes with, as servers have it.
    compute : callable
        Given these and what was pulled, its loss, and what applies its update to what servers have.
    """
    clocks, run, applied = Clocks(workers, bound), VirtualRun(), 0
    ends: list[tuple[float, int]] = []
    pulled: dict[int, tuple[Pulled, int]] = {}
    waiting: Sequence[int] = range(workers)

    def begin(now: float) -> list[int]:
        """Who may begin does; who may not."""
        left = []
        for worker in waiting:
            if clocks.done[worker] == steps:
                clocks.leave(worker)
            elif clocks.may_begin(worker):
                pulled[worker] = pull(worker, clocks.done[worker]), applied
                heappush(ends, (now + duration(worker, clocks.done[worker]), worker))
            else:
                left.append(worker)
        return left

    waiting = begin(0.0)
    while ends:
        now, worker = heappop(ends)
        values, before = pulled.pop(worker)
        loss, update = compute(worker, clocks.done[worker], values)
        update()
        run.seconds.append(now)
        run.losses.append(loss)
        run.staleness.append(applied - before)
        applied += 1
        clocks.end(worker)
        waiting = [*waiting, worker]
        # What ends at the same time is applied before anybody pulls.
        if not ends or ends[0][0] > now:
            waiting = begin(now)
    return run
