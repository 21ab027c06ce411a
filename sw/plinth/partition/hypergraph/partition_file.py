"""Partitions in ``.npz`` files, which name the network that they are of.

=============  ==========================================================================
``network``    integers ``[12]``, 0 to 255: :func:`patterns_digest` of the layers
``parts``      integers ``[1]``: processors
``widths``     integers ``[layers + 1]``: neurons of the input, then of each layer
``owners``     integers ``[sum of widths]``: the owner of each input and of each row
``seconds``    numbers ``[1]``: what partitioning took, as its caller measures it; NaN if nobody did
``notes``      integers ``[bytes]``, 0 to 255: notes of the partition, lines of UTF-8
=============  ==========================================================================

Files are read as untrusted: sizes are compared with limits, and owners with parts, before anything is made of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plinth.errors import UserError
from plinth.files.npz import ArrayFile, array_file
from plinth.output import check_ending, write_arrays
from plinth.partition.hypergraph.owners import Integers, Pattern, SparsePartition
from plinth_hw.cache import digest

_WHAT = "a file of a partition"
_REMEDY = "partition the network anew, and keep that with plinth.partition.hypergraph.partition_file"
#: Bytes of a network's digest.
_DIGEST = 12


@dataclass(frozen=True)
class StoredPartition:
    """A partition as a file has it.

    Parameters
    ----------
    partition : SparsePartition
    network : str
        :func:`patterns_digest` of the layers that it is of.
    seconds : float
        What partitioning took, as its caller measures it; NaN if nobody did.
    """

    partition: SparsePartition
    network: str
    seconds: float


def patterns_digest(patterns: Iterable[Pattern]) -> str:
    """Digest of where all layers' entries are, in 24 hexadecimal digits; layers are looked at one at a time."""
    return digest(*(part for pattern in patterns for part in (
        repr(tuple(map(int, pattern.shape))), digest(np.concatenate(
            (pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64))).tobytes()))))


def write_partition(path: Path, stored: StoredPartition) -> None:
    """Write a partition into a file that ends in ``.npz``, whole or not at all.

    Raises
    ------
    UserError
        If the file has another ending or cannot be written.
    """
    check_ending("the file of a partition", path, ".npz")
    found = stored.partition
    owners = (found.inputs, *found.layers)
    # Owners take most of the file: as few bytes each as the parts need.
    small: npt.DTypeLike = np.min_scalar_type(found.parts - 1)
    arrays: dict[str, Any] = {
        "network": np.frombuffer(bytes.fromhex(stored.network), np.uint8), "parts": np.array([found.parts]),
        "widths": np.array([len(each) for each in owners]), "owners": np.concatenate(owners).astype(small),
        "seconds": np.array([stored.seconds], np.float64),
        "notes": np.frombuffer("\n".join(found.notes).encode(), np.uint8)}
    write_arrays(path, arrays.items())


def read_partition(path: Path, network: str | None = None) -> StoredPartition:
    """Read a partition.

    Parameters
    ----------
    path : Path
    network : str, optional
        :func:`patterns_digest` of the network that it has to be of.

    Raises
    ------
    UserError
        If the file cannot be read, is no partition, or is one of another network.
    """
    with array_file(path, _WHAT, _REMEDY) as file:
        identity = bytes(_integers(file, "network", 255).astype(np.uint8)).hex()
        if len(identity) != 2 * _DIGEST:
            raise file.error(f"'network' has {len(identity) // 2} numbers, not {_DIGEST}")
        if network not in (None, identity):
            raise UserError(f"{path}: the partition is of another network (digest {identity}, not {network}); "
                            "partition this one, or give the network that the file was made for")
        parts = int(_integers(file, "parts", np.iinfo(np.int32).max, 1)[0])
        if parts < 1:
            raise file.error(f"'parts' is {parts}, not at least 1")
        widths = _integers(file, "widths", np.iinfo(np.int32).max)
        owners = _integers(file, "owners", parts - 1)
        if len(widths) < 2 or widths.sum() != len(owners) or widths.min(initial=1) < 1:
            raise file.error(f"'widths' of {len(widths) - 1} layers add up to {widths.sum()}, and there are "
                             f"{len(owners)} owners")
        seconds = file.form("seconds")
        if seconds.dtype != np.float64 or seconds.shape != (1,):
            raise file.error(f"'seconds' is {seconds}, not float64 [1]")
        text = bytes(_integers(file, "notes", 255).astype(np.uint8)).decode(errors="replace")
        inputs, *layers = np.split(owners, np.cumsum(widths)[:-1])
        return StoredPartition(SparsePartition(parts, inputs, tuple(layers), tuple(text.splitlines())), identity,
                               float(file.read(seconds)[0]))


def _integers(file: ArrayFile, name: str, most: int, count: int | None = None) -> Integers:
    """An array of integers from 0 to a largest one, of one dimension."""
    form = file.form(name)
    if form.dtype.kind not in "iu" or len(form.shape) != 1 or count not in (None, form.shape[0]):
        raise file.error(f"{name!r} is {form}, not {'one integer' if count == 1 else 'integers of one dimension'}")
    values = file.read(form)
    if len(values) and (values.min() < 0 or values.max() > most):
        raise file.error(f"{name!r} has {values.min() if values.min() < 0 else values.max()}, where numbers from 0 to "
                         f"{most} belong")
    return values.astype(np.int64)
