"""Projections beside principal components and random directions of as many: error, time, accuracy of a network.

A projection is fitted to the training samples alone. Principal components are those of samples as they are, not of
their distances from a mean: of all linear projections onto as many directions they have the least Frobenius error,
which is what errors of others are compared with. The network is a perceptron of one hidden layer, tanh, trained by
Adagrad on batches of 100 as Deep3's are, in numpy.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import ring
from plinth.network.layers import Dense, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import data_parallel
from plinth.projection.fit import fit
from plinth.projection.projection import DICTIONARY, Projection
from plinth.projection.samples import Floats
from plinth.projection.selection import DIRECTIONS, FIRST, GREEDY
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.step.build import step_of
from plinth.train.data import Dataset
from plinth.train.evaluation import evaluate
from plinth.train.float64 import float64_predictor
from plinth.train.session import epoch_order
from plinth.update.kinds import ADAGRAD
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

#: Names of rows of a comparison.
PRINCIPAL, RANDOM, RAW = "principal components", "random directions", "no projection"
#: The network: hidden neurons, samples of a batch, rate of Adagrad, steps.
HIDDEN, BATCH, RATE, STEPS = 128, 100, 0.02, 800


def principal(x: Floats, size: int) -> Projection:
    """The projection of samples ``[samples, features]`` onto their first principal components, without a mean."""
    values = x.astype(np.float64)
    _, directions = np.linalg.eigh(values.T @ values)
    return _onto(directions.T[::-1][:size])


def random_directions(features: int, size: int, seed: int) -> Projection:
    """The projection onto directions at random, made orthonormal."""
    normal = np.random.default_rng(seed).standard_normal((features, size))
    return _onto(np.linalg.qr(normal)[0].T)


def _onto(rows: NDArray[np.float64]) -> Projection:
    """The projection onto orthonormal rows, which are a dictionary of themselves."""
    basis = np.ascontiguousarray(rows, dtype=np.float32)
    return Projection(basis, basis, 1.0)


@dataclass(frozen=True)
class ComparedProjection:
    """What a projection costs and gives.

    Attributes
    ----------
    name : str
    size : int
        Coordinates of a sample.
    error, test_error : float
        Frobenius error on training samples, which it was fitted to, and on others.
    fit_seconds, project_seconds : float
        Time of the fit, and of the coordinates of all training samples.
    accuracies : sequence of float
        Test accuracy of the network by its coordinates, by seed.
    """

    name: str
    size: int
    error: float
    test_error: float
    fit_seconds: float
    project_seconds: float
    accuracies: Sequence[float]

    @property
    def deviation(self) -> float:
        """The standard deviation of accuracies over seeds; 0 of one."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


def trained_accuracy(dataset: Dataset, seed: int, *, hidden: int = HIDDEN, steps: int = STEPS, rate: float = RATE
                     ) -> float:
    """The test accuracy of a small network that is trained on samples of classes.

    Parameters
    ----------
    seed : int
        Of first weights and of the order of samples.
    hidden, steps : int
        Neurons of the hidden layer, and batches.
    rate : float
        Of Adagrad.

    Raises
    ------
    UserError
        If there are fewer samples than a batch has.
    """
    features = dataset.train_x.shape[1]
    network = Network(name="projected", input=Shape((features,)), layers=(
        Dense(name="fc1", outputs=hidden), Tanh(name="tanh1"), Dense(name="fc2", outputs=dataset.classes),
        SoftmaxCrossEntropy(name="loss")))
    batch = min(BATCH, len(dataset.train_x))
    plan = data_parallel(network, dies=1, batch=batch).resharded(array=ring(1, preset="ndp-demo"))
    step = step_of(replace(plan.sharding, rule=UpdateRule(ADAGRAD, rate=rate)), preset("ndp-demo"))
    executor = NumpyExecutor(step)
    executor.view.load(executor, initial_parameters(network, seed))
    for numbers in islice(_batches(len(dataset.train_x), batch, seed), steps):
        executor.view.write_batch(executor, dataset.train_x[numbers], dataset.targets(numbers))
        executor.step()
    _, right = evaluate(network, float64_predictor(network), executor.view.parameters_of(executor), dataset.test_x,
                        dataset.test_y, classes=True)
    assert right is not None
    return right


def _batches(samples: int, batch: int, seed: int) -> Iterable[NDArray[np.int64]]:
    """Sample numbers of one batch after the other, without end."""
    return (numbers for epoch in count() for numbers in epoch_order(samples, batch, seed, epoch))


def projected(dataset: Dataset, projection: Projection) -> Dataset:
    """A data set of the coordinates of another one's samples."""
    return replace(dataset, train_x=projection.project(dataset.train_x), test_x=projection.project(dataset.test_x))


def compared(dataset: Dataset, size: int, *, seeds: Sequence[int] = (0,), steps: int = STEPS,
             names: Sequence[str] | None = None) -> list[ComparedProjection]:
    """Compare projections of a data set, all of as many coordinates.

    Parameters
    ----------
    size : int
        Coordinates: a limit that binds at the default tolerance.
    seeds : sequence of int
        Of networks.
    steps : int
        Batches that a network is trained on.
    names : sequence of str or None
        Rows that are wanted; None: all.

    Raises
    ------
    UserError
        If a sample is refused, or there are fewer than coordinates.
    """
    x = dataset.train_x
    makers: dict[str, Callable[[], Projection]] = {
        f"selection {DIRECTIONS}": partial(fit, x, limit=size),
        f"selection {GREEDY}": partial(fit, x, limit=size, selection=GREEDY),
        f"selection {GREEDY}, D^+ a": partial(fit, x, limit=size, coordinates=DICTIONARY),
        f"selection {FIRST}": partial(fit, x, limit=size, selection=FIRST),
        PRINCIPAL: partial(principal, x, size), RANDOM: partial(random_directions, x.shape[1], size, 0)}
    rows = [_compared(name, make, dataset, seeds, steps) for name, make in makers.items()
            if names is None or name in names]
    if names is None or RAW in names:
        rows.append(ComparedProjection(RAW, x.shape[1], 0.0, 0.0, 0.0, 0.0, _accuracies(dataset, seeds, steps)))
    return rows


def _compared(name: str, make: Callable[[], Projection], dataset: Dataset, seeds: Sequence[int], steps: int
              ) -> ComparedProjection:
    begun = time.perf_counter()
    projection = make()
    fitted = time.perf_counter()
    projection.project(dataset.train_x)
    done = time.perf_counter()
    return ComparedProjection(
        name, projection.size, projection.error(dataset.train_x), projection.error(dataset.test_x), fitted - begun,
        done - fitted, _accuracies(projected(dataset, projection), seeds, steps))


def _accuracies(dataset: Dataset, seeds: Sequence[int], steps: int) -> list[float]:
    return [trained_accuracy(dataset, seed, steps=steps) for seed in seeds]


def table(rows: Sequence[ComparedProjection], digits: int = 3) -> str:
    """Compared projections as the Markdown table of docs/projection.md; times in milliseconds."""
    lines = ["| projection | l | error | on others | fit, ms | coordinates, ms | accuracy | deviation |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells: list[Any] = [row.name, row.size, f"{row.error:.{digits}f}", f"{row.test_error:.{digits}f}",
                            f"{1e3 * row.fit_seconds:.0f}", f"{1e3 * row.project_seconds:.1f}",
                            f"{mean(row.accuracies):.{digits}f}" if row.accuracies else "",
                            f"{row.deviation:.{digits}f}" if row.accuracies else ""]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
