"""What each rank has of each layer of a partitioned RadiX-Net, in numbers: blocks, columns, and words and messages by
which ranks exchange them. No step is built for it, which of 512 ranks and 120 layers would take hours."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plinth.machine.blocks import Shapes
from plinth.network.sparse.radix_net import CONNECTIONS, RadixNet
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


def layer_parts(pattern: csr_array, columns: Integers, rows: Integers, parts: int) -> LayerParts:
    """A layer whose columns and rows have owners, ``[inputs]`` and ``[outputs]``; each row has as many entries."""
    width, height = pattern.shape[1], pattern.shape[0]
    indices = np.sort(pattern.indices.reshape(height, -1).astype(np.int64), axis=1)
    # Rows with equal columns are a class; a rank's rows of one are a block.
    classes = np.unique(indices, axis=0, return_inverse=True)[1].reshape(-1)
    blocks, heights = np.unique(rows * height + classes, return_counts=True)
    kinds, counts = np.unique(np.stack([blocks // height, -heights], axis=1), axis=0, return_counts=True)
    shapes: list[list[tuple[int, int, int]]] = [[] for _ in range(parts)]
    for (part, high), count in zip(kinds.tolist(), counts.tolist(), strict=True):
        shapes[part].append((count, -high, indices.shape[1]))
    read = np.unique(np.repeat(rows, indices.shape[1]) * width + indices.reshape(-1))
    readers, owners = read // width, columns[read % width]
    away = readers != owners
    pairs = np.unique(owners[away] * parts + readers[away])

    def counted(numbers: Integers) -> Integers:
        return np.bincount(numbers, minlength=parts)

    return LayerParts(counted(rows), counted(readers), tuple(map(tuple, shapes)), counted(owners[away]),
                      counted(readers[away]), counted(pairs // parts) + counted(pairs % parts))


def network_parts(network: RadixNet, partition: SparsePartition) -> Iterator[LayerParts]:
    """The layers of a network, one after the other."""
    for layer, pattern in enumerate(patterns(network)):
        assert pattern.nnz == CONNECTIONS * pattern.shape[0]
        yield layer_parts(pattern, partition.columns(layer), partition.layers[layer], partition.parts)
