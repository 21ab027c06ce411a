"""Loss and accuracy of weights on samples, on the host in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.network import Network
from plinth.network.parameters import Parameters, Predictor
from plinth.train.losses import accuracy, loss_of


def evaluate(network: Network, predict: Predictor, parameters: Parameters, x: NDArray[Any], y: NDArray[Any], *,
             classes: bool) -> tuple[float, float | None]:
    """Mean loss over samples, and the share whose class is right; None where there are no classes.

    Memory does not grow with the samples: what was predicted of some is summed up before the next are looked at. Both
    are not finite if what the weights give is not.
    """
    loss = right = 0.0
    done = 0
    with np.errstate(all="ignore"):
        for outputs in predict(parameters, x):
            targets = y[done:done + len(outputs)]
            loss += len(outputs) * loss_of(network, outputs, targets)
            if classes:
                right += len(outputs) * accuracy(outputs, targets)
            done += len(outputs)
    return loss / done, round(right) / done if classes else None
