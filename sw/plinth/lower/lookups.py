"""Row numbers of a batch for an embedding whose table servers own: which rows go from which owner to which worker.

The host makes of them, before each step, what dies need: on owners lists of rows, in descriptors how many rows there
are, and on workers row numbers that are those of their caches (:mod:`plinth.step.lookups`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Executor
from plinth.lower.tensors import PlacedTensor, row_numbers
from plinth.network.variables import INPUTS
from plinth.partition.cuts import Integers
from plinth.step.lookups import Lookups
from plinth_hw.isa.descriptors import HEADER_WORDS
from plinth_hw.isa.tasks import field_word
from plinth_hw.isa.transfer_bodies import TransferBody

#: The word of a descriptor that says how many rows a tile has.
COUNT_WORD = HEADER_WORDS + field_word(TransferBody, "rows")


class CountPlace(NamedTuple):
    """A task of a die's step graph that moves as many rows as a worker looks up of an owner."""

    die: int
    task: int
    owner: int
    worker: int


class WorkerLookups(NamedTuple):
    """The rows that the samples of a worker look up.

    Attributes
    ----------
    worker : int
    rows : dict of int to array
        By owner, which has some for the worker in any batch: the rows' numbers in its part of the table, each once; one
        that nobody looks up in place of none.
    numbers : array ``[samples, positions]``
        For each row number its row in the worker's cache.
    """

    worker: int
    rows: dict[int, Integers]
    numbers: Integers


@dataclass(frozen=True)
class LookupNumbers(PlacedTensor):
    """Row numbers [sample, position, 1] for an embedding whose table servers own.

    Parameters
    ----------
    lookups : Lookups
        The rows that move between owners and workers.
    lists : sequence of dict of int to Buffer
        Of each owner, by worker, the list of the rows that it gives it.
    counts : sequence of Buffer
        Of each die, how many rows it gives each worker, and gets from each owner.
    tasks : sequence of CountPlace
        Tasks of dies that say how many rows they move.
    """

    lookups: Lookups | None = None
    lists: Sequence[dict[int, Buffer]] = ()
    counts: Sequence[Buffer] = ()
    tasks: Sequence[CountPlace] = ()

    @property
    def moved(self) -> Lookups:
        """The rows that move between owners and workers, by the layer that looks them up."""
        assert self.lookups is not None
        return self.lookups

    @cached_property
    def _homes(self) -> tuple[Integers, Integers]:
        """The owner of each row of the table, and its number in the owner's part."""
        table = self.moved.table
        owner, number = np.zeros(table.shape[1], np.int64), np.zeros(table.shape[1], np.int64)
        for die, rows in enumerate(table.region.indices(INPUTS, table.shape[1], table.factors)):
            owner[rows], number[rows] = die, np.arange(len(rows))
        return owner, number

    def looked_up(self, values: NDArray[Any]) -> Iterator[WorkerLookups]:
        """The rows that each worker's samples look up, worker by worker.

        Raises
        ------
        UserError
            If they are not as many as the tensor has, or the table has no such row.
        """
        lookups, (owners, numbers) = self.moved, self._homes
        whole = row_numbers(self.name, values, (self.samples, self.positions), lookups.table.shape[1])
        for worker, part in enumerate(self.parts):
            if not part.words:
                continue
            distinct, places = np.unique(whole[part.index()[0]], return_inverse=True)
            of, row, cached = owners[distinct], numbers[distinct], np.empty(len(distinct), np.int64)
            rows: dict[int, Integers] = {}
            for owner in sorted(lookups.owners(worker)):
                # Of replicated rows each owner has all.
                here = np.full(len(of), True) if lookups.replicated else of == owner
                cached[here] = lookups.first(owner, worker) + np.arange(np.count_nonzero(here))
                rows[owner] = row[here] if here.any() else np.zeros(1, np.int64)
            yield WorkerLookups(worker, rows, cached[places].reshape(-1, self.positions))

    def rows(self, values: NDArray[Any]) -> Integers:
        """How many rows each owner (row) has for each worker (column).

        Raises
        ------
        UserError
            As :meth:`looked_up`.
        """
        return self._counted(self.looked_up(values))

    def _counted(self, workers: Iterable[WorkerLookups]) -> Integers:
        counts = np.zeros((len(self.parts), len(self.parts)), np.int64)
        for lookups in workers:
            for owner, rows in lookups.rows.items():
                counts[owner, lookups.worker] = len(rows)
        return counts

    def spread(self, values: NDArray[Any], executor: Executor, place: int = 0) -> None:
        """Write into each die of this process what it needs of the row numbers, which are those of the whole table.

        Raises
        ------
        UserError
            As :meth:`looked_up`.
        """
        workers, own = list(self.looked_up(values)), set(executor.numbers)
        moved = self._counted(workers)
        for lookups in workers:
            worker = lookups.worker
            for owner, rows in lookups.rows.items():
                if owner in own:
                    room = self.lists[owner][worker]
                    # Behind them is what was there: nothing reads it.
                    there = room.part(room.name, 0, 1, len(rows))
                    executor.write(owner, there, rows.astype(np.uint32)[None])
            if worker in own:
                buffer = self.buffers[worker]
                executor.write(worker, buffer, lookups.numbers.astype(np.uint32).reshape(buffer.rows, buffer.columns),
                               place)
        for die in executor.numbers:
            executor.write(die, self.counts[die], np.stack([moved[die], moved[:, die]]).astype(np.uint32))
        for die, task, owner, worker in self.tasks:
            if die in own:
                executor.rewrite(die, task, COUNT_WORD, int(moved[owner, worker]))
