"""Steps that played no part in making predictions, and what was first measured of them.

Networks, batches, numbers of dies, dies and links are others than those of the grid of :mod:`agreement`. The first
whole measurement writes each case with its splits and what was counted, simulated and predicted; what is measured later
stands beside it and never instead.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from plinth.array.array import Array, full, ring, torus
from plinth.errors import UserError
from plinth.names import GATHERED_ROWS, RINGS, SERVERS
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Join,
    Layer,
    MaxPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron
from plinth.network.sparse.activations import SparseSigmoid
from plinth.network.sparse.irregular import POWER_LAW, IrregularNet
from plinth.network.sparse.layers import layered
from plinth.network.sparse.network import SparseNetwork
from plinth.network.sparse.radix_net import trained_network
from plinth.output import write_json
from plinth.partition.regions import Splits
from plinth.update.rule import FORMS, PLAIN, UpdateRule

#: First measurements.
FILE = Path(__file__).resolve().parent / "holdouts.json"


def _residual() -> Network:
    """A residual block, and a join of two branches, on maps of 12 x 12."""
    def convolution(name: str, channels: int, source: str = "", size: int = 3) -> Layer:
        return Convolution(name=name, channels=channels, kernel=(size, size), padding=(size // 2, size // 2),
                           inputs=(source,) if source else ())

    return Network(name="residual-12", input=Shape((3, 12, 12)), layers=(
        convolution("conv1", 12), Relu(name="relu1"), convolution("conv2", 12), Relu(name="relu2"),
        convolution("conv3", 12), Add(name="add", inputs=("relu1", "conv3")), Relu(name="relu3"),
        convolution("wide", 18, "relu3"), convolution("narrow", 18, "relu3", 1),
        Join(name="join", inputs=("wide", "narrow")), Relu(name="relu4"),
        MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"),
        Dense(name="fc", outputs=10), SoftmaxCrossEntropy(name="loss")))


def _irregular(name: str, source: IrregularNet) -> Network:
    """A chain of sparse layers without structure, with sigmoids behind them."""
    return layered(SparseNetwork(name=name, source=source, biases=[np.zeros(width) for width in source.widths[1:]],
                                 activations=[SparseSigmoid()] * (len(source.widths) - 1)))


#: By name.
NETWORKS: dict[str, Network] = {network.name: network for network in (
    Network(name="lenet-28", input=Shape((1, 28, 28)), layers=(
        Convolution(name="conv1", channels=6, kernel=(5, 5)), Relu(name="relu1"),
        MaxPool(name="pool1", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="conv2", channels=16, kernel=(5, 5)), Relu(name="relu2"),
        MaxPool(name="pool2", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"),
        Dense(name="fc1", outputs=120), Relu(name="relu3"), Dense(name="fc2", outputs=84), Relu(name="relu4"),
        Dense(name="fc3", outputs=10), SoftmaxCrossEntropy(name="loss"))),
    _residual(),
    Network(name="words-8", input=Shape((8,)), layers=(
        Embedding(name="table", rows=500, width=24), Dense(name="fc1", outputs=96), Relu(name="relu1"),
        Dense(name="fc2", outputs=10), SoftmaxCrossEntropy(name="loss"))),
    Network(name="words-6", input=Shape((6,)), layers=(
        Embedding(name="table", rows=4000, width=32), Dense(name="fc1", outputs=64), Relu(name="relu1"),
        Dense(name="fc2", outputs=10), SoftmaxCrossEntropy(name="loss"))),
    perceptron("wide-mlp", (256, 1024, 384, 10)),
    perceptron("narrow-mlp", (40, 24, 18, 24, 18, 12)),
    # Sparse layers, of other sizes than those that docs/sparse.md compares.
    replace(layered(trained_network(256, 2, seed=1)), name="radix-256"),
    _irregular("irregular-512", IrregularNet(widths=(512, 320, 192), density=0.05, seed=1)),
    _irregular("power-512", IrregularNet(widths=(384, 512, 128), density=0.03, degrees=POWER_LAW, seed=2)),
)}


@dataclass(frozen=True)
class HoldoutCase:
    """A network on an array, under the plan of a planner."""

    network: str
    batch: int
    array: Array
    planner: str
    rule: UpdateRule = PLAIN
    #: How copies of its tables are kept equal.
    copies: str = RINGS

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return (self.network, str(self.batch), self.array.preset, self.array.name, str(self.array.rate), self.planner,
                *(() if self.rule == PLAIN else (self.rule.title,)), *(() if self.copies == RINGS else (self.copies,)))


@dataclass(frozen=True)
class FirstMeasurement:
    """What was first measured of a case, its splits, and the digest of the program that ran."""

    splits: Splits
    program: str
    counted: int
    simulated: int
    predicted: int


def _cases() -> tuple[HoldoutCase, ...]:
    slow = Fraction(1, 8)
    arrays: tuple[tuple[str, int, Array, tuple[str, ...]], ...] = (
        ("lenet-28", 32, ring(3), ("data", "one-weird-trick")),
        ("lenet-28", 32, ring(6, preset="hypar-half"), ("data", "one-weird-trick")),
        ("lenet-28", 96, ring(6, link_rate=slow), ("data", "joint")),
        ("residual-12", 96, ring(6), ("data", "one-weird-trick")),
        ("residual-12", 32, replace(torus(3, 4), preset="hypar-demo"), ("data", "joint")),
        ("residual-12", 96, ring(3, preset="ndp-bench", link_rate=slow), ("data", "one-weird-trick", "joint")),
        ("words-8", 200, full(3), ("data", "one-weird-trick")),
        ("words-8", 200, ring(6, preset="hypar-half", link_rate=slow), ("data", "joint")),
        ("words-8", 96, ring(12, preset="ndp-tiny"), ("data", "joint")),
        ("wide-mlp", 32, ring(3, preset="ndp-bench"), ("data", "joint")),
        ("wide-mlp", 96, replace(torus(3, 4), link_rate=slow), ("hypar", "joint")),
        ("wide-mlp", 32, ring(6, preset="hypar-half"), ("data", "joint")),
        ("narrow-mlp", 200, ring(12, preset="ndp-tiny"), ("data", "model")),
        ("narrow-mlp", 200, ring(3, preset="hypar-half", link_rate=slow), ("data", "one-weird-trick")),
        ("narrow-mlp", 96, ring(6, preset="ndp-bench"), ("data", "model")),
        ("radix-256", 48, ring(2), ("hypergraph", "random-rows")),
        ("radix-256", 48, ring(3), ("hypergraph", "random-rows")),
        ("irregular-512", 32, ring(2), ("hypergraph", "random-rows")),
        ("irregular-512", 32, ring(3), ("hypergraph", "random-rows")),
        ("power-512", 48, ring(3), ("hypergraph", "random-rows")))
    # By other rules than plain gradient descent, of fixed-point dies most.
    updated: tuple[tuple[str, int, Array, str, str], ...] = (
        ("lenet-28", 32, ring(3, preset="fpga-demo"), "data", "adagrad wide"),
        ("wide-mlp", 32, ring(2, preset="fpga-demo"), "data", "adagrad wide"),
        ("words-8", 200, ring(3, preset="fpga-demo"), "data", "sgd wide"),
        ("narrow-mlp", 96, ring(3, preset="fpga-tiny"), "data", "momentum"),
        ("narrow-mlp", 32, ring(1, preset="fpga-ulx3s"), "data", "adagrad stochastic"),
        ("words-8", 96, ring(2, preset="hypar-demo-fixed"), "data", "adagrad wide"),
        ("lenet-28", 32, ring(3), "data", "momentum"),
        ("words-8", 96, ring(3), "joint", "adagrad"),
        ("narrow-mlp", 200, ring(3, preset="hypar-half"), "data", "adagrad"))
    # Tables whose rows move one by one.
    moved: tuple[tuple[str, int, Array, tuple[str, ...]], ...] = (
        ("words-8", 200, full(3), (SERVERS, GATHERED_ROWS)),
        ("words-8", 96, ring(12, preset="ndp-tiny"), (SERVERS, GATHERED_ROWS)),
        ("words-6", 96, ring(3), (SERVERS, GATHERED_ROWS, RINGS)),
        ("words-6", 32, ring(6, preset="hypar-half", link_rate=slow), (SERVERS, GATHERED_ROWS, RINGS)))
    return (*(HoldoutCase(network, batch, array, planner) for network, batch, array, planners in arrays
              for planner in planners),
            *(HoldoutCase(network, batch, array, planner, FORMS[title]) for network, batch, array, planner,
              title in updated),
            *(HoldoutCase(network, batch, array, "data", copies=way) for network, batch, array, ways in moved
              for way in ways))


CASES = _cases()


def first_measured(file: Path = FILE) -> dict[tuple[str, ...], FirstMeasurement]:
    """First measurements by case; none if there is no file yet.

    Raises
    ------
    UserError
        If the file is damaged.
    """
    if not file.exists():
        return {}
    try:
        return {tuple(fields.pop("case")): FirstMeasurement(splits=tuple(map(tuple, fields.pop("splits"))), **fields)
                for fields in json.loads(file.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{file}: not a list of first measurements; take it from the repository again") from error


def write_first(measurements: Sequence[tuple[HoldoutCase, FirstMeasurement]], file: Path = FILE) -> None:
    """Add cases that were never measured before.

    Raises
    ------
    UserError
        If the file is damaged or cannot be written.
    """
    known = first_measured(file)
    known |= {case.key: first for case, first in measurements if case.key not in known}
    write_json(file, [{"case": list(key), **asdict(first)} for key, first in known.items()])
