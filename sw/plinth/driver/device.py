"""The Device seam: all that the driver knows of a back end.

The compiled co-simulation, a cocotb testbench and the golden model are arrays of devices; the driver's
code is the same on all of them. Addresses of memory count words.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]


class Device(Protocol):
    """One die."""

    def read_memory(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``; a copy."""

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``."""

    def read_register(self, address: int) -> int:
        """Value of the register at a byte address."""

    def write_register(self, address: int, value: int) -> None:
        """Write the register at a byte address. Writes to one die take effect in order, at the latest when
        the array waits or one of its registers is read."""


class Array(Protocol):
    """Dies joined by links, with one clock."""

    @property
    def dies(self) -> Sequence[Device]:
        """The dies, in order of their numbers."""

    def wait(self, limit_cycles: int) -> int:
        """Run until every die raises its interrupt, or one of them reports an error, or ``limit_cycles``
        have passed; returns the cycles run."""
