"""Who holds which slice of a layer's weights, and the pieces that gradients go round their rings in.

Each die's slice lies dense in a place that begins at the same address on all dies: the matrix, row by row, then the
bias, then spare rows.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.network.variables import INPUTS, OUTPUTS
from plinth.partition.axes import ELEMENTS, Region
from plinth.partition.cuts import Factors, Listed, selected
from plinth.step.tensors import Selected, Tensor, View, grid
from plinth_hw.isa.parameters import DieParameters

Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class WeightSlice:
    """A die's slice of a layer's weights [tap, channel in, channel out] and bias: all taps of channels that neighbour
    each other, or do in the order of a list."""

    #: Of a layer whose tiles' elements are split those that the die has, from a first one on.
    taps: int
    first_input: int
    inputs: int
    first_output: int
    outputs: int
    bias: bool
    #: Rows behind it that belong to no layer: of an embedding whose rows are split.
    spare: int = 0
    #: Lists whose orders channels have.
    input_order: Listed | None = None
    output_order: Listed | None = None
    first_tap: int = 0
    #: Of elements: all numbers in the order in which they are counted; none: that of numbers.
    tap_order: tuple[int, ...] = ()

    @property
    def tap_index(self) -> Selected:
        """The slice's taps as indices of the whole layer."""
        if self.tap_order:
            return np.array(self.tap_order[self.first_tap:self.first_tap + self.taps])
        return slice(self.first_tap, self.first_tap + self.taps)

    def tap(self, number: int) -> int:
        """The number in the whole layer of one of its taps."""
        return self.tap_order[self.first_tap + number] if self.tap_order else self.first_tap + number

    @property
    def input_index(self) -> Selected:
        """The slice's input channels as indices of the whole layer."""
        return selected(self.input_order, self.first_input, self.inputs)

    @property
    def output_index(self) -> Selected:
        """The slice's output channels as indices of the whole layer."""
        return selected(self.output_order, self.first_output, self.outputs)

    def _index(self) -> tuple[Any, ...]:
        return grid((self.tap_index, self.input_index, self.output_index))

    def taken(self, weights: Numbers, shape: tuple[int, int, int]) -> Numbers:
        """Its words of all weights of a layer, flat, of some taps, channels in and channels out."""
        return weights.reshape(shape)[self._index()].ravel()

    def put(self, weights: Numbers, shape: tuple[int, int, int], words: Numbers, rates: Numbers | None) -> None:
        """Put its words where they belong in all weights of a layer, flat, each over its tap's rate, if there are
        rates."""
        taps = words.reshape(self.taps, self.inputs, self.outputs)
        weights.reshape(shape)[self._index()] = taps if rates is None else taps / rates[self.tap_index][:, None, None]

    @property
    def rows(self) -> int:
        """Rows of the slice as a matrix."""
        return self.taps * self.inputs

    @property
    def weights(self) -> int:
        """Elements of the matrix."""
        return self.rows * self.outputs

    @property
    def words(self) -> int:
        """The number of words of the slice: weights, then bias."""
        return self.weights + (self.outputs if self.bias else 0)

    @property
    def spare_words(self) -> int:
        """Words of the spare rows."""
        return self.spare * self.outputs


