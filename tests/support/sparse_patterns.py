"""Patterns of sparse networks for tests of partitions: RadiX-Net by its law, random ones, and pruned ones."""

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array


def radix_net(neurons: int, layers: int, seed: int = 0, copies: int = 16) -> list[csr_array]:
    """The Graph Challenge's law: n = neurons / copies ring classes, neuron j in class j mod n; layer t of a base of
    log2 n layers has offset 2^t, and W[j, i] is a nonzero iff j mod n is rho(i) or rho(i) - 2^t. Each base has one
    permutation of the inputs, rho(i) = pi(i) mod n; the first base the identity."""
    classes = neurons // copies
    base = classes.bit_length() - 1
    rng = np.random.default_rng(seed)
    patterns, rho = [], np.arange(neurons) % classes
    for layer in range(layers):
        if layer and layer % base == 0:
            rho = rng.permutation(neurons) % classes
        # For each class of rows the columns of class c and c + 2^t.
        by_class = np.argsort(rho, kind="stable").reshape(classes, copies)
        own = np.arange(neurons) % classes
        columns = np.sort(np.hstack([by_class[own], by_class[(own + (1 << layer % base)) % classes]]), axis=1)
        patterns.append(csr_array((np.ones(columns.size, dtype=np.float32), columns.reshape(-1),
                                   np.arange(neurons + 1) * 2 * copies), shape=(neurons, neurons)))
    return patterns


def random_net(rng: np.random.Generator, sizes: list[int], density: float) -> list[csr_array]:
    """Nonzeros anywhere: rows and columns without any among them."""
    return [csr_array((rng.random((rows, columns)) < density).astype(np.float32))
            for columns, rows in pairwise(sizes)]


def pruned_net(sizes: list[int], density: float, seed: int) -> list[csr_array]:
    """The largest weights of a layer are kept: weights are products of a scale a row, a scale a column (lognormal, so
    that some neurons keep many connections and others few) and a normal one."""
    rng = np.random.default_rng(seed)
    patterns = []
    for columns, rows in pairwise(sizes):
        weights = np.abs(rng.normal(size=(rows, columns)))
        weights *= rng.lognormal(0, 0.3, (rows, 1)) * rng.lognormal(0, 0.6, (1, columns))
        kept = weights >= np.quantile(weights, 1 - density)
        patterns.append(csr_array(kept.astype(np.float32)))
    return patterns
