"""Decides which matrices of a module that are no embeddings send their gradients as rows: those whose rows a step reads
by number, its index uses.

Nothing says before a step which rows it reads, so that none can be pulled: all workers have all values. What moves is
the gradient. It goes round the ring of dense gradients whole, or by gathered rows: each worker sends the others the
rows that it has touched. A step of all workers finds which: with the dense gradients go two numbers of each matrix,
whose sums all workers read alike.

* Autograd gives a sparse gradient (``F.embedding(rows, w, sparse=True)``): the touched rows are those that it names.
* It gives a dense one (``w[rows]``, ``w.index_select(0, rows)``): the touched rows are those that are not all zero, and
  gathered rows have to be fewer words than a ring, by the share of rows that all steps so far have touched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from plinth.errors import UserError
from plinth.names import AUTO_COPIES, GATHERED_ROWS, RINGS, SERVERS
from plinth.partition.row_costs import VariableLoad, best_way
from plinth.runtime.memory import Floats
from plinth.workers.channel import Rows
from plinth.workers.machines import Machines
from plinth.workers.runner import TableSettings, TouchedRows, reason

#: How the gradient of a matrix that is no embedding can move.
POSSIBLE = (RINGS, GATHERED_ROWS)


class SparseGradient(NamedTuple):
    """A gradient that autograd gives as rows.

    Parameters
    ----------
    rows : array
        Ascending, each once.
    values : array ``[rows, width]``
    """

    rows: Rows
    values: Floats


#: A variable's gradient as autograd gives it; None: it has none.
Gradient = Floats | SparseGradient | None


def whole(gradient: Gradient, shape: Sequence[int]) -> Floats:
    """A gradient with all rows: 0 where it has none."""
    if gradient is not None and not isinstance(gradient, SparseGradient):
        return gradient
    values = np.zeros(tuple(shape), np.float32)
    if gradient is not None:
        values[gradient.rows] = gradient.values
    return values


def touched_rows(gradient: Gradient, shape: Sequence[int]) -> SparseGradient:
    """The rows of a matrix's gradient: those that autograd names, or those that are not all zero."""
    if isinstance(gradient, SparseGradient):
        return gradient
    rows = np.zeros(0, np.int64) if gradient is None else np.flatnonzero(gradient.any(axis=1))
    return SparseGradient(rows, np.zeros((0, shape[1]), np.float32) if gradient is None else gradient[rows])