@dataclass(frozen=True)
class WeightPiece:
    """A piece of every die's slice of a layer's weights: neighbouring rows of the matrix, with the last of them the
    bias. Pieces may be empty."""

    number: int = 0
    of: int = 1

    def rows(self, parameters: DieParameters, rows: int) -> tuple[int, int]:
        """First row and number of rows, of a matrix: tiles of the array are whole, and pieces begin with a beat."""
        # Rows of a whole tile, so many that any number of columns of them fills beats.
        unit = lcm(parameters.rows, parameters.beat_words)
        each = rows if self.of == 1 else -(-rows // (self.of * unit)) * unit
        first = min(self.number * each, rows)
        return first, min(each, rows - first)

    def words(self, parameters: DieParameters, piece: WeightSlice) -> tuple[int, int]:
        """First word and number of words, of a slice with its bias."""
        first, rows = self.rows(parameters, piece.rows)
        if not rows and (self.number or piece.rows):
            return 0, 0
        end = (first + rows) * piece.outputs if first + rows < piece.rows else piece.words
        return first * piece.outputs, end - first * piece.outputs

    def rate(self, piece: WeightSlice) -> float:
        """The factor on its learning rate, of a slice."""
        return 1.0


@dataclass(frozen=True)
class ElementPiece(WeightPiece):
    """The weights of each die's element of tiles of one number, which have a learning rate of their own; behind the
    elements comes the bias. Empty where a die has fewer elements."""

    #: Factors on the learning rate, by elements of the whole layer.
    rates: tuple[float, ...] = ()

    def words(self, parameters: DieParameters, piece: WeightSlice) -> tuple[int, int]:
        """First word and number of words, of a slice with its bias."""
        each = piece.inputs * piece.outputs
        if self.number < self.of - 1:
            return (self.number * each, each) if self.number < piece.taps else (0, 0)
        return piece.weights, piece.words - piece.weights

    def rate(self, piece: WeightSlice) -> float:
        """The factor on its learning rate, of a slice."""
        return self.rates[piece.tap(self.number)] if self.number < self.of - 1 else 1.0


#: All of a slice.
WHOLE = WeightPiece()


@lru_cache(maxsize=1 << 14)
def _slice(region: Region, shape: tuple[int, int, int], bias: bool, spare: int, factors: Factors,
           order: tuple[int, ...], die: int) -> WeightSlice:
    """What a die has of a layer's weights."""
    (begin, end), (low, high), (first, last) = (
        tuple(int(bound[die]) for bound in region.bounds(axis, size, factors))
        for axis, size in zip((ELEMENTS, INPUTS, OUTPUTS), shape, strict=True))
    return WeightSlice(end - begin, low, high - low, first, last - first, bias, spare, region.orders.get(INPUTS),
                       region.orders.get(OUTPUTS), begin, order)


@dataclass(frozen=True)
class Weights:
    """Weights of a layer, or their gradient: each die has a slice, weights then bias then spare rows, in one row."""

    name: str
    #: Of the whole layer: taps, channels in, channels out.
    shape: tuple[int, int, int]
    #: Input and output channels that dies have, and elements of tiles, which taps are then.
    region: Region
    factors: Factors
    bias: bool
    spare: int = 0
    packed: bool = False
    #: As of :class:`WeightSlice`.
    tap_order: tuple[int, ...] = ()

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        taps, rows, columns = (self.region.lengths(axis, size, self.factors)
                               for axis, size in zip((ELEMENTS, INPUTS, OUTPUTS), self.shape, strict=True))
        return int((columns * (taps * rows + int(self.bias) + self.spare)).max())

    @property
    def most_rows(self) -> int:
        """Rows of the matrix, on the die that has most."""
        taps, rows = (self.region.lengths(axis, size, self.factors)
                      for axis, size in zip((ELEMENTS, INPUTS), self.shape[:2], strict=True))
        return int((taps * rows).max())

    def rows(self, die: int) -> int:
        """Input channels that a die has; of an embedding rows of its table."""
        return self.slice(die).inputs

    def table_rows(self, die: int) -> int:
        """Input channels of the whole layer, whichever a die has."""
        return self.shape[1]

    def slice(self, die: int) -> WeightSlice:
        """What a die has."""
        return _slice(self.region, self.shape, self.bias, self.spare, self.factors, self.tap_order, die)

    def buffer(self, die: int) -> Buffer:
        """Weights and bias in one row."""
        piece = self.slice(die)
        return Buffer(self.name, 0, 1, piece.words, max(1, piece.words + piece.spare_words))

    def matrix(self, die: int) -> Buffer:
        """The matrix with its spare rows."""
        piece = self.slice(die)
        return Buffer(self.name, 0, piece.rows + piece.spare, piece.outputs, piece.outputs)

    def bias_of(self, tensor: Tensor) -> "Bias":
        """The bias for the channels that each die has of a tensor."""
        return Bias(self, tensor)


@dataclass(frozen=True)
class Bias(View):
    """The bias for the channels that each die has of a tensor."""

    of: Weights
    tensor: Tensor

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        whole, piece, part = self.of.buffer(die), self.of.slice(die), self.tensor.part(die)
        first = piece.weights - piece.first_output
        if self.tensor.by_channel:
            return whole.part(whole.name, first + part.first_sample, part.samples, 1, 1)
        return whole.part(whole.name, first + part.first_channel, 1, part.channels)


@dataclass(frozen=True)
class Matrix(View):
    """The matrix of each die's weights, with its spare rows."""

    of: Weights

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        return self.of.matrix(die)


@dataclass(frozen=True)
class SpareRows(View):
    """The spare rows behind each die's weights."""

    of: Weights

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where the spare rows lie."""
        piece = self.of.slice(die)
        return Buffer(f"{self.of.name}.spare", piece.words, piece.spare, piece.outputs, piece.outputs,
                      whole=self.of.name)
