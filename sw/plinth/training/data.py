"""The handwritten digits that scikit-learn ships, split once and for all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

#: Samples for training; the rest is for testing.
TRAINING_SAMPLES = 1437
#: Seed of the split, which does not depend on the run's seed.
SPLIT_SEED = 0


@dataclass(frozen=True)
class Dataset:
    """Features as FP32 ``[samples, features]``, labels as integers."""

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int

    def targets(self, samples: NDArray[np.int64]) -> NDArray[np.float32]:
        """One-hot classes of training samples."""
        return np.eye(self.classes, dtype=np.float32)[self.train_y[samples]]


def digits() -> Dataset:
    """1,797 real 8x8 digits, pixels scaled to 0..1, split 1,437 to 360 after a fixed shuffle."""
    bunch = load_digits()
    x, y = (bunch.data / 16.0).astype(np.float32), bunch.target.astype(np.int64)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(x))
    train, test = order[:TRAINING_SAMPLES], order[TRAINING_SAMPLES:]
    return Dataset(x[train], y[train], x[test], y[test], 10)
