"""Products of a sparse layer in numpy, float32: over dense blocks by BLAS, or over single nonzeros by scipy.

Operands are neuron-major, ``[neurons, samples]`` and C-contiguous: a neuron's samples lie beside each other, so that
gathering operands of a block copies runs of words. Who has samples as rows transposes them before, one copy of either
operand; there is no kernel for them, as it would gather single words.

With W the layer's weights on its pattern, X its inputs and E the errors of its outputs::

    forward    Y = W X          backward    D = W^T E          gradient    G = E X^T at nonzeros of the pattern alone

Weights and their gradient lie *stored*, in one order that each kernel says by ``pack`` and ``unpack``; an update adds
stored words to stored words. Fill of blocks is 0 in a gradient, so it stays 0 in weights.

Blocks of equal shape are taken some at a time, as many as a processor's cache holds with their operands. Sums of an
output go along a block's columns as BLAS adds them, then block after block.

Where some rows of X come later than others (:class:`InputRows`), ``forward`` can be done in two parts: ``forward_own``
of what needs none of them, and ``forward_rest``. Over blocks that is of whole blocks, and sums are the same; over
single nonzeros an output's sum is first that of the columns that are there, ascending, then that of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from plinth.machine.blocks import BlockCover, BlockGroup, BlockShapes, Integers, check_pattern
from plinth.machine.sparse_products import FEW_SAMPLES, GAIN, RATES, TILE_WORDS, HostBlockCost, KernelRates
from plinth.network.sparse.matrices import entry_rows, starts_of
from plinth.runtime.memory import Floats

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

#: Least share of all outputs that add a further product, from which all of them are added as whole arrays.
MANY = 0.5
#: Neighbouring blocks that need no row of others, from as many on they go ahead of the other blocks of their shape.
AHEAD_BLOCKS = 8


class InputRows(NamedTuple):
    """The rows of X that columns of W are multiplied by, where X has more rows than W columns, or another order.

    Attributes
    ----------
    rows : int
        Rows of X.
    numbers : array of int
        The row of X of each column: ``[columns]``.
    own : array of bool
        Whether that row is there before those of others: ``[columns]``.
    """

    rows: int
    numbers: Integers
    own: NDArray[np.bool_]


class SparseKernel(Protocol):
    """Products of one layer with so many samples at a time; made once, as its buffers are."""

    #: Words of the weights as they are stored.
    stored: int
    #: Whether there is anything to do in ``forward_own``, and in ``forward_rest``.
    divided: bool

    def pack(self, values: NDArray[Any]) -> Floats:
        """Stored words of the values of nonzeros, which are in the order of the pattern."""

    def unpack(self, stored: Floats) -> Floats:
        """Values of nonzeros, in the order of the pattern."""

    def forward(self, weights: Floats, x: Floats, y: Floats) -> None:
        """``Y = W X``: from ``x [columns, samples]`` to ``y [rows, samples]``."""

    def forward_own(self, weights: Floats, x: Floats, y: Floats) -> None:
        """The part of ``forward`` that needs rows of X that are there before others alone."""

    def forward_rest(self, weights: Floats, x: Floats, y: Floats) -> None:
        """What ``forward_own`` has left of ``forward``."""

    def backward(self, weights: Floats, error: Floats, x_error: Floats) -> None:
        """``D = W^T E``: from ``error [rows, samples]`` to ``x_error [columns, samples]``."""

    def gradient(self, error: Floats, x: Floats, gradient: Floats) -> None:
        """``G = E X^T`` at the nonzeros, from errors and inputs to words as they are stored."""


class WorkMemory:
    """Memory that kernels take turns in, as they are done one after the other."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.float32)

    def take(self, *shape: int) -> Floats:
        """The first words; what was in them is anything, unless nobody else has taken any since."""
        count = prod(shape)
        if count > len(self._words):
            self._words = np.empty(count, np.float32)
        return self._words[:count].reshape(shape)


class WorkMemories:
    """Those of products: of operands, of products before they are added up, of a part of the sums."""

    def __init__(self) -> None:
        self.operands, self.products, self.sums = WorkMemory(), WorkMemory(), WorkMemory()


