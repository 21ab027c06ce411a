"""Small networks, samples and kernels for tests of local networks."""

from collections.abc import Callable, Sequence

import numpy as np

from plinth.local.devices import kernel_devices
from plinth.local.sets import Answer, LocalSet
from plinth.local.training import LocalTraining, planned_kernels
from plinth.network.layers import Tanh
from plinth.network.network import Network, perceptron
from plinth.train.data import Dataset

#: Inputs, hidden units and classes.
WIDTHS = (12, 16, 8, 4)
BATCH = 8


def network() -> Network:
    """A perceptron of :data:`WIDTHS` with tanh."""
    return perceptron("small", WIDTHS, Tanh)


def dataset(samples: int = 480, seed: int = 0) -> Dataset:
    """Samples whose class is the largest of four sums of inputs."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (samples + 160, WIDTHS[0])).astype(np.float32)
    y = np.argmax(x.reshape(len(x), 4, 3).sum(axis=2), axis=1).astype(np.int64)
    return Dataset(x[:samples], y[:samples], x[samples:], y[samples:], 4, name="sums", sha256="0")


def training(kernels: str = "2*numpy", widths: Sequence[int] = (12, 8, 4, 4), update: str = "adagrad",
             **settings: object) -> LocalTraining:
    """Training of the network by kernels as users name them."""
    devices = kernel_devices(kernels)
    plans = planned_kernels(network(), devices, [widths] * len(devices), batch=BATCH, rule=update, rate=0.05,
                            epsilon=None, memory_mib=1)
    return LocalTraining(network=network(), dataset=dataset(), kernels=plans, batch=BATCH, seed=1,
                         **settings)  # type: ignore[arg-type]


class AskedKernel:
    """A kernel that answers as a test says; by default that nothing has changed.

    Parameters
    ----------
    answer : callable
        Of a set its answer; what it raises ends the kernel.
    """

    def __init__(self, answer: Callable[[LocalSet], Answer] | None = None) -> None:
        self._answer = answer or unchanged
        self.given: list[LocalSet] = []

    def train(self, given: LocalSet) -> Answer:
        """Answer."""
        self.given.append(given)
        return self._answer(given)

    def close(self) -> None:
        """Hold nothing."""


def unchanged(given: LocalSet, by: float = 0.0) -> Answer:
    """All weights of a set have changed by so much."""
    return Answer(number=given.number, differences={name: np.full_like(values, by)
                                                    for name, values in given.weights.items()})
