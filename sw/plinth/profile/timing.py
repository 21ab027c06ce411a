"""Times of what is called again and again."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

#: Turns in which a kernel is timed, seconds of each at least, and seconds of all turns at most.
TURNS, TURN_SECONDS, MOST_SECONDS = 7, 0.005, 0.4


def busy_seconds(action: Callable[[], object]) -> float:
    """Seconds of an action that waits for nothing: by the clock on the wall, or less, where another program had the
    processor meanwhile (of several threads processor time is the longer)."""
    start, started = time.perf_counter(), time.process_time()
    action()
    return min(time.perf_counter() - start, time.process_time() - started)


def shortest(kernels: Sequence[Callable[[], Any]], turns: int = TURNS, most_seconds: float = MOST_SECONDS) -> float:
    """Nanoseconds of a kernel, in turn on each of its sets of arrays: of as many calls as take
    :data:`TURN_SECONDS`, the mean, and of some turns, or of those that go into ``most_seconds``, the least."""
    def run(times: int) -> None:
        for _ in range(times):
            for kernel in kernels:
                kernel()

    run(1)
    count, begin, best = 1, time.perf_counter(), float("inf")
    for _ in range(turns):
        while True:
            took = busy_seconds(partial(run, count))
            if took >= TURN_SECONDS or time.perf_counter() - begin > most_seconds:
                break
            count = max(count + 1, int(count * 1.2 * TURN_SECONDS / max(took, 1e-9)))
        best = min(best, took / count / len(kernels))
        if time.perf_counter() - begin > most_seconds:
            break
    return 1e9 * best
