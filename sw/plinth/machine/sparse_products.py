"""Products of a sparse layer by numpy on a host: whether they go over dense blocks or over single nonzeros, and what
they take.

The kernels are those of :mod:`plinth.runtime.sparse_kernels`: over blocks operands are gathered, some blocks at a time,
multiplied by BLAS, and, where outputs are in several blocks, added up; over nonzeros scipy multiplies, and a gradient
gathers both operands of each. The choice follows from constants, so that all processes of a run make the same one; what
a kernel takes follows from the rates of a host (:mod:`plinth.machine.host`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from plinth.machine.blocks import BlockCover, BlockShapes, Shapes, empty_cover, given_cover
from plinth.machine.host import HostWork, moved

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

    from plinth.machine.covers import Cost

#: Words of gathered operands and products of the blocks that are taken at a time, 512 KiB.
TILE_WORDS = 1 << 17
#: How many times as fast as single nonzeros blocks must be, as predicted, to be taken.
GAIN = 1.25
#: Least share of nonzeros in a pattern of which one block is tried.
LEAST_DENSITY = 0.02
#: Samples below which products are not written on a grid, as each would write a part of a cache line.
FEW_SAMPLES = 16
#: Kernels that a product over blocks calls beside those of each tile of blocks; of a tile; of scipy's product; of a
#: tile of nonzeros of its gradient. Calls, or as long.
PRODUCT_CALLS, TILE_CALLS, CSR_CALLS, NONZEROS_CALLS = 4, 3, 8, 3


@dataclass(frozen=True, kw_only=True)
class KernelRates:
    """Nanoseconds of the parts of products on one core, by which :func:`by_blocks` chooses.

    They are constants, so that all processes of a run choose the same kernels, and sums keep their order. Measured on
    an x86 core with AVX-512: blocks of 1 x 32 to 512 x 512, 1 to 1,024 samples; most predictions are within 30 %, those
    of operands beyond the cache too low by up to half, for blocks and for scipy alike.

    Parameters
    ----------
    group_ns : float
        Of the blocks of one shape: calls of numpy.
    block_ns : float
        Of a block: a call of BLAS.
    row_ns : float
        Of a row or column of a block, whose operand is gathered or written.
    element_ns : float
        Of a word of packed weights.
    moved_ns : float
        Of a word of operands that is gathered or written.
    multiply_add_ns : float
        Of a word of packed weights and a sample.
    edge_ns, edge_sample_ns, output_ns : float
        Of scipy's products: a nonzero, a nonzero and a sample, a word of outputs.
    """

    group_ns: float = 6800.0
    block_ns: float = 25.0
    row_ns: float = 0.7
    element_ns: float = 0.045
    moved_ns: float = 0.21
    multiply_add_ns: float = 0.021
    edge_ns: float = 0.48
    edge_sample_ns: float = 0.15
    output_ns: float = 0.11

    def block(self, samples: int) -> Cost:
        """Cost of a block of rows x columns, in nanoseconds of ``Y = W X``."""
        def cost(rows: int, columns: int) -> float:
            return (self.block_ns + (self.row_ns + self.moved_ns * samples) * (rows + columns)
                    + (self.element_ns + self.multiply_add_ns * samples) * rows * columns)
        return cost

    def blocks_ns(self, blocks: BlockShapes, samples: int) -> float:
        """Nanoseconds of ``Y = W X`` over the blocks of a cover."""
        return self.shapes_ns(blocks.shapes(), samples)

    def shapes_ns(self, shapes: Shapes, samples: int) -> float:
        """The same, of so many blocks of each shape."""
        cost = self.block(samples)
        return self.group_ns * len(shapes) + sum(count * cost(rows, columns) for count, rows, columns in shapes)

    def csr_ns(self, nonzeros: int, rows: int, samples: int) -> float:
        """Nanoseconds of ``Y = W X`` of so many rows over single nonzeros."""
        return nonzeros * (self.edge_ns + self.edge_sample_ns * samples) + self.output_ns * rows * samples


#: Those of one core, as measured.
RATES = KernelRates()


@dataclass(frozen=True)
class HostBlockCost:
    """Chooses the blocks in which a host has its rows' weights: blocks without fill, or one of all rows and columns
    with a nonzero, whichever multiplies so many samples in less time. Blocks with some fill are not tried: measured on
    pruned and random layers of 5 to 20 % nonzeros they are slower than scipy, as their shapes differ and their outputs
    are added many times.

    Parameters
    ----------
    samples : int
    rates : KernelRates
        By default those of one core, as measured.
    """

    samples: int
    rates: KernelRates = RATES

    def best(self, pattern: csr_array) -> BlockCover:
        """The cover of a pattern. A pattern without entries, which may have no columns, has no blocks."""
        from plinth.machine.covers import cover

        rows, columns = pattern.shape
        if not pattern.nnz:
            return empty_cover(pattern.shape)
        covers = [cover(pattern, rows, columns, self.rates.block(self.samples), fill=False)]
        if pattern.nnz > rows * columns * LEAST_DENSITY:
            covers.append(given_cover(pattern, [(np.arange(rows), np.arange(columns))]))
        return min(covers, key=lambda blocks: self.rates.blocks_ns(blocks, self.samples))


def by_blocks(shapes: Shapes, nonzeros: int, rows: int, samples: int) -> bool:
    """Whether products of a die's rows go over the blocks in which its weights lie: where these are :data:`GAIN` times
    as fast as scipy by :data:`RATES`."""
    return GAIN * RATES.shapes_ns(shapes, samples) <= RATES.csr_ns(nonzeros, rows, samples)


class SparseProduct(NamedTuple):
    """A product of a sparse layer on a host, as what it takes depends on it.

    Attributes
    ----------
    direction : str
        ``fprop``, ``bprop`` or ``update``.
    shapes : tuple of (int, int, int)
        Numbers of blocks, and their rows and columns.
    nonzeros : int
        Entries of the blocks.
    rows, columns : int
        Of the pattern.
    samples : int
    """

    direction: str
    shapes: Shapes
    nonzeros: int
    rows: int
    columns: int
    samples: int


def sparse_work(product: SparseProduct, cache_words: float) -> HostWork:
    """What a host does for a product of a sparse layer, by the kernel that it takes."""
    if not product.nonzeros:
        return HostWork()
    if by_blocks(product.shapes, product.nonzeros, product.rows, product.samples):
        return _over_blocks(product, cache_words)
    return _over_nonzeros(product, cache_words)


def _over_blocks(product: SparseProduct, cache_words: float) -> HostWork:
    """Operands are gathered, a row of samples a run; products are written where they belong, or one behind the other
    and then taken to their outputs."""
    shapes, samples = product.shapes, product.samples
    count, rows, columns, packed = (float(sum(amounts)) for amounts in zip(*(
        (count, count * high, count * wide, count * high * wide) for count, high, wide in shapes), strict=True))
    tiles = sum(-(-count // max(1, TILE_WORDS // (samples * (high + wide)))) for count, high, wide in shapes)
    gathered, given, outputs = {"fprop": (columns, rows, product.rows), "bprop": (rows, columns, product.columns),
                                "update": (rows + columns, 0.0, 0)}[product.direction]
    work = HostWork(calls=PRODUCT_CALLS + TILE_CALLS * tiles, blocks=count,
                    block_multiply_adds=packed * samples).plus(
        moved(packed, cache_words, calls=0), moved(2 * gathered * samples, cache_words, calls=0, runs=gathered),
        moved(given * samples, cache_words, calls=0))
    if samples >= FEW_SAMPLES and given <= outputs:
        return work
    return work.plus(moved(2 * given * samples, cache_words, calls=0, runs=given))


def _over_nonzeros(product: SparseProduct, cache_words: float) -> HostWork:
    """Weights are taken out of their blocks and multiplied; of a gradient both operands of each are gathered, some
    nonzeros at a time, and it is put back."""
    nonzeros, samples = product.nonzeros, product.samples
    work = HostWork(calls=CSR_CALLS, entries=nonzeros, entry_multiply_adds=nonzeros * samples)
    if product.direction == "update":
        tiles = -(-nonzeros // max(1, TILE_WORDS // (2 * samples)))
        return work.plus(moved(4 * nonzeros * samples, cache_words, calls=NONZEROS_CALLS * tiles, runs=2 * nonzeros))
    outputs = product.rows if product.direction == "fprop" else product.columns
    return work.plus(moved(3 * outputs * samples, cache_words, calls=0))
