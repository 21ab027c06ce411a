"""Serial lines of co-simulated dies as pseudo-terminals of the system: what a program sees as serial ports.

::

    program <-> pseudo-terminal <-> bytes of the line <-> pins of the die, in simulated time

Simulated time passes while bytes are under way and for :data:`IDLE_CYCLES` behind them, then it stands still until the
next: a die that nobody asks anything costs nothing, one that is asked how far it is goes on.
"""

import os
import select
import tty
from collections.abc import Callable
from contextlib import suppress

from plinth_sim.rtl.cosim import CosimArray

#: Cycles between looks at the terminals.
SLICE_CYCLES = 2_000
#: Cycles that a die goes on for after the last byte.
IDLE_CYCLES = 2_000_000
#: Bytes that wait for a program to read them; more are lost, as on a line.
MOST_WAITING = 1 << 16
_READ_BYTES = 4096


class PseudoTerminals:
    """One for each die of an array of dies with serial lines.

    Parameters
    ----------
    array : CosimArray

    Attributes
    ----------
    names : list of str
        What programs open, in order of the dies' numbers.
    """

    def __init__(self, array: CosimArray) -> None:
        self._array = array
        pairs = [os.openpty() for _ in range(array.size)]
        self._own = [own for own, _ in pairs]
        # Kept open, so that programs may come and go.
        self._theirs = [theirs for _, theirs in pairs]
        self._waiting = [b""] * array.size
        for own, theirs in pairs:
            tty.setraw(theirs)
            os.set_blocking(own, False)
        self.names = [os.ttyname(theirs) for theirs in self._theirs]

    def __enter__(self) -> "PseudoTerminals":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The lines are cut."""
        for terminal in (*self._own, *self._theirs):
            os.close(terminal)
        self._own, self._theirs = [], []

    def serve(self, ends: Callable[[], bool] = lambda: False, wait_seconds: float | None = None) -> None:
        """Move bytes and let time pass until ``ends()``, which is asked about every slice, and at the latest so often
        while time stands still."""
        idle = 0
        while not ends():
            if idle >= IDLE_CYCLES:
                select.select(self._own, [], [], wait_seconds)
            moved = [self._move(die) for die in range(len(self._own))]
            idle = 0 if any(moved) else min(idle + SLICE_CYCLES, IDLE_CYCLES)
            if idle < IDLE_CYCLES:
                self._array.run(SLICE_CYCLES)

    def _move(self, die: int) -> bool:
        """Bytes of one die, either way; whether any are under way."""
        with suppress(BlockingIOError):
            self._array.send_bytes(die, os.read(self._own[die], _READ_BYTES))
        came = self._array.take_bytes(die)
        self._waiting[die] = (self._waiting[die] + came)[-MOST_WAITING:]
        if self._waiting[die]:
            with suppress(BlockingIOError):
                self._waiting[die] = self._waiting[die][os.write(self._own[die], self._waiting[die]):]
        return bool(came) or not self._array.is_quiet(die)
