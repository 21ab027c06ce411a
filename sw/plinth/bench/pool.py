"""Spreads long measurements over processes, each with a processor of its own.

The threads of a co-simulation meet every few cycles, so one simulation on two processors is slower than two side by
side, each on one; and two at once on the same processors wait for each other at every meeting.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from plinth.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


def _take_a_processor(processors: "multiprocessing.Queue[int]") -> None:
    """Begin a worker: it runs on one processor, and ends without a word when the user interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.sched_setaffinity(0, {processors.get()})


def spread(measure: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
    """Results as they come, each with its item's place; ``measure`` and items must be picklable.

    Raises
    ------
    UserError
        If a process is ended from outside.
    Exception
        The first that a measurement raised; those that have not begun are dropped.
    """
    processors = sorted(os.sched_getaffinity(0))[:max(1, len(items))]
    context = multiprocessing.get_context("spawn")
    free: multiprocessing.Queue[int] = context.Queue()
    for processor in processors:
        free.put(processor)
    pool = ProcessPoolExecutor(len(processors), context, _take_a_processor, (free,))
    try:
        waiting = {pool.submit(measure, item): place for place, item in enumerate(items)}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BrokenProcessPool as error:
        raise UserError("a process that measured was ended from outside; run it again, with more memory if the system "
                        "ended it for want of it") from error
    finally:
        pool.shutdown(cancel_futures=True)
