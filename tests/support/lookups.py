"""Networks with tables whose rows move one by one, plans that say how, and samples whose rows are as frequent as words.
"""

from typing import Any

import numpy as np
from numpy.random import Generator

from plinth.network.layers import Add, Dense, Embedding, Join, Layer, MeanSquaredError, Relu, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.partition.graph import DP
from plinth.plan.plan import Plan
from plinth.sharding import Gathered, Server, Sync
from plinth.train.data import Dataset, table_rows


def language_model(rows: int = 40, width: int = 8, words: int = 4, hidden: int = 16, classes: int = 10) -> Network:
    """A network that tells a word by those before it."""
    return Network(name="words", input=Shape((words,)), layers=(
        Embedding(name="table", rows=rows, width=width), Dense(name="hidden", outputs=hidden), Tanh(name="tanh"),
        Dense(name="out", outputs=classes), SoftmaxCrossEntropy(name="loss")))


def random_tables(generator: Generator) -> Network:
    """A table or two, behind each an activation, a sum, or nothing."""

    def below(limit: int) -> int:
        return int(generator.integers(1, limit + 1))

    width = below(20)
    layers: list[Layer] = [Embedding(name="table", inputs=("input",), rows=1 + below(30), width=width)]
    if generator.random() < 0.5:
        layers.append(Relu(name="first"))
    if generator.random() < 0.5:
        layers.append(Embedding(name="other", inputs=("input",), rows=1 + below(30), width=width))
        layers.append((Add, Join)[below(2) - 1](name="both", inputs=(layers[-2].name, "other")))
    layers += [Dense(name="hidden", outputs=below(8)), Tanh(name="tanh"), Dense(name="out", outputs=1 + below(6))]
    layers.append((SoftmaxCrossEntropy, MeanSquaredError)[below(2) - 1](name="loss"))
    return Network(name="tables", input=Shape((below(6),)), layers=tuple(layers))


def random_sync(generator: Generator, rows: int, dies: int) -> Sync:
    """Servers that own any pieces of rows, or all dies."""
    choice = generator.integers(4)
    if choice == 0:
        return Gathered()
    pieces = int(generator.integers(1, min(rows, 2 * dies) + 1))
    owners = tuple(generator.integers(0, dies, pieces).tolist())
    if choice == 1:
        return Server(owners, pieces)
    if choice == 2:
        return Server(owners, pieces, interleaved=True)
    which = np.concatenate([np.arange(pieces), generator.integers(0, pieces, rows - pieces)])
    generator.shuffle(which)
    parts = []
    for piece in range(pieces):
        ends = np.flatnonzero(np.diff(np.concatenate([[0], which == piece, [0]])))
        parts.append(tuple((int(first), int(end)) for first, end in ends.reshape(-1, 2)))
    return Server(owners, tuple(parts))


def with_rows(plan: Plan, **syncs: Sync) -> Plan:
    """A plan of which tables, by layer, move rows one by one; the batches of these are split at every level."""
    splits = tuple((DP,) * plan.levels if node.name in syncs else vector
                   for node, vector in zip(plan.graph.nodes, plan.splits, strict=True))
    plan = plan.resharded(splits=splits)
    return plan.resharded(copies=tuple((name, syncs.get(name.partition(".")[0], sync))
                                       for name, sync in plan.sharding.copies))


def frequent_words(network: Network, samples: int, generator: Generator) -> Dataset:
    """Samples of row numbers of which low ones are frequent, as those of words are (Zipf's law), and any targets."""
    rows = table_rows(network)
    assert rows is not None
    x: Any = (generator.zipf(1.3, (samples, network.input.elements)) - 1) % rows
    outputs = network.output.elements
    if isinstance(network.loss, SoftmaxCrossEntropy):
        y = generator.integers(0, outputs, samples)
        return Dataset(x, y, x, y, outputs)
    wanted = generator.standard_normal((samples, outputs)).astype(np.float32)
    return Dataset(x, wanted, x, wanted, 0)
