"""What ``plinth train`` refuses: arrays, plans and samples that do not fit, each in one line with exit code 2."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli
from plinth.network.file import network_to_yaml
from plinth.network.network import perceptron

PAGE = Path(__file__).resolve().parents[2] / "docs" / "software.md"


def refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command leaves."""
    with pytest.raises(SystemExit) as info:
        cli.main(command)
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def arguments(tmp_path: Path, *words: str) -> list[str]:
    return ["train", "--device", "golden", "--steps", "1", "--out", str(tmp_path), *words]


@pytest.mark.parametrize(("words", "message"), [
    (("--array", "hypar-16"), "array 'hypar-16' has topology h-tree, whose switches have no dies"),
    (("--array", "ring-2", "--dies", "4"), "--dies 4 does not fit array 'ring-2', which has 2"),
    (("--array", "nowhere"), "'nowhere'"),
    (("--array", "full-4", "--format", "mixed"), "does not compute in --format mixed"),
    (("--planner", "data", "--plan", "plan.yaml"), "leave one of them out"),
    (("--plan", "missing.yaml"), "missing.yaml"),
    (("resnet-34",), "takes 150528 inputs"),
])
def test_what_does_not_fit(words: tuple[str, ...], message: str, tmp_path: Path,
                           capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(arguments(tmp_path, *words), capsys)
    assert not (tmp_path / "report.json").exists()


def test_a_network_far_beyond_the_memory_of_a_die(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its buffers lie where no task can point."""
    path = tmp_path / "big.yaml"
    path.write_text(network_to_yaml(perceptron("big", (64, 65_536, 65_536, 10))))
    error = refused(arguments(tmp_path, str(path), "--planner", "data"), capsys)
    assert re.search(r"the network needs \d{11} bytes of die memory but a die has 16777216: fc2\.\w+ 17\.2 GB, .* "
                     r"others; give --memory", error)


def test_a_plan_for_another_array_or_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    cli.main(["plan", "digits-mlp", "--array", "ring-2", "--batch", "64", "--out", str(plan)])
    capsys.readouterr()
    for options, message in (
            (("--dies", "4"), "the plan is for dies 2 of array 'ring-2', not 4 of array 'ring-4'"),
            (("--array", "full-2"), "the plan is for topology 'ring' of array 'ring-2', not 'full' of array 'full-2'"),
            (("--machine", "hypar"), "the plan is for preset 'ndp-demo' of array 'ring-2', not 'hypar-demo'"),
            (("--batch", "128"), "the plan is for batch 64, not 128"),
            (("--planner", "data"), "--planner and a plan both say how the network is split; leave one of them out"),
            (("--predict", "1"), "--predict and a plan both say how the network is split")):
        assert message in refused(arguments(tmp_path, "--plan", str(plan), *options), capsys)
        assert message in refused(arguments(tmp_path, str(plan), *options), capsys)
    assert "digits-mlp" in refused(arguments(tmp_path, "digits-cnn", "--plan", str(plan)), capsys)


@pytest.mark.parametrize(("arrays", "message"), [
    ({"x": np.zeros((8, 64))}, "has no array 'y'"),
    ({"x": np.zeros((8, 63)), "y": np.zeros(8, int)}, r"x must be real numbers of shape [samples, 64]"),
    ({"x": np.zeros((8, 64)), "y": np.zeros(7, int)}, "x has 8 samples and y 7"),
    ({"x": np.zeros((8, 64)), "y": np.full(8, 10)}, "class numbers from 0 to 9"),
    ({"x": np.zeros((8, 64)), "y": np.zeros((8, 10))}, "class numbers from 0 to 9"),
    ({"x": np.full((8, 64), np.nan), "y": np.zeros(8, int)}, "x has values that are not finite"),
    ({"x": np.array([["a"] * 64] * 8), "y": np.zeros(8, int)}, "holds '<U1', no plain real numbers"),
    ({"x": np.zeros((8, 64)), "y": np.zeros(8, int)}, "a batch of 128 is larger than the 6 training"),
    ({"x": np.array([{}] * 8, dtype=object), "y": np.zeros(8, int)}, "damaged or not an .npz file of plain arrays"),
])
def test_samples_that_do_not_fit(arrays: dict[str, Any], message: str, tmp_path: Path,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.npz"
    np.savez(path, **arrays)
    assert message in refused(arguments(tmp_path, "--data", str(path)), capsys)


WORDS = """version: 2
name: words
input: [2]
layers:
- {name: small, kind: embedding, inputs: [input], rows: 5, width: 2}
- {name: large, kind: embedding, inputs: [input], rows: 9, width: 2}
- {name: both, kind: add, inputs: [small, large]}
- {name: fc, kind: dense, outputs: 3}
- {name: loss, kind: softmax-cross-entropy}
"""


@pytest.mark.parametrize(("value", "message"), [
    (5, "x must be row numbers of an embedding, whole numbers from 0 to 4, not 5 (sample 6)"),
    (-1, "not -1 (sample 6)"), (0.5, "not 0.5 (sample 6)"), (np.nan, "not nan (sample 6)"),
    (np.inf, "not inf (sample 6)"), (np.uint64(1 << 63), "not 9223372036854775808 (sample 6)"),
    (True, "not False (sample 0)"),
])
def test_row_numbers_are_whole_and_in_the_smallest_table(
        value: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.yaml").write_text(WORDS)
    x: Any = np.zeros((8, 2), dtype=np.asarray(value).dtype)
    x[6, 1] = value
    np.savez(tmp_path / "my.npz", x=x, y=np.zeros(8, int))
    assert message in refused(arguments(tmp_path, str(tmp_path / "net.yaml"), "--data", str(tmp_path / "my.npz")),
                              capsys)


def test_the_example_of_the_documentation_trains_resumes_and_is_evaluated(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter and on the golden device; weights of a run that was interrupted are those of one that was not."""
    page = PAGE.read_text(encoding="utf-8")
    network, program = (re.findall(f"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("yaml", "python"))
    command = next(line.split()[1:] for line in page.splitlines() if line.startswith("    plinth train words.yaml"))
    monkeypatch.chdir(tmp_path)
    Path("words.yaml").write_text(network)
    exec(program, {})
    golden_command = [*command, "--device", "golden", "--out", "out"]
    for epochs, more in (("2", ["--save", "two.npz"]), ("1", ["--save", "one.npz"]),
                         ("2", ["--resume", "one.npz", "--save", "rest.npz"])):
        cli.main([*golden_command, "--epochs", epochs, *more])
    with np.load("two.npz") as unbroken, np.load("rest.npz") as resumed:
        assert all(np.array_equal(unbroken[name], resumed[name]) for name in unbroken.files)
    report = json.loads(Path("out/report.json").read_text())
    assert report["gradient_error"] < 1e-5 and report["test_accuracy"] > 0.7
    capsys.readouterr()
    cli.main(["eval", "two.npz", "--network", "words.yaml", "--data", "words.npz", "--json"])
    assert json.loads(capsys.readouterr().out)["test_accuracy"] == report["test_accuracy"]
    assert "takes row numbers of an embedding" in refused(["eval", "two.npz", "--network", "words.yaml"], capsys)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_row_numbers_of_any_kind_of_number_are_taken(kind: type, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(WORDS)
    x = np.random.default_rng(0).integers(0, 5, (20, 2)).astype(kind)
    np.savez(tmp_path / "my.npz", x=x, y=np.arange(20) % 3)
    cli.main(arguments(tmp_path, str(tmp_path / "net.yaml"), "--data", str(tmp_path / "my.npz"), "--batch", "8",
                       "--dies", "2"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["steps"] == 1 and report["gradient_error"] < 1e-6


def test_the_digits_are_no_row_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.yaml").write_text(WORDS.replace("input: [2]", "input: [64]").replace("outputs: 3", "outputs: 10"))
    assert "takes row numbers of an embedding, which the digits are not; give --data" in refused(
        arguments(tmp_path, str(tmp_path / "net.yaml")), capsys)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"x" * 1000])
def test_files_that_are_no_samples(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.npz"
    path.write_bytes(content)
    assert "damaged or not an .npz file" in refused(arguments(tmp_path, "--data", str(path)), capsys)