class BlockKernels:
    """Products over dense blocks: gather the operands, multiply by BLAS, add.

    Parameters
    ----------
    blocks : BlockShapes
    samples : int
        Columns of all operands.
    kept : array of int32 or None
        For each packed word -1 of a nonzero, 0 of fill; None where there is no fill.
    work : WorkMemories
        Which other kernels may have as well, but not between ``forward_own`` and ``forward_rest``.
    inputs : InputRows or None
        None: each column is multiplied by the row of its number.

    Raises
    ------
    ValueError
        If there is no sample; and by each product, if an operand has another shape, is not C-contiguous or not float32.
    """

    def __init__(self, blocks: BlockShapes, samples: int, kept: NDArray[np.int32] | None, work: WorkMemories,
                 inputs: InputRows | None = None) -> None:
        _check_samples(samples)
        self.samples, self.stored = samples, blocks.packed
        self._shape, self._work = blocks.shape, work
        self._x_rows = blocks.shape[1] if inputs is None else inputs.rows
        groups = blocks.groups()
        self._groups = [_Group(group, samples, inputs) for group in groups]
        self.divided = any(group.own for group in self._groups) and any(group.rest for group in self._groups)
        self._sums = (_Sums(blocks.rows, [group.rows for group in groups], blocks.shape[0], samples, work),
                      _Sums(blocks.columns, [group.columns for group in groups], blocks.shape[1], samples, work))
        #: All bits of a nonzero, none of fill; unlike a factor it makes 0 of what is not finite, too.
        self._kept = kept
        self._operands = max((group.tile * sum(group.shape[1:]) for group in self._groups), default=0) * samples

    def forward(self, weights: Floats, x: Floats, y: Floats) -> None:
        """``Y = W X``; rows without nonzeros become 0."""
        self.forward_own(weights, x, y)
        self.forward_rest(weights, x, y)

    def forward_own(self, weights: Floats, x: Floats, y: Floats) -> None:
        """Products of the blocks all of whose rows of X are there before others."""
        self._check(weights, y, x, self._x_rows)
        for group, out in zip(self._groups, self._sums[0].begin(y), strict=True):
            self._multiply(group, group.own, weights, x, out)

    def forward_rest(self, weights: Floats, x: Floats, y: Floats) -> None:
        """Products of the other blocks; then all are added up, in the order of blocks."""
        self._check(weights, y, x, self._x_rows)
        for group, out in zip(self._groups, self._sums[0].begin(y), strict=True):
            self._multiply(group, group.rest, weights, x, out)
        self._sums[0].end(y)

    def _multiply(self, group: _Group, parts: list[slice], weights: Floats, x: Floats, out: Floats) -> None:
        blocks = weights[group.packed].reshape(group.shape)
        for part in parts:
            np.matmul(blocks[part], self._gather(x, group.inputs[part]), out=out[part])

    def backward(self, weights: Floats, error: Floats, x_error: Floats) -> None:
        """``D = W^T E``; columns without nonzeros become 0."""
        self._check(weights, error, x_error, self._shape[1])
        for group, out in zip(self._groups, self._sums[1].begin(x_error), strict=True):
            blocks = weights[group.packed].reshape(group.shape).transpose(0, 2, 1)
            for part in group.parts:
                np.matmul(blocks[part], self._gather(error, group.rows[part]), out=out[part])
        self._sums[1].end(x_error)

    def gradient(self, error: Floats, x: Floats, gradient: Floats) -> None:
        """``G = E X^T`` of whole blocks, then 0 in their fill."""
        self._check(gradient, error, x, self._x_rows)
        for group in self._groups:
            out = gradient[group.packed].reshape(group.shape)
            for part in group.parts:
                errors = self._gather(error, group.rows[part])
                inputs = self._gather(x, group.inputs[part], errors.size)
                # Products of columns and rows are no work for BLAS.
                product = np.multiply if self.samples == 1 else np.matmul
                product(errors, inputs.transpose(0, 2, 1), out=out[part])
        if self._kept is not None:
            bits = gradient.view(np.int32)
            np.bitwise_and(bits, self._kept, out=bits)

    def _gather(self, operand: Floats, numbers: Integers, first: int = 0) -> Floats:
        """Rows of an operand, ``[blocks, numbers, samples]``, in the buffer from word ``first`` on."""
        count, size = numbers.shape
        gathered = self._work.operands.take(self._operands)[first:first + numbers.size * self.samples].reshape(
            -1, self.samples)
        # Numbers are in range; the mode spares a copy.
        np.take(operand, numbers.reshape(-1), axis=0, out=gathered, mode="clip")
        return gathered.reshape(count, size, self.samples)

    def _check(self, stored: Floats, rows: Floats, columns: Floats, count: int) -> None:
        _check_operands(self.stored, (self._shape[0], count), self.samples, stored, rows, columns)


