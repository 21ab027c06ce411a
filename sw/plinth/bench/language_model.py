"""Word-level language models in numpy on workers: what rows about tables measure.

A model has one or several tables of words, a hidden layer of tanh over the rows that a sample looks up in all of them,
and a softmax over the most frequent words. :data:`LANGUAGE` tells a word by those before it. :data:`TRANSLATION` tells
it by words of a translation too, whose table has an alpha of its own: the share of its rows that a worker touches in a
step.

The loop is one for one device: it asks :class:`plinth.workers.runner.SynchronousExchange` for rows and sums, as
:class:`plinth.workers.torch_runner.TorchRunner` does for modules of PyTorch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.names import SERVERS
from plinth.workers.channel import Rows
from plinth.workers.group import Group
from plinth.workers.machines import Machines
from plinth.workers.runner import SynchronousExchange, TableSettings

Floats = NDArray[np.float32]
#: Ways to keep all variables equal: tables by servers, dense ones round a ring; or all by servers, rings, or gathered
#: rows beside rings.
HYBRID, SERVERS_ONLY, ALL_REDUCE, GATHERED = WAYS = "hybrid", "servers", "rings", "gathered"


@dataclass(frozen=True)
class TableSizes:
    """The sizes of a table, and of its part of a sample.

    Parameters
    ----------
    rows, width : int
        Words of the table, and numbers of each.
    context : int
        Words of a sample that the table looks up: columns of the input.
    """

    rows: int
    width: int = 512
    context: int = 8


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a model, and of a worker's batch.

    Parameters
    ----------
    tables : mapping of str to TableSizes
        By name. The columns of the input are those of the first table, then those of the second one, and so on.
    hidden, classes, batch : int
    """

    tables: Mapping[str, TableSizes]
    hidden: int = 32
    classes: int = 512
    batch: int = 64

    def of_width(self, width: int) -> "ModelSizes":
        """These sizes with tables of another width."""
        return replace(self, tables={name: replace(table, width=width) for name, table in self.tables.items()})

    def lookups(self, x: NDArray[np.int64]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """The rows that samples look up.

        Parameters
        ----------
        x : array ``[batch, columns]``
            Row numbers, of each table in its own columns.

        Returns
        -------
        dict of str to array ``[rows]``, dict of str to array ``[batch, context]``
            Of each table the rows, ascending, each once; and the index among them of each word.
        """
        rows, indices = {}, {}
        columns = np.split(x, np.cumsum([table.context for table in self.tables.values()])[:-1], axis=1)
        for name, words in zip(self.tables, columns, strict=True):
            rows[name], index = np.unique(words, return_inverse=True)
            indices[name] = index.reshape(words.shape)
        return rows, indices


#: A word of ASV by the 8 before it.
LANGUAGE = ModelSizes({"table": TableSizes(rows=12_471)})
#: A word of ASV by 12 of KJV around its relative place in the verse, and the 3 before it. Each table has a row for
#: each distinct word of its text.
TRANSLATION = ModelSizes({"source": TableSizes(rows=12_679, context=12), "target": TableSizes(rows=12_471, context=3)})


def _rows(values: Floats, rows: Rows) -> Floats:
    chosen: Floats = values[rows]
    return chosen


def first_values(sizes: ModelSizes, seed: int = 0) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The first values of tables, and of dense variables, by name."""
    generator = np.random.default_rng(seed)

    def drawn(*shape: int) -> Floats:
        return (generator.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    tables = {name: generator.standard_normal((table.rows, table.width)).astype(np.float32)
              for name, table in sizes.tables.items()}
    return tables, {
        "hidden": drawn(sum(table.context * table.width for table in sizes.tables.values()), sizes.hidden),
        "hidden_bias": np.zeros((1, sizes.hidden), np.float32),
        "out": drawn(sizes.hidden, sizes.classes), "out_bias": np.zeros((1, sizes.classes), np.float32)}


def gradients_of(known: Mapping[str, Floats], indices: Mapping[str, Rows], y: NDArray[np.int64],
                 dense: Mapping[str, Floats], factor: float) -> tuple[float, dict[str, Floats], dict[str, Floats]]:
    """The mean loss of a batch, and gradients of the rows that it looks up and of dense variables, times a factor.

    Parameters
    ----------
    known : mapping of str to array ``[rows, width]``
        Rows of each table, each once.
    indices : mapping of str to array ``[batch, context]``
        Of each table the index among them of each word.
    y : array ``[batch]``

    Returns
    -------
    float, dict of str to array, dict of str to array
        The loss without the factor; gradients of ``known``, and of ``dense``.
    """
    samples = len(y)
    inputs = np.concatenate([rows[indices[name].reshape(-1)].reshape(samples, -1) for name, rows in known.items()],
                            axis=1)
    hidden = np.tanh(inputs @ dense["hidden"] + dense["hidden_bias"])
    scores = hidden @ dense["out"] + dense["out_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    error = np.exp(scores)
    error /= error.sum(axis=1, keepdims=True)
    loss = float(-np.log(np.maximum(error[np.arange(samples), y], 1e-30)).mean())
    error[np.arange(samples), y] -= 1
    error *= np.float32(factor / samples)
    back = (error @ dense["out"].T) * (1 - hidden * hidden)
    of_inputs = back @ dense["hidden"].T
    of_rows, column = {}, 0
    for name, rows in known.items():
        end = column + indices[name].shape[1] * rows.shape[1]
        of_rows[name] = np.zeros_like(rows)
        np.add.at(of_rows[name], indices[name].reshape(-1), of_inputs[:, column:end].reshape(-1, rows.shape[1]))
        column = end
    return loss, of_rows, {"hidden": inputs.T @ back, "hidden_bias": back.sum(axis=0, keepdims=True),
                           "out": hidden.T @ error, "out_bias": error.sum(axis=0, keepdims=True)}


class LanguageModel:
    """A model on one of several workers.

    Parameters
    ----------
    sizes : ModelSizes
    workers : Group
    way : str
        Of :data:`WAYS`.
    rate : float
    seed : int
        Of the first values, the same on all workers.
    pieces : int
        Of each table, where servers own it; 0: one a worker.
    """

    def __init__(self, sizes: ModelSizes, workers: Group, way: str, rate: float = 0.5, seed: int = 0, pieces: int = 0
                 ) -> None:
        self.sizes, self.workers, self.rate = sizes, workers, np.float32(rate)
        self.tables, self.dense = first_values(sizes, seed)
        self._values = {**self.tables, **self.dense}
        machines = Machines(tuple((worker,) for worker in range(workers.size)))
        tables = [TableSettings(name, table.shape, pieces or workers.size) for name, table in self.tables.items()]
        ways = dict.fromkeys(self.tables, SERVERS if way in (HYBRID, SERVERS_ONLY) else way)
        self._served = list(self.dense) if way == SERVERS_ONLY else []
        tables += [TableSettings(name, self.dense[name].shape, min(workers.size, len(self.dense[name])))
                   for name in self._served]
        ways |= dict.fromkeys(self._served, SERVERS)
        self._ringed = [name for name in self.dense if name not in self._served]
        self.exchange = SynchronousExchange(workers, machines, tables, [
            self.dense[name].size for name in self._ringed], ways, {
                settings.name: partial(_rows, self._values[settings.name]) for settings in tables})
        self._steps, self._touched = 0, dict.fromkeys(self.tables, 0)

    def step(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
        """Train on a worker's batch ``[batch, columns]`` and ``[batch]``; its loss before. Collective."""
        rows, indices = self.sizes.lookups(x)
        everything = {name: np.arange(len(self.dense[name])) for name in self._served}
        pulled = self.exchange.pull({**everything, **rows})
        for name in everything:
            values = pulled[name]
            if values is not None:
                self.dense[name][:] = values
        known = {}
        for name, numbers in rows.items():
            values = pulled[name]
            known[name] = self.tables[name][numbers] if values is None else values
            self._touched[name] += len(numbers)
        self._steps += 1
        # The mean over all workers' samples.
        loss, of_rows, gradients = gradients_of(known, indices, y, self.dense, 1 / self.workers.size)
        sums, tables = self.exchange.aggregate([gradients[name] for name in self._ringed], {
            **{name: (rows[name], values) for name, values in of_rows.items()},
            **{name: (numbers, gradients[name]) for name, numbers in everything.items()}})
        for name, total in zip(self._ringed, sums, strict=True):
            self.dense[name] -= self.rate * total
        for name, (numbers, total) in tables.items():
            self._values[name][numbers] -= self.rate * total
        return loss

    def touched(self) -> dict[str, float]:
        """The share of rows of each table that this worker touches in a step: the mean over its steps so far, of which
        there is at least one."""
        return {name: count / (self._steps * len(self.tables[name])) for name, count in self._touched.items()}


def batches(x: NDArray[np.int64], y: NDArray[np.int64], sizes: ModelSizes, worker: int, workers: int, seed: int = 0
            ) -> Iterator[tuple[Any, Any]]:
    """A worker's batches without end: every ``workers``-th of random samples, the same for any number of workers."""
    generator = np.random.default_rng([seed, 1])
    while True:
        chosen = generator.integers(0, len(x), sizes.batch * workers)[worker::workers]
        yield x[chosen], y[chosen]
