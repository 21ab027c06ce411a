"""Time of a training batch of global and local networks, by Table 2 and measured on this host, and of a projection."""

from collections.abc import Sequence
from functools import partial
from math import log, sqrt
from timeit import repeat, timeit

import numpy as np
from scipy.optimize import minimize_scalar

from plinth.local.devices import NUMPY, KernelDevice, device_step
from plinth.local.job import one_thread
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.profile.costs import KernelCosts
from plinth.profile.measure import measured
from plinth.profile.networks import HOST
from plinth.profile.numpy_device import NumpyDevice
from plinth.projection.fit import fit
from plinth.reproduce.deep3.cases import BATCH
from plinth.update.kinds import ADAGRAD

#: Steps of which the shortest counts.
STEPS = 9
#: Least and largest cost of a unit, in multiply-adds, as powers of ten.
_UNIT_RANGE = -2.0, 6.0


def reduction(whole: Network, local: Network, unit: float) -> float:
    """By what factor a batch of the local network is shorter than one of the global one, by Table 2.

    Parameters
    ----------
    unit : float
        What a unit's activation and its error cost together, in multiply-adds: (alpha_act + alpha_err) / alpha_flop.
    """
    costs = KernelCosts(flop_seconds=1.0, act_seconds=unit, err_seconds=0.0, net_seconds=0.0, word_seconds=0.0)
    return costs.batch(whole, BATCH) / costs.batch(local, BATCH)


def fitted_unit(networks: Sequence[tuple[Network, Network]], reductions: Sequence[float]) -> float:
    """The cost of a unit with which Table 2 comes nearest to the reductions of global and local networks, by least
    squares of their logarithms."""
    def distance(power: float) -> float:
        return sum(log(reduction(whole, local, 10**power) / printed)**2
                   for (whole, local), printed in zip(networks, reductions, strict=True))

    return float(10**minimize_scalar(distance, bounds=_UNIT_RANGE, method="bounded").x)


def batch_seconds(network: Network) -> float:
    """Seconds of a training batch in numpy on one thread of this host, the shortest of :data:`STEPS`."""
    device = KernelDevice(kind=NUMPY)
    with one_thread():
        running = device_step(device, network, batch=BATCH, rule=device.rule(ADAGRAD, None, None), memory_mib=0).start()
        generator = np.random.default_rng(0)
        targets = np.eye(network.output.elements, dtype=np.float32)[
            generator.integers(network.output.elements, size=BATCH)]
        samples = generator.standard_normal((BATCH, network.input.elements), np.float32)
        running.view.load(running.executor, initial_parameters(network, 0))
        running.view.write_batch(running.executor, samples, targets)
        return min(repeat(partial(running.executor.step, 0), number=1, repeat=STEPS))


def host_costs() -> KernelCosts:
    """The coefficients of Table 2 of numpy on one thread of this host, by its profile."""
    with one_thread():
        return measured(NumpyDevice(), HOST).costs


def projection_seconds(samples: int, features: int, inputs: int) -> float:
    """Seconds of projecting random samples onto so many directions on one thread of this host, once: of choosing these
    and of all coordinates. Samples lie near as many directions, and are half as far from them as along them."""
    generator = np.random.default_rng(0)
    directions = generator.standard_normal((inputs, features), np.float32)
    x = generator.standard_normal((samples, inputs), np.float32) @ directions
    x += np.float32(0.5 * sqrt(inputs)) * generator.standard_normal((samples, features), np.float32)
    with one_thread():
        return timeit(lambda: fit(x, limit=inputs).project(x), number=1)
