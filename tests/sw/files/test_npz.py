"""Files of arrays: what numpy writes is read as numpy reads it; what else a zip file can be is refused."""

import io
import json
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hostile import NETWORK
from tests.support.hostile_pieces import Piece, array_piece, npy_head, zipped

from plinth.errors import UserError
from plinth.files import npz
from plinth.files.npz import array_file
from plinth.network.layers import Dense, Shape, SoftmaxCrossEntropy
from plinth.network.network import MAXIMUM_LAYERS, Network, perceptron
from plinth.network.parameters import initial_parameters
from plinth.train import checkpoint
from plinth.train.data import load_data

NUMBERS = st.sampled_from(["<f2", "<f4", ">f4", "<f8", "|u1", "|i1", "<i2", ">i8", "<u8", "|b1"]).map(np.dtype)
ARRAYS = hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6))


def read(path: Path) -> dict[str, np.ndarray]:
    with array_file(path, "a test", "none") as file:
        return {name: file.read(file.form(name)) for name in ("x", "y")}


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=ARRAYS, y=ARRAYS, order=st.sampled_from("CF"), save=st.sampled_from([np.savez, np.savez_compressed]))
def test_what_numpy_writes_is_read_as_numpy_reads_it(x: Any, y: Any, order: str, save: Any, tmp_path: Path) -> None:
    path = tmp_path / "my.npz"
    save(path, x=np.asarray(x, order=order), y=y)
    arrays = read(path)
    with np.load(path) as wanted:
        for name in ("x", "y"):
            assert arrays[name].shape == wanted[name].shape
            assert arrays[name].dtype == wanted[name].dtype.newbyteorder("=")
            assert arrays[name].astype(wanted[name].dtype).tobytes() == wanted[name].tobytes()


def test_arrays_longer_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "CHUNK", 1000)
    x = np.random.default_rng(0).integers(0, 9, (300, 17))
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "my.npz", x=x, y=x[:5])
        assert all(np.array_equal(*pair) for pair in zip(read(tmp_path / "my.npz").values(), (x, x[:5]), strict=True))


def member(method: int, content: bytes | None = None) -> bytes:
    buffer = io.BytesIO()
    array_file = io.BytesIO()
    np.save(array_file, np.zeros((10, 4), np.float32))
    with zipfile.ZipFile(buffer, "w", method) as file:
        file.writestr("x.npy", array_file.getvalue() if content is None else content)
    return buffer.getvalue()


def objects() -> bytes:
    array_file = io.BytesIO()
    np.save(array_file, np.array([{}], dtype=object))
    return member(zipfile.ZIP_STORED, array_file.getvalue())


X = array_piece("x", np.zeros((10, 4), np.float32))
PACKED = array_piece("x", np.arange(4000, dtype=np.float32).reshape(-1, 4), True)


def longer() -> bytes:
    """A packed member of which the directory knows the first 160 bytes of numbers only, with their checksum."""
    head = X.head
    return zipped([Piece(X.name, head, bytes(320), True, {6: zlib.crc32(head + bytes(160)), 8: len(head) + 160})])


def nested() -> bytes:
    """A member inside the numbers of another one."""
    inner = array_piece("y", np.zeros(3))
    outer = array_piece("x", np.frombuffer(zipped([inner]), np.uint8))
    place = 30 + len(outer.name) + len(outer.head)
    return zipped([outer, Piece(inner.name, inner.head, inner.body, entry={15: place})])


def changed(content: bytes, place: int, value: int) -> bytes:
    return content[:place] + bytes([value]) + content[place + 1:]


