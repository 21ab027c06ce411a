"""Spreads long measurements over processes, as many as there are processors, whose simulations have one thread each.

The threads of a co-simulation meet every few cycles, so one simulation on two processors is slower than two side by
side, each on one; and two at once on the same processors wait for each other at every meeting.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from time import monotonic
from typing import TypeVar

from plinth.errors import UserError
from plinth_hw.terminal.program import end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")


def _begin() -> None:
    """Begin a worker: one thread a simulation, and it ends without a word when the user interrupts, or its parent
    ends."""
    end_with_parent()
    os.environ["PLINTH_THREADS"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def spread(measure: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
    """Results as they come, each with its item's place; ``measure`` and items must be picklable.

    Raises
    ------
    UserError
        If a process is ended from outside.
    Exception
        The first that a measurement raised; those that have not begun are dropped.
    """
    processes = max(1, min(len(items), len(os.sched_getaffinity(0))))
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)
    try:
        waiting = {pool.submit(measure, item): place for place, item in enumerate(items)}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BrokenProcessPool as error:
        raise UserError("a process that measured was ended from outside; run it again, with more memory if the system "
                        "ended it for want of it") from error
    finally:
        pool.shutdown(cancel_futures=True)


def counted_off(results: Iterable[Result], count: int) -> Iterator[tuple[str, Result]]:
    """Results with how many of how many are there, and about how long the others take, as a line says it."""
    begin = monotonic()
    for number, result in enumerate(results, 1):
        left = (monotonic() - begin) / number * (count - number) / 60
        yield f"{number} of {count}, about {left:.0f} min left", result
