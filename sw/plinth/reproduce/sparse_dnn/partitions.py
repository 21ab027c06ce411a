"""Partitions of RadiX-Net networks, kept in the cache: what was interrupted goes on where it stopped."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plinth.network.sparse.radix_net import RadixNet
from plinth.partition import hypergraph
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.partition import IMBALANCE, partition
from plinth.runtime.verilog import tool_errors
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root

#: File of a partition: ``inputs`` [N], ``layers`` [L, N], the owners; ``notes``, as text.
FILE = "owners.npz"


def patterns(network: RadixNet) -> Iterator[csr_array]:
    """The layers, outputs x inputs, made one at a time: all of 16,384 neurons are 750 MB."""
    rows = np.arange(network.neurons)
    return (network.rows(layer, rows) for layer in range(network.layers))


@lru_cache(maxsize=8)
def patterns_digest(network: RadixNet) -> str:
    """Digest of where all layers' entries are."""
    return digest(*(np.concatenate((pattern.indptr, pattern.indices)).astype(np.int64).tobytes()
                    for pattern in patterns(network)))


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """Digest of the partitioner's sources: another partitioner has other results."""
    folder = Path(hypergraph.__file__).parent
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".cpp"))
    return digest(*(part for path in paths for part in (path.name, path.read_bytes())))


def folder(network: RadixNet, parts: int, how: str, seed: int) -> Path:
    """Where a partition is kept: named by the patterns, the settings, and the sources of the partitioner."""
    key = digest(patterns_digest(network), _code_digest(), repr((parts, how, IMBALANCE, seed)))
    return cache_root() / "partitions" / f"radix-net-{network.neurons}x{network.layers}-{how}-{parts}-{key}"


def kept(network: RadixNet, parts: int, how: str, seed: int = 0) -> SparsePartition:
    """A partition of a network, from the cache if it is there and whole, else made and kept there.

    Parameters
    ----------
    network : RadixNet
        The layers.
    parts : int
        Processors.
    how : str
        As :func:`plinth.partition.hypergraph.partition.partition` takes it.
    seed : int
        Of the partition.

    Raises
    ------
    UserError
        If there are more parts than rows, or the cache cannot be written.
    """
    where = folder(network, parts, how, seed)
    with tool_errors(), cached_folder(where, FILE) as scratch:
        if scratch is not None:
            found = partition(patterns(network), parts, how, seed=seed)
            np.savez(scratch / FILE, allow_pickle=False, inputs=found.inputs, layers=np.stack(found.layers),
                     notes=np.array(found.notes, dtype=np.str_))
    with np.load(where / FILE) as file:
        return SparsePartition(parts, file["inputs"], tuple(file["layers"]), tuple(map(str, file["notes"])))
