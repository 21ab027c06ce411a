"""The host as a device: the kernels of :class:`~plinth.runtime.numpy_executor.NumpyExecutor`, timed within its steps.

Each operation is timed in the step that it belongs to, behind the others, so that it finds in the cache what it finds
there when Plinth trains. Of several steps the shortest time counts: another program may have a processor in the others.
"""

import os
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from plinth.lower.places import HostView
from plinth.lower.stages import check_network
from plinth.lower.training import trained_sharding
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import data_parallel
from plinth.profile.batches import MeasuredBatch, TimedTransfer, operation_of, random_batch, training_rule
from plinth.profile.timing import busy_seconds, shortest
from plinth.profile.works import READ, WRITE, batch_works
from plinth.runtime.numpy_executor import NumpyExecutor, step_bytes
from plinth.runtime.overlay import Overlay
from plinth.step.build import step_of
from plinth.step.layers.pool import Pool
from plinth.step.operations import Operation
from plinth.step.step import Step
from plinth_hw.isa.parameters import preset

#: Steps of a batch that are timed, at least and at most, and seconds after which no further one is.
LEAST_STEPS, MOST_STEPS, STEP_SECONDS = 3, 100, 0.04
#: Preset whose step the host does, in FP32.
PRESET = "ndp-demo"


@lru_cache(maxsize=128)
def _step(network: Network, batch: int) -> Step:
    check_network(network)
    parameters = preset(PRESET)
    plan = data_parallel(network, dies=1, batch=batch)
    return step_of(trained_sharding(plan, parameters, training_rule(parameters)), parameters)


def _pool_name(pool: Pool) -> str:
    return f"{pool.name}.{'backward' if pool.backward else 'forward'}"


#: What names operations whose own name does not tell one work from another.
_NAMES: dict[type, Callable[[Any], str]] = {Pool: _pool_name}


def _name(operation: Operation) -> str:
    """The name that works have of an operation of numpy's step."""
    named = _NAMES.get(type(operation))
    return operation_of(operation.name) if named is None else named(operation)


class NumpyDevice:
    """The numpy of this process (:class:`~plinth.profile.batches.BenchDevice`)."""

    name = "numpy"
    rounds, channel_step = 3, 1

    @property
    def conditions(self) -> dict[str, str]:
        """BLAS threads, as the environment says, and processors."""
        threads = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or "all"
        return {"BLAS threads": threads, "processors": str(os.cpu_count()), "time": "wall clock, shortest of several"}

    def holds(self, network: Network, batch: int) -> bool:
        """True: what is measured is small beside a host's memory."""
        return True

    def batch(self, network: Network, batch: int) -> MeasuredBatch:
        """Time a training batch and each of its operations."""
        executor = NumpyExecutor(_step(network, batch))
        view: HostView = executor.view
        view.load(executor, initial_parameters(network, 0))
        view.write_batch(executor, *random_batch(network, batch))
        whole, until = float("inf"), time.perf_counter() + STEP_SECONDS
        found: dict[str, float] = {}
        for number in range(MOST_STEPS):
            whole = min(whole, busy_seconds(executor.step))
            seconds: dict[str, float] = {}
            for operation, took in executor.timed():
                seconds[_name(operation)] = seconds.get(_name(operation), 0.0) + took
            found = {name: min(took, found.get(name, took)) for name, took in seconds.items()}
            if number + 1 >= LEAST_STEPS and time.perf_counter() > until:
                break
        forward = {work.operation for work in batch_works(network, batch) if work.is_forward}
        return MeasuredBatch(network, batch, whole, sum(found[name] for name in forward & found.keys()), found)

    def transfers(self, words: Iterable[int]) -> list[TimedTransfer]:
        """Time copies of arrays: what goes to an executor of this process, and what is read of one."""
        found = []
        for count in words:
            source, target = np.zeros(count, np.float32), np.empty(count, np.float32)
            found += [TimedTransfer(WRITE, count, shortest([partial(np.copyto, target, source)]) / 1e9),
                      TimedTransfer(READ, count, shortest([source.copy]) / 1e9)]
        return found

    def memory_bytes(self, network: Network, batch: int) -> int:
        """Bytes that numpy writes in a step, as its executor lays them out."""
        return step_bytes(Overlay(_step(network, batch), [0]), 1)
