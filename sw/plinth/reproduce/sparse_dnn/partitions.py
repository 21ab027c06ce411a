"""Partitions of sparse networks, kept in the cache: what was interrupted goes on where it stopped."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plinth.network.sparse.radix_net import RadixNet
from plinth.partition import hypergraph
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.partition import IMBALANCE, partition
from plinth.partition.hypergraph.partition_file import (
    StoredPartition,
    patterns_digest,
    read_partition,
    write_partition,
)
from plinth.runtime.verilog import tool_errors
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root

#: File of a partition in its folder.
FILE = "partition.npz"


def patterns(network: RadixNet) -> Iterator[csr_array]:
    """The layers, outputs x inputs, made one at a time: all of 16,384 neurons are 750 MB."""
    rows = np.arange(network.neurons)
    return (network.rows(layer, rows) for layer in range(network.layers))


@lru_cache(maxsize=8)
def network_digest(network: RadixNet) -> str:
    """Digest of where all layers' entries are."""
    return patterns_digest(patterns(network))


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """Digest of the partitioner's sources: another partitioner has other results."""
    paths = sorted(path for path in Path(hypergraph.__file__).parent.iterdir() if path.suffix in (".py", ".cpp"))
    return digest(*(part for path in paths for part in (path.name, path.read_bytes())))


def folder(name: str, network: str, parts: int, how: str, imbalance: float, seed: int) -> Path:
    """Where a partition is kept: named by the patterns, the settings, and the sources of the partitioner."""
    key = digest(network, _code_digest(), repr((parts, how, imbalance, seed)))
    return cache_root() / "partitions" / f"{name}-{how}-{parts}-{key}"


def _processor_seconds() -> float:
    """Time of a processor that this process and its children have had so far: other work does not lengthen it."""
    return sum(os.times()[:4])


class _Timed:
    """Layers as they are asked for, and the processor seconds that making them took."""

    def __init__(self, layers: Iterable[csr_array]) -> None:
        self._layers, self.seconds = iter(layers), 0.0

    def __iter__(self) -> "_Timed":
        return self

    def __next__(self) -> csr_array:
        began = _processor_seconds()
        try:
            return next(self._layers)
        finally:
            self.seconds += _processor_seconds() - began


def kept_patterns(name: str, network: str, layers: Callable[[], Iterable[csr_array]], parts: int, how: str,
                  imbalance: float = IMBALANCE, seed: int = 0, start: StoredPartition | None = None
                  ) -> StoredPartition:
    """A partition of any layers, from the cache if it is there and whole, else made and kept there.

    Parameters
    ----------
    name : str
        What the folder is called by.
    network : str
        :func:`~plinth.partition.hypergraph.partition_file.patterns_digest` of the layers.
    layers : callable
        Makes the layers, if they are needed.
    parts, how, imbalance, seed
        What :func:`plinth.partition.hypergraph.partition.partition` takes.
    start : StoredPartition, optional
        The partition that ``best`` improves; it has the same settings, and its own file in the cache.

    Raises
    ------
    UserError
        If there are more parts than rows, the way needs what is not installed, or the cache cannot be written.
    """
    where = folder(name, network, parts, how if start is None else f"{how}-from-start", imbalance, seed)
    with tool_errors(), cached_folder(where, FILE) as scratch:
        if scratch is not None:
            began, timed = _processor_seconds(), _Timed(layers())
            found = partition(timed, parts, how, imbalance=imbalance, seed=seed,
                              start=None if start is None else start.partition)
            seconds = _processor_seconds() - began - timed.seconds
            write_partition(scratch / FILE, StoredPartition(found, network, seconds))
    return read_partition(where / FILE, network)


def stored(network: RadixNet, parts: int, how: str, seed: int = 0) -> StoredPartition:
    """A partition of a RadiX-Net network, and the processor seconds that it took when it was made, patterns given.

    Parameters
    ----------
    network : RadixNet
        The layers.
    parts : int
        Processors.
    how : str
        A way that :func:`plinth.partition.hypergraph.partition.partition` knows.
    seed : int
        Of the partition.

    Raises
    ------
    UserError
        If there are more parts than rows, or the cache cannot be written.
    """
    return kept_patterns(f"radix-net-{network.neurons}x{network.layers}", network_digest(network),
                         lambda: patterns(network), parts, how, seed=seed)


def kept(network: RadixNet, parts: int, how: str, seed: int = 0) -> SparsePartition:
    """The partition of :func:`stored` alone, with its parameters and errors."""
    return stored(network, parts, how, seed).partition
