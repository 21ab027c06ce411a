"""Rows of a variable that servers own, and how many of them move: from owners to workers, and back as gradients.

A die with samples is a *worker*, a die that owns rows an *owner*. In a step an owner gives each worker the rows that it
needs, each once, and gets their gradients back. Of a variable whose gradient is dense these are all that it owns; where
samples name rows by number they are known with the batch alone, and are at most

    capacity(owner, worker) = min(rows of the owner, row numbers of the worker's samples)

of which at least one moves, whether it is needed or not. Where rows are *replicated* every die owns all: none comes
from others, and gradients go to all of them. Source: Parallax section 3.1 and Table 3, whose server has one variable,
or equal ones, and each machine is a worker; replicated rows are its AllGatherv.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plinth.partition.cuts import Integers


@dataclass(frozen=True)
class RowTraffic:
    """How many rows move between owners and workers in a step.

    Parameters
    ----------
    owned : tuple of int
        Rows that each die owns.
    needed : tuple of int
        Rows that each die's samples may need: all, or as many as they name; 0 of a die without samples.
    touched : float or None
        Share of the rows that a worker's samples need, as predictions take it; None: all that they may.
    replicated : bool
        Each die owns all rows.
    """

    owned: tuple[int, ...]
    needed: tuple[int, ...]
    touched: float | None = None
    replicated: bool = False

    @cached_property
    def capacity(self) -> Integers:
        """The most rows that each owner (row) gives each worker (column) in a step."""
        return np.minimum.outer(np.array(self.owned), np.array(self.needed))

    @cached_property
    def expected(self) -> Integers:
        """The rows that predictions take each owner (row) to give each worker (column)."""
        if self.touched is None:
            return self.capacity
        share = np.ceil(self.touched * np.array(self.owned)).astype(np.int64)
        return np.minimum(self.capacity, np.maximum(1, share)[:, None])

    def moved(self, rows: Integers) -> int:
        """Rows that leave their die, and as many gradients of rows, of so many from each owner (row) to each worker
        (column); of replicated rows gradients alone."""
        return (1 if self.replicated else 2) * int(rows.sum() - np.trace(rows))

    def bounds(self, named: bool) -> tuple[int, int]:
        """Rows that leave their die in a step at least, and at most; ``named``: samples name them."""
        most = self.moved(self.capacity)
        return (self.moved(np.minimum(self.capacity, 1)) if named else most), most
