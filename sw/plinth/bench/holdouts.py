"""Steps that played no part in making predictions, and what was first measured of them.

Networks, batches, numbers of dies, dies and links are others than those of the grid of :mod:`agreement`. The first
measurement of each case is written with its splits and what was counted, simulated and predicted; what is measured
later stands beside it and never instead. The second set of cases (``odd-``...) was chosen before predictions were
mended once more, and played no part in that: odd widths, Winograd layers, machines and links that the first one has
not, and a batch on either side of where simulations go over to groups of tasks.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from plinth.array.array import Array, full, ring, torus
from plinth.errors import UserError
from plinth.files.forms import described, is_integer
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
from plinth.update.rule import FORMS, PLAIN, UpdateRule, rule_for

#: First measurements, and the version of their file.
FILE, VERSION = Path(__file__).resolve().parent / "holdouts.json", 2
#: Outputs of a tile's side, what is trained, and if gathers are predicted in how many rounds.
Tiles = tuple[int, str] | tuple[int, str, int]


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
    Network(name="odd-cnn", input=Shape((3, 15, 13)), layers=(
        Convolution(name="conv1", channels=7, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
        Convolution(name="conv2", channels=13, kernel=(5, 5), stride=(2, 2), padding=(2, 2)), Relu(name="relu2"),
        Convolution(name="conv3", channels=10, kernel=(1, 1)), Relu(name="relu3"),
        MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flatten"),
        Dense(name="fc1", outputs=22), Relu(name="relu4"), Dense(name="fc2", outputs=10),
        SoftmaxCrossEntropy(name="loss"))),
    perceptron("odd-mlp", (61, 37, 54, 21, 7)),
    perceptron("odd-deep", (*(19,) * 16, 7)),
    Network(name="odd-tiles", input=Shape((3, 13, 13)), layers=(
        *(layer for number, channels in enumerate((9, 13, 18), 1) for layer in (
            Convolution(name=f"conv{number}", channels=channels, kernel=(3, 3), padding=(1, 1)),
            Relu(name=f"relu{number}"))),
        Flatten(name="flatten"), Dense(name="fc", outputs=10), SoftmaxCrossEntropy(name="loss"))),
    Network(name="odd-blocks", input=Shape((4, 16, 16)), layers=(
        Convolution(name="conv1", channels=10, kernel=(3, 3), padding=(1, 1)), Relu(name="relu1"),
        Convolution(name="conv2", channels=10, kernel=(3, 3), padding=(1, 1)),
        Add(name="add", inputs=("relu1", "conv2")), Relu(name="relu2"),
        MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="conv3", channels=14, kernel=(3, 3), padding=(1, 1)), Relu(name="relu3"),
        Flatten(name="flatten"), Dense(name="fc", outputs=10), SoftmaxCrossEntropy(name="loss"))),
    # Sparse layers, of other sizes than those that docs/sparse.md compares.
    replace(layered(trained_network(256, 2, seed=1)), name="radix-256"),
    _irregular("irregular-512", IrregularNet(widths=(512, 320, 192), density=0.05, seed=1)),
    _irregular("power-512", IrregularNet(widths=(384, 512, 128), density=0.03, degrees=POWER_LAW, seed=2)),
)}


@dataclass(frozen=True)
class HoldoutCase:
    """A network on an array, under the plan of a planner, or, by "2 x 4", with its Winograd layers over so many groups
    x clusters."""

    network: str
    batch: int
    array: Array
    planner: str
    rule: UpdateRule = PLAIN
    #: How copies of its tables are kept equal.
    copies: str = RINGS
    #: Of Winograd layers.
    tiles: Tiles | None = None
    #: Whether it is of the second set.
    second: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return (self.network, str(self.batch), self.array.preset, self.array.name, str(self.array.rate), self.planner,
                *(() if self.rule == PLAIN else (self.rule.title,)), *(() if self.copies == RINGS else (self.copies,)),
                *(() if self.tiles is None else (" ".join(map(str, self.tiles)),)))


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
    # The second set: each with the tiles of Winograd layers, if there are any.
    quick, half = "ndp-demo-winograd", Fraction(1, 2)
    odd: tuple[tuple[str, int, Array, tuple[str, ...], Tiles | None], ...] = (
        ("odd-cnn", 48, ring(2), ("data",), None),
        ("odd-cnn", 80, ring(5), ("data", "model"), None),
        ("odd-cnn", 96, ring(3, preset="hypar-demo"), ("data", "one-weird-trick"), None),
        ("odd-cnn", 64, replace(full(4), preset="fpga-demo"), ("data",), None),
        ("odd-cnn", 40, ring(2, preset="ndp-demo-mixed"), ("data",), None),
        ("odd-cnn", 36, ring(3, preset="hypar-demo-fixed"), ("data",), None),
        ("odd-mlp", 200, ring(6, link_rate=half), ("data", "one-weird-trick"), None),
        ("odd-mlp", 160, replace(full(4), preset="hypar-demo"), ("data", "model"), None),
        ("odd-mlp", 384, ring(3, preset="hypar-demo-mixed"), ("data",), None),
        ("odd-mlp", 144, replace(torus(2, 6), preset="ndp-tiny"), ("hypar", "model"), None),
        ("odd-deep", 1024, ring(12, preset="ndp-tiny"), ("model",), None),
        ("odd-deep", 1280, ring(12, preset="ndp-tiny"), ("model",), None),
        ("odd-tiles", 32, ring(4, preset=quick), ("1 x 4", "2 x 2", "4 x 1"), (2, "winograd")),
        ("odd-tiles", 48, ring(6, preset=quick), ("mpt", "6 x 1"), (2, "winograd")),
        ("odd-tiles", 24, ring(3, preset=quick), ("1 x 3", "3 x 1"), (4, "spatial")),
        ("odd-blocks", 32, ring(4, preset="ndp-demo-predict"), ("4 x 1",), (2, "winograd", 1)),
        ("odd-blocks", 32, ring(2, preset=quick), ("1 x 2", "2 x 1"), (2, "winograd")),
        ("odd-blocks", 32, replace(full(4), preset=quick), ("2 x 2", "4 x 1"), (4, "spatial")),
        ("odd-blocks", 48, ring(4, preset=quick, link_rate=slow), ("mpt", "2 x 2"), (2, "winograd")))
    return (*(HoldoutCase(network, batch, array, planner) for network, batch, array, planners in arrays
              for planner in planners),
            *(HoldoutCase(network, batch, array, planner, FORMS[title]) for network, batch, array, planner,
              title in updated),
            *(HoldoutCase(network, batch, array, "data", copies=way) for network, batch, array, ways in moved
              for way in ways),
            *(HoldoutCase(network, batch, array, planner, rule_for(array.die_parameters()).form, tiles=tiles,
                          second=True)
              for network, batch, array, planners, tiles in odd for planner in planners))


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
        data = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(data, list) or data["version"] != VERSION:
            version = 1 if isinstance(data, list) else data["version"]
            raise UserError(f"{file}: version {described(version)} of a list of first measurements, of which this is "
                            f"{VERSION}; take it from the repository again")
        measurements = data["measurements"]
        if not isinstance(measurements, list):
            raise TypeError("no list")
        found = dict(map(_first, measurements))
        if len(found) < len(measurements):
            raise ValueError("a case stands twice")
        return found
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{file}: not a list of first measurements; take it from the repository again") from error


def _first(fields: dict[str, Any]) -> tuple[tuple[str, ...], FirstMeasurement]:
    """A case's key, and its measurement; ValueError or TypeError if it is none."""
    case, splits = fields.pop("case"), fields.pop("splits")
    first = FirstMeasurement(splits=tuple(map(tuple, splits)), **fields)
    texts = [case, *splits] if isinstance(splits, list) else [None]
    if not all(isinstance(some, list) and all(isinstance(text, str) for text in some) for some in texts):
        raise TypeError("no lists of texts")
    if not isinstance(first.program, str) or not all(is_integer(cycles, 1, 1 << 63) for cycles in (
            first.counted, first.simulated, first.predicted)):
        raise TypeError("no cycles")
    return tuple(case), first


def write_first(measurements: Sequence[tuple[HoldoutCase, FirstMeasurement]], file: Path = FILE) -> None:
    """Add cases that were never measured before, if there are any.

    Raises
    ------
    UserError
        If the file is damaged or cannot be written.
    """
    known = first_measured(file)
    fresh = {case.key: first for case, first in measurements if case.key not in known}
    if fresh:
        write_json(file, {"version": VERSION, "measurements": [
            {"case": list(key), **asdict(first)} for key, first in (known | fresh).items()]})
