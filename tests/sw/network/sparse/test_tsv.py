"""The Graph Challenge's files, and what is said of wrong ones."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_networks import random_matrix

from plinth.errors import UserError
from plinth.network.sparse import tsv, tsv_text
from plinth.network.sparse.activations import ClippedRelu
from plinth.network.sparse.inference import categories, forward
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.network import SparseNetwork
from plinth.network.sparse.radix_net import RadixNet, challenge_network

#: A layer of three inputs and four outputs: input 1 feeds outputs 2 and 4, and so on.
LAYER = "1\t2\t0.5\n1\t4\t-1\n2\t1\t2e-1\n3\t4\t.25\n"
DENSE = [[0, 0.2, 0], [0.5, 0, 0], [0, 0, 0], [-1, 0, 0.25]]


def layer(tmp_path: Path, text: str, rows: list[int] | None = None) -> csr_array:
    path = tmp_path / "n-l1.tsv"
    path.write_bytes(text.encode("latin-1"))
    return tsv.read_layer(path, 3, 4, rows)


@pytest.mark.parametrize("text", [
    LAYER, LAYER[:-1], LAYER.replace("\n", "\r\n"), LAYER.replace("\t", " "), LAYER.replace("\n", " \n"),
    "".join(reversed(LAYER.splitlines(keepends=True)))])
def test_forms_of_a_layer(tmp_path: Path, text: str) -> None:
    matrix = layer(tmp_path, text)
    assert matrix.dtype == np.float32 and np.array_equal(matrix.toarray(), np.array(DENSE, np.float32))
    assert np.array_equal(layer(tmp_path, text, [3, 0]).toarray(), np.array(DENSE, np.float32)[[3, 0]])
    assert layer(tmp_path, text, [2]).nnz == layer(tmp_path, text, []).nnz == 0


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("name", ["n64-l1.tsv", "n64-l1.tsv.gz"])
def test_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, name: str) -> None:
    monkeypatch.setattr(tsv_text, "CHUNK", chunk)
    matrix = random_matrix(np.random.default_rng(0), 20, 64, 0.2, np.float32)
    path = tmp_path / name
    tsv.write_layer(path, matrix)
    content = path.read_bytes()
    tsv.write_layer(path, matrix)
    assert path.read_bytes() == content and (content[:2] == b"\x1f\x8b") == name.endswith(".gz")
    read = tsv.read_layer(path, 64, 20)
    assert np.array_equal(read.toarray(), matrix.toarray()), "to the last bit"
    assert np.array_equal(read.indptr, matrix.indptr) and np.array_equal(read.indices, matrix.indices)


def test_the_published_form(tmp_path: Path) -> None:
    """The row is the input, the column the output; lines are in order."""
    path = tmp_path / "n1024-l1.tsv"
    tsv.write_layer(path, challenge_network(1024, 1).matrix(0))
    lines = path.read_text().splitlines()
    assert len(lines) == 32768 and lines[:3] == ["1\t1\t0.0625", "1\t64\t0.0625", "1\t65\t0.0625"]
    assert lines[32:34] == ["2\t1\t0.0625", "2\t2\t0.0625"] and lines[-1] == "1024\t1024\t0.0625"


def test_a_network_in_a_folder(tmp_path: Path) -> None:
    source = RadixNet(neurons=64, layers=5, seed=1, weights="uniform")
    network = SparseNetwork(name="it", source=source, biases=[-0.3] * 5, activations=[ClippedRelu()] * 5)
    paths = tsv.write_network(tmp_path / "neuron64", network)
    assert [path.name for path in paths] == [f"n64-l{number}.tsv" for number in range(1, 6)]
    paths[2].with_name("n64-l3.tsv.gz").write_bytes(gzip.compress(paths[2].read_bytes()))
    paths[2].unlink()
    read = tsv.TsvLayers(tmp_path / "neuron64", 64, 5)
    assert read.widths == source.widths
    for number in range(5):
        for rows in (np.arange(64), np.array([63, 0, 7])):
            assert np.array_equal(read.rows(number, rows).toarray(), source.rows(number, rows).toarray())
    with pytest.raises(UserError, match=r"n64-l6.tsv: there is no such file, nor n64-l6.tsv.gz; give the folder of a"):
        tsv.TsvLayers(tmp_path / "neuron64", 64, 6)
    with pytest.raises(ValueError, match="layer must be from 0 to 4, not 5"):
        read.rows(5, [0])
    with pytest.raises(ValueError, match="neurons must be from 1 to"):
        tsv.TsvLayers(tmp_path, 0, 1)
    with pytest.raises(ValueError, match="rows must differ"):
        read.rows(0, [1, 1])
    uneven = SparseNetwork(name="uneven", source=IrregularNet(widths=(8, 4), density=0.5), biases=[0.0],
                           activations=[ClippedRelu()])
    with pytest.raises(UserError, match="network 'uneven' has layers of 4 to 8 neurons, but the Graph Challenge's"):
        tsv.write_network(tmp_path, uneven)


def test_samples_and_categories(tmp_path: Path) -> None:
    """As the Graph Challenge asks: samples in, categories out and compared with those of a file."""
    network = challenge_network(1024, 6, seed=1)
    samples = (np.random.default_rng(0).random((20, 1024)) < np.linspace(0, 0.9, 20)[:, None]).astype(np.float32)
    tsv.write_samples(tmp_path / "s.tsv.gz", samples)
    read = tsv.read_samples(tmp_path / "s.tsv.gz", 1024, count=20)
    assert read.dtype == np.float32 and np.array_equal(read.toarray(), samples)
    assert np.array_equal(tsv.read_samples(tmp_path / "s.tsv.gz", 1024).toarray(), samples)
    for first in range(0, 20, 7):
        part = tsv.read_samples(tmp_path / "s.tsv.gz", 1024, first, 7)
        assert part.shape == (7, 1024) and np.array_equal(part.toarray()[:20 - first], samples[first:first + 7])
    found = categories(forward(network, read))
    assert 0 < len(found) < 20
    tsv.write_categories(tmp_path / "c.tsv", found)
    assert (tmp_path / "c.tsv").read_text().splitlines()[0] == str(found[0] + 1)
    assert np.array_equal(tsv.read_categories(tmp_path / "c.tsv", 20), found)
    (tmp_path / "c.tsv").write_text("5\n2\n11\n")
    assert tsv.read_categories(tmp_path / "c.tsv", 20).tolist() == [1, 4, 10]
    tsv.write_categories(tmp_path / "c.tsv", [])
    assert tsv.read_categories(tmp_path / "c.tsv", 20).tolist() == []


def test_values_of_0(tmp_path: Path) -> None:
    """Of weights they are entries, of samples none."""
    (tmp_path / "x.tsv").write_text("1\t1\t0\n2\t2\t1\n2\t3\t0.0\n")
    assert tsv.read_layer(tmp_path / "x.tsv", 3, 3).nnz == 3
    assert tsv.read_samples(tmp_path / "x.tsv", 3).nnz == 1


@pytest.mark.parametrize(("text", "message"), [
    ("1\t2\n", "line 1: must be a row, a column and a number between tabs, not '1\\t2'; mend the line"),
    (LAYER + "1\t3\t1\t4\n", "line 5: must be a row, a column and a number between tabs, not '1\\t3\\t1\\t4'"),
    (LAYER + "1\tx\t1\n", "line 5: must be"), (LAYER + "1\t3\tone\n", "line 5: must be"),
    (LAYER + "\n" + LAYER, "line 5: must be a row, a column and a number between tabs, not ''"),
    (LAYER + "1\t3\tnan\n", "line 5: must be"), (LAYER + "1\t3\tinf\n", "line 5: must be"),
    (LAYER + "1\t3\t0x1\n", "line 5: must be"), (LAYER + "1\t3\t1_0\n", "line 5: must be"),
    (LAYER + "1\t-3\t1\n", "line 5: must be"), (LAYER + "1.0\t3\t1\n", "line 5: must be"),
    (LAYER + "1\t1234567890123\t1\n", "line 5: must be"), (LAYER + "1\t\xb2\t1\n", "line 5: must be"),
    (LAYER + "\x1b[31m\t1\t1\n", r"line 5: must be a row, a column and a number between tabs, not '\x1b[31m"),
    ("%%MatrixMarket matrix coordinate real general\n", "line 1: must be"),
    (LAYER + "4\t1\t1\n", "line 5: input 4 is out of range; give one from 1 to 3"),
    (LAYER + "1\t5\t1\n", "line 5: output 5 is out of range; give one from 1 to 4"),
    ("0\t1\t1\n" + LAYER, "line 1: input 0 is out of range; give one from 1 to 3"),
    (LAYER + "1\t3\t1e39\n", "line 5: the number is larger than float32 holds; give a smaller one"),
    (LAYER + "1\t3\t-1e999\n", "line 5: the number is larger than float32 holds"),
    (LAYER + LAYER[4:], "line 5: must be"),
    (LAYER + "3\t3\t1\n3\t4\t1\n2\t1\t1\n", "line 6: row 3, column 4 has an entry already, in line 4; keep one"),
    ("", "has no entries; give the file of a layer"),
    ("1" * 300, "line 1: longer than 256 bytes; is this a file of the Graph Challenge?"),
    (LAYER + "1" * 300, "line 5: longer than 256 bytes")])
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_wrong_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str, chunk: int) -> None:
    monkeypatch.setattr(tsv_text, "CHUNK", chunk)
    with pytest.raises(UserError) as error:
        layer(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'n-l1.tsv'}") and message in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(("text", "message"), [
    ("1\n2\n2\n", "line 3: sample 2 stands in line 2 already; keep one"),
    ("3\n9\n", "line 2: sample 9 is out of range; give one from 1 to 8"), ("0\n", "line 1: sample 0 is out of range"),
    ("1\t2\n", "line 1: must be one number of a sample, not '1\\t2'; mend the line"), ("1.5\n", "line 1: must be")])
def test_wrong_categories(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.tsv").write_text(text)
    with pytest.raises(UserError) as error:
        tsv.read_categories(tmp_path / "c.tsv", 8)
    assert message in str(error.value)


def test_wrong_samples(tmp_path: Path) -> None:
    path = tmp_path / "s.tsv"
    path.write_text("1\t1\t1\n3\t2\t1\n")
    with pytest.raises(UserError, match="line 2: input 2 is out of range; give one from 1 to 1"):
        tsv.read_samples(path, 1)
    with pytest.raises(UserError, match="has no samples from number 4 on, its last is 3; ask for earlier ones"):
        tsv.read_samples(path, 2, 3, 1)
    for first, count in ((-1, 1), (0, 0), (1 << 24, 1)):
        with pytest.raises(ValueError, match="first must be from 0 to"):
            tsv.read_samples(path, 2, first, count)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv_text, "MAXIMUM_KEPT", 3)
    with pytest.raises(UserError, match="more than 3 entries are asked for at once; ask for fewer rows"):
        layer(tmp_path, LAYER)
    assert layer(tmp_path, LAYER, [0, 1]).nnz == 2
    monkeypatch.setattr(tsv_text, "MAXIMUM_BYTES", 1000)
    packed = tmp_path / "packed.tsv"
    packed.write_bytes(gzip.compress(LAYER.encode() * 100))
    with pytest.raises(UserError, match="larger than 1000 bytes unpacked"):
        tsv.read_layer(packed, 3, 4)
    with pytest.raises(UserError, match="larger than 1000 bytes"):
        layer(tmp_path, LAYER * 100)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            tsv.read_layer(path, 3, 4)
    for content in (gzip.compress(LAYER.encode())[:-9], gzip.compress(LAYER.encode())[:-4] + b"abcd", b"\x1f\x8bx"):
        (tmp_path / "packed.tsv").write_bytes(content)
        with pytest.raises(UserError, match=r"packed\.tsv: does not unpack \(.*\); get the file anew"):
            tsv.read_layer(tmp_path / "packed.tsv", 3, 4)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        tsv.write_layer(tmp_path / "file" / "x.tsv", csr_array(np.eye(2)))


def test_what_is_written_stays_as_it_is(tmp_path: Path) -> None:
    samples = csr_array((np.array([1.0, 0.0, 2.0, 3.0]), np.array([3, 1, 0, 0]), np.array([0, 2, 4])), shape=(2, 4))
    before = samples.toarray()
    tsv.write_samples(tmp_path / "s.tsv", samples)
    assert samples.nnz == 4 and samples.data.tolist() == [1.0, 0.0, 2.0, 3.0]
    assert np.array_equal(tsv.read_samples(tmp_path / "s.tsv", 4).toarray(), before)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_what_float32_does_not_hold_is_not_written(tmp_path: Path, value: float) -> None:
    for write in (tsv.write_layer, tsv.write_samples):
        with pytest.raises(ValueError, match="larger than float32 holds"):
            write(tmp_path / "x.tsv", csr_array(np.array([[value]])))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.tsv"
    tsv.write_categories(path, [0, 1])

    def failing(matrix: csr_array) -> None:
        yield "1\t1\t1\n"
        raise OSError("disk full")

    monkeypatch.setattr(tsv, "_lines", failing)
    with pytest.raises(UserError, match="cannot be written"):
        tsv.write_layer(path, csr_array(np.eye(2)))
    assert path.read_text() == "1\n2\n" and [entry.name for entry in tmp_path.iterdir()] == ["x.tsv"]


def mutated(generator: random.Random, content: bytes) -> bytes:
    """One to four bytes, or a stretch, changed, removed, repeated or put elsewhere."""
    data = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        place, length = generator.randrange(len(data) + 1), generator.choice([1, 1, 2, 9, 400])
        match generator.randrange(4):
            case 0:
                data[place:place + 1] = generator.choice([b"\n", b"\t", b" ", b"\r", b"-", b".", b"e", b"9", b"\0",
                                                          b"\xff", b"1e9", b"\x1b[2J", b"nan", b"9" * 30])
            case 1:
                del data[place:place + length]
            case 2:
                data[place:place] = data[place:place + length]
            case _:
                data[place:place] = generator.randbytes(length)
        data = data or bytearray(b"\n")
    return bytes(data)


@pytest.mark.parametrize("packed", [False, True])
def test_mutated_files_are_read_or_refused(tmp_path: Path, packed: bool) -> None:
    generator = random.Random(packed)
    path = tmp_path / "x.tsv"
    tsv.write_layer(path, random_matrix(np.random.default_rng(0), 9, 9, 0.3))
    content = gzip.compress(path.read_bytes(), mtime=0) if packed else path.read_bytes()
    readers: list[Callable[[], object]] = [
        lambda: tsv.read_layer(path, 9, 9), lambda: tsv.read_layer(path, 9, 9, [4, 2]),
        lambda: tsv.read_samples(path, 9), lambda: tsv.read_categories(path, 9)]
    refused = 0
    for _ in range(400):
        path.write_bytes(mutated(generator, content))
        try:
            generator.choice(readers)()
        except UserError as error:
            refused += 1
            assert "x.tsv" in str(error) and str(error).isprintable()
    assert 250 < refused <= 400