@pytest.mark.parametrize(("content", "needle"), [
    (member(zipfile.ZIP_BZIP2), "method 12"),
    (member(zipfile.ZIP_LZMA), "method 14"),
    (objects(), "'|O', no plain real numbers"),
    (member(zipfile.ZIP_STORED, b"\x93NUMPY"), "ends too early"),
    (member(zipfile.ZIP_STORED, b"not an array at all"), "no array of versions 1 to 3"),
    (zipped([X], tail=b"\0"), "does not end in the directory"),
    (b"#!/bin/sh\n" + zipped([X]), "its directory is damaged"),
    (zipped([X, X]), "two members have one name"),
    (zipped([X])[:-30], "does not end in the directory"),
    (changed(zipped([X]), 200, 1), "does not have its checksum"),
    (changed(zipped([PACKED]), 60, 255), "does not unpack|checksum|too early|longer"),
    (zipped([array_piece("z", np.zeros(3))]), "has no array 'x'"),
    (zipped([]), "has no array 'x'"),
    (longer(), "is longer than declared"),
    (nested(), "lie over each other"),
    (zipped([Piece(b"x.npy", npy_head("'<f4'", "False", f"({'1, ' * 33})"), bytes(4))]), "has no shape that is read"),
    (zipped([Piece(b"x.npy", npy_head("'<f4'", "False", "(1,)" + " " * 5000), bytes(4))]), "has a head that no array"),
    (changed(zipped([X]), 0, 0), "does not lie where"),
], ids=["bzip2", "lzma", "objects", "cut", "text", "tail", "script", "twice", "no-end",
        "flipped", "flipped-packed", "other", "empty",
        "longer", "nested", "dimensions", "head", "mark"])
def test_zip_files_that_numpy_does_not_write(content: bytes, needle: str, tmp_path: Path) -> None:
    path = tmp_path / "my.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=needle) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


def test_encryption_is_refused(tmp_path: Path) -> None:
    piece = array_piece("x", np.zeros((10, 4), np.float32))
    piece.entry[2] = 1
    (tmp_path / "my.npz").write_bytes(zipped([piece]))
    with pytest.raises(UserError, match=r"encrypted or packed in a way that is not read \(flags 0x1"):
        read(tmp_path / "my.npz")


def test_truth_values_are_0_and_1(tmp_path: Path) -> None:
    piece = array_piece("x", np.zeros(4, bool))
    piece.body = b"\x00\x01\x02\x00"
    (tmp_path / "my.npz").write_bytes(zipped([piece]))
    with pytest.raises(UserError, match="truth values other than 0 and 1"):
        read(tmp_path / "my.npz")


@pytest.mark.parametrize(("x", "y", "needle"), [
    (np.zeros((4, 4)), np.int64(3), "y must be class numbers from 0 to 1, one a sample, not int64 []"),
    (np.float32(1), np.zeros(4, int), "x must be real numbers of shape [samples, 4]"),
    (np.zeros((0, 4)), np.zeros(0, int), "give as many of both, at least 2"),
    (np.full((4, 4), 1e300), np.zeros(4, int), "3.40282e+38 that FP32 holds, in 4 of 4 samples, sample 0 first"),
    (np.zeros((4, 4), complex), np.zeros(4, int), "'<c16', no plain real numbers"),
])
def test_samples_of_no_dimension_or_beyond_fp32(x: Any, y: Any, needle: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "my.npz", x=x, y=y)
    with pytest.raises(UserError) as caught:
        load_data(tmp_path / "my.npz", NETWORK)
    assert needle in str(caught.value)


