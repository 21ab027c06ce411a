"""A PyTorch module whose copies workers keep equal around a training loop for one device.

Embeddings made with ``sparse=True`` are tables: autograd gives their gradients as row numbers and values. A hook before
each such embedding pulls the rows that it looks up; :meth:`TorchRunner.step` pushes their gradients, sums dense ones
meanwhile, and lets the loop's own optimiser update: dense parameters alike on all workers, rows of tables where they
are owned. Matrices whose rows a step reads by number, though they are no embeddings, go by gathered rows
(:mod:`plinth.workers.indexed`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from plinth.errors import UserError
from plinth.files.forms import described
from plinth.names import GATHERED_ROWS, RINGS, SERVERS
from plinth.partition.pieces import PieceChoice, Search, search
from plinth.runtime.memory import Floats
from plinth.sharding import MAXIMUM_PIECES
from plinth.workers.group import Group
from plinth.workers.indexed import Gradient, IndexedMatrices, SparseGradient, touched_rows, whole
from plinth.workers.machines import Machines
from plinth.workers.runner import SynchronousExchange, alpha_of, reasons, ways_of
from plinth.workers.torch_module import ModuleVariables, check_rule, cut_of, sparse_gradient

#: Pieces a machine up to which the search goes.
MOST_TIMES = 16


def _check_rings(optimizer: Any, ways: Mapping[str, str], workers: int) -> None:
    """Refuse optimizers that would count rows which nobody has looked up, where gradients have all rows."""
    from torch.optim import SparseAdam

    for name in (name for name, way in ways.items() if way == RINGS and workers > 1):
        if isinstance(optimizer, SparseAdam):
            raise UserError(f"SparseAdam leaves rows as they are that no worker has looked up, and round a ring table "
                            f"{name!r} has the gradients of all; give copies of servers or gathered")


class TorchRunner:
    """Keeps the copies of a module's parameters equal.

    Parameters
    ----------
    module : torch.nn.Module
    optimizer : torch.optim.Optimizer
        Over the module's parameters, with whatever hyper-parameters.
    workers : Group
    machines : Machines
    ways : str or mapping of str to str
        How copies of tables are kept equal: :func:`plinth.workers.runner.ways_of`; and of other matrices by name.
    average : bool
        Gradients are means over workers; else sums.
    touched : float, mapping of str to float, or None
        As of :func:`plinth.workers.runner.ways_of`; and of other matrices by name.
    dense_from : float or None
        Share of touched rows from which a table is taken for dense.
    search_steps : int
        At the beginning steps are measured, so many with each number of pieces, the first half of which does not count,
        and tables that a partitioner has cut without a number stay in the pieces of the shortest step; 0: none are.

    Attributes
    ----------
    exchange : SynchronousExchange
        Of this step. Another one takes its place where tables have other pieces, or other matrices are gathered.
    """

    def __init__(self, module: Any, optimizer: Any, workers: Group, machines: Machines, *,
                 ways: str | Mapping[str, str], average: bool = True,
                 touched: float | Mapping[str, float] | None = None, dense_from: float | None = None,
                 search_steps: int = 0) -> None:
        self.module, self.optimizer, self.workers, self._machines = module, optimizer, workers, machines
        self._variables = ModuleVariables(module, len(machines.members))
        self._embeddings, self._tables = self._variables.embeddings, self._variables.tables
        self._ways = ways_of(self._tables, machines, ways, touched, dense_from,
                             [own.name for own in self._variables.matrices])
        self._indexed = IndexedMatrices(self._variables.matrices, self._variables.own_matrices, machines, ways, touched,
                                        dense_from)
        self._notes = reasons(self._tables, machines, self._ways, touched)
        _check_rings(optimizer, self._ways, workers.size)
        self._sent: Counter[str] = Counter()
        self.exchange = self._exchange()
        self._share = np.float32(1 / workers.size if average else 1.0)
        self._aggregated, self._steps = False, 0
        #: Tables whose number of pieces is searched for.
        self._searched = [name for name, part in self._embeddings.items()
                          if self._ways[name] == SERVERS and cut_of(part) == (None,)]
        self._search: Search | None = None
        if search_steps and self._searched and workers.size > 1:
            most = min(MAXIMUM_PIECES, *(self._embeddings[name].num_embeddings for name in self._searched))
            self._search = search(len(machines.members), min(most, MOST_TIMES * len(machines.members)), repeats=1)
            next(self._search)
        self._search_steps, self._seconds, self._last = search_steps, list[float](), time.perf_counter()
        #: What the search for the number of pieces has found, once it has ended.
        self.choice: PieceChoice | None = None
        self._variables.hook(lambda name, rows: self.exchange.pull({name: rows})[name])
        self._variables.copy_first(workers)

    @property
    def ways(self) -> dict[str, str]:
        """How the copies of each table are kept equal, gathered matrices among them."""
        return {**self._ways, **dict.fromkeys(self._indexed.names, GATHERED_ROWS)}

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each table, and each matrix of which rows are read by number: how its copies are kept equal, and
        why."""
        return self._notes + self._indexed.notes()

    def _exchange(self) -> SynchronousExchange:
        variables, gathered = self._variables, self._indexed.names
        # Behind the gradients go numbers: whether a worker has one, of each variable, and two of each matrix.
        numbers = len(variables.dense) + len(self._tables) + 2 * len(variables.matrices)
        return SynchronousExchange(
            self.workers, self._machines, [*self._tables, *self._indexed.gathered],
            [*(parameter.numel() for name, parameter in variables.dense if name not in gathered), numbers], self.ways,
            {name: partial(variables.rows, name) for name in self._embeddings})

    def _renew(self) -> None:
        """Put another exchange in place of this one, with messages of its own, between two steps. Collective."""
        self._sent.update(self.exchange.sent())
        self.workers = self.workers.another()
        self.exchange = self._exchange()

    def _measured(self) -> None:
        """Take the time of a step for the search; if it asks for other pieces, cut tables anew. Collective."""
        assert self._search is not None
        now = time.perf_counter()
        self._seconds.append(now - self._last)
        self._last = now
        if len(self._seconds) < self._search_steps:
            return
        # The slowest worker's, as all others wait for it.
        seconds = max(self.workers.told(median(self._seconds[len(self._seconds) // 2:])))
        self._seconds = []
        try:
            pieces = self._search.send(seconds)
        except StopIteration as stop:
            self.choice, self._search, pieces = stop.value, None, stop.value.pieces
        self._cut(pieces)
        self._last = time.perf_counter()

    def _cut(self, pieces: int) -> None:
        """Cut tables in so many pieces, whose owners have all that belongs to their rows. Collective."""
        if all(settings.pieces == pieces for settings in self._tables if settings.name in self._searched):
            return
        self.refresh(states=True)
        self._tables = [replace(settings, pieces=pieces) if settings.name in self._searched else settings
                        for settings in self._tables]
        self._renew()

    def aggregate(self) -> None:
        """Sum gradients over all workers, in place of the loop's own: of dense parameters on all of them, of tables
        where their rows are owned. :meth:`step` does it, if the loop has not. Collective.

        Raises
        ------
        UserError
            If a gradient is not finite, or of rows where that cannot be, or another worker has ended.
        """
        import torch

        if self._aggregated:
            return
        dense, rows = self._variables.gradients(self._share), self._variables.row_gradients(self._share)
        # What no worker has a gradient of has none, as on one device: an optimizer leaves it alone. Of a table that
        # any worker has looked up every owner has one, if of no rows: momentum goes on, and steps count.
        parameters, gathered = dict(self._variables.dense), self._indexed.names
        matrices = {name: touched_rows(dense[name], parameters[name].shape) for name in gathered}
        said = np.array([*(gradient is not None for gradient in dense.values()),
                         *(len(numbers) > 0 for numbers, _ in rows.values()),
                         *self._indexed.report(dense, matrices)], np.float32)
        self.exchange.pull({name: gradient.rows for name, gradient in matrices.items()})
        ring = {name: whole(gradient, parameters[name].shape) for name, gradient in dense.items()
                if name not in gathered}
        sums, tables = self.exchange.aggregate([*ring.values(), said], {**rows, **matrices})
        *sums, heard = sums
        if self.workers.size == 1:
            tables = {**rows, **matrices}
        variables = [*dense, *rows]
        used = dict(zip(variables, (heard[:len(variables)] > 0).tolist(), strict=True))
        sparse, changed = self._indexed.read(used, heard[len(variables):].tolist())
        check_rule(self.optimizer, {id(parameters[name]): f"parameter {name!r}" for name in sparse})
        totals = dict(zip(ring, sums, strict=True))
        for name, parameter in parameters.items():
            if not used[name]:
                parameter.grad = None
            elif name in sparse:
                parameter.grad = sparse_gradient(parameter, *(
                    tables[name] if name in gathered else self._rows_of(dense[name], totals[name])))
            else:
                parameter.grad = torch.from_numpy(whole(SparseGradient(*tables[name]), parameter.shape)
                                                  if name in gathered else totals[name].copy())
        for name, part in self._embeddings.items():
            part.weight.grad = sparse_gradient(part.weight, *tables[name]) if used[name] else None
        if changed:
            self._renew()
        self._aggregated = True

    def _rows_of(self, gradient: Gradient, total: Floats) -> SparseGradient:
        """The rows of a sum round the ring that any worker has touched. Collective."""
        own = gradient.rows if isinstance(gradient, SparseGradient) else np.zeros(0, np.int64)
        rows = np.unique(np.concatenate(self.workers.told(own)))
        others = self.workers.size - len(self._machines.members[self._machines.machine_of[self.workers.own]])
        self._sent.update(indices=others * len(own), messages=others)
        return SparseGradient(rows, total[rows])

    def step(self) -> None:
        """Update, in place of ``optimizer.step()``. Collective."""
        self.aggregate()
        self._steps += 1
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._aggregated = False
        if self._search is not None:
            self._measured()

    def global_norm(self) -> float:
        """The norm of all aggregated gradients together, as clipping asks for it. Collective."""
        self.aggregate()
        squares = 0.0
        for name, part in self._embeddings.items():
            if part.weight.grad is not None and (not self.exchange.tables[name].replicated or self.workers.own == 0):
                squares += float((part.weight.grad.coalesce().values().double() ** 2).sum())
        squares = float(sum(self.workers.told(squares)))
        for _, parameter in self._variables.dense:
            if parameter.grad is not None:
                values = parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
                squares += float((values.double() ** 2).sum())
        return float(np.sqrt(squares))

    def clip(self, most: float) -> float:
        """Scale aggregated gradients so that their norm is at most so much; the norm before. Collective.

        Raises
        ------
        UserError
            If it is no positive number.
        """
        if isinstance(most, bool) or not isinstance(most, (int, float)) or not 0 < most < float("inf"):
            raise UserError(f"a norm to clip to is a positive number, not {described(most)}")
        norm = self.global_norm()
        factor = np.float32(min(1.0, most / (norm + 1e-6)))
        for parameter in [parameter for _, parameter in self._variables.dense] + [
                part.weight for part in self._embeddings.values()]:
            if parameter.grad is not None:
                parameter.grad = parameter.grad * float(factor)
        return norm

    def refresh(self, *, states: bool = False) -> None:
        """Give every worker the rows that others own, before it evaluates or saves the module. Collective.

        Parameters
        ----------
        states : bool
            And what the optimizer keeps beside them.
        """
        for name, part in self._embeddings.items():
            table = self.exchange.tables[name]
            if table.replicated or self.workers.size == 1:
                continue
            owned = table.owned()
            every = [np.asarray(rows, np.int64) for rows in self.workers.told(owned.tolist())]
            arrays = [self._variables.values(name)] + (self._states(name, part) if states else [])
            for values in arrays:
                counts = [len(rows) * values.shape[1] for rows in every]
                flat = self.workers.gathered(values[owned].reshape(-1), counts)
                values[np.concatenate(every)] = flat.reshape(-1, values.shape[1])

    def _states(self, name: str, part: Any) -> list[Floats]:
        """What the optimizer keeps beside a table: arrays of its shape."""
        found = []
        for what, state in sorted(self.optimizer.state.get(part.weight, {}).items()):
            if getattr(state, "shape", None) != part.weight.shape:
                continue
            if state.is_sparse:
                raise UserError(f"the optimizer keeps a sparse {what!r} beside table {name!r}, which no other worker "
                                "can take over; give the number of pieces, or leave out search_steps")
            found.append(state.numpy())
        return found

    def touched(self) -> dict[str, float]:
        """The share of the rows of each table that this worker has looked up in a step, on the mean, and of gathered
        matrices that of all workers: what ``touched`` of :func:`plinth.get_runner` asks for."""
        return {**self._variables.touched(), **self._indexed.touched()}

    def alpha(self) -> float:
        """The share of the module's elements that this worker uses in a step, weighted by elements (Table 1)."""
        return alpha_of(self._variables.elements, self.touched())

    def staleness(self) -> list[int]:
        """How many updates of others came between each step's pull and its update: none, as all update together."""
        return [0] * self._steps

    def sent(self) -> dict[str, int]:
        """The words of values and of row numbers, and the messages, that this worker has sent other machines."""
        return {name: words + self._sent[name] for name, words in self.exchange.sent().items()}
