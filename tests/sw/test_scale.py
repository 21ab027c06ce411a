"""Samples, targets and weights that a number format does not hold: one line before a run, and --scale as the remedy."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli
from plinth.errors import UserError
from plinth.network.file import network_to_yaml
from plinth.network.network import perceptron
from plinth.train import checkpoint
from plinth.train.scale import Scale, automatic, parse_scale

SQUARES = """version: 2
name: squares
input: [4]
layers:
- {name: fc1, kind: dense, outputs: 8}
- {name: relu, kind: relu}
- {name: fc2, kind: dense, outputs: 2}
- {name: loss, kind: mean-squared-error}
"""
CLASSES = network_to_yaml(perceptron("classes", (4, 8, 3)))


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all else of these runs."""
    monkeypatch.setattr("plinth.report.picture.draw", lambda *_: None)


def job(folder: Path, x: Any, y: Any, *options: str) -> list[str]:
    """A command of one step on these samples, targets if ``y`` has two dimensions."""
    (folder / "net.yaml").write_text(SQUARES if np.ndim(y) == 2 else CLASSES)
    np.savez(folder / "my.npz", x=x, y=y)
    return ["train", str(folder / "net.yaml"), "--data", str(folder / "my.npz"), "--batch", "16", "--dies", "1",
            "--device", "golden", "--steps", "1", "--out", str(folder), "--json", *options]


