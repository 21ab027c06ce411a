"""`plinth train --device numpy`: the loss and the weights of golden dies but for roundings, nothing counted."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import run


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
