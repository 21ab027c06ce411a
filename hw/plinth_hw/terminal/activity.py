"""What takes long tells so on standard error: after two seconds, as a bar on a terminal, as lines elsewhere.

::

    planning alexnet on ring-4
    planning alexnet on ring-4: 1,200 of 10,000 trials, 41/s, 3 min 34 s left

Nothing is said of what is done sooner. A terminal shows one bar, which is gone at the end; into files, pipes and dumb
terminals goes a line after :data:`DELAY_SECONDS` and one every :data:`LINE_SECONDS`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds before the first word, and between lines where there is no bar.
DELAY_SECONDS, LINE_SECONDS = 2.0, 30.0


def _time(seconds: float) -> str:
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    return (f"{whole} s" if whole < 60 else f"{minutes} min {whole % 60} s" if not hours
            else f"{hours} h {minutes % 60} min")


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


class Activity:
    """Something that is being done; a context.

    Parameters
    ----------
    what : str
        What, as ``planning alexnet on ring-4``.
    unit : str
        What is counted, in the plural.
    delay_seconds, line_seconds : float or None
        As the module says; None: :data:`DELAY_SECONDS` and :data:`LINE_SECONDS`.

    Attributes
    ----------
    bar : bool
        Whether there is a terminal, so that lines of a caller's own would be too many.
    """

    def __init__(self, what: str, unit: str = "", *, delay_seconds: float | None = None,
                 line_seconds: float | None = None) -> None:
        self._what, self._unit, self._note = what, unit, ""
        self._done, self._total = 0.0, 0.0
        self._delay = DELAY_SECONDS if delay_seconds is None else delay_seconds
        self._line = LINE_SECONDS if line_seconds is None else line_seconds
        self._began = self._counted_from = time.monotonic()
        self._first_done = 0.0
        # Held while something is printed, so that lines stay whole, and none comes after the end.
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._progress: Progress | None = None
        self._task: Any = None
        self.bar = sys.stderr.isatty() and os.environ.get("TERM", "dumb").lower() not in ("dumb", "unknown")

    def __enter__(self) -> Activity:
        self._thread = threading.Thread(target=self._watch, daemon=True, name="activity")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None
        if self._thread is not None:
            self._thread.join()

    def begin(self, what: str, unit: str = "", total: float = 0) -> None:
        """Go on with something else, of which nothing is done yet."""
        with self._lock:
            self._what, self._unit, self._note = what, unit, ""
            self._done, self._total, self._first_done = 0.0, total, 0.0
            self._began = self._counted_from = time.monotonic()
        self._show()

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """So much is done, of how much, and what else is to be told."""
        if not self._done:
            # What stood still before the first one, a set-up, says nothing of the others.
            self._counted_from, self._first_done = time.monotonic(), done
        self._done = done
        self._total = self._total if total is None else total
        self._note = self._note if note is None else note
        if self._progress is not None:
            self._show()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        with self._lock:
            if self._progress is not None:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=sys.stderr, flush=True)

    @property
    def text(self) -> str:
        """What is being done and how far it is, as a line."""
        return ": ".join(part for part in (self._what, self._state()) if part)

    def _state(self) -> str:
        parts = [self._note] if self._note else []
        if self._done or self._total:
            of = f" of {_count(self._total)}" if self._total else ""
            parts.append(f"{_count(self._done)}{of}{' ' * bool(self._unit)}{self._unit}")
            seconds, steps = time.monotonic() - self._counted_from, self._done - self._first_done
            if steps > 0 and seconds > 0:
                parts.append(f"{_count(steps / seconds)}/s")
                if self._total > self._done:
                    parts.append(f"{_time((self._total - self._done) * seconds / steps)} left")
        elif time.monotonic() - self._began >= self._line / 2:
            parts.append(f"{_time(time.monotonic() - self._began)} so far")
        return ", ".join(parts)

    def _watch(self) -> None:
        """The thread: waits, then shows a bar or prints lines until it is over."""
        seconds = self._delay
        while not self._over.wait(seconds):
            with self._lock:
                if self._over.is_set():
                    return
                if self.bar:
                    self._start_bar()
                else:
                    print(self.text, file=sys.stderr, flush=True)
            seconds = 1.0 if self.bar else self._line

    def _start_bar(self) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
            from rich.table import Column

            # Text wraps where there is no room: numbers would be cut otherwise.
            self._progress = Progress(
                TextColumn("{task.description}", table_column=Column(overflow="fold"), markup=False),
                BarColumn(bar_width=12),
                TextColumn("{task.fields[state]}", table_column=Column(overflow="fold"), markup=False),
                console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
            self._task = self._progress.add_task("", total=None, state="")
            self._progress.start()
        self._show()

    def _show(self) -> None:
        progress = self._progress
        if progress is not None:
            progress.update(self._task, description=self._what, completed=self._done, total=self._total or None,
                            state=self._state())
