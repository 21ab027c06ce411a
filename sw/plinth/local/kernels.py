"""Kernels: devices that train a set of a local network on some batches, and answer what that has changed.

A kernel keeps the states of the update rule for the whole network, of which each set has a part: they never travel. On
dies of fixed point they are wide, and so are weights: what is sent lies in both halves. A difference is against what
the device made of the weights that it was sent, so that rounding them is no change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.driver.executor import Executor
from plinth.errors import UserError
from plinth.local.batches import Batches
from plinth.local.sets import Answer, LocalSet
from plinth.lower.places import HostView
from plinth.network.local import LocalNetwork, LocalPart
from plinth.network.parameters import Parameters
from plinth.runtime.memory import Floats
from plinth.update.rule import HALF_BITS, WEIGHTS_LOW

#: What a number of a low half counts for, which is read as if it were a high one.
_LOW_UNIT = np.float32(2.0**-HALF_BITS)


class DifferentBitsError(UserError):
    """Dies that have other bits than the golden model."""


class Kernel(Protocol):
    """Trains local networks."""

    def train(self, given: LocalSet) -> Answer:
        """Train a set, and say what has changed."""
        ...

    def close(self) -> None:
        """Give back what it holds of the system."""
        ...


def give_back(array: object) -> None:
    """Close an array of dies, if it holds anything of the system."""
    close = getattr(array, "close", None)
    if callable(close):
        close()


@dataclass(frozen=True, kw_only=True)
class Running:
    """A local network on a device.

    Attributes
    ----------
    view : HostView
        Where the host reads and writes.
    executor : Executor
    golden : Executor or None
        The golden model of the same dies, which does the same steps; None: they are not compared.
    clock_hz : float or None
        Of dies whose cycles are counted; None: time is that of the host.
    """

    view: HostView
    executor: Executor
    golden: Executor | None = None
    clock_hz: float | None = None

    @property
    def executors(self) -> tuple[Executor, ...]:
        """The device, then the golden model."""
        return (self.executor,) if self.golden is None else (self.executor, self.golden)

    def close(self) -> None:
        """Give back what the device holds of the system, such as a serial port."""
        for executor in self.executors:
            give_back(getattr(executor, "array", None))


class DeviceKernel:
    """A kernel whose device runs steps (:class:`~plinth.driver.executor.Executor`): numpy, golden dies, dies in RTL or
    behind a serial line.

    Parameters
    ----------
    local : LocalNetwork
    start : callable
        Of the local network as it runs on the device, made where the kernel runs.
    batches : Batches
    """

    def __init__(self, local: LocalNetwork, start: Callable[[], Running], batches: Batches) -> None:
        self._local, self._start, self._batches = local, start, batches
        self._running: Running | None = None
        #: Vectors beside all global variables, by the variable's name and the vector's.
        self._kept: dict[str, dict[str, Floats]] = {}

    def open(self) -> None:
        """Start the device before the first set: dies are built here, so that nobody waits for that who trains.

        Raises
        ------
        UserError
            If it does not start.
        """
        self._opened()

    def _opened(self) -> Running:
        if self._running is None:
            self._running = self._start()
            self._kept = self._first_kept(self._running.view)
        return self._running

    def close(self) -> None:
        """Give back what the device holds of the system."""
        if self._running is not None:
            self._running.close()

    def train(self, given: LocalSet) -> Answer:
        """Train a set on so many batches, and say what has changed.

        Raises
        ------
        UserError
            If the device fails.
        DifferentBitsError
            If its bits are not the golden model's.
        """
        running, parts = self._opened(), self._local.parts(given.units)
        started, cycles = time.perf_counter(), running.executor.cycles
        for executor in running.executors:
            self._load(running.view, executor, given.weights, parts)
        before = self._weights(running.view, running.executor)
        for _ in range(given.batches):
            x, targets = self._batches.next()
            for executor in running.executors:
                running.view.write_batch(executor, x, targets)
                executor.step(0)
        after = self._weights(running.view, running.executor)
        self._keep(running.view, running.executor, parts)
        self._compare(running, given.number)
        cycles = running.executor.cycles - cycles
        wall = time.perf_counter() - started
        return Answer(number=given.number, differences={name: after[name] - before[name] for name in after},
                      seconds=wall if running.clock_hz is None else cycles / running.clock_hz,
                      counted={"wall_seconds": wall, "cycles": cycles,
                               "compared_sets": int(running.golden is not None)})

    def _first_kept(self, view: HostView) -> dict[str, dict[str, Floats]]:
        """Vectors beside the global variables, before the first set: low halves of weights come with each set."""
        whole = self._local.whole
        return {variable.qualified(layer): {vector: np.zeros(variable.shape, np.float32) for vector in vectors
                                            if vector != WEIGHTS_LOW}
                for layer, vectors in view.kept.items() for variable in whole.shapes[layer].variables}

    def _load(self, view: HostView, executor: Executor, weights: Parameters, parts: Mapping[str, LocalPart]) -> None:
        view.load(executor, weights)
        kept: dict[str, dict[str, NDArray[Any]]] = {
            name: {vector: parts[name].cut(values) for vector, values in vectors.items()}
            for name, vectors in self._kept.items()}
        if any(WEIGHTS_LOW in vectors for vectors in view.kept.values()):
            rounded = view.parameters_of(executor)
            for name, values in weights.items():
                kept.setdefault(name, {})[WEIGHTS_LOW] = (values - rounded[name]) / _LOW_UNIT
        if kept:
            view.load_kept(executor, kept)

    @staticmethod
    def _weights(view: HostView, executor: Executor) -> dict[str, Floats]:
        """Weights as the device has them, of wide ones both halves."""
        weights = view.parameters_of(executor)
        for name, vector, values in view.each_kept(executor):
            if vector == WEIGHTS_LOW:
                weights[name] = weights[name] + values * _LOW_UNIT
        return weights

    def _keep(self, view: HostView, executor: Executor, parts: Mapping[str, LocalPart]) -> None:
        for name, vector, values in view.each_kept(executor):
            if vector != WEIGHTS_LOW:
                self._kept[name][vector][parts[name].place] = values

    @staticmethod
    def _compare(running: Running, number: int) -> None:
        if running.golden is None:
            return
        state, wanted = (running.view.state_of(executor) for executor in running.executors)
        if not all(map(np.array_equal, state, wanted)):
            raise DifferentBitsError(f"after set {number} its weights or states differ from the golden model's; please "
                                     "report this")