def outcome(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code and what was printed; numpy's warnings are failures."""
    code = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            cli.main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, *capsys.readouterr()


def samples(largest: float, count: int = 40) -> Any:
    """In 0..1, but for two values, of samples 7 and 9."""
    x = np.random.default_rng(1).random((count, 4))
    x[7, 1], x[9, 3] = -largest / 2, largest
    return x


LABELS = np.arange(40) % 3


@pytest.mark.parametrize(("largest", "options", "held", "power"), [
    (70_000.0, ("--format", "mixed"), "sample 9: x is from -35000 to 70000, beyond the -65504 to 65504", -17),
    (12.0, ("--machine", "fpga"), "sample 9: x is from -6 to 12, beyond the -8 to 7.99976", -4),
    (3e38, (), "2 of 40 samples, sample 7 first: x is from -1.5e+38 to 3e+38, beyond the -1.15292e+18 to 1.1529", -128),
    (1e300, (), "2 of 40 samples, sample 7 first: x is from -5e+299 to 1e+300, beyond the ", -997),
])
def test_samples_beyond_a_format_are_a_line_and_train_scaled(
        largest: float, options: tuple[str, ...], held: str, power: int, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    which, _, range_ = held.partition(": ")
    arguments = job(tmp_path, samples(largest), LABELS, *options)
    code, _, error = outcome(arguments, capsys)
    assert code == 2 and error.count("\n") == 1 and range_ in error and f"holds, in {which}; give --scale auto" in error
    assert f"takes x times 2^{power}" in error and not (tmp_path / "report.json").exists()
    code, out, _ = outcome([*arguments, "--scale", "auto"], capsys)
    report = json.loads(out)
    assert code == 0 and report["failure"] is None and report["scale"] == {"inputs": 2.0**power, "targets": 1.0}


@pytest.mark.parametrize(("options", "scale", "held"), [
    (("--format", "mixed"), 3000.0, "-1023.5 to 1023.5 that format mixed, with 32 targets a batch, holds"),
    (("--machine", "fpga", "--update", "sgd"), 30.0, "-8 to 7.99976 that format fixed holds"),
    ((), 1e30, "-1.15292e+18 to 1.15292e+18 that format fp32 holds"),
])
def test_targets_beyond_a_format(options: tuple[str, ...], scale: float, held: str, tmp_path: Path,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    y = np.random.default_rng(2).uniform(-1, 1, (40, 2))
    y[0, 0] = 1
    code, _, error = outcome(job(tmp_path, samples(1), scale * y, *options), capsys)
    assert code == 2 and error.count("\n") == 1 and ": y is from " in error and held in error
    code, out, _ = outcome(job(tmp_path, samples(1), scale * y, *options, "--scale", f"1,{0.5 / scale:.6g}"), capsys)
    assert code == 0 and json.loads(out)["scale"]["targets"] == float(f"{0.5 / scale:.6g}")


def test_what_a_format_does_not_tell_from_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = outcome(job(tmp_path, np.full((40, 4), 1e-4), LABELS, "--machine", "fpga"), capsys)
    assert code == 2 and "x has no value that format fixed tells from 0: the largest magnitude is 0.0001" in error


def test_a_power_of_two_changes_no_bit_but_exponents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is scaled is what would have been given scaled; of the digits automatic is 1."""
    reports = []
    for x, scale in ((255 * np.float32(samples(1)), "0.00390625"), (255 / 256 * np.float32(samples(1)), "1")):
        code, out, _ = outcome(job(tmp_path, x, LABELS, "--scale", scale), capsys)
        assert code == 0
        reports.append(json.loads(out)["losses"])
    assert reports[0] == reports[1]
    assert [automatic(np.array([value])) for value in (0.0, 1.0, -1.0, 1.5, 255, 0.3, 5e-324)] == [
        1.0, 1.0, 1.0, 0.5, 2.0**-8, 2.0, 2.0**1000]


def test_checkpoints_hold_the_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What goes on, and what is evaluated, is scaled alike; another scale is refused, and said."""
    saved = str(tmp_path / "w.npz")
    arguments = job(tmp_path, samples(900), LABELS, "--save", saved, "--scale", "auto", "--epochs", "2")
    code, out, _ = outcome(arguments, capsys)
    report = json.loads(out)
    network = ["--network", str(tmp_path / "net.yaml"), "--data", str(tmp_path / "my.npz")]
    code, out, _ = outcome(["eval", saved, *network, "--json"], capsys)
    assert code == 0 and json.loads(out)["scale"] == report["scale"] == {"inputs": 2.0**-10, "targets": 1.0}
    assert json.loads(out)["test_loss"] == report["test_loss"]
    code, out, _ = outcome(["eval", saved, *network, "--scale", "0.5"], capsys)
    assert code == 0 and f"note: {saved} was trained with --scale 0.0009765625, not 0.5" in out
    on = [*arguments[:-6], "--resume", saved, "--epochs", "2"]
    code, out, _ = outcome(on, capsys)
    assert code == 0 and json.loads(out)["scale"] == report["scale"]
    code, _, error = outcome([*on, "--scale", "0.5"], capsys)
    assert code == 2 and "was trained with --scale 0.0009765625, not --scale 0.5" in error


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1,2,3", "nan", "inf", "1e999", "auto,1", "1,"])
def test_what_is_no_scale(text: str) -> None:
    with pytest.raises(UserError, match=r"give auto, or another factor|is neither auto nor a factor"):
        parse_scale(text)


def test_scales_are_printed_as_they_are_given() -> None:
    for scale in (Scale(), Scale(2.0**-8), Scale(1 / 3, 1e-30), Scale(1e300)):
        assert parse_scale(str(scale)) == scale


def test_weights_beyond_a_format_are_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = perceptron("classes", (4, 8, 3))
    for number_format, value, held in (("fixed", 9.0, "-8 to 7.99976"), ("mixed", 1e5, "-65504 to 65504")):
        parameters = {name: np.zeros(variable.shape, np.float32) for name, variable in network.variables.items()}
        parameters["fc2.weights"][1, 2] = value
        checkpoint.save(tmp_path / "w.npz", network, checkpoint.Checkpoint(parameters, 0, 0))
        code, _, error = outcome(job(tmp_path, samples(1), LABELS, "--resume", str(tmp_path / "w.npz"), "--format",
                                     number_format), capsys)
        line = error.splitlines()[-1]
        assert code == 2
        assert f"values of 'fc2.weights' are from 0 to {value:.6g}, 1 of 24 beyond the {held} that" in line
