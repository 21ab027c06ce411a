"""`plinth profile`: table, picture, file and JSON of one measurement, and what is refused before any."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import plinth
from plinth import cli
from plinth.bench import profile as bench
from plinth.profile.networks import DIE
from plinth.profile.profile import load_profile, profile_of

SMALL = replace(DIE, perceptrons=9, convolutional=6, most_macs=1 << 19)


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Few and small networks, and a short sweep of the cache."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOST", "DIE"):
            patch.setattr(f"plinth.profile.devices.{name}", SMALL)
        patch.setattr("plinth.profile.cache.MOST_BYTES", 1 << 16)
        patch.setattr("plinth.profile.numpy_device.STEP_SECONDS", 0.0)
        patch.setattr("plinth.profile.numpy_device.NumpyDevice.rounds", 1)
        for name in ("STEPS", "ROUNDS"):
            patch.setattr(f"plinth.profile.die_device.GOLDEN_{name}", 1)
        yield


def test_a_host_is_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "p.json", tmp_path / "p.png"
    cli.main(["profile", "numpy", "--network", "digits-mlp", "--batch", "16", "--memory", "100KiB", "--out", str(file),
              "--picture", str(picture)])
    out = capsys.readouterr().out
    profile = load_profile(file)
    assert profile.widths is not None and len(profile.widths) == 2 and profile.widths < (128, 64)
    assert profile.local is not None and profile.local.needed_bytes <= 100 << 10 == profile.local.limit_bytes
    assert ", ".join(map(str, profile.widths)) in out and "alpha_flop" in out
    assert f"profile: {file}" in out and picture.read_bytes().startswith(b"\x89PNG")
    # What the network is made of was measured.
    assert not profile.outside(plinth.network("digits-mlp"), 16)


def test_json_is_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.json"
    cli.main(["profile", "golden", "--machine", "fpga-tiny", "--out", str(file), "--json"])
    printed = capsys.readouterr().out
    assert json.loads(printed) == json.loads(file.read_text())
    profile = profile_of(json.loads(printed), "printed")
    assert profile.device == "golden" and profile.widths is None and profile.costs.word_seconds > 0


def test_the_library_profiles_as_the_command(tmp_path: Path) -> None:
    told: list[str] = []
    result = plinth.profile("golden", "digits-mlp", machine="fpga-tiny", batch=8, memory=40_000, metric="energy",
                            watts=3.0, progress=lambda done, total, text: told.append(text))
    result.save(tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == result.profile
    assert result.profile.metric == "energy" and result.profile.watts == 3.0
    assert any("batches" in text for text in told) and "profile of golden" in repr(result)
    assert "image/png" in result._repr_html_() and result.to_dict()["batch"] == 8


@pytest.mark.parametrize(("words", "reason"), [
    (("abacus",), "device 'abacus' is none of numpy, mpi, golden, cosim and serial:PORT[@BAUD]"),
    (("numpy", "--metric", "energy"), "--metric energy needs the power of the device, which has no meter; give"),
    (("numpy", "--memory", "much"), "--memory 'much' is not a number of bytes"),
    (("numpy", "--memory", "9999999GiB"), "is not a number of bytes up to"),
    (("numpy", "--network", "nope"), "nope"), (("golden", "--machine", "nope"), "preset 'nope' is unknown"),
    (("numpy", "--network", "resnet-34"), "layer"), (("numpy", "--out", "p.yaml"), "--out p.yaml must end in .json"),
    (("numpy", "--picture", "p.svg"), "must end in .png"), (("numpy", "--watts", "0"), "0"),
    (("golden", "--network", "digits-mlp", "--memory", "20KiB", "--machine", "fpga-tiny"), "give"),
    (("numpy", "--machine", "ndp"), "--machine ndp is of dies, and numpy is a host; leave it out"),
    (("mpi", "--clock-mhz", "100"), "--clock-mhz 100.0 is of dies, and mpi is a host; leave it out"),
    (("serial:/nowhere/none",), "does not exist; connect the board")], ids=lambda value: "" if isinstance(
        value, str) else " ".join(value))
def test_what_cannot_be_is_refused_in_one_line(words: tuple[str, ...], reason: str, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
                                               ) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["profile", *words])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and reason in error, error
    assert not list(tmp_path.iterdir())


def test_an_interruption_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plinth.profile.numpy_device.NumpyDevice.batch", interrupted)
        with pytest.raises(SystemExit) as stop:
            cli.main(["profile", "numpy", "--out", str(tmp_path / "p.json")])
    assert stop.value.code == 130 and not list(tmp_path.iterdir())
    assert "interrupted" in capsys.readouterr().err and threading.active_count() < 20


def test_the_row_is_the_larger_error_of_what_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(plinth.profile("golden", machine="fpga-tiny").to_dict())
    asked: list[list[str]] = []

    def printed(ranks: int, program: list[str]) -> str:
        asked.append(program)
        return text

    monkeypatch.setattr(bench, "printed", printed)
    (row,) = bench.profile_fit_error()
    assert row.name == "profile_fit_error" and row.value == max(row.detail["errors"].values()) > 0
    assert [re.sub(".* profile ", "", " ".join(program)) for program in asked] == [
        "numpy --json", "cosim --machine fpga-demo --json"]
