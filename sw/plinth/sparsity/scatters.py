"""Words that scatters take, forward and backward, and gathers on the way back, of layers of trained networks.

Forward, tiles of inputs go in skip code: a word of map for each 32, then the words of which the window has something
other than +0 where the element has a coefficient. Errors of outputs go without any map, by the masks of the forward
gather, which both sides have: an error is other than +0 only where a neuron lives. Errors of inputs come back by the
map of the forward scatter, for where the window is +0 a ReLU lets nothing pass.

In one dimension a source does the direction across, and sends rows of that, each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np

from plinth.sparsity import gathers
from plinth.sparsity.layers import Array, Layer, Mask, front
from plinth_hw.isa.winograd import Matrix, transposed
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
        return Skipped(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


def _map(words: int) -> int:
    """Of a run of so many words."""
    return -(-words // 32)


def identity(size: int) -> Matrix:
    """The matrix 1."""
    return tuple(tuple(Fraction(int(row == column)) for column in range(size)) for row in range(size))


def _windows(layer: Layer, values: Array) -> Array:
    """Windows of a map of the layer's inputs, ``[reach, reach', ..]``: tiles of the matrix 1."""
    down, across = (replace(one, matrix=identity(one.reach)) for one in layer.inputs)
    return front(scatter((down, across), values))


def named(layer: Layer) -> Mask:
    """Elements ``[T, T', ..]`` whose windows have anything but +0 where they have a coefficient."""
    down, across = (transposed(one.matrix) for one in layer.inputs)
    return prediction.needed((down, across), _windows(layer, layer.x).view(np.uint32) != 0)


def measured(layer: Layer, levels: Sequence[gathers.Levels]) -> Skipped:
    """Of a layer and a batch; levels of its gather in two dimensions, whose masks serve on the way back."""
    mask, words = named(layer), layer.tiles.view(np.uint32)
    assert not words[~mask].any(), "what is skipped is +0"
    run = words[0, 0].size
    marks = words.shape[0] * words.shape[1] * _map(run)
    errors = front(scatter(layer.outputs, layer.error)).view(np.uint32)
    found = prediction.gathered(layer.way(False), layer.products.view(np.uint32), levels, layer.after, layer.inside)
    assert not errors[~found.mask].any(), "where no neuron lives errors are +0"
    error_marks = errors.shape[0] * errors.shape[1] * _map(errors[0, 0].size)
    # Rows of the map, the direction across done: a window at a time, each row once.
    across = layer.inputs[1]
    whole = replace(layer.inputs[0], matrix=identity(1), step=1, first=0, count=layer.x.shape[1])
    rows = front(scatter((whole, across), layer.x)).view(np.uint32)
    ones = front(scatter((whole, replace(across, matrix=identity(across.reach))), layer.x)).view(np.uint32) != 0
    row_mask = prediction.needed((None, transposed(across.matrix)), ones)
    assert not rows[~row_mask].any(), "what is skipped is +0"
    row_marks = rows.shape[0] * rows.shape[1] * _map(rows[0, 0].size)
    return Skipped(all=words.size, forward=marks + int(mask.sum()), forward_least=marks + int((words != 0).sum()),
                   errors=errors.size, backward=int(found.mask.sum()),
                   backward_least=error_marks + int((errors != 0).sum()),
                   returned=int(mask.sum()), lines=rows.size, line_words=row_marks + int(row_mask.sum()))


def network(name: str, outputs: int) -> Skipped:
    """Of all layers of a network behind the first."""
    return sum((measured(layer, gathers.chosen(before, False).two) for layer, before in gathers.pairs(name, outputs)),
               Skipped())
