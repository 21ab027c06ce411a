"""A training loop over a network of this project, for one device, and the same over workers.

:class:`Trainer` is what a loop for one device has: each step takes a batch. Joined to others, each worker gives its own
samples; the step is that of the network's plan over as many dies as there are workers, of which each runs its own in
numpy (:mod:`plinth.runtime`): dense gradients go round rings, tables as their copies say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import ring
from plinth.errors import UserError
from plinth.lower.stages import check_network
from plinth.lower.tensors import row_numbers
from plinth.names import AUTO_COPIES, GATHERED_ROWS, SERVERS
from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import Parameters, initial_parameters
from plinth.partition.graph import from_network
from plinth.plan.planning import data_parallel
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.sharding import Gathered, Server, Sync
from plinth.step.build import step_of
from plinth.step.pairs import row_words_between, words_between
from plinth.train.losses import loss_of
from plinth.update.rule import UpdateRule
from plinth.workers.group import Group, Single
from plinth.workers.machines import Machines
from plinth.workers.runner import TableSettings, TouchedRows, alpha_of, reasons, ways_of
from plinth_hw.isa.parameters import preset

#: Dies whose step it is: of FP32, as numpy computes.
PRESET = "ndp-demo"


class Trainer:
    """Trains a network step by step on batches that its loop gives it, in numpy.

    Parameters
    ----------
    network : Network
    rule : UpdateRule
        How weights are updated.
    seed : int
        Of the first weights.
    pieces : mapping of str to int or None
        Of tables that a partitioner has cut, by layer, in how many pieces; None: one a worker, or a row.

    Raises
    ------
    UserError
        If numpy cannot run the network's step, or a table has more pieces than rows.
    """

    def __init__(self, network: Network, rule: UpdateRule, seed: int = 0, *,
                 pieces: Mapping[str, int | None] | None = None) -> None:
        check_network(network)
        self.network, self.rule, self.pieces = network, rule, dict(pieces or {})
        self._tables = [TableSettings(node.name, (node.matrix[1], node.matrix[2])) for node in from_network(
            network).nodes if node.gathers]
        for name, rows in ((table.name, table.shape[0]) for table in self._tables):
            if (count := self.pieces.get(name)) is not None and count > rows:
                raise UserError(f"table {name!r} has {rows} rows, and cannot be cut in {count} pieces; give at most "
                                "as many pieces as rows")
        self._first: Parameters = initial_parameters(network, seed)
        self._workers: Group = Single()
        self._machines = Machines(((0,),))
        self._ways: str | Mapping[str, str] = AUTO_COPIES
        self._touched: dict[str, float] = {}
        self._executor: NumpyExecutor | None = None
        self._batch = 0
        #: How the copies of each table are kept equal, once workers are joined.
        self.ways: dict[str, str] = {}
        self._rows: dict[str, Any] = {}
        self._steps = 0
        self._looked_up = {table.name: TouchedRows(table.shape[0]) for table in self._tables}
        #: A line for each table: how its copies are kept equal, and why, once workers are joined.
        self.notes: tuple[str, ...] = ()

    def join(self, workers: Group, machines: Machines, ways: str | Mapping[str, str],
             touched: float | Mapping[str, float] | None = None, dense_from: float | None = None) -> None:
        """Join other workers, before the first step.

        Raises
        ------
        UserError
            As :func:`plinth.workers.runner.ways_of`; if a step has been done.
        """
        if self._steps:
            raise UserError("workers are joined before the first step; call get_runner before the loop")
        self._workers, self._machines = workers, machines
        self.ways = ways_of(self._tables, machines, ways, touched, dense_from)
        self.notes = reasons(self._tables, machines, self.ways, touched)

    def _built(self, batch: int) -> NumpyExecutor:
        """What runs steps of so many samples a worker."""
        if self._executor is not None:
            if batch != self._batch:
                raise UserError(f"a batch has {batch} samples, those before had {self._batch}; give every step as many")
            return self._executor
        self._batch = batch
        plan = data_parallel(self.network, dies=self._workers.size, batch=batch * self._workers.size)
        plan = plan.resharded(array=ring(self._workers.size, preset=PRESET))
        syncs = {f"{name}.weights": sync for name, way in self.ways.items()
                 if (sync := self._sync(name, way, plan.graph.variables[f"{name}.weights"].shape[0])) is not None}
        if syncs and self._workers.size > 1:
            plan = plan.resharded(copies=tuple((name, syncs.get(name, sync)) for name, sync in plan.sharding.copies))
        step = step_of(replace(plan.sharding, rule=self.rule), preset(PRESET))
        messages = self._workers if isinstance(self._workers, MpiMessages) else None
        self._executor = NumpyExecutor(step, messages)
        self._executor.view.load(self._executor, self._first)
        return self._executor

    def _sync(self, name: str, way: str, rows: int) -> Sync | None:
        if way == SERVERS:
            size = self._workers.size
            pieces = self.pieces[name] or min(size, rows) if name in self.pieces else 1
            return Server(tuple(piece % size for piece in range(pieces)), pieces, interleaved=True)
        return Gathered() if way == GATHERED_ROWS else None

    def step(self, x: Any, y: Any) -> float:
        """Train on a batch; the loss before the step, over all workers' samples. Collective.

        Parameters
        ----------
        x : array_like ``[samples, ...]``
            As the network's input; row numbers of embeddings.
        y : array_like
            Class numbers ``[samples]``, or targets ``[samples, outputs]``.

        Raises
        ------
        UserError
            If they do not fit the network, workers have different numbers of samples, the loss is not finite, or
            another worker has ended.
        """
        x, y = np.asarray(x), np.asarray(y)
        if not x.ndim or not y.ndim or len(x) != len(y):
            raise UserError(f"a step takes as many samples as targets, at least one, not x of shape {x.shape} and y of "
                            f"shape {y.shape}")
        told = self._workers.told((x, y))
        sizes = [len(samples) for samples, _ in told]
        if len(set(sizes)) > 1 or not sizes[0]:
            raise UserError(f"workers have {', '.join(map(str, sizes))} samples; give each as many, at least one")
        for worker, (samples, _) in enumerate(told if self._workers.size > 1 else ()):
            for table in self._tables:
                row_numbers(f"x of worker {worker}, for table {table.name!r},", samples,
                            (len(samples), self.network.input.elements), table.shape[0])
        executor = self._built(len(x))
        every_x, every_y = (np.concatenate([pair[number] for pair in told]) for number in (0, 1))
        targets = self._targets(every_y)
        executor.view.write_batch(executor, every_x, targets)
        for layer, rows in executor.view.rows_of(every_x).items():
            self._rows[layer] = self._rows.get(layer, 0) + rows
        executor.start()
        executor.wait()
        self._steps += 1
        for looked_up in self._looked_up.values():
            looked_up.add(len(np.unique(x)))
        predicted = executor.view.predictions.gather(executor).reshape(len(every_x), -1)
        loss = float(loss_of(self.network, predicted.astype(np.float64), every_y))
        if not np.isfinite(loss):
            raise UserError(f"the loss of step {self._steps} is not finite; give a smaller rate")
        return loss

    def _targets(self, y: NDArray[Any]) -> NDArray[np.float32]:
        outputs = self.network.output.elements
        if not isinstance(self.network.loss, SoftmaxCrossEntropy):
            return np.asarray(y, np.float32)
        if y.ndim != 1 or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= outputs:
            raise UserError(f"y must be class numbers from 0 to {outputs - 1}, one a sample")
        targets = np.zeros((len(y), outputs), np.float32)
        targets[np.arange(len(y)), y] = 1
        return targets

    def parameters(self) -> Parameters:
        """The values of all variables by name. Collective."""
        if self._executor is None:
            return self._first
        return self._executor.view.parameters_of(self._executor)

    def touched(self) -> dict[str, float]:
        """The share of the rows of each table that this worker's samples have touched in a step, on the mean: what
        ``touched`` of :func:`plinth.get_runner` asks for."""
        return {name: rows.share for name, rows in self._looked_up.items()}

    def alpha(self) -> float:
        """The share of the network's elements that this worker uses in a step, weighted by elements (Table 1)."""
        return alpha_of({name: values.size for name, values in self._first.items()},
                        {f"{table}.weights": share for table, share in self.touched().items()})

    def planned_words(self) -> int:
        """The words of values that this worker sends others in all steps so far, as their plan says."""
        if self._executor is None or self._workers.size == 1:
            return 0
        step = self._executor.built
        between = self._steps * words_between(step, whole=True, rows={}) + row_words_between(step, self._rows)
        return int(between[self._workers.own].sum())