class IndexedMatrices:
    """Which matrices go by gathered rows, on all workers alike.

    Parameters
    ----------
    matrices : sequence of TableSettings
        All that are trained, and are no tables.
    searched : collection of str
        Those of which dense gradients may turn out to have few rows.
    machines : Machines
    ways : str or mapping of str to str
        As :func:`plinth.workers.runner.ways_of`, which checks them, for tables too.
    touched : float, mapping of str to float, or None
        Share of rows that a worker touches in a step, of each matrix by name; of all tables, which matrices are not.
    dense_from : float or None
        Share from which a matrix is taken for dense; None: never.

    Attributes
    ----------
    gathered : list of TableSettings
        Those that go by gathered rows.

    Raises
    ------
    UserError
        If a matrix is given a way that it cannot go.
    """

    def __init__(self, matrices: Sequence[TableSettings], searched: Collection[str], machines: Machines,
                 ways: str | Mapping[str, str], touched: float | Mapping[str, float] | None = None,
                 dense_from: float | None = None) -> None:
        self._matrices, self._machines, self._dense_from = {own.name: own for own in matrices}, machines, dense_from
        self._named = {name: way for name, way in ways.items() if name in self._matrices} if isinstance(
            ways, Mapping) else {}
        for name, way in self._named.items():
            if way == SERVERS:
                raise UserError(f"parameter {name!r} is no embedding, and has no rows that servers could be asked for "
                                "before a step reads them; give copies of gathered or rings, or make it a "
                                "torch.nn.Embedding with sparse=True")
        self._asked = {name: ways if isinstance(ways, str) else self._named.get(name, AUTO_COPIES)
                       for name in self._matrices}
        shares = touched if isinstance(touched, Mapping) else {}
        self._given = {name: share for name, share in shares.items() if name in self._matrices}
        #: Those that stay as they are: as the loop has asked, or since gathered rows were too many.
        self._fixed = {name for name, way in self._asked.items() if way in (RINGS, SERVERS) or (
            way == GATHERED_ROWS and name in self._named)}
        self._searched = set(searched) - self._fixed - set(self._given)
        #: Rows that all workers have touched, of the rows of all of them.
        workers = sum(map(len, machines.members))
        self._counts = {name: TouchedRows(workers * own.shape[0]) for name, own in self._matrices.items()}
        self.gathered = [own for name, own in self._matrices.items() if self._named.get(name) == GATHERED_ROWS or (
            name not in self._fixed and name in self._given
            and self._best(name, self._given[name]) == GATHERED_ROWS)]

    def _best(self, name: str, share: float) -> str:
        rows, width = self._matrices[name].shape
        machines = self._machines
        return best_way(VariableLoad(rows * width, share), len(machines.members), max(map(len, machines.members)),
                        merged=machines.local, dense_from=self._dense_from, rates=machines.rates, ways=POSSIBLE)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that go by gathered rows."""
        return tuple(own.name for own in self.gathered)

    def notes(self) -> tuple[str, ...]:
        """A line for each that goes by gathered rows, or was left out of them: as
        :func:`plinth.workers.runner.reason`."""
        lines = []
        for name, own in self._matrices.items():
            count = self._counts[name]
            if name in {*self.names, *self._given, *self._named} or 0 < count.share < 1:
                share = count.share if count.steps else self._given.get(name)
                lines.append(reason(own, self._machines, GATHERED_ROWS if name in self.names else RINGS, share,
                                    POSSIBLE))
        return tuple(lines)

    def touched(self) -> dict[str, float]:
        """The share of rows that a worker touches in a step, on the mean over workers and steps, of each that goes by
        gathered rows."""
        return {name: self._counts[name].share for name in self.names}

    def report(self, gradients: Mapping[str, Gradient], gathered: Mapping[str, SparseGradient]) -> list[float]:
        """What a worker says of its gradients: of each matrix how many rows it touches, where that matters, and 1 if
        its gradient is dense.

        Parameters
        ----------
        gradients : mapping of str to Gradient
            Of all matrices, as autograd gives them.
        gathered : mapping of str to SparseGradient
            Of those that go by gathered rows the rows that are sent.

        Raises
        ------
        UserError
            If a gradient has rows alone, and cannot go the way that the loop has asked for.
        """
        said: list[float] = []
        for name, own in self._matrices.items():
            gradient = gradients[name]
            if isinstance(gradient, SparseGradient) and self._asked[name] in (RINGS, SERVERS):
                raise UserError(f"parameter {name!r} has gradients of rows, which all workers gather, and copies of "
                                f"{self._asked[name]} were asked for; give copies={{{name!r}: 'gathered'}}, or look it "
                                "up without sparse=True")
            rows = gathered.get(name)
            if rows is None and (name in self._searched or isinstance(gradient, SparseGradient)):
                rows = touched_rows(gradient, own.shape)
            said += [0.0 if rows is None else float(len(rows.rows)),
                     float(gradient is not None and not isinstance(gradient, SparseGradient))]
        return said

    def read(self, used: Mapping[str, bool], totals: Sequence[float]) -> tuple[list[str], bool]:
        """Decide which matrices go by gathered rows from the next step on.

        Parameters
        ----------
        used : mapping of str to bool
            Whether any worker has a gradient of it.
        totals : sequence of float
            The sums of what all workers have said (:meth:`report`).

        Returns
        -------
        list of str, bool
            The matrices of which all gradients of this step are sparse; whether others than before are gathered.
        """
        sparse, before = [], self.names
        names = set(before)
        for number, name in enumerate(self._matrices):
            count, dense = int(totals[2 * number]), totals[2 * number + 1] > 0
            if not used[name]:
                continue
            if not dense:
                sparse.append(name)
            # Of a gradient that is 0 nothing is known yet.
            if name in names or (count and (not dense or name in self._searched)):
                self._counts[name].add(count)
            if name in self._fixed:
                continue
            best = self._best(name, self._counts[name].share)
            if not dense:
                names.add(name)
            elif name in names and best == RINGS:
                names.remove(name)
                self._fixed.add(name)
            elif name in self._searched and count:
                self._searched.remove(name)
                names |= {name} if best == GATHERED_ROWS else set()
        self.gathered = [own for own in self._matrices.values() if own.name in names]
        return sparse, self.names != before
