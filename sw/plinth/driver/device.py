"""The Device seam: all that the driver knows of a back end.

The compiled co-simulation, a cocotb testbench and the golden model are arrays of devices; the driver's
code is the same on all of them. Addresses of memory count words, which are 32 or 16 bits wide
(``DieParameters.word_bits``).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.unsignedinteger]


class Device(Protocol):
    """One die as the driver sees it: memory and registers."""

    def read_memory(self, address: int, count: int) -> Words:
        """Read ``count`` words from word address ``address`` on, as a copy."""

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""

    def read_register(self, address: int) -> int:
        """Read the register at a byte address."""

    def write_register(self, address: int, value: int) -> None:
        """Write the register at a byte address. Writes to one die take effect in order, at the latest when
        the array waits or one of its registers is read."""


class DeviceArray(Protocol):
    """Dies joined by links; this process owns all of them, or some while other processes own the others."""

    @property
    def size(self) -> int:
        """The number of dies of the array, those of other processes too."""

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies that live in this process, ascending."""

    @property
    def dies(self) -> Sequence[Device]:
        """The dies of ``numbers``, in their order."""

    @property
    def in_step(self) -> bool:
        """Whether all dies, those of other processes too, run in one time, which stands still between calls: then none
        reports an error but in a wait, or while registers are read."""

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Run until every die of this process, or each of ``dies``, has raised its interrupt since it was started, or
        one reports an error, or ``limit_cycles`` have passed; returns the cycles run.

        Dies that have been started and are not waited for run on, as far as the back end's time goes. What a graph
        has waited for is in its die's memory when it ends; what dies of other processes send beyond that may come
        later.

        Raises
        ------
        ConnectionError, TimeoutError
            If dies of another process cannot be reached any more, or it does not come; the message says which.
        """

    def meet(self, told: Any = None) -> list[Any]:
        """Return when the processes of all other dies have called this as well, or a die of this one has reported an
        error. All that their dies have sent before is there then, and nothing of what they send after it.

        Parameters
        ----------
        told : any
            Plain data for the other processes.

        Returns
        -------
        list
            What each process has told, in an order that all have; after an error None in place of what is missing.

        Raises
        ------
        ConnectionError, TimeoutError
            If dies of another process cannot be reached any more, or it does not come; the message says which.
        """
