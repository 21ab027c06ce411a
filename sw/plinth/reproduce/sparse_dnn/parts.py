"""What each rank has of each layer of a partitioned RadiX-Net, in numbers: blocks, columns, and words and messages by
which ranks exchange them. No step is built for it, which of 512 ranks and 120 layers would take hours."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plinth.machine.blocks import Shapes
from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.reproduce.sparse_dnn.partitions import patterns

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LayerParts:
    """A layer of all ranks; arrays have a number of each.

    Attributes
    ----------
    rows, columns : array of int
        Rows that a rank owns, and different columns that it reads.
    shapes : tuple
        Its blocks: some rows with equal columns, and these.
    sent, received : array of int
        Words of an input vector in fprop, columns of others; in bprop they go the other way.
    peers : array of int
        Messages that a rank sends and takes in fprop, together; in bprop as many.
    """

    rows: Integers
    columns: Integers
    shapes: tuple[Shapes, ...]
    sent: Integers
    received: Integers
    peers: Integers


class LayerPattern(NamedTuple):
    """A layer whose rows have as many entries each.

    Attributes
    ----------
    indices : array of int
        Columns of each row, ``[rows, entries]``.
    classes : array of int
        For each row a number that rows with equal columns share.
    width : int
        Columns of the layer.
    """

    indices: Integers
    classes: Integers
    width: int


def layer_pattern(matrix: csr_array) -> LayerPattern:
    """Columns and classes of a matrix whose rows have as many entries each, in ascending order."""
    indices = matrix.indices.reshape(matrix.shape[0], -1).astype(np.int64)
    # Different sets of columns have different sums but for one in 2^64 pairs.
    numbers = np.random.default_rng(0).integers(1 << 63, size=matrix.shape[1], dtype=np.uint64)
    return LayerPattern(indices, np.unique(numbers[indices].sum(axis=1), return_inverse=True)[1].reshape(-1),
                        matrix.shape[1])


def layer_parts(pattern: LayerPattern, columns: Integers, rows: Integers, parts: int) -> LayerParts:
    """A layer whose columns and rows have owners, ``[inputs]`` and ``[outputs]``."""
    (height, entries), width = pattern.indices.shape, pattern.width
    # A rank's rows of a class are a block.
    blocks, heights = np.unique(rows * height + pattern.classes, return_counts=True)
    kinds, counts = np.unique((blocks // height) * (height + 1) + height - heights, return_counts=True)
    shapes: list[list[tuple[int, int, int]]] = [[] for _ in range(parts)]
    for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        shapes[kind // (height + 1)].append((count, height - kind % (height + 1), entries))
    read = np.zeros((parts, width), np.bool_)
    read[rows[:, None], pattern.indices] = True
    readers, needed = np.nonzero(read)
    owners = columns[needed]
    away = readers != owners
    pairs = np.flatnonzero(np.bincount(owners[away] * parts + readers[away], minlength=parts * parts))

    def counted(numbers: Integers) -> Integers:
        return np.bincount(numbers, minlength=parts)

    return LayerParts(counted(rows), counted(readers), tuple(map(tuple, shapes)), counted(owners[away]),
                      counted(readers[away]), counted(pairs // parts) + counted(pairs % parts))


@lru_cache(maxsize=1)
def network_patterns(network: RadixNet) -> tuple[LayerPattern, ...]:
    """All layers of a network; of 16,384 neurons and 120 layers they take 500 MB."""
    return tuple(layer_pattern(matrix) for matrix in patterns(network))


def network_parts(network: RadixNet, partition: SparsePartition) -> Iterator[LayerParts]:
    """The layers of a network, one after the other."""
    for layer, pattern in enumerate(network_patterns(network)):
        yield layer_parts(pattern, partition.columns(layer), partition.layers[layer], partition.parts)
