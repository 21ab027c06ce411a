"""`plinth train --device numpy`: the loss and the weights of golden dies but for roundings, nothing counted."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.commands import run

from plinth.network.network import Network
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.train import checkpoint
from plinth.train.checkpoint import Checkpoint


def test_a_run_is_that_of_golden_dies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports, weights = [], []
    for device in ("golden", "numpy"):
        saved = tmp_path / f"{device}.npz"
        code, out, _ = run(capsys, "train", "--device", device, "--dies", 2, "--steps", 12, "--out", tmp_path / device,
                           "--save", saved, "--json")
        assert code == 0
        reports.append(json.loads(out))
        with np.load(saved) as file:
            weights.append({name: file[name] for name in file.files if name.startswith("fc")})
    golden, numpy_report = reports
    assert np.allclose(numpy_report["losses"], golden["losses"], rtol=1e-5)
    for name, values in weights[0].items():
        assert np.abs(weights[1][name] - values).max() <= 1e-5 * np.abs(values).max()
    assert (numpy_report["device"], numpy_report["cycles"], numpy_report["bit_exact"],
            numpy_report["engine_counters"]) == ("numpy", 0, None, {})
    assert numpy_report["failure"] is None and numpy_report["plan"] == golden["plan"]
    assert (tmp_path / "numpy" / "report.png").stat().st_size > 1000
    # What one has saved the other goes on from.
    code, out, _ = run(capsys, "train", "--device", "golden", "--resume", tmp_path / "numpy.npz", "--steps", 2, "--out",
                       tmp_path / "on", "--json")
    assert code == 0 and json.loads(out)["steps"] == 2


def test_arrays_with_switches_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There need be no such dies."""
    code, out, _ = run(capsys, "train", "--device", "numpy", "--array", "hypar-16", "--steps", 2, "--out", tmp_path)
    assert code == 0 and "numpy rounds in another order" in " ".join(out.split())


@pytest.mark.parametrize(("arguments", "words"), [
    (("--format", "mixed"), "numpy computes in FP32, dies of preset 'ndp-demo-mixed' do not"),
    (("--machine", "fpga"), "numpy computes in FP32, dies of preset 'fpga-demo' do not"),
    (("--waves", "die=0,from=1,to=2"), "--device numpy does not run"),
    (("--bitstream", "."), "not those of --device numpy")])
def test_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...],
                        words: str) -> None:
    code, out, err = run(capsys, "train", "--device", "numpy", "--steps", 2, "--out", tmp_path, *arguments)
    assert (code, out) == (2, "") and words in err and "Traceback" not in err


@pytest.mark.parametrize(("arguments", "checked"), [((), 8), (("--check", 5), 10), (("--check", 1), 20)])
def test_some_steps_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str | int, ...],
                                 checked: int) -> None:
    """The first eight, and those whose number is a multiple: 10 and 15 of 5."""
    code, out, _ = run(capsys, "train", "--device", "numpy", "--dies", 1, "--steps", 20, "--out", tmp_path, *arguments,
                       "--json")
    report = json.loads(out)
    assert (code, report["failure"], report["steps"], report["checked_steps"]) == (0, None, 20, checked)


def test_what_no_step_is_compared_with_is_seen_later(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong update in step 10 is nobody's business where the next one that is looked at is right; in step 11 of
    every 10th, which is compared, it is named by its number."""
    right = NumpyExecutor.wait

    def train(where: int) -> str | None:
        steps = iter(range(1, 100))

        def wrong(executor: NumpyExecutor) -> int:
            cycles = right(executor)
            if next(steps) == where:
                executor._step.memories[0].view(executor.view.weights["fc1"].buffers[0])[...] += 1
            return cycles

        monkeypatch.setattr(NumpyExecutor, "wait", wrong)
        _, out, _ = run(capsys, "train", "--device", "numpy", "--dies", 1, "--steps", 12, "--check", 10, "--out",
                        tmp_path, "--json")
        failure: str | None = json.loads(out)["failure"]
        return failure

    assert train(10) is None
    assert (train(11) or "").startswith("step 11: update error of layer 'fc1'")


def test_checkpoints_within_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many steps each, at the end of the epoch of 11 steps and of the run; a run that goes on from one has the
    bits of one that was never interrupted."""
    saved: list[str] = []
    save = checkpoint.save

    def record(path: Path, network: Network, reached: Checkpoint, arrays: Iterable[tuple[str, Any]]) -> None:
        save(path, network, reached, arrays)
        saved.append(reached.progress)
        if len(saved) == 2:
            shutil.copy(path, tmp_path / "middle.npz")

    monkeypatch.setattr(checkpoint, "save", record)
    common = ("train", "--device", "numpy", "--dies", 2, "--planner", "data", "--out", tmp_path / "out", "--json")
    assert run(capsys, *common, "--steps", 13, "--save-every", 4, "--save", tmp_path / "w.npz")[0] == 0
    assert [text.partition(" (")[0] for text in saved] == saved and len(saved) == 5, saved
    assert run(capsys, *common, "--steps", 5, "--resume", tmp_path / "middle.npz", "--save", tmp_path / "v.npz")[0] == 0
    with np.load(tmp_path / "w.npz") as whole, np.load(tmp_path / "v.npz") as resumed:
        assert all(np.array_equal(whole[name], resumed[name]) for name in whole.files if name.startswith("fc"))
