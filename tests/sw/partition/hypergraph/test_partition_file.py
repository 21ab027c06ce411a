"""Partitions in files: read as they were written, and of no other network."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.sparse_patterns import pruned_net

from plinth.errors import UserError
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.partition import partition
from plinth.partition.hypergraph.partition_file import (
    StoredPartition,
    patterns_digest,
    read_partition,
    write_partition,
)
from plinth.partition.hypergraph.volume import traffic

PATTERNS = pruned_net([40, 30, 20], 0.2, 0)
FOUND = partition(PATTERNS, 3, "random")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a partition of :data:`PATTERNS`."""
    file = tmp_path / "partition.npz"
    noted = SparsePartition(3, FOUND.inputs, FOUND.layers, ("layer 1: é", "layer 2: x"))
    write_partition(file, StoredPartition(noted, patterns_digest(PATTERNS), 1.5))
    return file


def test_what_is_written_is_read(path: Path) -> None:
    stored = read_partition(path, patterns_digest(PATTERNS))
    assert stored.partition == FOUND and stored.partition.notes == ("layer 1: é", "layer 2: x")
    assert stored.seconds == 1.5 and stored.network == patterns_digest(iter(PATTERNS))


def test_digests_tell_networks_apart() -> None:
    other = pruned_net([40, 30, 20], 0.2, 1)
    assert len({patterns_digest(each) for each in (PATTERNS, other, PATTERNS[:1], [PATTERNS[0], other[1]])}) == 4


def test_a_partition_of_another_network(path: Path) -> None:
    other = pruned_net([40, 30, 25], 0.2, 0)
    with pytest.raises(UserError, match=r"partition.npz: the partition is of another network \(digest .*; partition "
                                        "this one, or give the network"):
        read_partition(path, patterns_digest(other))
    for patterns, told in ((other, "layer 2: 25 rows and 30 columns, but the partition has owners of 20 rows and 30"),
                           (PATTERNS[:1], "the network has 1 layers, its partition 2"),
                           ([*PATTERNS, pruned_net([20, 9], 0.3, 0)[0]], "layer 3: 9 rows and 20 columns, but the "
                                                                        "partition has none of its rows' owners")):
        with pytest.raises(UserError, match=f"^{told}.*another network: partition this one$"):
            traffic(patterns, FOUND)


@pytest.mark.parametrize("changed, told", [
    ({"owners": np.array([0, 1, 7])}, "'owners' has 7, where numbers from 0 to 2 belong"),
    ({"owners": np.array([0, 1])}, "'widths' of 2 layers add up to 90, and there are 2 owners"),
    ({"owners": np.array([0, -1])}, "'owners' has -1, where"),
    ({"parts": np.array([3, 3])}, r"'parts' is int64 \[2\], not one integer"),
    ({"parts": np.array([0])}, "'parts' is 0, not at least 1"),
    ({"widths": np.array([90])}, "'widths' of 0 layers"),
    ({"network": np.array([1, 2])}, "'network' has 2 numbers, not 12"),
    ({"seconds": np.array([1])}, "'seconds' is int64"),
    ({"notes": None}, "has no array 'notes'"),
])
def test_files_that_are_wrong(changed: dict[str, np.ndarray | None], told: str, path: Path) -> None:
    with np.load(path) as file:
        arrays = dict(file) | changed
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(UserError, match=told) as refusal:
        read_partition(path)
    assert "partition the network anew" in str(refusal.value) and "\n" not in str(refusal.value)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.npz"):
        read_partition(tmp_path / "nothing.npz")
    with pytest.raises(UserError, match=r"\.npz"):
        write_partition(tmp_path / "partition.txt", StoredPartition(FOUND, patterns_digest(PATTERNS), 0))
