"""Sparse matrices in ``.npz`` files, and what is said of wrong ones."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_networks import random_matrix

from plinth.errors import UserError
from plinth.network.sparse import matrices, pattern_file
from plinth.network.sparse.pattern_file import PatternFile, read_patterns, write_patterns
from plinth.network.sparse.radix_net import RadixNet

#: The arrays of a matrix of three rows and four columns.
GOOD: dict[str, Any] = {"shape": np.array([3, 4]), "indptr": np.array([0, 2, 2, 3]), "indices": np.array([1, 3, 0]),
                        "values": np.array([1.0, -2.0, 0.5], np.float32)}
DENSE = [[0, 1, 0, -2], [0, 0, 0, 0], [0.5, 0, 0, 0]]


def saved(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "my.npz", **arrays)
    return tmp_path / "my.npz"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_written_and_read(tmp_path: Path, dtype: type) -> None:
    generator = np.random.default_rng(0)
    written = {"conv1": random_matrix(generator, 7, 5, 0.4, dtype), "fc.1": random_matrix(generator, 3, 7, 0.4, dtype)}
    path = tmp_path / "network.npz"
    write_patterns(path, written)
    content = path.read_bytes()
    write_patterns(path, written)
    assert path.read_bytes() == content
    read = read_patterns(path)
    assert list(read) == ["conv1", "fc.1"]
    for name, matrix in read.items():
        assert matrix.dtype == dtype and matrix.shape == written[name].shape
        assert all(np.array_equal(getattr(matrix, part), getattr(written[name], part))
                   for part in ("data", "indices", "indptr"))
    write_patterns(path, written, values=False)
    patterns = read_patterns(path)
    assert (patterns["fc.1"].data == 1).all() and patterns["fc.1"].dtype == np.float32
    assert np.array_equal(patterns["fc.1"].indices, written["fc.1"].indices)


def test_layers_are_read_alone(tmp_path: Path) -> None:
    network = RadixNet(neurons=64, layers=5, seed=1, weights="uniform")
    path = tmp_path / "network.npz"
    write_patterns(path, {f"layer{number}": network.rows(number, np.arange(64)) for number in range(5)})
    source = PatternFile(path)
    assert source.widths == network.widths
    for number in range(5):
        assert np.array_equal(source.rows(number, [63, 5]).toarray(), network.rows(number, [63, 5]).toarray())
    with pytest.raises(ValueError, match="layer must be from 0 to 4, not -1"):
        source.rows(-1, [0])
    with pytest.raises(ValueError, match="rows must be from 0 to 63"):
        source.rows(0, [64])
    write_patterns(path, {"one": csr_array(np.eye(3))})
    for number in (0, 1):
        with pytest.raises(UserError, match="has other layers than when it was opened; open it anew"):
            source.rows(number, [0])


@pytest.mark.parametrize("prefix", ["", "fc1."])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy(tmp_path: Path, prefix: str, save: Any) -> None:
    matrix = csr_array(np.array(DENSE))
    save(tmp_path / "my.npz", **{f"{prefix}{part}": array for part, array in (
        ("indptr", matrix.indptr), ("indices", matrix.indices.astype(np.uint64)), ("shape", matrix.shape),
        ("values", matrix.data.astype(">f8")))})
    (name, read), = read_patterns(tmp_path / "my.npz").items()
    assert name == (prefix[:-1] or "my") and read.toarray().tolist() == DENSE
    assert PatternFile(tmp_path / "my.npz").rows(0, [2]).toarray().tolist() == DENSE[2:]


@pytest.mark.parametrize(("changes", "message"), [
    ({"indices": [3, 1, 0]}, "'my' has columns in row 0 that do not ascend, or one twice; sort them and keep one"),
    ({"indices": [1, 1, 0]}, "'my' has columns in row 0 that do not ascend, or one twice"),
    ({"indptr": [0, 0, 1, 3], "indices": [2, 3, 3]}, "columns in row 2 that do not ascend"),
    ({"indices": [1, 4, 0]}, "'my' has column 4 in row 0; give columns from 0 to 3"),
    ({"indices": [1, 3, -1]}, "'my' has column -1 in row 2; give columns from 0 to 3"),
    ({"indices": np.array([1, 3, 2**64 - 1], np.uint64)}, "in row 2; give columns from 0 to 3"),
    ({"indices": [1.0, 3.0, 0.0]}, "'my' has float64 [3] as indices, where integers of one dimension belong; make it"),
    ({"indices": [[1, 3, 0]]}, "'my' has int64 [1, 3] as indices, where integers of one dimension belong"),
    ({"indptr": [0, 2, 1, 3]}, "'my' has an indptr that falls at row 1; it must rise from 0 to the number of indices"),
    ({"indptr": [1, 2, 2, 3]}, "'my' has an indptr that goes from 1 to 3; it must rise from 0 to the number of ind"),
    ({"indptr": [0, 2, 2, 4]}, "'my' has an indptr that goes from 0 to 4"),
    ({"indptr": [0, 2, 3]}, "'my' has 3 rows, but an indptr of 3; give one more than there are rows"),
    ({"shape": [3]}, "'my' has int64 [1] as shape, where two integers belong"),
    ({"shape": [3, 4, 1]}, "'my' has int64 [3] as shape, where two integers belong"),
    ({"shape": [2, 4]}, "'my' has 2 rows, but an indptr of 4"),
    ({"shape": [3, 0]}, "'my' must have 1 to 16777216 rows and columns, not 3 x 0"),
    ({"shape": [3, -4]}, "'my' must have 1 to 16777216 rows and columns, not 3 x -4"),
    ({"shape": [3, 2**40]}, "'my' must have 1 to 16777216 rows and columns"),
    ({"values": [1.0, 2.0]}, "'my' has 3 indices, but 2 values; give one for each"),
    ({"values": [1.0, np.nan, 0.0]}, "'my' has a value in row 0 that is not finite; give a number"),
    ({"values": [1.0, 0.0, -np.inf]}, "'my' has a value in row 2 that is not finite"),
    ({"values": np.array([1, "a", None], object)}, "no plain real numbers"),
    ({"format": np.array("csr")}, "has an array 'format', but those of a matrix are called shape, indptr, indices"),
    ({".indptr": [0]}, "has an array '.indptr', but those"),
    ({"more.indptr": [0]}, "has 2 matrices, or several of which one has no name"),
    ({"indptr": None}, "'my' has no indptr; make it with"),
    ({"shape": None, "indices": None}, "'my' has no shape and no indices; make it with")])
def test_wrong_arrays(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    path = saved(tmp_path, **arrays)
    with pytest.raises(UserError) as error:
        read_patterns(path)
    assert str(error.value).startswith(str(path)) and message in str(error.value)


def test_chains_and_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_patterns(saved(tmp_path, **GOOD))["my"].toarray().tolist() == DENSE
    two = {f"{name}.{part}": array for name in ("a", "b") for part, array in GOOD.items()}
    assert list(read_patterns(saved(tmp_path, **two))) == ["a", "b"]
    with pytest.raises(UserError, match="'b' reads 4 inputs, but 'a' gives 3; give layers that follow"):
        PatternFile(saved(tmp_path, **two))
    with pytest.raises(UserError, match="has 0 matrices"):
        read_patterns(saved(tmp_path))
    (tmp_path / "my.npz").write_bytes(b"no archive")
    for path in (tmp_path / "my.npz", tmp_path / "none.npz", tmp_path):
        with pytest.raises(UserError, match=r"my\.npz: damaged or not a file of sparse matrices|cannot be read"):
            PatternFile(path)
    monkeypatch.setattr(matrices, "MAXIMUM_ENTRIES", 2)
    with pytest.raises(UserError, match="'my' has 3 entries, more than 2"):
        read_patterns(saved(tmp_path, **GOOD))


def test_what_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = csr_array(np.eye(3))
    with pytest.raises(UserError, match=r"the file of patterns .*x.tsv must end in .npz"):
        write_patterns(tmp_path / "x.tsv", {"a": matrix})
    for names in ({}, {"": matrix}, {"a/b": matrix}, {"x" * 65: matrix}):
        with pytest.raises(ValueError, match=r"holds 1 to 8192 matrices|a matrix's name must be"):
            write_patterns(tmp_path / "x.npz", names)
    with pytest.raises(TypeError, match=r"a must be a scipy\.sparse\.csr_array"):
        write_patterns(tmp_path / "x.npz", {"a": np.eye(3)})
    with monkeypatch.context() as patched:
        patched.setattr(pattern_file, "MAXIMUM_BYTES", 4096)
        with pytest.raises(UserError, match=r"\d+ bytes are more than one file holds \(4096\); write fewer layers"):
            write_patterns(tmp_path / "x.npz", {"a": csr_array(np.eye(300))})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        write_patterns(tmp_path / "file" / "x.npz", {"a": matrix})


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """Numbers of the arrays are changed before they are packed, so that no checksum hides what lies behind it, and
    bytes of the file behind it."""
    generator = random.Random(0)
    path = tmp_path / "my.npz"
    refused = 0
    for _ in range(300):
        arrays = {name: array.copy() for name, array in GOOD.items()}
        array = arrays[generator.choice(list(arrays))]
        array[generator.randrange(len(array))] = generator.choice([-1, 0, 1, 2, 3, 4, 7, 2**31 - 1])
        np.savez(path, **arrays)
        if generator.random() < 0.5:
            data = bytearray(path.read_bytes())
            for _ in range(generator.randint(1, 3)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            path.write_bytes(data)
        try:
            for matrix in read_patterns(path).values():
                matrices.checked(matrix, "it")
            PatternFile(path)
        except UserError as error:
            refused += 1
            assert "my.npz" in str(error) and str(error).isprintable()
    assert 150 < refused < 300
