"""Equations 1 to 3, Table 2 and Adagrad as printed, by the functions that compute them here: on small numbers whose
results were worked by hand, the projection on the digits."""

from math import isclose

import numpy as np

from plinth.local.devices import NUMPY, KernelDevice, device_step
from plinth.local.push import printed_push
from plinth.network.network import perceptron
from plinth.profile.costs import KernelCosts
from plinth.projection.fit import fit
from plinth.projection.projection import Projection
from plinth.train.data import digits
from plinth.update.kinds import ADAGRAD_PRINTED, SGD
from plinth.update.rule import UpdateRule

#: Of Table 2: seconds of a multiply-add, of a unit's activation and of its error, of a message, and of a word in it:
#: 16 bits at 8 bits a second.
_COSTS = KernelCosts(flop_seconds=2.0, act_seconds=5.0, err_seconds=7.0, net_seconds=10.0, word_seconds=16 / 8)
#: Widths of the network on which Table 2 is computed, whose sums are 4 x 3 + 3 x 2 = 18 and 4 + 3 + 2 = 9.
_WIDTHS = (4, 3, 2)


def _same(found: float, worked: float) -> bool:
    return isclose(found, worked, rel_tol=1e-6)


def sgd() -> bool:
    """Equation 1: a step of SGD on two samples, 1 and 3, of the first of two classes.

    All weights are zero, so that each class has probability 1/2. The gradient of the first class is the mean of
    (1/2 - 1) 1 and (1/2 - 1) 3, which is -1, that of the other one 1; the rate is 1/2.
    """
    running = device_step(KernelDevice(kind=NUMPY), perceptron("sgd", (1, 2)), batch=2,
                          rule=UpdateRule(kind=SGD, rate=0.5), memory_mib=0).start()
    view, executor = running.view, running.executor
    view.load(executor, {name: np.zeros_like(values) for name, values in view.parameters_of(executor).items()})
    view.write_batch(executor, np.array([[1], [3]], np.float32), np.array([[1, 0], [1, 0]], np.float32))
    executor.step(0)
    weights = next(values for values in view.parameters_of(executor).values() if values.ndim == 2)
    return np.allclose(np.sort(weights.ravel()), [-0.5, 0.5], rtol=1e-6)


def iteration() -> bool:
    """Equation 2: two kernels that compute for 1 and 3 s a batch, and whose messages take 32 and 18 s.

    T(n) = 4 n + 100 / n, which is least at n = 5, where it is 40.
    """
    computing, message = (1.0, 3.0), (32.0, 18.0)

    def seconds(push: float) -> float:
        return push * sum(computing) + 2 / push * sum(message)

    best = printed_push(computing, message)
    return _same(best, 5) and _same(seconds(best), 40) and seconds(best) < min(seconds(0.99 * best),
                                                                               seconds(1.01 * best))


def projection() -> Projection:
    """The projection of the digits for training, at the default tolerance."""
    return fit(digits().train_x)


def constrained(of: Projection) -> bool:
    """The constraints of equation 3 on the digits: what a projection leaves of them is within its tolerance, with
    fewer directions than features, found in float64 apart from it."""
    samples, basis = digits().train_x.astype(np.float64), of.basis.astype(np.float64)
    left = samples - samples @ np.linalg.pinv(basis) @ basis
    return bool(np.linalg.norm(left) <= of.beta * np.linalg.norm(samples)) and of.size < of.features


def forward() -> bool:
    """T_FP of Table 2: 2 x 18 + 5 x 9 = 81."""
    return _same(_COSTS.forward(perceptron("costs", _WIDTHS), 1), 81)


def backward() -> bool:
    """T_BP of Table 2: 2 x 2 x 18 + 7 x 9 = 135."""
    return _same(_COSTS.backward(perceptron("costs", _WIDTHS), 1), 135)


def message() -> bool:
    """T_comm of Table 2: 10 + 16 x 18 / 8 = 46."""
    return _same(_COSTS.message(18), 46)


def adagrad_printed() -> bool:
    """Adagrad without the root, with gamma 1/2, of two gradients 2 and 1: eta is (1/2) / 4, then (1/2) / (4 + 1).

    Steps are eta times the gradients, 1/4 and 1/10, but for an epsilon that keeps divisors from zero.
    """
    rule = UpdateRule(kind=ADAGRAD_PRINTED, rate=0.5, epsilon=1e-9)
    gradients = np.array([2.0, 1.0])
    steps = [rule.rate * float(rule.law.direction(rule, np.array([gradient]), np.array([total]))[0])
             for gradient, total in zip(gradients, np.cumsum(gradients**2), strict=True)]
    return _same(steps[0], 0.25) and _same(steps[1], 0.1)
