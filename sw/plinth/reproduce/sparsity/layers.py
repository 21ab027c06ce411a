"""Winograd layers of a trained network: tiles, products, neurons and errors of a batch, in FP32.

Tiles and neurons are those of the golden model, in its order; products are those of numpy, whose order of sums is
another than the matrix engine's, which changes last bits alone. Tile elements are ``[T, T', samples, tiles down,
tiles across, channels]``, neurons ``[m, m', ..]``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plinth.reproduce.sparsity.networks import ForwardPass, Trained, errors, pooled
from plinth_hw.isa.winograd import Form, Lattice, form
from plinth_sim.golden import prediction
from plinth_sim.golden.winograd import gather, scatter, weighted

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class MeasuredConvolution:
    """A convolution behind the first, and a batch that passes it.

    Attributes
    ----------
    form : Form
    inputs, outputs : pair of Lattice
    x : ``[samples, rows, columns, channels]``
        Its inputs, which are behind a ReLU.
    tiles : ``[T, T', ..]``
        Of its inputs.
    products : ``[T, T', ..]``
        What gathers send in two dimensions.
    bias : ``[channels]``
    error : ``[samples, rows, columns, channels]``
        Of its outputs, before the ReLU.
    pooled : bool
        Whether a 2x2 max-pool follows the ReLU.
    """

    form: Form
    inputs: tuple[Lattice, Lattice]
    outputs: tuple[Lattice, Lattice]
    x: Array
    tiles: Array
    products: Array
    bias: Array
    error: Array
    pooled: bool

    def way(self, lines: bool) -> prediction.Way:
        """A^T each way; where sources hold whole lines, they have done the first."""
        down, across = (transform.a for transform in self.form.transforms)
        return (None if lines else down), across

    def elements(self, lines: bool) -> Array:
        """What is gathered: products, or lines that a source has transformed, ``[m, T', ..]``."""
        return weighted(self.form.transforms[0].a, self.products, 0) if lines else self.products

    @property
    def inside(self) -> Mask:
        """Neurons that lie in the map, ``[m, m', 1, tiles down, tiles across, 1]``."""
        rows, columns = (np.arange(lattice.count) * lattice.step + np.arange(lattice.reach)[:, None] < side
                         for lattice, side in zip(self.outputs, self.error.shape[1:3], strict=True))
        return rows[:, None, None, :, None, None] & columns[None, :, None, None, :, None]

    def after(self, ends: prediction.Ends) -> prediction.Ends:
        """Add the layer's bias to both ends of its neurons."""
        return prediction.plus(ends, self.bias)

    @property
    def neurons(self) -> Array:
        """The neurons of exact words, with the bias added."""
        neurons = prediction.neurons(self.way(False), self.products)
        return self.after((neurons, neurons))[1]

    @property
    def live(self) -> Mask:
        """Neurons that the ReLU lets pass."""
        return (self.neurons > 0) & self.inside

    @property
    def read(self) -> Mask:
        """Neurons that what is behind depends on: those of them that the pool, if there is one, finds the largest of
        their windows."""
        return self.live & (self.neurons == prediction.largest(self.neurons)) if self.pooled else self.live


def front(tiles: Array) -> Array:
    """Elements first: ``[T, T', ..]`` of the golden model's ``[samples, down, across, T, T', channels]``."""
    return np.ascontiguousarray(np.moveaxis(tiles, (3, 4), (0, 1)))


def layers(model: Trained, outputs: int, x: Array, labels: NDArray[np.int64]) -> Iterator[MeasuredConvolution]:
    """Layers behind the first one, whose inputs are images.

    Parameters
    ----------
    model : Trained
    outputs : int
        m, each way.
    x, labels : array
        A batch.
    """
    direct = ForwardPass(model.recipe, model.weights, model.biases, x)
    by_z = direct.backward(errors(direct.logits, labels))[2]
    winograd_form = form((3, 3), outputs)
    down, across = (np.array(transform.g, dtype=float) for transform in winograd_form.transforms)
    for number, pool in enumerate(model.recipe.pooled):
        kernel, bias = model.weights[number], model.biases[number]
        inputs, lattices = winograd_form.lattices((x.shape[1], x.shape[2]), (1, 1))
        tiles = front(scatter(inputs, x))
        w = np.einsum("ua,vb,abio->uvio", down, across, kernel).astype(np.float32)
        products = np.stack([np.stack([element @ weights for element, weights in zip(row, some, strict=True)])
                             for row, some in zip(tiles, w, strict=True)])
        z = gather(lattices, np.moveaxis(products, (0, 1), (3, 4)), (x.shape[1], x.shape[2])) + bias
        error = np.where(z > 0, by_z[number], np.float32(0))
        if number:
            yield MeasuredConvolution(winograd_form, inputs, lattices, x, tiles, products, bias, error, pool)
        x = np.maximum(z, 0)
        if pool:
            x = pooled(x)[0]

