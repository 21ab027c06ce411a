"""A word-level language model in numpy on workers: what rows about tables measure.

A table of words, a hidden layer of tanh, and a softmax over the most frequent words. The loop is one for one device: it
asks :class:`plinth.workers.runner.SynchronousExchange` for rows and sums, as
:class:`plinth.workers.torch_runner.TorchRunner` does for modules of PyTorch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.names import SERVERS
from plinth.workers.group import Group
from plinth.workers.machines import Machines
from plinth.workers.runner import SynchronousExchange, TableSettings

Floats = NDArray[np.float32]
#: Ways to keep all variables equal: tables by servers, dense ones round a ring; or all by servers, rings, or gathered
#: rows beside rings.
HYBRID, SERVERS_ONLY, ALL_REDUCE, GATHERED = WAYS = "hybrid", "servers", "rings", "gathered"


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a model, and of a worker's batch.

    Parameters
    ----------
    words, width : int
        Rows of the table, and numbers of each.
    context : int
        Words that tell the next one.
    hidden, classes, batch : int
    """

    words: int = 12_471
    width: int = 512
    context: int = 8
    hidden: int = 32
    classes: int = 512
    batch: int = 64


def _rows(values: Floats, rows: NDArray[np.int64]) -> Floats:
    chosen: Floats = values[rows]
    return chosen


def first_values(sizes: ModelSizes, seed: int = 0) -> tuple[Floats, dict[str, Floats]]:
    """The first values of the table, and of dense variables by name."""
    generator = np.random.default_rng(seed)

    def drawn(*shape: int) -> Floats:
        return (generator.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    table = generator.standard_normal((sizes.words, sizes.width)).astype(np.float32)
    return table, {
        "hidden": drawn(sizes.context * sizes.width, sizes.hidden),
        "hidden_bias": np.zeros((1, sizes.hidden), np.float32),
        "out": drawn(sizes.hidden, sizes.classes), "out_bias": np.zeros((1, sizes.classes), np.float32)}


def gradients_of(known: Floats, places: NDArray[np.int64], y: NDArray[np.int64], dense: Mapping[str, Floats],
                 factor: float) -> tuple[float, Floats, dict[str, Floats]]:
    """The mean loss of a batch, and gradients of the rows that it looks up and of dense variables, times a factor.

    Parameters
    ----------
    known : array ``[rows, width]``
        Rows of the table, each once.
    places : array ``[batch, context]``
        Which of them each word is.
    y : array ``[batch]``
    """
    samples, width = len(y), known.shape[1]
    inputs = known[places.reshape(-1)].reshape(samples, -1)
    hidden = np.tanh(inputs @ dense["hidden"] + dense["hidden_bias"])
    scores = hidden @ dense["out"] + dense["out_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    error = np.exp(scores)
    error /= error.sum(axis=1, keepdims=True)
    loss = float(-np.log(np.maximum(error[np.arange(samples), y], 1e-30)).mean())
    error[np.arange(samples), y] -= 1
    error *= np.float32(factor / samples)
    back = (error @ dense["out"].T) * (1 - hidden * hidden)
    of_rows = np.zeros_like(known)
    np.add.at(of_rows, places.reshape(-1), (back @ dense["hidden"].T).reshape(-1, width))
    return loss, of_rows, {"hidden": inputs.T @ back, "hidden_bias": back.sum(axis=0, keepdims=True),
                           "out": hidden.T @ error, "out_bias": error.sum(axis=0, keepdims=True)}


class LanguageModel:
    """The model on one of several workers.

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
        Of the table, where servers own it; 0: one a worker.
    """

    def __init__(self, sizes: ModelSizes, workers: Group, way: str, rate: float = 0.5, seed: int = 0, pieces: int = 0
                 ) -> None:
        self.sizes, self.workers, self.rate = sizes, workers, np.float32(rate)
        self.table, self.dense = first_values(sizes, seed)
        machines = Machines(tuple((worker,) for worker in range(workers.size)))
        count = pieces or workers.size
        tables = [TableSettings("table", self.table.shape, count)]
        ways = {"table": SERVERS if way in (HYBRID, SERVERS_ONLY) else way}
        self._served = list(self.dense) if way == SERVERS_ONLY else []
        tables += [TableSettings(name, self.dense[name].shape, min(workers.size, len(self.dense[name])))
                   for name in self._served]
        ways |= dict.fromkeys(self._served, SERVERS)
        self._ringed = [name for name in self.dense if name not in self._served]
        values = {"table": self.table, **self.dense}
        self.exchange = SynchronousExchange(workers, machines, tables, [
            self.dense[name].size for name in self._ringed], ways, {
                settings.name: partial(_rows, values[settings.name]) for settings in tables})

    def step(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
        """Train on a worker's batch ``[batch, context]`` and ``[batch]``; its loss before. Collective."""
        rows, places = np.unique(x, return_inverse=True)
        for name in self._served:
            everything = np.arange(len(self.dense[name]))
            values = self.exchange.pull(name, everything)
            if values is not None:
                self.dense[name][:] = values
        pulled = self.exchange.pull("table", rows)
        # The mean over all workers' samples.
        loss, of_rows, gradients = gradients_of(self.table[rows] if pulled is None else pulled, places.reshape(x.shape),
                                                y, self.dense, 1 / self.workers.size)
        sums, tables = self.exchange.aggregate([gradients[name] for name in self._ringed], {
            "table": (rows, of_rows), **{name: (np.arange(len(gradients[name])), gradients[name])
                                         for name in self._served}})
        for name, total in zip(self._ringed, sums, strict=True):
            self.dense[name] -= self.rate * total
        for name, (numbers, total) in tables.items():
            own = self.table if name == "table" else self.dense[name]
            own[numbers] -= self.rate * total
        return loss


def batches(x: NDArray[np.int64], y: NDArray[np.int64], sizes: ModelSizes, worker: int, workers: int, seed: int = 0
            ) -> Iterator[tuple[Any, Any]]:
    """A worker's batches without end: every ``workers``-th of random samples, the same for any number of workers."""
    generator = np.random.default_rng([seed, 1])
    while True:
        chosen = generator.integers(0, len(x), sizes.batch * workers)[worker::workers]
        yield x[chosen], y[chosen]
