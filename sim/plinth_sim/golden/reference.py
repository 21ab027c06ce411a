"""Task-free float64 reference of a multi-layer perceptron: what the gradients ought to be.

RTL and golden model run the same lowering, so their agreement cannot show that the lowering is right; this
module shares nothing with it. Its gradients are themselves checked by finite differences in the tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def forward(weights: Sequence[Matrix], biases: Sequence[Matrix], x: Matrix) -> list[Matrix]:
    """Inputs of every layer, then the logits. ``x`` is ``[samples, features]``."""
    values = [np.asarray(x, dtype=np.float64)]
    for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
        z = values[-1] @ w + b
        values.append(np.maximum(z, 0.0) if number + 1 < len(weights) else z)
    return values


def loss(weights: Sequence[Matrix], biases: Sequence[Matrix], x: Matrix, labels: NDArray[np.int64]) -> float:
    """Mean cross-entropy of the softmax over the batch, in nats."""
    z = forward(weights, biases, x)[-1]
    z = z - z.max(axis=1, keepdims=True)
    picked = z[np.arange(len(z)), labels] - np.log(np.exp(z).sum(axis=1))
    return float(-picked.mean())


#: A ReLU input this many FP32 roundings (2**-24 of the sum of its terms' magnitudes) or less from 0 may come
#: out on either side of the kink, and both subgradients are right.
KINK_ROUNDINGS = 8


@dataclass(frozen=True)
class Gradients:
    """Gradient of :func:`loss` by every layer's weights and bias; how many ReLUs were taken at the kink."""

    layers: list[tuple[Matrix, Matrix]]
    kinks: int


def gradients(weights: Sequence[Matrix], biases: Sequence[Matrix], x: Matrix, labels: NDArray[np.int64],
              decided: Sequence[NDArray[np.bool_]] | None = None) -> Gradients:
    """Gradients in float64.

    Parameters
    ----------
    weights, biases : sequences of ``[inputs, outputs]`` and ``[outputs]``
    x : ``[samples, features]``
    labels : ``[samples]``
    decided : sequence of ``[samples, outputs]`` bool, optional
        For each hidden layer, which ReLUs another computation let pass. It counts only for inputs so close
        to 0 that FP32 cannot tell their sign (:data:`KINK_ROUNDINGS`); there both subgradients are right.
    """
    values = forward(weights, biases, x)
    z = values[-1] - values[-1].max(axis=1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(p)), labels] -= 1.0
    error = p / len(p)
    found: list[tuple[Matrix, Matrix]] = []
    kinks = 0
    for number in reversed(range(len(weights))):
        found.append((values[number].T @ error, error.sum(axis=0)))
        if number == 0:
            break
        passes = values[number] > 0
        if decided is not None:
            w, b = weights[number - 1], biases[number - 1]
            before = values[number - 1] @ w + b
            scale = np.abs(values[number - 1]) @ np.abs(w) + np.abs(b)
            near = (np.abs(before) <= KINK_ROUNDINGS * 2.0**-24 * scale) & (passes != decided[number - 1])
            kinks += int(near.sum())
            passes = np.where(near, decided[number - 1], passes)
        error = (error @ weights[number].T) * passes
    return Gradients(found[::-1], kinks)