class BlockProducts(BlockKernels):
    """Products over the dense blocks of a cover, whose weights are packed from those of the nonzeros.

    Parameters
    ----------
    cover : BlockCover
        Of the layer's pattern.
    samples : int
        Columns of all operands.
    inputs : InputRows or None
        None: each column is multiplied by the row of its number.

    Raises
    ------
    ValueError
        If there is no sample; and by each product, if an operand has another shape, is not C-contiguous or not float32.
    """

    def __init__(self, cover: BlockCover, samples: int, inputs: InputRows | None = None) -> None:
        super().__init__(cover, samples, kept_words(cover), WorkMemories(), inputs)
        self.cover = cover

    def pack(self, values: NDArray[Any]) -> Floats:
        return self.cover.pack(values.astype(np.float32, copy=False))

    def unpack(self, stored: Floats) -> Floats:
        return self.cover.unpack(stored)


def kept_words(cover: BlockCover) -> NDArray[np.int32] | None:
    """For each packed word of a cover -1 of a nonzero, 0 of fill; None where there is no fill."""
    return None if cover.useful == 1 else np.where(cover.sources() < 0, 0, -1).astype(np.int32)


class CsrProducts:
    """Products over single nonzeros, by scipy: for patterns on which blocks do not pay.

    Parameters
    ----------
    pattern : csr_array
        Its values do not count.
    samples : int
        Columns of all operands.
    inputs : InputRows or None
        None: each column is multiplied by the row of its number.

    Raises
    ------
    ValueError
        If there is no sample; and by each product, if an operand has another shape, is not C-contiguous or not float32.
    """

    def __init__(self, pattern: csr_array, samples: int, inputs: InputRows | None = None) -> None:
        from scipy.sparse import csc_array

        _check_samples(samples)
        self.samples, self.stored, self._shape = samples, pattern.nnz, pattern.shape
        self._x_rows = pattern.shape[1] if inputs is None else inputs.rows
        parts = np.zeros(pattern.nnz, np.float32), pattern.indices, pattern.indptr
        self._turned = csc_array(parts, shape=pattern.shape[::-1])
        self._rows = entry_rows(pattern)
        self._columns = pattern.indices.astype(np.int64)
        own = np.zeros(pattern.nnz, np.bool_)
        if inputs is not None:
            self._columns, own = inputs.numbers[self._columns], inputs.own[self._columns]
        self.divided = bool(own.any() and not own.all())
        self._own = self._part(np.flatnonzero(own)) if self.divided else None
        self._rest = self._part(np.flatnonzero(~own) if self.divided else slice(None))
        self._tile = max(1, TILE_WORDS // (2 * samples))
        self._gathered = np.empty((2, min(self._tile, self.stored), samples), np.float32)

    def pack(self, values: NDArray[Any]) -> Floats:
        _check_values(self.stored, values)
        return values.astype(np.float32)

    def unpack(self, stored: Floats) -> Floats:
        _check_values(self.stored, stored)
        return stored.copy()

    def forward(self, weights: Floats, x: Floats, y: Floats) -> None:
        """``Y = W X``."""
        self.forward_own(weights, x, y)
        self.forward_rest(weights, x, y)

    def forward_own(self, weights: Floats, x: Floats, y: Floats) -> None:
        """Products of the nonzeros whose rows of X are there before others; nothing, if these are none or all."""
        self._check(weights, y, x, self._x_rows)
        if self._own is not None:
            y[:] = self._own.multiply(weights, x)

    def forward_rest(self, weights: Floats, x: Floats, y: Floats) -> None:
        """Products of the other nonzeros, which are added to those."""
        self._check(weights, y, x, self._x_rows)
        if self._own is not None:
            y += self._rest.multiply(weights, x)
        else:
            y[:] = self._rest.multiply(weights, x)

    def _part(self, nonzeros: Integers | slice) -> _CsrPart:
        """The product of some nonzeros."""
        from scipy.sparse import csr_array

        counts = np.bincount(self._rows[nonzeros], minlength=self._shape[0])
        columns = self._columns[nonzeros]
        return _CsrPart(nonzeros, csr_array((np.zeros(len(columns), np.float32), columns, starts_of(counts)),
                                            shape=(self._shape[0], self._x_rows)))

    def backward(self, weights: Floats, error: Floats, x_error: Floats) -> None:
        """``D = W^T E``."""
        self._check(weights, error, x_error, self._shape[1])
        self._turned.data = weights
        x_error[:] = self._turned @ error

    def gradient(self, error: Floats, x: Floats, gradient: Floats) -> None:
        """``G = E X^T``, some nonzeros at a time."""
        self._check(gradient, error, x, self._x_rows)
        for start in range(0, self.stored, self._tile):
            part = slice(start, start + self._tile)
            errors, inputs = self._gathered[:, :len(self._rows[part])]
            np.take(error, self._rows[part], axis=0, out=errors, mode="clip")
            np.take(x, self._columns[part], axis=0, out=inputs, mode="clip")
            np.einsum("es,es->e", errors, inputs, out=gradient[part])

    def _check(self, stored: Floats, rows: Floats, columns: Floats, count: int) -> None:
        _check_operands(self.stored, (self._shape[0], count), self.samples, stored, rows, columns)


class _CsrPart(NamedTuple):
    """Some nonzeros, and the matrix of them, whose values are set for each product."""

    nonzeros: Integers | slice
    matrix: csr_array

    def multiply(self, weights: Floats, x: Floats) -> Floats:
        """Their product with X."""
        self.matrix.data = weights[self.nonzeros]
        product: Floats = self.matrix @ x
        return product


class _Group:
    """Blocks of one shape, and how many of them are taken at a time: ``parts`` of all; in ``forward`` those that go
    ahead, ``own``, and the ``rest``."""

    def __init__(self, group: BlockGroup, samples: int, inputs: InputRows | None) -> None:
        self.shape, self.packed, self.rows = group.shape, group.packed, group.rows
        #: Rows of X, ``[blocks, columns]``.
        self.inputs = group.columns if inputs is None else inputs.numbers[group.columns]
        self.tile = min(group.count, max(1, TILE_WORDS // (samples * sum(group.shape[1:]))))
        self.parts = list(self._tiles(0, group.count))
        self.own: list[slice] = []
        self.rest = self.parts
        if inputs is not None:
            ahead = np.logical_and.reduce(inputs.own[group.columns], axis=1)
            for first, end in _runs(ahead):
                if end - first < AHEAD_BLOCKS:
                    ahead[first:end] = False
            self.own, self.rest = ([part for run in _runs(chosen) for part in self._tiles(*run)]
                                   for chosen in (ahead, ~ahead))

    def _tiles(self, first: int, end: int) -> Iterator[slice]:
        for start in range(first, end, self.tile):
            yield slice(start, min(start + self.tile, end))


def _runs(chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and end of each run of chosen elements."""
    bounds = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [(int(first), int(end)) for first, end in bounds.reshape(-1, 2)]


class _Sums:
    """How products of blocks become outputs, ``[size, samples]``.

    Where each output is in one block only, and outputs of blocks of a shape form a grid, products are written where
    they belong. Else they are written one behind the other, and then taken to their outputs: first products of all
    outputs, second ones, and so on.

    Parameters
    ----------
    numbers : array of int
        The output of each row of products.
    groups : list of array
        The same of each group of blocks, ``[blocks, rows]``.
    size, samples : int
        Of the outputs.
    work : WorkMemories
    """

    def __init__(self, numbers: Integers, groups: list[Integers], size: int, samples: int, work: WorkMemories) -> None:
        self._samples, self._work = samples, work
        self._shapes = [(*group.shape, samples) for group in groups]
        counts = np.bincount(numbers, minlength=size)
        grids = [grid for group in groups if (grid := _grid(group)) is not None]
        written = samples >= FEW_SAMPLES and bool(counts.max() <= 1) and len(grids) == len(groups)
        self._grids = grids if written else None
        self._empty = np.flatnonzero(counts == 0)
        if self._grids is not None:
            return
        self._starts = np.cumsum([0, *(group.size for group in groups)]).tolist()
        order = np.argsort(numbers, kind="stable")
        rank = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        # The row behind the products is 0.
        self._first = np.full(size, len(numbers))
        self._first[numbers[order[rank == 0]]] = order[rank == 0]
        self._further: list[tuple[Integers | None, Integers]] = []
        for level in range(1, int(counts.max(initial=0))):
            products = order[rank == level]
            outputs = numbers[products]
            if len(outputs) < MANY * size:
                self._further.append((outputs, products))
            else:
                whole = np.full(size, len(numbers))
                whole[outputs] = products
                self._further.append((None, whole))
        self._part = max(1, TILE_WORDS // (2 * samples))

    def begin(self, outputs: Floats) -> list[Floats]:
        """Where products of each group are written, ``[blocks, rows, samples]``."""
        if self._grids is None:
            products = self._products()
            # The row behind the products.
            products[-1] = 0
            return [products[start:end].reshape(shape)
                    for start, end, shape in zip(self._starts, self._starts[1:], self._shapes, strict=False)]
        row, word = outputs.strides
        return [np.ndarray(shape, np.float32, outputs, first * row, (between * row, within * row, word))
                for shape, (first, between, within) in zip(self._shapes, self._grids, strict=True)]

    def _products(self) -> Floats:
        """One behind the other, and a row of zeros."""
        return self._work.products.take(self._starts[-1] + 1, self._samples)

    def end(self, outputs: Floats) -> None:
        """Add products up."""
        if self._grids is not None:
            outputs[self._empty] = 0
            return
        all_products = self._products()
        for start in range(0, len(outputs), self._part):
            part = slice(start, start + self._part)
            some = outputs[part]
            np.take(all_products, self._first[part], axis=0, out=some, mode="clip")
            for chosen, products in self._further:
                if chosen is None:
                    buffer = self._work.sums.take(len(some), self._samples)
                    some += np.take(all_products, products[part], axis=0, out=buffer, mode="clip")
        for chosen, products in self._further:
            if chosen is not None:
                outputs[chosen] += all_products[products]


def _grid(numbers: Integers) -> tuple[int, int, int] | None:
    """First number and distances between and within blocks, ``[blocks, numbers]``, if these are equal everywhere."""
    between, within = np.diff(numbers, axis=0), np.diff(numbers, axis=1)
    distances = [int(steps.flat[0]) if steps.size else 1 for steps in (between, within)]
    if (between != distances[0]).any() or (within != distances[1]).any() or min(distances) < 1:
        return None
    return int(numbers[0, 0]), distances[0], distances[1]


def sparse_products(pattern: csr_array, samples: int, rates: KernelRates = RATES) -> BlockProducts | CsrProducts:
    """Make the products of a layer: over the blocks that a host chooses
    (:class:`~plinth.machine.sparse_products.HostBlockCost`), or over single nonzeros if blocks are not :data:`GAIN`
    times as fast by the rates. The rule looks at ``Y = W X`` alone.

    Parameters
    ----------
    pattern : csr_array
        The layer's, ``[outputs, inputs]``; its values do not count.
    samples : int
        Columns of all operands.
    rates : KernelRates
        By default those of one core, as measured.

    Raises
    ------
    TypeError, ValueError
        If the pattern is not in order (:func:`~plinth.machine.blocks.check_pattern`), or there is no sample.
    """
    _check_samples(samples)
    check_pattern(pattern)
    found = HostBlockCost(samples, rates).best(pattern)
    if found.count and GAIN * rates.blocks_ns(found, samples) <= rates.csr_ns(pattern.nnz, pattern.shape[0], samples):
        return BlockProducts(found, samples)
    return CsrProducts(pattern, samples)


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise ValueError(f"samples of a product must be at least 1, not {samples!r}")


def _check_values(count: int, values: NDArray[Any]) -> None:
    if values.shape != (count,):
        raise ValueError(f"values must be {count}, one a nonzero, not {list(values.shape)}")


def _check_operands(stored: int, shape: tuple[int, int], samples: int, weights: Floats, rows: Floats, columns: Floats
                    ) -> None:
    for name, array, wanted in (("weights", weights, (stored,)), ("outputs", rows, (shape[0], samples)),
                                ("inputs", columns, (shape[1], samples))):
        if array.shape != wanted or array.dtype != np.float32 or not array.flags.c_contiguous:
            raise ValueError(f"{name} of a sparse product must be C-contiguous float32 {list(wanted)}, not "
                             f"{array.dtype} {list(array.shape)}")
