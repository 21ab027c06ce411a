"""The step loop: batches in, weights out, every step compared with the golden run.

A session drives one array (the device under test) and, if given, a second one (the golden model) with the
same program and the same driver, and compares every weight of every die after every step.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.driver.driver import Driver
from plinth.lower.chain import chain
from plinth.lower.program import Program
from plinth.model.network import Network
from plinth.training.checkpoint import Parameters
from plinth.training.data import Dataset

Floats = NDArray[np.float32]

#: (parameters, samples, targets, outputs of ReLUs and inputs of max-pools by layer name) -> gradient of each
#: layer, weights then bias, flat float64, and the number of kinks at which the given maps decided.
Reference = Callable[[Parameters, Floats, NDArray[Any], Mapping[str, Floats]],
                     tuple[list[NDArray[np.float64]], int]]


def initial_parameters(network: Network, seed: int) -> Parameters:
    """He-normal weights, zero bias, flat per layer; equal seeds give equal bits."""
    generator = np.random.default_rng([seed, 0])
    found = []
    for layer in network.weighted:
        shapes = network.shapes[layer.name].parameters
        fan_in = prod(shapes["weights"][:-1])
        weights = generator.standard_normal(shapes["weights"]) * np.sqrt(2.0 / fan_in)
        bias = network.layer_parameters(layer.name) - weights.size
        found.append(np.concatenate([weights.ravel(), np.zeros(bias)]).astype(np.float32))
    return found


def epoch_order(samples: int, batch: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Sample numbers ``[steps, batch]`` of an epoch: shuffled, what the batch leaves over is dropped."""
    order = np.random.default_rng([seed, 1, epoch]).permutation(samples)
    steps = samples // batch
    return order[:steps * batch].reshape(steps, batch)


def predict(network: Network, parameters: Parameters, x: Floats) -> NDArray[np.int64]:
    """Class of each sample, on the host in FP32."""
    values = x
    blocks = chain(network)
    for block, flat in zip(blocks, parameters, strict=True):
        weights = flat[:block.inputs * block.outputs].reshape(block.inputs, block.outputs)
        values = values @ weights + flat[block.inputs * block.outputs:]
        if block is not blocks[-1]:
            values = np.maximum(values, 0)
    return values.argmax(axis=1)


def accuracy(network: Network, parameters: Parameters, x: Floats, y: NDArray[np.int64]) -> float:
    """Share of samples whose class is predicted right."""
    return float((predict(network, parameters, x) == y).mean())


@dataclass
class StepResult:
    """What one step showed."""

    epoch: int
    step: int
    loss: float
    accuracy: float
    cycles: int


@dataclass
class Session:
    """A training run on an array.

    Parameters
    ----------
    network, dataset, program
        What is trained, on what, and how it is lowered.
    driver : Driver
        Of the array under test.
    golden : Driver or None
        Of the golden model's array; None when the array under test is the golden model itself.
    reference : callable or None
        float64 gradients for ``gradient_error``.
    """

    network: Network
    dataset: Dataset
    program: Program
    driver: Driver
    golden: Driver | None
    reference: Reference | None
    batch: int
    seed: int
    #: Steps after which every weight was compared, and whether all were equal so far.
    compared_steps: int = 0
    equal: bool = True
    gradient_error: float = 0.0
    #: ReLU inputs so near 0 that FP32 and float64 disagree about their sign, over all steps.
    kinks: int = 0
    losses: list[float] = field(default_factory=list)
    step_cycles: list[int] = field(default_factory=list)

    @property
    def drivers(self) -> list[Driver]:
        """The array under test, then the golden one."""
        return [self.driver] if self.golden is None else [self.driver, self.golden]

    def load_parameters(self, parameters: Parameters) -> None:
        """Put the same weights on every die."""
        for driver in self.drivers:
            for die in range(self.program.dies):
                for layer, values in zip(self.network.weighted, parameters, strict=True):
                    buffer = self.program.buffers[f"{layer.name}.parameters"]
                    driver.write_floats(die, buffer, values)

    def parameters(self, driver: Driver, die: int) -> Parameters:
        """A die's weights, flat per layer."""
        return [driver.read_floats(die, self.program.buffers[f"{layer.name}.parameters"])[0]
                for layer in self.network.weighted]

    def _load_epoch(self, order: NDArray[np.int64]) -> None:
        """All batches of an epoch into die memory: die d takes the d-th share of each batch."""
        share = self.batch // self.program.dies
        targets = np.eye(self.dataset.classes, dtype=np.float32)
        for place, batch in enumerate(order):
            for die in range(self.program.dies):
                samples = batch[die * share:(die + 1) * share]
                x, t = self.dataset.train_x[samples], targets[self.dataset.train_y[samples]]
                for driver in self.drivers:
                    driver.write_floats(die, self.program.buffers["input"], x, place)
                    driver.write_floats(die, self.program.buffers["target"], t, place)

    def epoch(self, epoch: int) -> Iterator[StepResult]:
        """Run one epoch step by step."""
        order = epoch_order(len(self.dataset.train_x), self.batch, self.seed, epoch)
        self._load_epoch(order)
        for place, batch in enumerate(order):
            before = self.parameters(self.drivers[-1], 0)
            cycles = self.driver.step(place)
            if self.golden is not None:
                self.golden.step(place)
                self._compare()
            if self.reference is not None:
                self._check_gradients(before, batch)
            labels = self.dataset.train_y[batch]
            probabilities = np.concatenate([
                self.driver.read_floats(die, self.program.buffers["probabilities"])
                for die in range(self.program.dies)])
            picked = probabilities[np.arange(len(batch)), labels].astype(np.float64)
            loss = float(-np.log(np.maximum(picked, np.finfo(np.float32).tiny)).mean())
            self.losses.append(loss)
            self.step_cycles.append(cycles)
            right = probabilities.argmax(axis=1) == labels
            yield StepResult(epoch, place, loss, float(right.mean()), cycles)

    def _compare(self) -> None:
        assert self.golden is not None
        for die in range(self.program.dies):
            for mine, golden in zip(self.parameters(self.driver, die), self.parameters(self.golden, die),
                                    strict=True):
                self.equal &= bool(np.array_equal(mine.view(np.uint32), golden.view(np.uint32)))
        self.compared_steps += 1

    def _check_gradients(self, before: Parameters, batch: NDArray[np.int64]) -> None:
        """Largest relative error of a layer's gradient, summed over dies, against the reference."""
        assert self.reference is not None
        decided = {self.network.consumers(block.name)[0]: np.concatenate([
            self.driver.read_floats(die, self.program.buffers[f"{block.name}.output"])
            for die in range(self.program.dies)]) for block in chain(self.network)[:-1]}
        expected, kinks = self.reference(before, self.dataset.train_x[batch], self.dataset.train_y[batch],
                                         decided)
        self.kinks += kinks
        for layer, wanted in zip(self.network.weighted, expected, strict=True):
            buffer = self.program.buffers[f"{layer.name}.gradients"]
            found = sum(self.driver.read_floats(die, buffer)[0].astype(np.float64)
                        for die in range(self.program.dies)) / self.program.gradient_scale
            error = float(np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), np.finfo(float).tiny))
            self.gradient_error = max(self.gradient_error, error if np.isfinite(error) else float("inf"))
