"""Which element of a layer's output stands where in an ONNX tensor.

A tensor is the output of a layer under a *view*, the dimensions that ONNX gives it behind the batch, and an *order*,
the layer's axes as they lie in ONNX's row-major memory. Reshape, Flatten, Squeeze and Unsqueeze change the view and
leave the order; Transpose permutes both. So [channels, height, width], [height, width, channels] and [channels, length]
are one map in three layouts, and a network read from any of them has the same layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plinth.network.layers import Shape

#: Axes of a map by their places in the layer's own memory, outermost first. Axes of features count from 0 likewise.
ROW, COLUMN, CHANNEL = 0, 1, 2


@dataclass(frozen=True)
class Value:
    """A tensor of the ONNX graph as the output of a layer, per sample."""

    layer: str
    shape: Shape
    #: Its dimensions in ONNX, behind the batch.
    view: tuple[int, ...]
    #: The layer's axes and their sizes, outermost first in ONNX; those of one element are left out.
    order: tuple[tuple[int, int], ...]
    #: Read by one node only, back to its layer, and no output of the graph: the layer may still change.
    sole: bool = False
    #: Behind the Softmax that ends the graph.
    softmax: bool = False
    #: Zeros before and behind each dimension of the view, which a Pad has added; empty: none.
    zeros: tuple[tuple[int, int], ...] = ()
    #: What it has added is the least number instead, which is no maximum of a window.
    least: bool = False

    @property
    def padder(self) -> str:
        """The operator whose padding does what the Pad has done."""
        return "MaxPool" if self.least else "Conv"

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The value's dimensions behind the batch, with the zeros that a Pad has added."""
        return tuple(size + sum(zeros) for size, zeros in zip(self.view, self.zeros, strict=True)) if self.zeros else (
            self.view)

    @property
    def ascending(self) -> bool:
        """Whether its elements lie as in the layer's memory."""
        axes = [axis for axis, _ in self.order]
        return axes == sorted(axes)

    def groups(self) -> list[tuple[int, ...]] | None:
        """The axes that each dimension of the view is made of; None if a dimension is a part of an axis."""
        remaining = list(self.order)
        groups = []
        for size in self.view:
            axes, elements = [], 1
            while elements < size and remaining:
                axis, count = remaining.pop(0)
                axes.append(axis)
                elements *= count
            if elements != size:
                return None
            groups.append(tuple(axes))
        return groups

    def spatial(self) -> tuple[int, ...] | None:
        """The axis (:data:`ROW`, :data:`COLUMN`) of each of the one or two spatial dimensions of a map under [channels,
        *spatial dimensions]."""
        groups = self.groups()
        if self.shape.flat or groups is None or len(self.view) not in (2, 3):
            return None
        sizes = dict(zip((CHANNEL, ROW, COLUMN), self.shape, strict=True))
        choices = ((ROW, COLUMN), (COLUMN, ROW)) if len(self.view) == 3 else ((COLUMN,), (ROW,))
        for axes in choices:
            wanted = [(axis,) if sizes[axis] > 1 else () for axis in (CHANNEL, *axes)]
            if groups == wanted and sum(map(len, groups)) == len(self.order):
                return axes
        return None

    def transposed(self, permutation: Sequence[int]) -> "Value | None":
        """The tensor with its dimensions behind the batch in another order; None if that parts an axis."""
        groups = self.groups()
        if groups is None:
            return None
        sizes = dict(self.order)
        return replace(self, view=tuple(self.view[place] for place in permutation),
                       order=tuple((axis, sizes[axis]) for place in permutation for axis in groups[place]),
                       zeros=tuple(self.zeros[place] for place in permutation) if self.zeros else ())

    def bias_dimensions(self) -> list[list[int]]:
        """Dimensions that a constant of one element for each channel, or feature, may have to be added to this tensor;
        none if the channels are no dimension of it."""
        groups = self.groups()
        channel = () if self.shape.channels == 1 else (0,) if self.shape.flat else (CHANNEL,)
        if self.shape.flat and self.view == tuple(self.shape):
            # Whatever they were before a Flatten.
            place = 0
        elif groups is None or channel not in groups:
            return []
        else:
            place = groups.index(channel)
        whole = [1, *(size if number == place else 1 for number, size in enumerate(self.view))]
        return [whole[start:] for start in range(place + 1, -1, -1)]


def axes_of(shape: Shape) -> tuple[tuple[int, int], ...]:
    """Axes of a layer's output as its memory has them."""
    sizes = tuple(shape) if shape.flat else (*shape[1:], shape.channels)
    return tuple((axis, size) for axis, size in enumerate(sizes) if size > 1)


def value_of(layer: str, shape: Shape, spatial: Sequence[int] = (ROW, COLUMN), *, sole: bool = True) -> Value:
    """The value of a layer's output, channels first, its spatial dimensions in a stated order."""
    if shape.flat:
        return Value(layer, shape, tuple(shape), axes_of(shape), sole=sole)
    sizes = {ROW: shape[1], COLUMN: shape[2], CHANNEL: shape.channels}
    order = tuple((axis, sizes[axis]) for axis in (CHANNEL, *spatial))
    return Value(layer, shape, tuple(size for _, size in order), tuple(entry for entry in order if entry[1] > 1),
                 sole=sole)
