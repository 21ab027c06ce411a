"""JSON holds no NaN, wherever it leaves the program."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import plinth
from plinth import cli
from plinth.network.file import network_to_yaml
from plinth.network.network import perceptron
from plinth.output import json_text, write_arrays, write_json
from plinth.train import checkpoint

#: Calls of the library that do not write what leaves the program: a hash, a checkpoint's header (integers and names).
ELSEWHERE = {"output.py", "plan/plan.py", "train/checkpoint.py"}


def strict(text: str) -> object:
    """As JSON says: `NaN` and `Infinity` are no JSON."""
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")
    return json.loads(text, parse_constant=refuse)


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    data = {"a": float("nan"), "b": [float("inf"), (1.5, -float("inf"))],
            "c": {"d": np.float64("nan"), "e": None, "f": 3}}
    wanted = {"a": None, "b": [None, [1.5, None]], "c": {"d": None, "e": None, "f": 3}}
    assert strict(json_text(data)) == strict(json_text(data, indent=2)) == wanted
    write_json(tmp_path / "deep" / "report.json", data)
    assert strict((tmp_path / "deep" / "report.json").read_text()) == wanted
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report.json"]


def test_arrays_are_written_as_numpy_does(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "file": np.zeros(0, np.int64), "b.c:d": np.array(3)}
    write_arrays(tmp_path / "ours.npz", iter(arrays.items()))
    np.savez(tmp_path / "theirs.npz", **{name: values for name, values in arrays.items() if name != "file"})
    with np.load(tmp_path / "ours.npz") as file:
        assert list(file) == list(arrays)
        assert all(np.array_equal(file[name], values) for name, values in arrays.items())
    write_arrays(tmp_path / "ours.npz", ((name, values) for name, values in arrays.items() if name != "file"))
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "theirs.npz").read_bytes()


def test_json_is_written_in_one_place() -> None:
    root = Path(plinth.__path__[0])
    files = {path.relative_to(root).as_posix() for path in root.rglob("*.py")
             if re.search(r"\bjson\.dumps?\(", path.read_text(encoding="utf-8"))}
    assert files == ELSEWHERE


def test_an_evaluation_beyond_all_numbers_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = perceptron("deep", (4, *[2] * 10, 2))
    (tmp_path / "deep.yaml").write_text(network_to_yaml(network))
    np.savez(tmp_path / "my.npz", x=np.ones((10, 4)), y=np.zeros(10, int))
    wide = {name: np.full(variable.shape, 3e38, np.float32) for name, variable in network.variables.items()}
    checkpoint.save(tmp_path / "w.npz", network, checkpoint.Checkpoint(wide, 1, 0))
    cli.main(["eval", str(tmp_path / "w.npz"), "--network", str(tmp_path / "deep.yaml"), "--data",
              str(tmp_path / "my.npz"), "--json"])
    captured = capsys.readouterr()
    report = strict(captured.out)
    assert isinstance(report, dict) and report["test_loss"] is None and not captured.err
