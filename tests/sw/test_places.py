"""Where commands write: never onto what they read, never twice onto one file, one run at a time into a folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from plinth import cli
from plinth.array.array import ring
from plinth.array.file import array_to_yaml
from plinth.errors import UserError
from plinth.network.file import network_to_yaml
from plinth.network.network import perceptron
from plinth.output import check_places
from plinth.train.folder import OUTPUTS, RunFolder

#: Files of a folder, by what they are.
NETWORK, DATA, ARRAY, PLAN, SAVED = "net.yaml", "my.npz", "pair.yaml", "plan.json", "w.npz"
RUN = ["--batch", "8", "--device", "golden", "--steps", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder to work in, with a file of each kind."""
    monkeypatch.setattr("plinth.report.picture.draw", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    Path(NETWORK).write_text(network_to_yaml(perceptron("small", (4, 6, 3))))
    np.savez(DATA, x=np.random.default_rng(0).random((40, 4)), y=np.arange(40) % 3)
    Path(ARRAY).write_text(array_to_yaml(ring(2, preset="ndp-demo")))
    assert run("plan", NETWORK, "--array", "ring-2", "--batch", "8", "--planner", "data", "--out", PLAN) == 0
    assert run("train", NETWORK, "--data", DATA, *RUN, "--dies", "2", "--out", "first", "--save", SAVED) == 0
    capsys.readouterr()
    return tmp_path


def run(*arguments: str) -> int:
    """The exit code."""
    try:
        cli.main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


TRAIN = ["train", NETWORK, "--data", DATA, *RUN, "--array", ARRAY, "--out", "out"]


@pytest.mark.parametrize(("arguments", "message"), [
    ([*TRAIN, "--save", DATA], f"--save ({DATA}) is the file of --data, which would be lost; choose another place"),
    ([*TRAIN, "--save", f"./{NETWORK}"], f"--save ({NETWORK}) is the file of NETWORK"),
    ([*TRAIN, "--save", ARRAY], f"--save ({ARRAY}) is the file of --array"),
    ([*TRAIN, "--save", "link"], "--save (link) is the file of --data"),
    ([*TRAIN, "--save", "hard"], "--save (hard) is the file of --data"),
    (["train", "--plan", PLAN, "--data", DATA, *RUN, "--save", PLAN], f"--save ({PLAN}) is the file of --plan"),
    (["train", PLAN, "--data", DATA, *RUN, "--save", PLAN], f"--save ({PLAN}) is the file of --plan"),
    ([*TRAIN, "--save", "out/report.json"],
     "--save (out/report.json) and report.json of --out (out/report.json) are one file; choose two places"),
    ([*TRAIN, "--save", "out/plan.json"], "and plan.json of --out (out/plan.json) are one file"),
    ([*TRAIN, "--save", "here/../out/report.png"], "and report.png of --out (out/report.png) are one file"),
    ([*TRAIN, "--save", "out"],
     "--save (out) and report.json of --out (out/report.json): one is a folder of the other"),
    ([*TRAIN, "--save", "out/report.json/w.npz"], "one is a folder of the other; choose two places"),
    ([*TRAIN[:-1], "first", "--resume", "first/plan.json"], "plan.json: a plan, where a checkpoint is wanted"),
    (["plan", NETWORK, "--out", NETWORK], f"--out ({NETWORK}) is the file of NETWORK, which would be lost"),
    (["plan", NETWORK, "--array", ARRAY, "--out", ARRAY], f"--out ({ARRAY}) is the file of --array"),
    (["plan", NETWORK, "--parts", "parts.yaml", "--out", "parts.yaml"], "--out (parts.yaml) is the file of --parts"),
    (["simulate", "--plan", PLAN, "--trace", PLAN], f"--trace ({PLAN}) is the file of --plan"),
    (["simulate", PLAN, "--trace", f"{os.curdir}/{PLAN}"], f"--trace ({PLAN}) is the file of NETWORK"),
    (["simulate", NETWORK, "--array", ARRAY, "--picture", "array.png"], "--picture (array.png) is the file of --array"),
    (["convert", SAVED, NETWORK, "--network", NETWORK], f"TARGET ({NETWORK}) is the file of --network"),
    (["convert", SAVED, SAVED, "--network", NETWORK], f"TARGET ({SAVED}) is the file of SOURCE"),
])
def test_nothing_that_is_read_is_written(arguments: list[str], message: str,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to(DATA)
    Path("hard").hardlink_to(DATA)
    Path("array.png").hardlink_to(ARRAY)
    Path("here").mkdir()
    Path("parts.yaml").write_text("{}\n")
    before = contents()
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error, error
    assert contents() == before and not Path("out").exists()


@pytest.mark.parametrize("name", ["--data", "--resume"])
def test_what_is_read_is_no_output_of_an_earlier_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it is called: it was removed before it was read."""
    place = Path("first/report.json")
    Path(DATA if name == "--data" else SAVED).rename(place)
    before = contents()
    options = ["--data", DATA] if name == "--resume" else []
    assert run("train", NETWORK, *options, *RUN, "--dies", "2", "--out", "first", name, str(place),
               "--epochs", "20") == 2
    assert f"report.json of --out (first/report.json) is the file of {name}" in capsys.readouterr().err
    assert contents() == before


def test_a_run_goes_on_into_its_own_checkpoint() -> None:
    assert run("train", NETWORK, "--data", DATA, *RUN, "--out", "out", "--resume", SAVED, "--save", SAVED) == 0


def test_names_are_no_files() -> None:
    """A checkpoint may be called as a network, an array or samples that are not read from a file."""
    for name in ("digits-mlp", "ring-2", "digits"):
        Path(name).write_text("earlier")
        assert run("train", "digits-mlp", "--data", "digits", *RUN, "--batch", "32", "--array", "ring-2", "--out",
                   "out", "--save", name) == 0


def test_places_may_be_in_folders_of_each_other(tmp_path: Path) -> None:
    check_places({"--save": tmp_path / "a" / "w.npz", "--out": tmp_path / "a" / "b" / "report.json", "--trace": None},
                 {"--plan": None, "--data": tmp_path / "missing"})
    with pytest.raises(UserError, match="are one file"):
        check_places({"--out": tmp_path / "a", "--picture": tmp_path / "b" / ".." / "a"}, {})


def test_a_network_that_does_not_exist_costs_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    assert run("train", "nosuch", "--out", "first") == 2
    assert "nosuch" in capsys.readouterr().err and contents() == before


def test_one_run_at_a_time_writes_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    again = ["train", NETWORK, "--data", DATA, *RUN, "--dies", "2", "--out", "first", "--save", SAVED]
    with RunFolder(Path("first")) as other:
        other.hold()
        assert run(*again) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "first: another run writes its report there; give another --out" in error
        assert contents() == before
    assert run(*again) == 0


def test_a_folder_keeps_the_plan_that_is_read(tmp_path: Path) -> None:
    for name in OUTPUTS:
        (tmp_path / name).write_text("earlier")
    Path("link.json").symlink_to(tmp_path / "plan.json")
    with RunFolder(tmp_path, Path("link.json")) as folder:
        assert folder.outputs() == [tmp_path / "report.json", tmp_path / "report.png"]
        folder.hold()
        folder.clear()
    assert (tmp_path / "plan.json").read_text() == "earlier" and not (tmp_path / "report.json").exists()
