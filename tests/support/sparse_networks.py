"""Small sparse networks that tests share."""

import numpy as np
from scipy.sparse import csr_array

from plinth.network.sparse.activations import Activation
from plinth.network.sparse.network import Bias, MatrixSource, SparseNetwork


def random_matrix(generator: np.random.Generator, outputs: int, inputs: int, density: float = 0.5,
                  dtype: type = np.float64) -> csr_array:
    """Entries of a standard normal distribution at random places; no row and no column is empty on purpose."""
    mask = generator.random((outputs, inputs)) < density
    mask[np.arange(outputs), generator.integers(0, inputs, outputs)] = True
    return csr_array(np.where(mask, generator.standard_normal((outputs, inputs)), 0).astype(dtype))


def random_network(generator: np.random.Generator, widths: tuple[int, ...], activation: Activation, *,
                   trained_biases: bool = True, density: float = 0.5) -> SparseNetwork:
    """A network of random matrices, with biases that are trained or one number a layer."""
    layers = list(zip(widths[1:], widths, strict=False))
    biases: list[Bias] = [generator.standard_normal(outputs) if trained_biases else 0.25 for outputs, _ in layers]
    return SparseNetwork(
        name="small", source=MatrixSource([random_matrix(generator, *sizes, density) for sizes in layers]),
        biases=biases, activations=[activation] * len(layers))
