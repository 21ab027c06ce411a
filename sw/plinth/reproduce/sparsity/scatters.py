"""Words that scatters take, forward and backward, and gathers on the way back, of layers of trained networks.

Forward, tiles of inputs go in skip code: a word of map for each 32, then the words of which the window has something
other than +0 where the element has a coefficient. Errors of inputs come back by the same map, for where the window is
+0 a ReLU lets nothing pass. Errors of outputs go by the masks of the forward gather, which both sides have and which
name every neuron that is read, without a map; or in skip code: of each layer what takes fewer words of another batch.

In one dimension a source does the direction across, and sends rows of that, each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.reproduce.sparsity import gathers
from plinth.reproduce.sparsity.layers import Array, Mask, MeasuredConvolution, front
from plinth_hw.isa.winograd import Lattice, Matrix, transposed
from plinth_sim.golden import prediction
from plinth_sim.golden.winograd import scatter


@dataclass(frozen=True)
class Skipped:
    """Words, added up over layers.

    Attributes
    ----------
    all : int
        Of tiles of inputs, and of their errors.
    forward, forward_least : int
        What is sent of tiles of inputs, map and words; map and words that are not +0.
    errors, backward, backward_least : int
        Of tiles of errors of outputs: all, what is sent, and map and words that are not +0.
    returned : int
        Of errors of inputs.
    lines, line_words : int
        Forward in one dimension: words of all rows, and what is sent of them, with the map.
    """

    all: int = 0
    forward: int = 0
    forward_least: int = 0
    errors: int = 0
    backward: int = 0
    backward_least: int = 0
    returned: int = 0
    lines: int = 0
    line_words: int = 0

    def __add__(self, other: "Skipped") -> "Skipped":
        return Skipped(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


def identity(size: int) -> Matrix:
    """The matrix 1."""
    return tuple(tuple(Fraction(int(row == column)) for column in range(size)) for row in range(size))


def _windows(sides: tuple[Lattice, Lattice], values: Array) -> Array:
    """Windows of a map, ``[reach, reach', ..]``: tiles of the matrix 1."""
    down, across = (replace(lattice, matrix=identity(lattice.reach)) for lattice in sides)
    return front(scatter((down, across), values))


def named(sides: tuple[Lattice, Lattice], values: Array) -> Mask:
    """Elements ``[T, T', ..]`` whose windows of a map have anything but +0 where they have a coefficient."""
    down, across = (transposed(lattice.matrix) for lattice in sides)
    return prediction.needed((down, across), _windows(sides, values).view(np.uint32) != 0)


class Back(NamedTuple):
    """Words of tiles of errors of outputs, in two ways."""

    by_masks: int
    in_skip_code: int


def back(layer: MeasuredConvolution, levels: Sequence[gathers.Levels]) -> Back:
    """Count the words of a layer's errors on a batch that go in either way; levels of its gather in two dimensions."""
    errors = front(scatter(layer.outputs, layer.error)).view(np.uint32)
    gathered = prediction.gathered(layer.way(False), layer.products.view(np.uint32), levels, layer.after, layer.inside,
                                   layer.pooled)
    mask = named(layer.outputs, layer.error)
    assert not errors[~gathered.mask].any() and not errors[~mask].any(), "what is not sent is +0"
    return Back(int(gathered.mask.sum()), int(mask.sum()) + _maps(errors))


def _maps(words: NDArray[np.uint32]) -> int:
    """Of tiles ``[T, T', ..]``, a run of each element."""
    return words.shape[0] * words.shape[1] * -(-words[0, 0].size // 32)


def measured(layer: MeasuredConvolution, before: MeasuredConvolution) -> Skipped:
    """Measure the scatters of a layer on a batch; ``before``: another batch, by which levels and ways are chosen."""
    mask, words = named(layer.inputs, layer.x), layer.tiles.view(np.uint32)
    assert not words[~mask].any(), "what is skipped is +0"
    errors = front(scatter(layer.outputs, layer.error)).view(np.uint32)
    levels = gathers.chosen(before, False).two_rounds
    ways, known = back(layer, levels), back(before, levels)
    # Rows of the map, the direction across done: a window at a time, each row once.
    sides = replace(layer.inputs[0], matrix=identity(1), step=1, first=0, count=layer.x.shape[1]), layer.inputs[1]
    rows, row_mask = front(scatter(sides, layer.x)).view(np.uint32), named(sides, layer.x)
    assert not rows[~row_mask].any(), "what is skipped is +0"
    return Skipped(all=words.size, forward=_maps(words) + int(mask.sum()),
                   forward_least=_maps(words) + int((words != 0).sum()), errors=errors.size,
                   backward=ways[known.index(min(known))], backward_least=_maps(errors) + int((errors != 0).sum()),
                   returned=int(mask.sum()), lines=rows.size, line_words=_maps(rows) + int(row_mask.sum()))


def network(name: str, outputs: int) -> Skipped:
    """Measure the scatters of all layers of a network behind the first."""
    return sum((measured(layer, before) for layer, before in gathers.pairs(name, outputs)), Skipped())