def test_samples_are_limited_by_what_they_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes become words: a limit on the file alone would let it grow fourfold."""
    monkeypatch.setattr("plinth.train.data.MAXIMUM_VALUES", 100)
    np.savez(tmp_path / "my.npz", x=np.zeros((26, 4), np.uint8), y=np.zeros(26, int))
    with pytest.raises(UserError, match="has more than 100 values; give fewer samples"):
        load_data(tmp_path / "my.npz", NETWORK)


def saved(path: Path, header: dict[str, Any] | str | None = None, **changes: Any) -> None:
    """A checkpoint with its header, or a key of it, or an array changed."""
    wanted = {layer.name: np.ones(NETWORK.layer_parameters(layer.name), np.float32) for layer in NETWORK.weighted}
    data = {"version": 1, "network": "small", "epoch": 1, "seed": 0, "layers": list(wanted)}
    for key, value in changes.items():
        (wanted if key in wanted else data)[key] = value
    text = header if isinstance(header, str) else json.dumps(data)
    np.savez(path, header=np.frombuffer(text.encode(), np.uint8), **wanted)


@pytest.mark.parametrize(("changes", "needle"), [
    ({"epoch": -1}, "epoch must be an integer from 0 to 10000, not -1"),
    ({"epoch": 10_001}, "epoch must be"), ({"epoch": True}, "epoch must be"), ({"epoch": 1.0}, "epoch must be"),
    ({"epoch": None}, "epoch must be"), ({"epoch": "3"}, "epoch must be"), ({"seed": 2**63}, "seed must be"),
    ({"seed": 10**30}, "at most 20 digits"), ({"seed": float("nan")}, "seed must be"), ({"seed": [0]}, "seed must be"),
    ({"network": "other"}, "holds network 'other', not 'small'"), ({"network": None}, "holds network nothing"),
    ({"layers": ["fc1"]}, "holds other layers"), ({"layers": None}, "holds other layers"),
    ({"version": 4}, "version must be 3 or 2 or 1, not 4"), ({"version": 2}, "key 'step' is missing"),
    ({"more": 1}, "unknown key 'more'"),
    ({"header": "[" * 100_000}, "nested deeper"), ({"header": "{}"}, "version must be 3 or 2 or 1"),
    ({"header": ""}, "is a mapping"), ({"header": "\x1b[31m"}, "not valid YAML"),
    ({"fc1": np.full(15, np.nan, np.float32)}, "'fc1.weights' has values that are not finite"),
    ({"fc2": np.full(8, -np.inf, np.float32)}, "'fc2.weights' has values that are not finite"),
    ({"fc1": np.ones(14, np.float32)}, r"layer 'fc1' holds float32 \[14\], not float32 \[15\]"),
    ({"fc1": np.ones(15)}, r"layer 'fc1' holds float64 \[15\]"),
    ({"fc1": np.ones((15, 1), np.float32)}, "layer 'fc1' holds"), ({"fc1": np.float32(1)}, "layer 'fc1' holds"),
])
def test_checkpoints_that_cannot_be(changes: dict[str, Any], needle: str, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    saved(path)
    checkpoint.load(path, NETWORK)
    saved(path, **changes)
    with pytest.raises(UserError, match=needle) as caught:
        checkpoint.load(path, NETWORK)
    assert str(path) in str(caught.value)


def test_a_checkpoint_holds_what_its_network_has_and_no_more(tmp_path: Path) -> None:
    """A bias would be lost in silence."""
    path = tmp_path / "w.npz"
    checkpoint.save(path, NETWORK, checkpoint.Checkpoint(initial_parameters(NETWORK, 0), 1, 0))
    bare = replace(NETWORK, layers=tuple(replace(layer, bias=False) if isinstance(layer, Dense) else layer
                                         for layer in NETWORK.layers))
    with pytest.raises(UserError, match=r"holds array 'fc1\.bias', which is nothing of network 'small'; give a file"):
        checkpoint.load(path, bare)


def test_networks_of_most_layers_are_saved_with_their_states(tmp_path: Path) -> None:
    network = perceptron("deep", (2,) * (MAXIMUM_LAYERS // 2))
    first = initial_parameters(network, 0)
    kept = {name: {"state": values} for name, values in first.items()}
    checkpoint.save(tmp_path / "w.npz", network, checkpoint.Checkpoint(first, 1, 0, update="momentum", kept=kept))
    assert checkpoint.load(tmp_path / "w.npz", network).kept.keys() == first.keys()


def test_layers_of_any_name_are_saved(tmp_path: Path) -> None:
    """Also those that are called as numpy's arguments, or as the arrays of such layers."""
    names = ["file", "file.parameters", "header", "allow_pickle", "a.npy", "file.parameters.parameters"]
    network = Network(name="names", input=Shape((3,)), layers=(
        *(Dense(name=name, outputs=3) for name in names), SoftmaxCrossEntropy(name="loss")))
    saved = checkpoint.Checkpoint({name: np.full(variable.shape, place, np.float32) for place, (name, variable) in
                                   enumerate(network.variables.items())}, 10_000, 2**63 - 1)
    checkpoint.save(tmp_path / "w.npz", network, saved)
    loaded = checkpoint.load(tmp_path / "w.npz", network)
    assert (loaded.epoch, loaded.seed) == (10_000, 2**63 - 1)
    assert all(np.array_equal(loaded.parameters[name], values) for name, values in saved.parameters.items())
