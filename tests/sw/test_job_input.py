"""What ``plinth train`` refuses: arrays, plans and samples that do not fit, each in one line with exit code 2."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli


def refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command leaves."""
    with pytest.raises(SystemExit) as info:
        cli.main(given)
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def arguments(tmp_path: Path, *given: str) -> list[str]:
    return ["train", "--device", "golden", "--steps", "1", "--out", str(tmp_path), *given]


@pytest.mark.parametrize(("given", "message"), [
    (("--array", "hypar-16"), "array 'hypar-16' is an h-tree with 15 switches"),
    (("--array", "ring-2", "--dies", "4"), "--dies 4 does not fit array 'ring-2', which has 2"),
    (("--array", "nowhere"), "'nowhere'"),
    (("--array", "full-4", "--format", "mixed"), "does not compute in --format mixed"),
    (("--planner", "data", "--plan", "plan.yaml"), "leave one of them out"),
    (("--plan", "missing.yaml"), "missing.yaml"),
    (("--dies", "8", "--batch", "5"), "a batch of 5 leaves some of 8 dies without samples"),
    (("resnet-34",), "takes 150528 inputs"),
])
def test_what_does_not_fit(given: tuple[str, ...], message: str, tmp_path: Path,
                           capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(arguments(tmp_path, *given), capsys)
    assert not (tmp_path / "report.json").exists()


def test_a_plan_for_another_array_or_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    cli.main(["plan", "digits-mlp", "--array", "ring-2", "--batch", "64", "--out", str(plan)])
    capsys.readouterr()
    assert "the plan is for dies 2, not 4" in refused(
        arguments(tmp_path, "--plan", str(plan), "--batch", "64"), capsys)
    assert "the plan is for batch 64, not 128" in refused(
        arguments(tmp_path, "--plan", str(plan), "--dies", "2"), capsys)
    assert "digits-mlp" in refused(arguments(tmp_path, "digits-cnn", "--plan", str(plan)), capsys)


@pytest.mark.parametrize(("arrays", "message"), [
    ({"x": np.zeros((8, 64))}, "has no array 'y'"),
    ({"x": np.zeros((8, 63)), "y": np.zeros(8, int)}, r"x must be real numbers of shape [samples, 64]"),
    ({"x": np.zeros((8, 64)), "y": np.zeros(7, int)}, "x has 8 samples and y 7"),
    ({"x": np.zeros((8, 64)), "y": np.full(8, 10)}, "class numbers from 0 to 9"),
    ({"x": np.zeros((8, 64)), "y": np.zeros((8, 10))}, "class numbers from 0 to 9"),
    ({"x": np.full((8, 64), np.nan), "y": np.zeros(8, int)}, "x has values that are not finite"),
    ({"x": np.array([["a"] * 64] * 8), "y": np.zeros(8, int)}, "x must be real numbers"),
    ({"x": np.zeros((8, 64)), "y": np.zeros(8, int)}, "a batch of 128 is larger than the 6 training"),
    ({"x": np.array([{}] * 8, dtype=object), "y": np.zeros(8, int)}, "damaged or not an .npz file of plain arrays"),
])
def test_samples_that_do_not_fit(arrays: dict[str, Any], message: str, tmp_path: Path,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.npz"
    np.savez(path, **arrays)
    assert message in refused(arguments(tmp_path, "--data", str(path)), capsys)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"x" * 1000])
def test_files_that_are_no_samples(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.npz"
    path.write_bytes(content)
    assert "damaged or not an .npz file" in refused(arguments(tmp_path, "--data", str(path)), capsys)
